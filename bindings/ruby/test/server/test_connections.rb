# frozen_string_literal: true

require_relative "server_helper"
require_relative "websocket_client"

# Hijacked connections, WebSocket, TLS, HTTP/2, sockets.
class TestConnections < Minitest::Test
  include ServerHelper

  REPLY = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"

  def test_a_hijacked_connection_belongs_to_the_application
    server = serve do |env|
      io = env["rack.hijack"].call
      Fiber.schedule do
        io.write(REPLY)
        io.close
      end
      [200, TEXT.dup, ["ignored"]]
    end
    client = connect(server)
    client.request("GET", "/")
    assert_equal REPLY, client.io.read
    wait_for_no_requests(server)
  end

  def test_a_hijacked_connection_carries_bytes_in_both_directions
    server = serve(lint: false) do |env|
      io = env["rack.hijack"].call
      Thread.new do
        while (line = io.gets)
          io.write(line.upcase)
        end
        io.write("END\n")
        io.close
      end
      [200, {}, []]
    end
    client = connect(server)
    client.request("GET", "/")
    client.write("one\n")
    assert_equal "ONE\n", client.io.gets
    client.write("#{"x" * 300_000}\n")
    assert_equal 300_001, client.io.gets.bytesize
    client.io.close_write
    assert_equal "END\n", client.io.read
  end

  def test_a_hijacked_connection_ends_with_its_client
    ended = Thread::Queue.new
    server = serve(lint: false) do |env|
      io = env["rack.hijack"].call
      Fiber.schedule do
        io.read
        ended << true
        io.close
      end
      [200, {}, []]
    end
    client = connect(server)
    client.request("GET", "/")
    client.io.setsockopt(Socket::SOL_SOCKET, Socket::SO_LINGER, [1, 0].pack("ii"))
    client.close
    assert ended.pop
    # On libev, the collector often finds an old word on a stack that looks like the request.
    wait_for_no_requests(server) unless ENV["WEFT_BACKEND"] == "libev"
  end

  def test_a_partial_hijack_sends_the_headers_itself
    server = serve(lint: false) do
      [200, TEXT.merge("rack.hijack" => lambda { |stream|
        stream.write("abc")
        stream.close
      }), []]
    end
    response = fetch(server)
    assert_equal [200, "text/plain", "abc"], [response.status, response["content-type"], response.body]
  end

  def test_a_partial_hijack_switches_to_another_protocol
    server = serve(lint: false) do
      [101, { "upgrade" => "echo", "connection" => "upgrade", "rack.hijack" => lambda { |stream|
        Fiber.schedule do
          while (line = stream.gets)
            stream.write(line.upcase)
          end
          stream.close
        end
      } }, []]
    end
    client = connect(server)
    client.request("GET", "/", { "Connection" => "Upgrade", "Upgrade" => "echo" })
    status, headers = client.head
    assert_equal [101, ["echo"]], [status, headers["upgrade"]]
    client.write("abc\n")
    assert_equal "ABC\n", client.io.gets
    client.io.close_write
    assert_nil client.io.gets
  end

  # WebSocket

  def echo_server(**options)
    serve(lint: false, **options) do |env|
      Weft::WebSocket.open(env, protocols: "echo") do |socket|
        socket.each do |message|
          socket.close(3001, "bye") if message == "close"
          raise "asked for" if message == "raise"
          socket.send(message) unless message == "close"
        end
      end
    end
  end

  def test_messages_go_in_both_directions
    socket = WebSocketClient.new(connect(echo_server), "/", { "Sec-WebSocket-Protocol" => "other, echo" })
    assert_equal ["echo"], socket.headers["sec-websocket-protocol"]
    [[1, "text ä"], [2, "\0\xff"], [1, "x" * 100_000], [2, ""]].each do |kind, data|
      socket.send_frame(kind, data)
      assert_equal [kind, data.b], socket.receive.then { |got, bytes| [got, bytes.b] }
    end
    socket.close
    assert_equal [8, [1000].pack("n")], socket.receive
  end

  def test_the_application_closes_a_websocket
    socket = WebSocketClient.new(connect(echo_server))
    socket.send_frame(1, "close")
    assert_equal [8, [3001].pack("n") + "bye"], socket.receive
    socket.close(3001)
  end

  def test_an_exception_closes_a_websocket
    server = echo_server
    socket = WebSocketClient.new(connect(server))
    socket.send_frame(1, "raise")
    assert_equal 1011, socket.receive[1].unpack1("n")
    socket.close
    wait_for_no_requests(server)
    assert_match(/asked for/, @log.string)
  end

  def test_the_application_learns_how_a_websocket_ended
    ends = Thread::Queue.new
    server = serve(lint: false) do |env|
      Weft::WebSocket.open(env) do |socket|
        ends << [socket.receive, socket.close_code]
        assert_raises(Errno::EPIPE) { socket.send("late") }
      end
    end
    WebSocketClient.new(connect(server)).close(4000)
    assert_equal [nil, 4000], ends.pop
    client = connect(server)
    WebSocketClient.new(client)
    client.close
    assert_equal [nil, 1006], ends.pop
  end

  def test_an_invalid_handshake_is_refused
    called = false
    server = serve(lint: false) { |env| Weft::WebSocket.open(env) { called = true } }
    assert_equal 426, fetch(server).status
    refute called
  end

  def test_a_websocket_of_a_slow_client_waits
    sent = 0
    server = serve(lint: false) do |env|
      Weft::WebSocket.open(env) do |socket|
        1000.times do
          socket.send_binary("x" * 65_536)
          sent += 1
        end
      end
    end
    socket = WebSocketClient.new(connect(server))
    before = -1
    wait_until do
      stands_still = before == sent
      before = sent
      stands_still || sleep(0.3).nil?
    end
    assert_operator sent, :<, 500
    1000.times { assert_equal 65_536, socket.receive[1].bytesize }
    socket.close
  end

  def test_a_stock_library_speaks_websocket_over_a_hijacked_connection
    require "websocket/driver"
    server = serve(lint: false, &STOCK_ECHO)
    socket = WebSocketClient.new(connect(server))
    socket.send_frame(1, "hello")
    assert_equal [1, "hello"], socket.receive
    socket.close
    assert_equal 8, socket.receive[0]
    wait_for_no_requests(server)
  end

  # What applications do with websocket-driver.
  STOCK_ECHO = lambda do |env|
    io = env["rack.hijack"].call
    socket = Struct.new(:env, :url, :io) { def write(data) = io.write(data) }.new(env, "ws://localhost/", io)
    driver = WebSocket::Driver.rack(socket)
    driver.on(:message) { |event| driver.text(event.data) }
    driver.on(:close) { io.close }
    driver.start
    Fiber.schedule do
      driver.parse(io.readpartial(4096)) until io.closed?
    rescue EOFError, IOError
      io.close
    end
    [-1, {}, []]
  end

  # TLS and HTTP/2

  def test_tls_serves_the_same_application
    server = serve(tls: certificate) { |env| [200, TEXT.dup, ["#{env["rack.url_scheme"]} #{env["SERVER_PORT"]}"]] }
    assert_equal "https 443", fetch(server, client: connect_tls(server)).body
  end

  def test_a_hijacked_connection_works_over_tls
    server = serve(tls: certificate) do |env|
      io = env["rack.hijack"].call
      io.write(REPLY)
      io.close
      [200, TEXT.dup, []]
    end
    client = connect_tls(server)
    client.request("GET", "/")
    assert_equal "ok", client.response.body
  end

  def curl(server, path, *arguments)
    output, status = Open3.capture2("curl", "-sk", "-m", "20", *arguments, server.url + path, binmode: true)
    assert status.success?, "curl: #{status} #{@log.string}"
    assert_empty @log.string
    output
  end

  def test_http_2_serves_the_same_application
    server = serve(tls: certificate, max_body_bytes: 10 << 20) do |env|
      body = env["rack.input"].read
      [200, TEXT.dup, ["#{env["SERVER_PROTOCOL"]} #{env["REQUEST_METHOD"]} #{env["HTTP_HOST"]} #{body.sum}"]]
    end
    data = Random.bytes(1 << 20)
    Tempfile.create("body", binmode: true) do |file|
      file.write(data)
      file.flush
      assert_equal "HTTP/2 POST 127.0.0.1:#{port_of(server)} #{data.sum}",
                   curl(server, "/", "--http2", "--data-binary", "@#{file.path}")
    end
  end

  def test_http_2_without_tls_streams
    server = serve(lint: false) do
      [200, TEXT.dup, Enumerator.new { |out| 100.times { |i| out << "#{i}\n"; sleep 0.0001 } }]
    end
    assert_equal Array.new(100) { |i| "#{i}\n" }.join, curl(server, "/", "--http2-prior-knowledge")
  end

  def test_http_2_can_be_switched_off
    server = serve(tls: certificate, http2: false) { |env| [200, TEXT.dup, [env["SERVER_PROTOCOL"]]] }
    assert_equal "HTTP/1.1", curl(server, "/", "--http2")
  end

  def test_an_exception_in_a_body_resets_a_stream_of_http_2
    server = serve(lint: false) { [200, TEXT.dup, Enumerator.new { |out| out << "a"; sleep 0.001; raise "x" }] }
    _, status = Open3.capture2("curl", "-sf", "-m", "20", "--http2-prior-knowledge", server.url)
    refute status.success?
  end

  # Build the client in C: no client in Ruby speaks WebSocket over HTTP/2.
  def websocket_h2_client
    folder = $LOAD_PATH.find { |path| File.exist?("#{path}/weft/server_ext.so") }
    program = "#{folder}/ws_h2_client"
    source = "#{__dir__}/ws_h2_client.c"
    library = `ldd #{folder}/weft/server_ext.so`[%r{libweft-web\.so\S* => (\S+)/libweft-web}, 1]
    unless File.exist?(program) && File.mtime(program) > File.mtime(source)
      include_folder = File.expand_path("../../../../include", __dir__)
      assert system("cc", "-o", program, source, "-I#{include_folder}", "-L#{library}", "-Wl,-rpath,#{library}",
                    "-lweft-web", "-lweft")
    end
    program
  end

  def test_websocket_over_http_2_works_natively_and_with_a_stock_library
    require "websocket/driver"
    native = echo_server
    stock = serve(lint: false, &STOCK_ECHO)
    [native, stock].each do |server|
      output, status = Open3.capture2e(websocket_h2_client, server.url)
      assert status.success?, output
      assert_equal "hello\n", output
    end
  end

  # Sockets

  def test_a_unix_socket
    Dir.mktmpdir do |folder|
      server = Weft::Server.new(->(env) { [200, TEXT.dup, [env["REMOTE_ADDR"]]] }, socket: "#{folder}/s").start
      client = Client.new(UNIXSocket.new("#{folder}/s"))
      assert_equal "127.0.0.1", fetch(server, client: client).body
      server.stop
    end
  end

  def test_stop_finishes_requests_in_progress
    started = Thread::Queue.new
    gate = Thread::Queue.new
    server = serve do
      started << true
      gate.pop
      [200, TEXT.dup, ["done"]]
    end
    client = connect(server)
    client.request("GET", "/")
    started.pop
    stopper = Thread.new { server.stop }
    wait_until { stopper.stop? }
    gate << true
    assert_equal "done", client.response.body
    stopper.join
  end

  def test_stop_cancels_requests_after_the_drain
    started = Thread::Queue.new
    errors = Thread::Queue.new
    server = serve(drain: 0.05, lint: false) do |env|
      started << true
      errors << (env["rack.input"].read rescue $!)
      [200, TEXT.dup, []]
    end
    client = connect(server)
    client.request("POST", "/", { "Content-Length" => "100000" })
    started.pop
    server.stop
    assert_kind_of Weft::Server::BodyError, errors.pop
  end
end
