# frozen_string_literal: true

require "weft/server"

module Weft
  class Server
    # The handler for rackup and for Rails: rackup -s weft -O processes=2. See lib/rack/handler/weft.rb
    # and lib/rackup/handler/weft.rb.
    module Handler
      NAMES = { Host: :host, Port: :port, Socket: :socket, Processes: :processes }.freeze
      INTEGERS = %i[port processes max_fibers gzip_level].freeze

      module_function

      # Run an application. options are those of rackup: strings, some with capital letters. Yield the
      # server when it listens.
      def run(app, **options)
        server = Server.new(app, **convert(options))
        server.listener
        yield server if block_given?
        server.run
      end

      def valid_options
        { "Host=HOST" => "Address to listen on (default: localhost)", "Port=PORT" => "Port (default: 9292)",
          "socket=PATH" => "Unix socket instead of a port", "processes=N" => "Number of workers (default: none)",
          "cert=FILE" => "TLS certificate", "key=FILE" => "TLS key", "drain=SECONDS" => "Time to finish requests",
          "max_fibers=N" => "Concurrent requests of a process (default: 1024)" }
      end

      # Ignore options that rackup has for itself, or for other servers.
      def convert(options)
        converted = {}
        options.each do |name, value|
          key = NAMES.fetch(name.to_sym, name.to_sym)
          converted[key] = number(key, value) if DEFAULTS.key?(key) || LIMITS.include?(key)
        end
        converted.delete(:config) # rackup has built the application
        converted[:tls] = options.slice(:cert, :key) if options[:cert]
        converted
      end

      def number(key, value)
        return Integer(value) if INTEGERS.include?(key) || key.start_with?("max_")
        return Float(value) if key == :drain || key.end_with?("_timeout")
        return value == "true" if %w[true false].include?(value)

        value
      end
    end
  end
end
