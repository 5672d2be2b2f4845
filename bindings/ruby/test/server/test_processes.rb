# frozen_string_literal: true

require_relative "server_helper"

# Servers in processes of their own: signals, workers, restarts, rackup.
class TestProcesses < Minitest::Test
  include ServerHelper

  LIBRARIES = $LOAD_PATH.grep(%r{/lib\z}).flat_map { |path| ["-I", File.expand_path(path)] }.freeze
  # Replies with the process, and with the code that is in the file "version" when it loads.
  CONFIG = <<~RUBY
    version = File.read("version")
    raise "broken" if version == "broken"
    run lambda { |env|
      exit!(3) if env["PATH_INFO"] == "/die"
      sleep env["QUERY_STRING"].to_f
      [200, { "content-type" => "text/plain" }, ["\#{Process.pid} \#{version}"]]
    }
  RUBY

  def setup
    @folder = Dir.mktmpdir
    File.write("#{@folder}/version", "1")
    File.write("#{@folder}/config.ru", CONFIG)
    @output = Thread::Queue.new
    @lines = []
  end

  def teardown
    stop if @pid
    puts @lines, Array.new(@output.size) { @output.pop } unless passed?
    FileUtils.rm_rf(@folder)
    super
  end

  # Start a process that serves, and wait until it listens.
  def start(*command)
    @pipe, writer = IO.pipe
    @pid = spawn(RbConfig.ruby, *LIBRARIES, *command, chdir: @folder, out: writer, err: writer)
    writer.close
    @reader = Thread.new { @pipe.each_line { |line| @output << line } }
    @port = wait_for_line(%r{weft: http://[^:]+:(\d+)})[1].to_i
  end

  def start_script(options)
    start("-e", "require 'weft/server'; Weft::Server.new(#{options}, port: 0).run")
  end

  def wait_for_line(pattern)
    loop do
      @lines << @output.pop
      match = pattern.match(@lines.last)
      return match if match
    end
  end

  def stop(signal = :TERM)
    Process.kill(signal, @pid)
    Process.wait(@pid)
    @pid = nil
    @pipe.close if @reader.join
    $?
  end

  # Return [process, version]. A refused connection is an error, except while the first worker starts.
  def get(path = "/")
    client = Client.new(TCPSocket.new("127.0.0.1", @port))
    client.request("GET", path, { "Connection" => "close" })
    client.response.body.split
  ensure
    client&.close
  end

  # Wait until so many workers have replied. Return them.
  def wait_for_workers(count)
    pids = []
    pids |= [get.first] until pids.size == count
    pids
  end

  def test_a_single_process_stops_on_term_and_on_int
    %i[TERM INT].each do |signal|
      start_script("config: 'config.ru'")
      assert_equal [@pid.to_s, "1"], get
      assert_equal 0, stop(signal).exitstatus
    end
  end

  def test_workers_share_a_socket_and_stop
    start_script("config: 'config.ru', processes: 2")
    pids = wait_for_workers(2)
    refute_includes pids, @pid.to_s
    assert_equal 0, stop.exitstatus
    pids.each { |pid| assert_raises(Errno::ESRCH) { Process.kill(0, pid.to_i) } }
  end

  def test_a_worker_that_dies_is_replaced
    start_script("config: 'config.ru', processes: 1")
    first = get.first
    get("/die")
    wait_for_line(/worker #{first} has ended: .*exit 3/)
    refute_equal first, get.first
  end

  def test_workers_end_with_their_supervisor
    start_script("config: 'config.ru', processes: 1")
    worker = get.first.to_i
    stop(:KILL)
    wait_until { Process.kill(0, worker) && false rescue true }
  end

  # Get until the version changes. Every request must succeed.
  def load_until(version)
    failures = Thread::Queue.new
    counts = Array.new(3) do
      Thread.new do
        count = 0
        loop do
          body = get("/?0.01")
          count += 1
          failures << body unless body.size == 2
          break count if body[1] == version
        rescue SystemCallError => e
          failures << e
        end
      end
    end.map(&:value)
    [counts.sum, Array.new(failures.size) { failures.pop }]
  end

  def assert_restarts(signal, versions)
    get
    loader = Thread.new { load_until(versions.last) }
    versions.each do |version|
      File.write("#{@folder}/version", version)
      Process.kill(signal, @pid)
      wait_for_line(/weft: restarted/)
    end
    count, failures = loader.value
    assert_operator count, :>, 3
    assert_empty failures
  end

  def test_a_restart_loads_fresh_code_and_loses_no_request
    start_script("config: 'config.ru', processes: 2")
    assert_restarts(:HUP, %w[2 3 4 5])
  end

  def test_a_restart_of_a_preloaded_application_runs_the_command_again
    start_script("Rack::Builder.parse_file('config.ru').then { |app, _| app }, processes: 2")
    assert_restarts(:USR2, %w[2 3])
  end

  def test_a_restart_that_fails_keeps_the_old_workers
    start_script("config: 'config.ru', processes: 2")
    wait_for_workers(2)
    File.write("#{@folder}/version", "broken")
    Process.kill(:HUP, @pid)
    wait_for_line(/the restart has failed/)
    5.times { assert_equal "1", get[1] }
    File.write("#{@folder}/version", "2")
    Process.kill(:HUP, @pid)
    wait_for_line(/weft: restarted/)
    wait_until { get[1] == "2" }
  end

  def test_a_worker_finishes_its_requests_before_it_stops
    start_script("config: 'config.ru', processes: 1")
    worker = get.first
    client = Client.new(TCPSocket.new("127.0.0.1", @port))
    client.request("GET", "/?0.3")
    wait_until { File.read("/proc/net/tcp").lines.count { |line| line.include?(format(":%04X", @port)) } >= 2 }
    get
    stop
    assert_equal [worker, "1"], client.response.body.split
  end

  def test_rackup_runs_the_server
    rackup = Gem.bin_path(Weft::Server::Application::IS_RACK_3 ? "rackup" : "rack", "rackup")
    start(rackup, "-s", "weft", "-o", "127.0.0.1", "-p", "0", "-O", "max_fibers=10", "-E", "none", "config.ru")
    assert_equal [@pid.to_s, "1"], get
  end
end
