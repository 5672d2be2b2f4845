# frozen_string_literal: true

require_relative "server_helper"

# Applications of frameworks, if they are installed.
class TestFrameworks < Minitest::Test
  include ServerHelper

  def test_sinatra_answers
    require "sinatra/base"
    app = Class.new(Sinatra::Base) do
      set :environment, :test
      get("/hello/:name") { "Hello #{params[:name]}" }
      post("/form") { params["field"].to_s.reverse }
      get("/stream") { stream { |out| 3.times { |i| out << "#{i}\n" } } }
      get("/file") { send_file __FILE__ }
      not_found { "nothing" }
    end
    server = serve(app, lint: true)
    assert_equal "Hello weft", fetch(server, "/hello/weft").body
    form = { "Content-Type" => "application/x-www-form-urlencoded" }
    assert_equal "cba", fetch(server, "/form", method: "POST", headers: form, body: "field=abc").body
    assert_equal "0\n1\n2\n", fetch(server, "/stream").body
    assert_equal File.binread(__FILE__), fetch(server, "/file").body.b
    assert_equal [404, "nothing"], fetch(server, "/none").then { |response| [response.status, response.body] }
    assert_empty @log.string
  end

  # In a process of its own, because Rails changes classes of Ruby.
  RAILS = <<~RUBY
    require "logger"
    require "action_controller/railtie"
    require "weft/server"

    class Application < Rails::Application
      config.eager_load = true
      config.logger = Logger.new(nil)
      config.secret_key_base = "test"
      config.hosts.clear
      config.consider_all_requests_local = false
      if config.active_support.respond_to?(:isolation_level) || Rails.version >= "7"
        config.active_support.isolation_level = :fiber
      end
      routes.append do
        get "/hello/:name", to: "test#hello"
        post "/form", to: "test#form"
        get "/live", to: "test#live"
        get "/raise", to: "test#fail"
      end
    end

    class TestController < ActionController::Base
      include ActionController::Live
      self.allow_forgery_protection = false

      def hello = render(plain: "Hello \#{params[:name]} \#{session[:count] = session[:count].to_i + 1}")
      def form = render(json: params.permit(:field))
      def fail = raise("asked for")

      def live
        3.times { |i| response.stream.write("\#{i}\\n") }
      ensure
        response.stream.close
      end
    end

    Application.initialize!
    server = Weft::Server.new(Application, port: 0).start
    $stdout.puts server.listener.local_address.ip_port
    $stdout.flush
    $stdin.read
    server.stop
  RUBY

  def with_rails
    libraries = $LOAD_PATH.grep(%r{/lib\z}).flat_map { |path| ["-I", File.expand_path(path)] }
    Open3.popen3(RbConfig.ruby, "-W0", *libraries, "-e", RAILS) do |input, output, errors, process|
      port = output.gets
      flunk errors.read unless port
      yield port.to_i
      input.close
      assert_equal 0, process.value.exitstatus, errors.read
    end
  end

  def get(port, *arguments, **options)
    client = Client.new(TCPSocket.new("127.0.0.1", port))
    fetch(nil, *arguments, client: client, **options)
  ensure
    client&.close
  end

  def test_rails_answers
    skip "Rails is not installed" if Gem::Specification.find_all_by_name("railties").empty?
    with_rails do |port|
      response = get(port, "/hello/weft")
      assert_equal [200, "Hello weft 1"], [response.status, response.body]
      cookie = response["set-cookie"][/[^;]+/]
      assert_equal "Hello weft 2", get(port, "/hello/weft", headers: { "Cookie" => cookie }).body
      json = { "Content-Type" => "application/json" }
      assert_equal '{"field":"x"}', get(port, "/form", method: "POST", headers: json, body: '{"field":"x"}').body
      assert_equal "0\n1\n2\n", get(port, "/live").body
      assert_equal 500, get(port, "/raise").status
      assert_equal 404, get(port, "/none").status
    end
  end
end
