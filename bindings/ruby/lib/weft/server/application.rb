# frozen_string_literal: true

require "rack"
require "stringio"

module Weft
  class Server
    # Calls the application for requests, and sends its replies. One source for Rack 2 and Rack 3.
    class Application
      IS_RACK_3 = Rack.release >= "3"
      ALLOWS_ASTERISK = Rack.release >= "3.1"
      EMPTY_INPUT = EmptyInput.new
      TEXT = { (IS_RACK_3 ? "content-type" : "Content-Type") => "text/plain; charset=utf-8" }.freeze
      BODILESS = [204, 304].freeze
      BODIES = %i[each call to_path].freeze
      REASONS = { 400 => "Bad Request", 408 => "Request Timeout", 413 => "Content Too Large",
                  500 => "Internal Server Error" }.freeze

      # Load what Rack loads on demand. Before Ruby 3.2, a constant that one fiber is loading does not
      # exist for other fibers of the thread.
      def self.load_constants(mod = Rack)
        mod.constants(false).each do |name|
          is_late = mod.autoload?(name, false)
          value = mod.const_get(name)
          load_constants(value) if is_late && value.instance_of?(Module)
        rescue LoadError
          nil # needs a library that is not installed
        end
      end

      # The constant part of the environment is for a GET request of HTTP/1.1.
      def initialize(app, address, options)
        Application.load_constants if RUBY_VERSION < "3.2"
        @app = app
        @log = options[:log]
        @has_early_hints = options[:early_hints]
        @template = build_template(address, options)
      end

      attr_reader :template

      # Serve a request. Never raise.
      def serve(request)
        env = request.env
        add_input(env, request) if request.body?
        add_extras(env, request)
        status, headers, body = @app.call(env)
        reply(request, status, headers, body) unless request.reply(status, headers, body)
      rescue Exception => e # rubocop:disable Lint/RescueException -- the loop of the server must survive
        error = e
        answer_error(request, e)
      ensure
        finish(request, env, status, headers, body, error)
      end

      private

      def build_template(address, options)
        common = { "SCRIPT_NAME" => "", "QUERY_STRING" => "", "SERVER_PROTOCOL" => "HTTP/1.1",
                   "SERVER_SOFTWARE" => "weft/#{VERSION}", "SERVER_NAME" => address[0], "SERVER_PORT" => address[1],
                   "REMOTE_ADDR" => "127.0.0.1", "rack.url_scheme" => options[:tls] ? "https" : "http",
                   "rack.errors" => $stderr, "rack.input" => EMPTY_INPUT, "rack.hijack?" => true }
        common.merge!(rack_2(options)) unless IS_RACK_3
        common.transform_values { |value| value.is_a?(String) ? -value : value }
      end

      def rack_2(options)
        { "rack.version" => [1, 3].freeze, "rack.multithread" => true,
          "rack.multiprocess" => options[:processes].to_i.positive?, "rack.run_once" => false,
          "HTTP_VERSION" => "HTTP/1.1" }
      end

      def add_input(env, request)
        body = request.small_body
        request.input = if body
                          StringIO.new(body)
                        else
                          IS_RACK_3 ? Input.new(request) : RewindableInput.new(request)
                        end
        env["rack.input"] = request.input
      end

      def add_extras(env, request)
        env["weft.request"] = request
        env["rack.hijack"] = request if env["rack.hijack?"]
        env["rack.early_hints"] = ->(headers) { request.inform(103, strings(headers)) } if @has_early_hints
        env["PATH_INFO"] = "/" if env["PATH_INFO"] == "*" && !ALLOWS_ASTERISK
        return unless IS_RACK_3

        env["rack.response_finished"] = []
        upgrade = env["HTTP_UPGRADE"]
        env["rack.protocol"] = upgrade.split(/\s*,\s*/) if upgrade
      end

      def reply(request, status, headers, body)
        return if request.replied? # hijacked

        status = Integer(status)
        callable = headers.to_h["rack.hijack"]
        raise TypeError, "the body is a #{body.class}" unless callable || BODIES.any? { |name| body.respond_to?(name) }

        fields = strings(headers)
        if callable || !(body.respond_to?(:each) || body.respond_to?(:to_path))
          reply_with_stream(request, status, fields, callable || body)
        elsif body.respond_to?(:to_path) && !BODILESS.include?(status)
          reply_with_file(request, status, fields, body.to_path)
        else
          reply_with_parts(request, status, fields, body)
        end
      end

      # The application closes the stream, possibly after this method.
      def reply_with_stream(request, status, fields, callable)
        request.begin(status, fields, nil, protocol_of(status, fields))
        callable.call(Stream.new(request))
      end

      # Wait for the end: the file may be temporary.
      def reply_with_file(request, status, fields, path)
        request.begin(status, fields, path.to_s, nil)
        request.wait_over
      end

      def reply_with_parts(request, status, fields, body)
        length = length_of(body)
        fields = fields.merge("content-length" => length.to_s) if length && !length?(fields)
        request.begin(status, fields, nil, nil)
        return request.finish if BODILESS.include?(status) || request.env["REQUEST_METHOD"] == "HEAD"

        body.each { |part| request.write(part) }
        request.finish
      end

      def length_of(body)
        body.sum(&:bytesize) if body.instance_of?(Array)
      end

      def length?(fields)
        fields.any? { |name, _| name.casecmp?("content-length") }
      end

      # Return the protocol of a reply that switches to another one, and remove its headers.
      def protocol_of(status, fields)
        protocol = fields.delete("rack.protocol")
        return protocol unless status == 101

        name, upgrade = fields.find { |key, _| key.casecmp?("upgrade") }
        fields.delete(name) if name
        fields.delete_if { |key, _| key.casecmp?("connection") }
        protocol || upgrade
      end

      # Return headers with values that are Strings, or Arrays of Strings.
      def strings(headers)
        fields = {}
        headers.each do |name, value|
          next if name == "rack.hijack" || value.nil?

          fields[name.to_s] = value.is_a?(Array) ? value.map(&:to_s) : value.to_s
        end
        fields
      end

      def answer_error(request, error)
        disconnected = error.is_a?(Errno::EPIPE) && request.over?
        log_error(request, error) unless disconnected || error.is_a?(BodyError)
        return request.abort if request.replied?

        status = error.is_a?(BodyError) ? error.status : 500
        request.reply(status, TEXT, ["#{status} #{REASONS[status]}\n"]) || request.abort
      rescue StandardError # of the log
        request.abort
      end

      def log_error(request, error)
        env = request.env
        @log&.puts("weft: #{env["REQUEST_METHOD"]} #{env["PATH_INFO"].b.inspect}: " \
                   "#{error.full_message(highlight: false)}")
      end

      # Close the body once, and call what waits for the end of the reply.
      def finish(request, env, status, headers, body, error)
        body.close if !body.instance_of?(Array) && body.respond_to?(:close)
        callbacks = env && env["rack.response_finished"]
        callbacks&.reverse_each { |callback| callback.call(env, status, headers, error) } unless callbacks&.empty?
      rescue StandardError => e
        log_error(request, e)
      end
    end
  end
end
