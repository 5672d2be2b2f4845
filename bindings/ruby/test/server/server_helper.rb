# frozen_string_literal: true

require "minitest/autorun"
require "net/http"
require "open3"
require "rbconfig"
require "socket"
require "timeout"
require "tmpdir"
require "weft/server"

# Servers and clients for tests. A test fails if it takes longer than LIMIT_SECONDS.
module ServerHelper
  LIMIT_SECONDS = 30
  TEXT = { "content-type" => "text/plain" }.freeze

  def teardown
    @servers&.each(&:stop)
    super
  end

  def capture_exceptions
    super { Timeout.timeout(LIMIT_SECONDS) { yield } }
  end

  # Start a server in this process.
  def serve(app = nil, lint: true, **options, &block)
    app ||= block
    app = Rack::Lint.new(app) if lint
    @log = StringIO.new
    server = Weft::Server.new(app, **{ port: 0, log: @log }.merge(options)).start
    (@servers ||= []) << server
    server
  end

  def port_of(server)
    server.listener.local_address.ip_port
  end

  def connect(server)
    Client.new(TCPSocket.new("127.0.0.1", port_of(server)))
  end

  # Send one request, and return the reply.
  def fetch(server, path = "/", method: "GET", headers: {}, body: nil, client: nil)
    own = client || connect(server)
    own.request(method, path, headers, body)
    own.response(method)
  ensure
    own.close unless client
  end

  # Return the names of files with a certificate and its key.
  def certificate
    @@certificate ||= begin
      require "openssl"
      folder = Dir.mktmpdir
      Minitest.after_run { FileUtils.rm_rf(folder) }
      key = OpenSSL::PKey::EC.generate("prime256v1")
      File.write("#{folder}/cert.pem", certify(key).to_pem)
      File.write("#{folder}/key.pem", key.to_pem)
      { cert: "#{folder}/cert.pem", key: "#{folder}/key.pem" }
    end
  end

  def certify(key)
    cert = OpenSSL::X509::Certificate.new
    cert.version = 2
    cert.serial = 1
    cert.subject = cert.issuer = OpenSSL::X509::Name.parse("/CN=localhost")
    cert.public_key = key
    cert.not_before = Time.now - 60
    cert.not_after = Time.now + 86_400
    names = OpenSSL::X509::ExtensionFactory.new(cert, cert)
    cert.add_extension(names.create_extension("subjectAltName", "DNS:localhost,IP:127.0.0.1"))
    cert.sign(key, "SHA256")
  end

  def connect_tls(server)
    socket = OpenSSL::SSL::SSLSocket.new(TCPSocket.new("127.0.0.1", port_of(server)))
    socket.sync_close = true
    Client.new(socket.connect)
  end

  # Wait until a condition holds. The limit of the test ends a wait for nothing.
  def wait_until
    Thread.pass until yield
  end

  # Wait until the server has no request that exists.
  def wait_for_no_requests(server)
    wait_until do
      GC.start
      server.exchanges.zero?
    end
  end

  Response = Struct.new(:status, :headers, :body, :is_complete) do
    def [](name) = headers[name]&.first
    def complete? = is_complete
  end

  # A client of HTTP/1.1 on a socket.
  class Client
    attr_reader :io

    def initialize(io)
      @io = io
    end

    def request(method, path, headers = {}, body = nil)
      headers = { "Host" => "localhost" }.merge(headers)
      headers["Content-Length"] ||= body.bytesize if body
      text = "#{method} #{path} HTTP/1.1\r\n"
      headers.each { |name, value| Array(value).each { |one| text << "#{name}: #{one}\r\n" } }
      write("#{text}\r\n#{body}")
    end

    def write(data)
      @io.write(data)
      @io.flush
    end

    # Read a head: the status and the headers, in lower case, each with an Array of values.
    def head
      status = @io.gets&.split&.fetch(1)&.to_i or return
      headers = Hash.new { |hash, name| hash[name] = [] }
      while (line = @io.gets.chomp) != ""
        name, value = line.split(": ", 2)
        headers[name.downcase] << value
      end
      headers.default = nil
      [status, headers]
    end

    def response(method = "GET")
      status, headers = head
      return Response.new(nil, {}, "", false) unless status

      body = +""
      is_complete = method == "HEAD" || [204, 304].include?(status) || read_body(headers, body)
      Response.new(status, headers, body, is_complete)
    rescue Errno::ECONNRESET
      Response.new(status, headers, body, false)
    end

    # Read a chunk of a chunked body. Return nil after the last one.
    def chunk
      size = @io.gets&.to_i(16) or raise Errno::ECONNRESET
      data = @io.read(size)
      @io.gets
      data unless size.zero?
    end

    def close
      @io.close
    end

    private

    # Return whether the body is complete.
    def read_body(headers, body)
      if headers["transfer-encoding"]
        while (data = chunk)
          body << data
        end
        true
      elsif headers["content-length"]
        length = headers["content-length"].first.to_i
        body << @io.read(length).to_s
        body.bytesize == length
      else
        body << @io.read
        true
      end
    end
  end
end
