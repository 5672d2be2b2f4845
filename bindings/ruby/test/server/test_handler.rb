# frozen_string_literal: true

require_relative "server_helper"
require "weft/server/handler"

# What the specifications of rack and rackup require of a handler.
class TestHandler < Minitest::Test
  include ServerHelper

  # Replies with the environment of CGI and the body.
  MIRROR = lambda do |env|
    fields = env.select { |name, value| name =~ /\A[A-Z_]+\z/ && value.is_a?(String) }
    fields["postdata"] = env["rack.input"].read
    status = env["QUERY_STRING"].include?("secret") ? 403 : 200
    [status, TEXT.dup, [fields.map { |name, value| "#{name}=#{value}\n" }.join]]
  end

  def mirror(path, **options)
    server = serve(Rack::URLMap.new("/test" => MIRROR))
    response = fetch(server, path, **options)
    @status = response.status
    response.body.lines.to_h { |line| line.chomp.split("=", 2) }
  end

  def test_a_get_has_the_headers_of_cgi
    fields = mirror("/test/foo%25bar?quux=1", headers: { "Host" => "localhost:9202" })
    assert_equal ["GET", "/test", "/foo%25bar", "quux=1", "localhost", "9202", "HTTP/1.1"],
                 fields.values_at("REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "SERVER_NAME",
                                  "SERVER_PORT", "SERVER_PROTOCOL")
    assert_match(/\Aweft/, fields["SERVER_SOFTWARE"])
    assert_equal ["", ""], mirror("/test").values_at("PATH_INFO", "QUERY_STRING")
  end

  def test_a_post_has_its_body
    form = { "Content-Type" => "application/x-www-form-urlencoded", "X-test-header" => "42" }
    fields = mirror("/test", method: "POST", headers: form, body: "rack-form-data=23")
    assert_equal %w[POST 42 rack-form-data=23], fields.values_at("REQUEST_METHOD", "HTTP_X_TEST_HEADER", "postdata")
  end

  def test_authorization_and_status
    fields = mirror("/test?secret", headers: { "Authorization" => "Basic cnV0aDpzZWNyZXQ=" })
    assert_equal [403, "Basic cnV0aDpzZWNyZXQ="], [@status, fields["HTTP_AUTHORIZATION"]]
  end

  def test_cookies_of_a_response_are_separate_headers
    server = serve do
      Rack::Response.new.tap { |response| %w[one two].each { |name| response.set_cookie(name, "1") } }
                    .then { |response| response.content_type = "text/plain"; response.finish }
    end
    assert_equal %w[one=1 two=1], fetch(server).headers["set-cookie"]
  end

  def test_run_yields_the_server_and_takes_options_of_rackup
    servers = Thread::Queue.new
    runner = Thread.new do
      Weft::Server::Handler.run(MIRROR, Host: "127.0.0.1", Port: "0", max_fibers: "7", environment: "none",
                                        config: "ignored") { |server| servers << server }
    end
    server = servers.pop
    assert_equal ["127.0.0.1", 0, 7, nil], server.options.values_at(:host, :port, :max_fibers, :config)
    wait_until { (fetch(server).status rescue nil) }
    server.stop
    runner.join
  end

  def test_the_handler_is_registered
    skip "Rack 2" if Weft::Server::Application::IS_RACK_3
    require "rack/handler/weft"
    assert_equal Weft::Server::Handler, Rack::Handler.get("weft")
  end
end
