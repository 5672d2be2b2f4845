# frozen_string_literal: true

require "helper"
require "open3"

class TestProcess < SchedulerTest
  # Each child waits until all children run: one after the other would hang.
  def test_ten_commands_run_at_the_same_time
    started, start = IO.pipe
    release, hold = IO.pipe
    statuses = []
    schedule do
      10.times do
        Fiber.schedule do
          statuses << system("echo >&3; read x <&4; exit 3", 3 => start, 4 => release)
        end
      end
      Fiber.schedule { 10.times { started.gets } && hold.close }
    end
    assert_equal [false] * 10, statuses
  end

  def test_ten_captures_of_200_kilobytes
    sizes = []
    schedule do
      10.times { Fiber.schedule { sizes << Open3.capture2("cat", stdin_data: "x" * 200_000).first.size } }
    end
    assert_equal [200_000] * 10, sizes
  end

  def test_backticks_and_status
    in_fiber do
      assert_equal "out\n", `echo out; exit 4`
      assert_equal 4, $?.exitstatus
    end
  end

  def test_wait_returns_the_pid_and_the_status
    in_fiber do
      pid = Process.spawn("exit 5")
      assert_equal pid, Process.wait(pid)
      assert_equal [pid, 5], [$?.pid, $?.exitstatus]
    end
  end

  def test_wait_for_a_process_that_does_not_exist
    in_fiber { assert_raises(Errno::ECHILD) { Process.wait(Process.pid) } }
  end

  def test_wait_for_any_child
    output, = run_ruby(<<~RUBY)
      require "weft"
      Weft.run do
        pids = [Process.spawn("exit 1"), Process.spawn("exit 2")]
        Fiber.schedule { puts "other" }
        print pids.sort == Array.new(2) { Process.wait(-1) }.sort
      end
    RUBY
    assert_equal "other\ntrue", output
  end

  def test_a_signal_ends_a_child
    in_fiber do
      pid = Process.spawn("sleep 100")
      Fiber.schedule { Process.kill(:TERM, pid) }
      Process.wait(pid)
      assert_predicate $?, :signaled?
    end
  end

  def test_a_child_of_fork_starts_clean
    output, = run_ruby(<<~RUBY)
      require "weft"
      $stdout.sync = true
      reader, writer = IO.pipe
      Weft.run do |scheduler|
        Fiber.schedule { puts "parent read " + reader.read(1) }
        pid = fork do
          print scheduler.waiting.size, " "
          Thread.new { Weft.run { sleep(0.001) && puts("child") } }.join
        end
        Process.wait(pid)
        puts $?.exitstatus
        writer << "x"
      end
    RUBY
    assert_equal "0 child\n0\nparent read x\n", output
  end

  def test_a_forked_child_continues_its_fiber
    output, = run_ruby(<<~RUBY)
      require "weft"
      $stdout.sync = true
      Weft.run do
        Fiber.schedule { sleep }                # must not run in the child
        Fiber.schedule do
          if (pid = fork)
            Process.wait(pid)
            puts "status \#{$?.exitstatus}"
            exit!
          end
          sleep(0.001) if Fiber.scheduler
          puts "child"
          exit!(6)
        end
      end
    RUBY
    assert_equal "child\nstatus 6\n", output
  end
end
