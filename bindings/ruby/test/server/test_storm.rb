# frozen_string_literal: true

require_relative "server_helper"
require_relative "websocket_client"

# Many clients that end at any moment, and the garbage collector at any moment.
class TestStorm < Minitest::Test
  include ServerHelper

  PATHS = %w[/small /parts /large /read /file /hijack /websocket /raise /slow /stream].freeze

  # An application with every kind of reply.
  APP = lambda do |env|
    case env["PATH_INFO"]
    when "/parts" then [200, TEXT.dup, Enumerator.new { |out| 5.times { |i| out << i.to_s * 50; sleep 0.0005 } }]
    when "/large" then [200, TEXT.dup, ["x" * 300_000]]
    when "/read" then [200, TEXT.dup, [env["rack.input"].read.bytesize.to_s]]
    when "/file" then Rack::Files.new(__dir__).call(env.merge("PATH_INFO" => "/test_storm.rb"))
    when "/hijack" then hijack(env["rack.hijack"].call)
    when "/websocket" then Weft::WebSocket.open(env, origins: "*") { |socket| socket.each { |text| socket.send(text) } }
    when "/raise" then raise "asked for"
    when "/slow" then sleep(0.002).then { [200, TEXT.dup, ["slow"]] }
    when "/stream" then [200, TEXT.dup, ->(stream) { 20.times { stream.write("y" * 5000) }.then { stream.close } }]
    else [200, TEXT.dup, ["small"]]
    end
  end

  def self.hijack(io)
    Fiber.schedule do
      io.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n#{"z" * 100_000}")
    rescue SystemCallError
      nil
    ensure
      io.close
    end
    [200, TEXT.dup, []]
  end

  def descriptors
    Dir.children("/proc/self/fd").size
  end

  # Send a request, perhaps not to its end, read perhaps a part of the reply, and close or reset.
  def abuse(random, server)
    client = connect(server)
    path = PATHS.sample(random: random)
    text = request_text(path)
    client.write(text[0, random.rand < 0.3 ? random.rand(text.size) : text.size])
    client.io.wait_readable(0.01) if random.rand < 0.5
    client.io.readpartial(random.rand(1..20_000)) if random.rand < 0.5 && client.io.wait_readable(0.01)
    client.io.setsockopt(Socket::SOL_SOCKET, Socket::SO_LINGER, [1, 0].pack("ii")) if random.rand < 0.5
  rescue SystemCallError, EOFError
    nil
  ensure
    client&.close
  end

  def request_text(path)
    head = "#{path == "/read" ? "POST" : "GET"} #{path} HTTP/1.1\r\nHost: a\r\n"
    head << "Content-Length: 50000\r\n" if path == "/read"
    if path == "/websocket"
      head << "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" \
              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    end
    "#{head}\r\n#{path == "/read" ? "x" * 50_000 : ""}#{path == "/websocket" ? "\x81\x82\0\0\0\0hi" : ""}"
  end

  def test_clients_that_end_at_any_moment_leave_nothing_behind
    seed = Integer(ENV.fetch("WEFT_TEST_SEED", rand(1 << 30)))
    server = serve(APP, lint: false)
    fetch(server, "/file")
    fetch(server, "/small")
    GC.start
    before = descriptors
    threads = Array.new(4) { |i| Thread.new { Random.new(seed + i).then { |random| 150.times { abuse(random, server) } } } }
    threads.each(&:join)
    wait_for_no_requests(server)
    assert_equal "small", fetch(server).body
    wait_until { GC.start || descriptors <= before }
    refute_match(/(?<!asked for) \(\w+Error\)/, @log.string.lines.grep(/^weft:/).join, "seed #{seed}")
  end

  def check_all_paths(server)
    assert_equal "small", fetch(server, "/small").body
    assert_equal 250, fetch(server, "/parts").body.bytesize
    assert_equal 300_000, fetch(server, "/large").body.bytesize
    assert_equal "20000", fetch(server, "/read", method: "POST", body: "x" * 20_000).body
    assert_equal "5", fetch(server, "/read", method: "POST", body: "xxxxx").body
    assert_equal 100_000, fetch(server, "/hijack").body.bytesize
    assert_equal 500, fetch(server, "/raise").status
    assert_equal 100_000, fetch(server, "/stream").body.bytesize
    socket = WebSocketClient.new(connect(server), "/websocket")
    socket.send_frame(1, "text")
    assert_equal [1, "text"], socket.receive
    socket.close
  end

  def test_the_garbage_collector_may_run_at_any_moment
    server = serve(APP, lint: false)
    check_all_paths(server)
    GC.stress = 1 # no major collections, which take too long here
    check_all_paths(server)
  ensure
    GC.stress = false
  end

  def test_objects_may_move_at_any_moment
    skip "GC.compact is not supported" unless GC.respond_to?(:compact)
    server = serve(APP, lint: false)
    GC.auto_compact = true
    mover = Thread.new { 30.times { GC.compact } }
    check_all_paths(server) while mover.alive?
  rescue NotImplementedError
    skip "GC.compact is not supported"
  ensure
    GC.auto_compact = false if GC.respond_to?(:auto_compact=)
  end

  # Requests that the application has dropped. Their queues are older parts of the heap.
  def drop_requests(server, served, gate)
    clients = Array.new(300) do
      connect(server).tap { |client| client.request("POST", "/", { "Content-Length" => 100_000 }, "y" * 20) }
    end
    300.times { served.pop }
    300.times { gate << true }
    300.times { served.pop }
    clients.map { |client| client.io.tap { |io| io.readpartial(300) } }
  end

  def write_byte(io)
    io.write("y")
  rescue SystemCallError
    nil
  end

  # The collector sweeps the queues of a request before the request, while notices arrive.
  def test_a_notice_for_a_request_that_is_garbage_has_no_effect
    served = Thread::Queue.new
    gate = Thread::Queue.new
    body = ->(stream) { [served << true, gate.pop, stream.readpartial(10), stream.write("x"), served << true] }
    server = serve(lint: false) { |_env| [200, TEXT.dup, body] }
    random = Random.new(1)
    2.times do
      GC.start
      scattered = Array.new(200_000) { Object.new }
      scattered.reject! { random.rand < 0.3 }
      GC.start
      GC.disable
      ios = drop_requests(server, served, gate)
      GC.enable
      GC.start(full_mark: true, immediate_sweep: false)
      6.times { ios.each { |io| write_byte(io); 40.times { Object.new } } }
      ios.each(&:close)
    end
    assert_equal "x", fetch_dropped(server, served, gate)
  ensure
    GC.enable
  end

  def fetch_dropped(server, served, gate)
    client = connect(server)
    client.request("POST", "/", {}, "y" * 20)
    served.pop
    gate << true
    client.head
    client.io.read(4)[-1]
  end

  def test_a_server_that_has_stopped_can_be_collected
    before = descriptors
    3.times do
      server = Weft::Server.new(APP, port: 0).start
      fetch(server)
      server.stop
    end
    wait_until { GC.start || descriptors <= before }
  end
end
