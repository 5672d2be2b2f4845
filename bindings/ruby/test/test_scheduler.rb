# frozen_string_literal: true

require "helper"

class TestScheduler < SchedulerTest
  def test_run_returns_the_value_of_the_block
    assert_equal 3, in_fiber { sleep(0) && 3 }
  end

  def test_run_waits_for_fibers_that_the_block_has_started
    events = []
    in_fiber do
      Fiber.schedule { sleep(0.001) && events << :late }
      events << :first
    end
    assert_equal %i[first late], events
  end

  def test_run_can_be_called_again
    events = []
    schedule do |scheduler|
      Fiber.schedule { sleep(0) && events << 1 }
      scheduler.run
      Fiber.schedule { sleep(0) && events << 2 }
      scheduler.run
    end
    assert_equal [1, 2], events
  end

  def test_run_in_a_running_scheduler_is_an_error
    assert_raises(ThreadError) { in_fiber { |scheduler| sleep(0) && scheduler.run } }
  end

  def test_a_fiber_starts_at_once_and_its_caller_continues_when_it_waits
    events = []
    schedule do
      fiber = Fiber.schedule { events << 1 && sleep(0) && events << 3 }
      assert_kind_of Fiber, fiber
      events << 2
    end
    assert_equal [1, 2, 3], events
  end

  def test_a_fiber_that_schedules_a_fiber_continues
    events = []
    in_fiber do
      Fiber.schedule { Fiber.schedule { sleep(0) && events << :inner } && events << :outer }
      events << :last
    end
    assert_equal %i[inner last outer], events.sort
  end

  def test_an_exception_of_a_fiber_reaches_run
    error = assert_raises(ArgumentError) { in_fiber { Fiber.schedule { sleep(0) && raise(ArgumentError, "mine") } } }
    assert_equal "mine", error.message
  end

  def test_fibers_can_be_scheduled_from_a_thread_that_did_not_create_the_scheduler
    scheduler = Weft::Scheduler.new
    in_thread do
      Fiber.set_scheduler(scheduler)
      Fiber.schedule { sleep(0) }
    end
    assert_predicate scheduler, :closed?
  end

  def test_close_runs_the_fibers
    ended = false
    scheduler = in_thread do
      Fiber.set_scheduler(own = Weft::Scheduler.new)
      Fiber.schedule { sleep(0) && ended = true }
      own.close
      assert_nil Fiber.scheduler
      own
    end
    assert ended
    assert_predicate scheduler, :closed?
    scheduler.close
  end

  def test_a_closed_scheduler_ignores_wake_ups
    scheduler = Weft::Scheduler.new
    scheduler.close
    assert_nil scheduler.unblock(nil, Fiber.current)
    assert_raises(IOError) { scheduler.backend }
  end

  def test_many_threads_have_schedulers
    threads = Array.new(8) { Thread.new { Weft.run { Array.new(20) { |i| sleep(0) && i }.sum } } }
    assert_equal [190], threads.map(&:value).uniq
  end

  def test_the_backend_can_be_chosen
    name = in_fiber(backend: :epoll, &:backend)
    assert_equal "epoll", name
    assert_includes Weft::Scheduler.backends, "epoll"
    assert_includes Weft::Scheduler::BACKENDS, Weft::Scheduler.backend
  end

  def test_the_environment_chooses_the_backend
    wanted = ENV.fetch("WEFT_BACKEND") { skip "WEFT_BACKEND is not set" }
    assert_equal wanted, Weft::Scheduler.backend
  end

  def test_an_unknown_backend_is_an_error
    error = assert_raises(ArgumentError) { Weft::Scheduler.new(backend: :iocp) }
    assert_match(/iocp/, error.message)
  end

  def test_stop_makes_run_return_and_run_continues
    ended = false
    schedule do |scheduler|
      Fiber.schedule { sleep(0.001) && ended = true }
      Fiber.schedule { scheduler.stop }
      Fiber.schedule { sleep(0) && scheduler.stop }
      scheduler.run
      refute ended
    end
    assert ended
  end

  def test_stop_from_another_thread
    reader, writer = IO.pipe
    schedule do |scheduler|
      Fiber.schedule { reader.read }
      stopper = Thread.new { (scheduler.stop; Thread.pass) until writer.closed? }
      scheduler.run
      writer.close
      stopper.join
    end
  end

  def test_waiting_names_fibers_and_reasons
    reader, writer = IO.pipe
    schedule do |scheduler|
      sleeper = Fiber.schedule { sleep(0.001) }
      waiter = Fiber.schedule { reader.wait_readable }
      assert_equal [[sleeper, :sleep], [waiter, :io]], scheduler.waiting.to_a
      writer.close
    end
  end

  def test_statistics_count
    statistics = in_fiber { |scheduler| 10.times { sleep(0) } && scheduler.statistics }
    assert_operator statistics[:polls], :>, 0
    assert_equal [0, 0], statistics.values_at(:ready, :waiting)
    assert_kind_of Float, statistics[:idle_seconds]
  end

  def test_stall_warning_names_the_place
    _, errors = capture_io do
      in_fiber(stall_warning: 0.001) do
        start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) - start < 0.01
        sleep(0)
      end
    end
    assert_match(/ran for \d+ ms before it waited at .*test_scheduler\.rb/, errors)
  end

  def test_hooks_of_a_subclass_and_of_an_object_are_called
    calls = []
    schedule do |scheduler|
      scheduler.define_singleton_method(:kernel_sleep) { |*args| calls << args && super(*args) }
      Fiber.schedule { sleep(0) }
    end
    assert_equal [[0]], calls
  end

  def test_only_hooks_that_this_ruby_can_honour_exist
    hooks = Weft::Scheduler.public_instance_methods
    assert_equal RUBY_VERSION >= "3.2", hooks.include?(:io_select)
    assert_equal RUBY_VERSION >= "3.2", hooks.include?(:io_pread)
    assert_equal RUBY_VERSION >= "4.0", hooks.include?(:io_close)
    refute_respond_to Weft::Scheduler.new, :blocking_operation_wait
    assert_equal RUBY_VERSION >= "3.4", Weft::Scheduler.new(offload: true).respond_to?(:blocking_operation_wait)
  end

  def test_sleep_checks_its_argument
    in_fiber do
      assert_raises(ArgumentError) { sleep(-1) }
      assert_raises(TypeError) { sleep("1") }
    end
  end

  def test_ten_thousand_timers_end_and_none_early
    early = ended = 0
    schedule do
      10_000.times do |i|
        Fiber.schedule do
          due = Process.clock_gettime(Process::CLOCK_MONOTONIC) + i % 10 / 1000.0
          sleep(i % 10 / 1000.0)
          early += 1 if Process.clock_gettime(Process::CLOCK_MONOTONIC) < due
          ended += 1
        end
      end
    end
    assert_equal [10_000, 0], [ended, early]
  end
end
