# frozen_string_literal: true

require_relative "server_helper"
require_relative "websocket_client"

# Waits and objects at the end of a request, of a connection and of the server.
class TestWaits < Minitest::Test
  include ServerHelper

  def descriptors
    Dir.children("/proc/self/fd").size
  end

  def bridge_of(server)
    server.instance_variable_get(:@worker).instance_variable_get(:@bridge)
  end

  def test_all_fibers_that_wait_to_send_continue
    ready = Thread::Queue.new
    server = serve(lint: false) do |env|
      Weft::WebSocket.open(env, origins: "*", compress: false) do |socket|
        socket.send("x" * (20 << 20))
        3.times { Fiber.schedule { socket.send("small") } }
        ready << true
        socket.receive
      end
    end
    client = WebSocketClient.new(connect(server))
    ready.pop
    assert_equal 20 << 20, client.receive[1].bytesize
    assert_equal [[1, "small"]] * 3, Array.new(3) { client.receive }
    client.close
  end

  def test_a_close_with_invalid_arguments_closes
    server = serve(lint: false) do |env|
      Weft::WebSocket.open(env, origins: "*") do |socket|
        env["PATH_INFO"] == "/code" ? socket.close(5) : socket.close(1000, "x" * 200)
      end
    end
    %w[/code /reason].each do |path|
      client = WebSocketClient.new(connect(server), path)
      assert_equal [8, [1011].pack("n")], client.receive
      client.close
    end
  end

  # Hold the dispatcher until the thread of the server has ended.
  def test_a_fiber_that_waits_at_the_end_of_the_server_continues
    started = Thread::Queue.new
    error = Thread::Queue.new
    server = serve(lint: false, drain: 0.05) do |env|
      started << true
      Thread.pass until env["PATH_INFO"] == "/wait" || bridge_of(server).ended?
      [200, TEXT.dup, lambda do |stream|
        loop { stream.write("x" * 65_536) }
      rescue Errno::EPIPE => e
        error << e
      end]
    end
    clients = ["/wait", "/hold"].map { |path| connect(server).tap { |client| client.request("GET", path) && started.pop } }
    server.stop
    2.times { assert_kind_of Errno::EPIPE, error.pop }
    clients.each(&:close)
  end

  def test_a_request_that_outlives_the_server_is_collected
    before = descriptors
    gate = Thread::Queue.new
    started = Thread::Queue.new
    app = lambda do |_env|
      started << true
      gate.pop
      [200, TEXT.dup, ["late"]]
    end
    server = Weft::Server.new(app, port: 0, drain: 0.05).start
    client = connect(server)
    client.request("GET", "/")
    started.pop
    server.stop
    client.close
    gate << true
    server = nil # rubocop:disable Lint/UselessAssignment -- lets the object be garbage
    wait_until { GC.start || descriptors <= before }
  end

  def test_a_child_of_the_application_does_not_use_the_server
    server = serve(lint: false) do |_env|
      Process.wait(fork { GC.start })
      [200, TEXT.dup, [$?.exitstatus.to_s]]
    end
    _, errors = capture_subprocess_io { assert_equal "0", fetch(server).body }
    assert_empty errors
  end

  def test_early_hints_after_the_reply_are_ignored
    gate = Thread::Queue.new
    server = serve(early_hints: true, lint: false) do |env|
      [200, TEXT.dup, lambda do |stream|
        stream.write("a")
        gate.pop
        env["rack.early_hints"].call("link" => "</a.css>")
        stream.write("b")
        stream.close
      end]
    end
    client = connect(server)
    client.request("GET", "/")
    status, = client.head
    gate << true
    assert_equal 200, status
    assert_match(/\A1\r\na\r\n1\r\nb\r\n0\r\n\r\n\z/, client.io.read(17))
  end

  def test_a_stream_returns_bytes_in_order
    server = serve(lint: false) do |_env|
      [200, TEXT.dup, lambda do |stream|
        stream.write([stream.gets, stream.readpartial(0), stream.readpartial(3), stream.read].inspect)
        stream.close
      end]
    end
    bodies = ["one\ntwo\nthree", "one\ntwo#{"x" * 50_000}"]
    bodies.each do |body|
      parts = ["one\n", "", "two", body[7..]]
      assert_equal parts.inspect, fetch(server, "/", method: "POST", body: body).body
    end
  end
end
