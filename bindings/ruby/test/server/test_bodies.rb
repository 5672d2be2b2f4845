# frozen_string_literal: true

require_relative "server_helper"

# Bodies in both directions: streams, back-pressure, files, clients that disconnect.
class TestBodies < Minitest::Test
  include ServerHelper

  LARGE = 4 << 20

  def test_a_small_body_is_read_whole_in_parts_and_by_lines
    server = serve do |env|
      input = env["rack.input"]
      result = case env["PATH_INFO"]
               when "/whole" then input.read
               when "/parts" then [input.read(2), input.read(100), input.read(1)].inspect
               when "/lines" then [input.gets, input.gets, input.gets].inspect
               when "/each" then [].tap { |parts| input.each { |part| parts << part } }.join
               when "/buffer" then (+"old").tap { |buffer| input.read(3, buffer) }
               end
      [200, TEXT.dup, [result]]
    end
    { "/whole" => "ab\ncd", "/parts" => '["ab", "\ncd", nil]', "/lines" => '["ab\n", "cd", nil]', "/each" => "ab\ncd",
      "/buffer" => "ab\n" }.each do |path, expected|
      assert_equal expected, fetch(server, path, method: "POST", body: "ab\ncd").body, path
    end
  end

  def test_a_large_body_is_read_in_the_same_ways
    data = Random.bytes(300_000)
    server = serve(lint: false) do |env|
      input = env["rack.input"]
      body = +"".b
      case env["PATH_INFO"]
      when "/whole" then body = input.read
      when "/parts" then while (part = input.read(7777)) do body << part end
      when "/lines" then while (line = input.gets) do body << line end
      when "/each" then input.each { |part| body << part }
      end
      [200, TEXT.dup, [[body == data, input.read, input.read(1)].inspect]]
    end
    %w[/whole /parts /lines /each].each do |path|
      assert_equal '[true, "", nil]', fetch(server, path, method: "POST", body: data).body, path
    end
  end

  def test_a_large_body_can_be_read_again
    skip "Rack 2" if Weft::Server::Application::IS_RACK_3
    data = Random.bytes(300_000)
    server = serve do |env|
      input = env["rack.input"]
      first = input.read(100_000)
      input.rewind
      again = input.read
      input.rewind
      [200, TEXT.dup, [[data.start_with?(first), again == data, input.read == data].inspect]]
    end
    assert_equal "[true, true, true]", fetch(server, method: "POST", body: data).body
  end

  def test_a_chunked_body_is_read
    server = serve { |env| [200, TEXT.dup, [env["rack.input"].read]] }
    client = connect(server)
    client.write("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
    client.write("2\r\nde\r\n0\r\n\r\n")
    assert_equal "abcde", client.response.body
  end

  def test_a_part_of_a_body_is_read_before_the_next_part_is_sent
    server = serve(lint: false) do |env|
      parts = Enumerator.new do |out|
        while (part = env["rack.input"].read(2))
          out << part.upcase
        end
      end
      [200, TEXT.dup, parts]
    end
    client = connect(server)
    client.request("POST", "/", { "Transfer-Encoding" => "chunked" })
    client.write("2\r\nab\r\n")
    assert_equal 200, client.head.first
    assert_equal "AB", client.chunk
    client.write("2\r\ncd\r\n0\r\n\r\n")
    assert_equal "CD", client.chunk
  end

  def test_a_client_waits_for_100_until_the_body_is_read
    gate = Thread::Queue.new
    server = serve do |env|
      gate.pop
      [200, TEXT.dup, [env["rack.input"].read]]
    end
    client = connect(server)
    client.request("POST", "/", { "Expect" => "100-continue", "Content-Length" => "2" })
    assert_nil client.io.wait_readable(0.05)
    gate << true
    assert_equal 100, client.head.first
    client.write("ok")
    assert_equal "ok", client.response.body
  end

  # Write until the socket takes nothing for a moment. Return the number of bytes.
  def fill(io, limit)
    sent = 0
    data = "x" * 65_536
    while sent < limit
      case (n = io.write_nonblock(data, exception: false))
      when Integer then sent += n
      else break unless io.wait_writable(0.5)
      end
    end
    sent
  end

  def test_a_client_is_held_back_while_the_body_is_not_read
    gate = Thread::Queue.new
    server = serve(max_body_bytes: 200 << 20) do |env|
      gate.pop
      size = 0
      while (part = env["rack.input"].read(65_536)) do size += part.bytesize end
      [200, TEXT.dup, [size.to_s]]
    end
    client = connect(server)
    total = 100 << 20
    client.request("POST", "/", { "Content-Length" => total.to_s })
    sent = fill(client.io, total)
    assert_operator sent, :<, 32 << 20 # the buffers of the kernel
    gate << true
    client.write("x" * (total - sent))
    assert_equal total.to_s, client.response.body
  end

  def test_a_body_waits_for_a_client_that_does_not_read
    produced = 0
    server = serve(lint: false) do
      parts = Enumerator.new do |out|
        1600.times do
          out << "x" * 65_536
          produced += 65_536
        end
      end
      [200, TEXT.dup, parts]
    end
    client = connect(server)
    client.request("GET", "/")
    assert_equal 200, client.head.first
    before = -1
    wait_until do
      stands_still = before == produced
      before = produced
      stands_still || sleep(0.3).nil?
    end
    assert_operator produced, :<, 32 << 20
    size = 0
    while (data = client.chunk) do size += data.bytesize end
    assert_equal 1600 * 65_536, size
  end

  def test_a_body_that_is_too_long_is_413
    server = serve(max_body_bytes: 100_000) { |env| [200, TEXT.dup, [env["rack.input"].read]] }
    assert_equal 413, fetch(server, method: "POST", body: "x" * 100_001).status
  end

  def test_a_client_that_disconnects_ends_the_read
    errors = Thread::Queue.new
    server = serve do |env|
      env["rack.input"].read
    rescue IOError => e
      errors << e
      raise
    end
    client = connect(server)
    client.request("POST", "/", { "Content-Length" => "100000" })
    client.write("x" * 50_000)
    client.close
    assert_kind_of Weft::Server::BodyError, errors.pop
    wait_for_no_requests(server)
    assert_empty @log.string
  end

  # A body without end that notes its close.
  class Endless
    attr_reader :closed

    def initialize(part)
      @part = part
      @closed = Thread::Queue.new
    end

    def each
      loop do
        yield @part
        sleep 0.001
      end
    end

    def close
      @closed << true
    end
  end

  def test_a_client_that_disconnects_ends_the_write_and_the_body_is_closed
    body = Endless.new("x" * 1000)
    server = serve(lint: false) { [200, TEXT.dup, body] }
    client = connect(server)
    client.request("GET", "/")
    client.head
    client.close
    assert body.closed.pop
    wait_for_no_requests(server)
    assert_empty body.closed
    assert_empty @log.string
  end

  # A body that is a file.
  class FileBody
    def initialize(path) = @path = path
    def to_path = @path
    def each = raise("the server must send the file itself")
  end

  def with_file(data)
    Dir.mktmpdir do |folder|
      File.binwrite("#{folder}/file", data)
      yield "#{folder}/file"
    end
  end

  def test_a_file_is_sent_without_the_application
    data = Random.bytes(LARGE)
    with_file(data) do |path|
      server = serve(lint: false) { [200, TEXT.dup, FileBody.new(path)] }
      response = fetch(server)
      assert_equal data.bytesize.to_s, response["content-length"]
      assert_equal data, response.body.b
      assert_equal data.bytesize.to_s, fetch(server, method: "HEAD")["content-length"]
    end
  end

  def test_a_missing_file_is_a_500
    capture_subprocess_io do
      server = serve(lint: false) { [200, TEXT.dup, FileBody.new("/none")] }
      assert_equal 500, fetch(server).status
      server.stop
    end
  end

  def test_files_of_rack_have_ranges_and_validators
    with_file("0123456789") do |path|
      server = serve(Rack::Files.new(File.dirname(path)))
      assert_equal "0123456789", fetch(server, "/file").body
      response = fetch(server, "/file", headers: { "Range" => "bytes=2-4" })
      assert_equal [206, "234"], [response.status, response.body]
      since = fetch(server, "/file")["last-modified"]
      assert_equal 304, fetch(server, "/file", headers: { "If-Modified-Since" => since }).status
    end
  end

  def test_a_callable_body_writes_to_a_stream
    server = serve(lint: false) do
      [200, TEXT.dup, lambda { |stream|
        stream << "a" << "b"
        stream.flush
        stream.write("c", "d")
        stream.close
      }]
    end
    response = fetch(server)
    assert_equal ["abcd", true], [response.body, response.complete?]
  end

  def test_a_callable_body_may_write_later_in_another_thread
    server = serve(lint: false) do
      [200, TEXT.dup, lambda { |stream|
        Thread.new do
          300.times { stream.write("x" * 1000) }
          stream.close
        end
      }]
    end
    assert_equal 300_000, fetch(server).body.bytesize
  end

  def test_a_stream_that_is_lost_never_looks_complete
    server = serve(lint: false) { [200, TEXT.dup, ->(stream) { stream.write("a") }] }
    client = connect(server)
    client.request("GET", "/")
    assert_equal 200, client.head.first
    wait_for_no_requests(server)
    assert_equal "a", client.chunk
    assert_raises(Errno::ECONNRESET) { client.chunk }
  end
end
