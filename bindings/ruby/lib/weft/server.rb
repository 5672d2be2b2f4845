# frozen_string_literal: true

require "socket"
require "weft"

module Weft
  # A server for Rack applications: HTTP/1.1, HTTP/2 and TLS by weft in a thread without the GVL, and
  # a fiber for each request that waits.
  #
  #   Weft::Server.new(app, port: 9292, tls: { cert: "cert.pem", key: "key.pem" }).run
  #
  # Signals: TERM and INT drain and stop. With processes, HUP and USR2 start new workers with fresh
  # code, and then drain the old ones.
  class Server
    # The body of a request cannot be read: it is too long, too slow, malformed or incomplete.
    class BodyError < IOError
      STATUSES = { Errno::EMSGSIZE::Errno => 413, Errno::ETIMEDOUT::Errno => 408, Errno::EBADMSG::Errno => 400 }.freeze

      attr_reader :errno

      def initialize(message = "the body cannot be read", errno = Errno::EPIPE::Errno)
        super(message)
        @errno = errno
      end

      # The status of a reply if the application does not handle the error.
      def status
        STATUSES.fetch(errno, 400)
      end
    end

    # Options that go to the HTTP server in C. nil is the default of libweft.
    LIMITS = %i[
      max_line_bytes max_head_bytes max_headers max_body_bytes max_requests_per_connection max_connections
      max_connections_per_peer max_streams first_byte_timeout head_timeout idle_timeout slow_timeout
      gzip_level http2 server_header trusted_peers trusted_headers proxy_protocol_peers
    ].freeze
  end
end

begin
  require "weft/server_ext"
rescue LoadError => e
  raise LoadError, "#{e.message} (Weft::Server needs libweft-web when the gem is installed)"
end
require "weft/server/request"
require "weft/server/input"
require "weft/server/stream"
require "weft/server/listener"
require "weft/server/application"
require "weft/server/worker"
require "weft/server/cluster"
require "weft/server/websocket"

module Weft
  class Server
    DEFAULTS = { host: "127.0.0.1", port: 9292, socket: nil, listener: nil, tls: nil, processes: nil, drain: 10.0,
                 max_fibers: 1024, early_hints: false, log: $stderr, config: nil, scheduler: nil,
                 restart_command: nil }.freeze

    attr_reader :options

    # app: a Rack application. config: a file for Rack::Builder, or a block that returns an application;
    # each worker then loads its code itself, after a fork.
    #
    # host, port, socket (a path) or listener (an open socket): where to listen.
    # tls: { cert:, key: } files. processes: 0 or nil for one process without a supervisor.
    # drain: seconds for requests in progress when the server stops. max_fibers: concurrent requests.
    # Further options: LIMITS.
    def initialize(app = nil, **options, &loader)
      unknown = options.keys - DEFAULTS.keys - LIMITS
      raise ArgumentError, "Weft::Server: unknown options: #{unknown.join(", ")}" unless unknown.empty?
      raise ArgumentError, "Weft::Server: no application" unless app || loader || options[:config]

      @options = DEFAULTS.merge(options)
      @app = app
      @loader = loader || (@options[:config] && -> { Server.load_config(@options[:config]) } unless app)
    end

    # Build the application of a config.ru.
    def self.load_config(path)
      require "rack"
      app, = Rack::Builder.parse_file(path)
      app
    end

    # Listen and serve until TERM or INT.
    def run
      if (handed_over = Cluster.handed_over)
        Cluster.run_worker(self, **handed_over)
      elsif @options[:processes].to_i.positive?
        Cluster.new(self).run
      else
        run_single
      end
    end

    # Serve in the background. Return self. See #stop.
    def start
      @worker = Worker.new(application, listener, @options)
      @worker.start
      self
    end

    # Stop accepting connections, finish requests for at most drain seconds, and return.
    def stop
      @worker&.stop
      wait
    end

    # Wait until the server has ended.
    def wait
      @worker&.wait
    ensure
      listener.close unless @options[:listener] || listener.closed?
    end

    # The number of requests that exist, for tests.
    def exchanges
      @worker.exchanges
    end

    def listener
      @listener ||= @options[:listener] || Listener.open(@options)
    end

    # "http://127.0.0.1:9292"
    def url
      Listener.url(listener, @options)
    end

    # The application, loaded by a worker at the latest.
    def application
      @application ||= @app || @loader.call
    end

    # Whether each worker can load fresh code after a fork.
    def loader?
      !@app && !@loader.nil?
    end

    def log(message)
      @options[:log]&.puts("weft: #{message}")
    end

    private

    def run_single
      signals = Thread::Queue.new
      start
      old = %w[INT TERM].to_h { |name| [name, trap(name) { signals << name }] }
      log "#{url} (process #{Process.pid})"
      watcher = Thread.new { signals.pop && @worker.stop }
      wait
    ensure
      watcher&.kill
      old&.each { |name, handler| trap(name, handler || "DEFAULT") }
    end
  end
end
