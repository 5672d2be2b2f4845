# frozen_string_literal: true

require "helper"

class TestSignals < SchedulerTest
  def test_a_trap_runs_and_the_scheduler_continues
    output, = run_ruby(<<~RUBY)
      require "weft"
      queue = Queue.new
      trap(:USR1) { puts "trapped" }
      Weft.run do
        Fiber.schedule { Process.kill(:USR1, Process.pid) && queue << sleep(0.01) }
        queue.pop
        puts "still here"
      end
    RUBY
    assert_equal "trapped\nstill here\n", output
  end

  def test_a_signal_from_outside_interrupts_the_poll
    output, status = run_ruby(<<~RUBY)
      require "weft"
      begin
        Process.spawn("kill -INT \#{Process.pid}")
        Weft.run { sleep }
      rescue Interrupt
        puts "interrupted"
      end
    RUBY
    assert_equal "interrupted\n", output
    assert_predicate status, :success?
  end

  def test_interrupt_leaves_run_although_fibers_wait
    output, status = run_ruby(<<~RUBY)
      require "weft"
      $stdout.sync = true
      scheduler = Weft::Scheduler.new
      Fiber.set_scheduler(scheduler)
      3.times { Fiber.schedule { begin sleep ensure puts "not reached" end } }
      Fiber.schedule { sleep(0) && Process.kill(:INT, Process.pid) && sleep }
      begin
        scheduler.run
      rescue Interrupt
        puts "interrupted"
        exit!(0)
      end
    RUBY
    assert_equal "interrupted\n", output
    assert_predicate status, :success?
  end

  def test_an_uncaught_interrupt_ends_the_process
    output, status = run_ruby(<<~RUBY)
      require "weft"
      Fiber.set_scheduler(Weft::Scheduler.new)
      Fiber.schedule { sleep }
      Fiber.schedule { Process.kill(:INT, Process.pid) && sleep }
    RUBY
    assert_match(/Interrupt/, output)
    assert_equal Signal.list["INT"], status.termsig
  end

  def test_exit_in_a_fiber_ends_the_process
    output, status = run_ruby(<<~RUBY)
      require "weft"
      at_exit { puts "at exit" }
      Weft.run { Fiber.schedule { sleep } && Fiber.schedule { sleep(0) && exit(7) } }
    RUBY
    assert_equal "at exit\n", output
    assert_equal 7, status.exitstatus
  end

  def test_thread_kill_and_raise_reach_a_waiting_scheduler
    thread = Thread.new { Weft.run { sleep } }
    thread.report_on_exception = false
    Thread.pass until thread.status == "sleep"
    thread.raise(IOError, "from outside")
    assert_raises(IOError) { in_thread { thread.value } }
    thread = Thread.new { Weft.run { sleep } }
    Thread.pass until thread.status == "sleep"
    thread.kill
    assert_nil in_thread { thread.value }
  end
end
