# frozen_string_literal: true

require_relative "server_helper"

# What Rack requires of a server: the environment, replies, errors.
class TestRack < Minitest::Test
  include ServerHelper

  def env_of(path = "/", **options)
    env = nil
    server = serve do |received|
      env = received.dup
      [200, TEXT.dup, []]
    end
    response = fetch(server, path, **options)
    assert_equal 200, response.status, @log.string
    env
  end

  def test_the_environment_describes_the_request
    env = env_of("/a%20b/c?d=e%2F", headers: { "Host" => "example.org:8080", "X-Custom-Name" => "v" })
    assert_equal "GET", env["REQUEST_METHOD"]
    assert_equal "", env["SCRIPT_NAME"]
    assert_equal "/a%20b/c", env["PATH_INFO"]
    assert_equal "d=e%2F", env["QUERY_STRING"]
    assert_equal "/a%20b/c?d=e%2F", env["REQUEST_URI"]
    assert_equal "HTTP/1.1", env["SERVER_PROTOCOL"]
    assert_equal %w[example.org 8080], env.values_at("SERVER_NAME", "SERVER_PORT")
    assert_equal "127.0.0.1", env["REMOTE_ADDR"]
    assert_equal "http", env["rack.url_scheme"]
    assert_equal "example.org:8080", env["HTTP_HOST"]
    assert_equal "v", env["HTTP_X_CUSTOM_NAME"]
    assert env["rack.hijack?"]
  end

  def test_the_port_is_that_of_the_scheme_if_the_host_has_none
    assert_equal %w[localhost 80], env_of.values_at("SERVER_NAME", "SERVER_PORT")
  end

  def test_a_host_may_be_an_address_in_brackets
    assert_equal "81", env_of(headers: { "Host" => "[::1]:81" })["SERVER_PORT"]
    assert_equal "80", env_of(headers: { "Host" => "[::1]" })["SERVER_PORT"]
  end

  def test_an_encoded_slash_stays_in_the_path
    assert_equal "/a%2Fb/../c", env_of("/a%2Fb/../c")["PATH_INFO"]
  end

  def test_values_of_repeated_headers_are_joined
    env = env_of(headers: { "X-A" => %w[1 2], "Accept" => %w[a b], "Cookie" => %w[c=1 d=2] })
    assert_equal "1, 2", env["HTTP_X_A"]
    assert_equal "a, b", env["HTTP_ACCEPT"]
    assert_equal "c=1; d=2", env["HTTP_COOKIE"]
  end

  def test_headers_that_look_like_others_are_dropped
    env = env_of(headers: { "X_Forwarded_For" => "evil", "Proxy" => "evil", "Version" => "evil" })
    assert_nil env["HTTP_X_FORWARDED_FOR"]
    assert_nil env["HTTP_PROXY"]
    refute_equal "evil", env["HTTP_VERSION"]
  end

  def test_values_of_headers_may_be_changed
    server = serve do |env|
      env["HTTP_USER_AGENT"] << "!"
      env["PATH_INFO"] << "?"
      [200, TEXT.dup, [env["HTTP_USER_AGENT"]]]
    end
    2.times { assert_equal "a long user agent of a client!", fetch(server, headers: { "User-Agent" => "a long user agent of a client" }).body }
  end

  def test_a_body_has_type_and_length_without_prefix
    env = env_of(method: "POST", headers: { "Content-Type" => "text/plain" }, body: "abc")
    assert_equal %w[text/plain 3], env.values_at("CONTENT_TYPE", "CONTENT_LENGTH")
  end

  def test_a_keep_alive_connection_serves_several_requests
    server = serve { |env| [200, TEXT.dup, [env["PATH_INFO"]]] }
    client = connect(server)
    assert_equal %w[/0 /1 /2], Array.new(3) { |i| fetch(server, "/#{i}", client: client).body }
    client.write("GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n")
    assert_equal %w[/a /b], Array.new(2) { client.response.body }
  end

  def test_replies_have_headers_in_arrays_or_lines
    values = Weft::Server::Application::IS_RACK_3 ? %w[a=1 b=2] : "a=1\nb=2"
    server = serve { [200, TEXT.merge("set-cookie" => values), ["ok"]] }
    assert_equal %w[a=1 b=2], fetch(server)["set-cookie"].then { fetch(server).headers["set-cookie"] }
  end

  def test_headers_of_other_kinds_are_converted
    server = serve(lint: false) { ["201", [["content-type", :text], ["x-number", 7], ["content-length", 2]], ["ok"]] }
    response = fetch(server)
    assert_equal [201, "text", "7", "ok"], [response.status, response["content-type"], response["x-number"], response.body]
  end

  def test_the_application_cannot_break_the_framing
    server = serve(lint: false) { [200, TEXT.merge("Transfer-Encoding" => "chunked", "Connection" => "close"), %w[a b]] }
    response = fetch(server)
    assert_nil response["transfer-encoding"]
    assert_equal "close", response["connection"]
    assert_equal "ab", response.body
  end

  def test_an_invalid_header_is_an_error_of_the_application
    _, errors = capture_subprocess_io do
      server = serve(lint: false) { [200, TEXT.merge("x-evil" => "a\rSet-Cookie: b"), ["ok"]] }
      assert_equal 500, fetch(server).status
      server.stop
    end
    assert_match(/invalid/, errors)
  end

  def test_a_nul_byte_adds_no_header
    fields = { "x-a" => "1\0set-cookie\0admin=1", "x-b" => "2" }
    server = serve(lint: false) { |env| [200, env["PATH_INFO"] == "/" ? fields : fields.transform_values { |v| [v] }, []] }
    %w[/ /array].each do |path|
      reply = fetch(server, path)
      assert_equal [500, nil], [reply.status, reply["set-cookie"]]
    end
  end

  def test_head_has_the_length_and_no_body
    server = serve { |env| [200, TEXT.merge("content-length" => "5"), env["REQUEST_METHOD"] == "HEAD" ? [] : ["hello"]] }
    client = connect(server)
    response = fetch(server, method: "HEAD", client: client)
    assert_equal ["5", ""], [response["content-length"], response.body]
    assert_equal "hello", fetch(server, client: client).body
  end

  def test_replies_without_a_body_have_none
    server = serve { |env| [env["PATH_INFO"][1..].to_i, {}, []] }
    client = connect(server)
    [204, 304].each do |status|
      response = fetch(server, "/#{status}", client: client)
      assert_equal [status, nil], [response.status, response["transfer-encoding"]]
    end
  end

  def test_a_body_with_parts_of_unknown_length_is_chunked
    server = serve(lint: false) do
      [200, TEXT.dup, Enumerator.new { |parts| 2.times { |i| parts << "part #{i}\n"; sleep 0.001 } }]
    end
    response = fetch(server)
    assert_equal "chunked", response["transfer-encoding"]
    assert_equal "part 0\npart 1\n", response.body
  end

  def test_an_array_of_parts_has_a_length
    server = serve(lint: false) { [200, TEXT.dup, ["a" * 100_000, "b" * 100_000]] }
    response = fetch(server)
    assert_equal "200000", response["content-length"]
    assert_equal 200_000, response.body.bytesize
  end

  def test_an_exception_is_a_500_with_a_line_in_the_log
    server = serve { raise "no luck" }
    response = fetch(server)
    assert_equal 500, response.status
    assert_match(/weft: GET "\/": .*no luck/, @log.string)
    refute_match(/no luck/, response.body)
  end

  def test_the_server_survives_any_exception
    server = serve(lint: false) { |env| raise Object.const_get(env["PATH_INFO"][1..]) }
    %w[NoMemoryError SystemExit NotImplementedError Interrupt StopIteration].each do |name|
      assert_equal 500, fetch(server, "/#{name}").status
    end
  end

  def test_the_server_survives_a_log_that_fails
    log = Object.new
    def log.puts(*) = raise(IOError, "the disk is full")
    server = serve(log: log) { raise "no luck" }
    2.times { refute_equal 200, fetch(server).status }
  end

  def test_a_reply_that_is_not_a_reply_is_a_500
    server = serve(lint: false) { |env| { "/nil" => nil, "/status" => ["x", {}, []], "/body" => [200, {}, nil], "/low" => [99, {}, []], "/part" => [200, {}, [1]] }[env["PATH_INFO"]] }
    capture_subprocess_io do
      %w[/nil /status /body /low].each { |path| assert_equal 500, fetch(server, path).status, path }
      refute_equal 200, fetch(server, "/part").status
      server.stop
    end
  end

  def test_an_exception_in_the_body_never_looks_complete
    server = serve(lint: false) do |env|
      parts = Enumerator.new do |out|
        out << "a" * 100
        sleep 0.001 if env["PATH_INFO"] == "/late"
        raise "in the middle"
      end
      [200, TEXT.dup, parts]
    end
    early = fetch(server, "/early")
    refute early.status == 200 && early.complete?
    late = fetch(server, "/late")
    assert_equal 200, late.status
    refute late.complete?
  end

  def test_a_body_shorter_than_its_length_never_looks_complete
    server = serve(lint: false) { [200, TEXT.merge("content-length" => "10"), Enumerator.new { |out| out << "abc"; sleep 0.001 }] }
    refute fetch(server).complete?
  end

  # A body that counts how often it is closed.
  class ClosingBody
    attr_reader :closed

    def initialize(error: nil)
      @error = error
      @closed = 0
    end

    def each
      yield "a"
      raise @error if @error
    end

    def close
      @closed += 1
    end
  end

  def test_a_body_is_closed_once
    bodies = [ClosingBody.new, ClosingBody.new(error: "x")]
    rest = bodies.dup
    server = serve(lint: false) { [200, TEXT.dup, rest.shift] }
    2.times { fetch(server) }
    server.stop
    assert_equal [1, 1], bodies.map(&:closed)
  end

  def test_requests_wait_at_the_same_time
    gate = Thread::Queue.new
    count = 0
    server = serve do
      count += 1
      gate.pop
      [200, TEXT.dup, ["ok"]]
    end
    clients = Array.new(20) { connect(server).tap { |client| client.request("GET", "/") } }
    wait_until { count == 20 }
    20.times { gate << true }
    clients.each { |client| assert_equal "ok", client.response.body }
  end

  def test_no_more_fibers_than_allowed_run
    gate = Thread::Queue.new
    running = most = 0
    server = serve(max_fibers: 3) do
      running += 1
      most = [most, running].max
      gate.pop
      running -= 1
      [200, TEXT.dup, []]
    end
    clients = Array.new(9) { connect(server).tap { |client| client.request("GET", "/") } }
    wait_until { running == 3 }
    9.times { gate << true }
    clients.each { |client| assert_equal 200, client.response.status }
    assert_equal 3, most
  end

  def test_early_hints_come_before_the_reply
    server = serve(early_hints: true, lint: false) do |env|
      env["rack.early_hints"].call("link" => "</a.css>; rel=preload")
      [200, TEXT.dup, ["ok"]]
    end
    client = connect(server)
    client.request("GET", "/")
    status, headers = client.head
    assert_equal [103, ["</a.css>; rel=preload"]], [status, headers["link"]]
    assert_equal "ok", client.response.body
  end

  def test_callbacks_run_after_the_reply
    skip "Rack 3" unless Weft::Server::Application::IS_RACK_3
    calls = Thread::Queue.new
    server = serve do |env|
      env["rack.response_finished"] << ->(_env, status, _headers, error) { calls << [1, status, error] }
      env["rack.response_finished"] << ->(_env, status, _headers, error) { calls << [2, status, error] }
      [200, TEXT.dup, []]
    end
    fetch(server)
    assert_equal [[2, 200, nil], [1, 200, nil]], [calls.pop, calls.pop]
  end

  def test_options_for_all_resources_reach_the_application
    path = Weft::Server::Application::ALLOWS_ASTERISK ? "*" : "/"
    assert_equal path, env_of("*", method: "OPTIONS")["PATH_INFO"]
  end

  def test_unknown_options_and_a_missing_application_are_errors
    assert_raises(ArgumentError) { Weft::Server.new(->(_) {}, prot: 1) }
    assert_raises(ArgumentError) { Weft::Server.new }
    assert_raises(ArgumentError) { Weft::Server.new(->(_) {}, port: 0, tls: { cert: "/none" }).start }
  end
end
