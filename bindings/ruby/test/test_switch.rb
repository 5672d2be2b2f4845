# frozen_string_literal: true

require "helper"

# Fibers of the program inside of scheduled fibers, and exceptions that interrupt waits.
class TestSwitch < SchedulerTest
  def test_a_nested_fiber_waits_and_returns_its_value
    in_fiber do
      inner = Fiber.new do
        sleep(0.001)
        Fiber.yield(1)
        sleep(0) && 2
      end
      Fiber.schedule { sleep(0) }
      assert_equal [1, 2], [inner.resume, inner.resume]
    end
  end

  def test_a_nested_fiber_of_the_root_fiber_waits
    schedule do
      other = false
      Fiber.schedule { sleep(0.001) && other = true }
      assert_equal :value, Fiber.new { sleep(0.005) && :value }.resume
      assert other
    end
  end

  def test_an_enumerator_inside_of_a_fiber
    in_fiber do
      enumerator = Enumerator.new { |yielder| 3.times { |i| yielder << i } }
      assert_equal [0, 1, 2], Array.new(3) { enumerator.next }
    end
  end

  def test_raise_interrupts_every_kind_of_wait
    reader, = IO.pipe
    waits = [-> { sleep }, -> { sleep(100) }, -> { reader.read(1) }, -> { reader.wait_readable(100) },
             -> { Queue.new.pop }, -> { system("sleep 100") }, -> { Thread.new { sleep }.join }]
    waits.each do |wait|
      error = nil
      schedule do |scheduler|
        fiber = Fiber.schedule { wait.call rescue error = $! }
        Fiber.schedule { sleep(0) && scheduler.raise(fiber, IOError, "stop") }
      end
      assert_equal "stop", error&.message, wait.inspect
    end
  end

  def test_raise_in_the_current_fiber
    error = assert_raises(IOError) { in_fiber { |scheduler| scheduler.raise(Fiber.current, IOError, "here") } }
    assert_equal "here", error.message
  end

  def test_raise_without_a_fiber_is_kernel_raise
    assert_raises(ArgumentError) { Weft::Scheduler.new.instance_eval { raise ArgumentError } }
  end

  def test_an_interrupted_wait_leaves_nothing_behind
    reader, writer = IO.pipe
    schedule do |scheduler|
      fiber = Fiber.schedule { reader.read(1) rescue sleep(0) }
      scheduler.raise(fiber, IOError)
      scheduler.run
      assert_empty scheduler.waiting
      writer << "x"
      Fiber.schedule { assert_equal "x", reader.read(1) }
    end
  end

  def test_ensure_blocks_may_wait
    events = []
    schedule do |scheduler|
      fiber = Fiber.schedule do
        sleep
      rescue IOError
        events << :rescued
      ensure
        sleep(0)
        events << :ensured
      end
      scheduler.raise(fiber, IOError)
    end
    assert_equal %i[rescued ensured], events
  end

  def test_a_wake_up_before_block_is_not_lost
    reader, writer = IO.pipe
    schedule do |scheduler|
      fiber = Fiber.schedule { reader.read(1) && scheduler.block(:test) }
      scheduler.unblock(:test, fiber)
      writer << "x"
    end
  end

  def test_a_wake_up_and_a_timeout_resume_once
    resumed = 0
    schedule do |scheduler|
      100.times do
        fiber = Fiber.schedule { [scheduler.block(:test, 0), resumed += 1] }
        Fiber.schedule { scheduler.unblock(:test, fiber) }
      end
    end
    assert_equal 100, resumed
  end

  def test_block_reports_its_timeout
    in_fiber do |scheduler|
      assert_equal false, scheduler.block(:test, 0.001)
      fiber = Fiber.current
      Fiber.schedule { scheduler.unblock(:test, fiber) }
      assert_equal true, scheduler.block(:test, 100)
    end
  end

  def test_fibers_that_end_at_once_do_not_starve_io
    reader, writer = IO.pipe
    stop = false
    in_fiber do
      Fiber.schedule { reader.read(1) && stop = true }
      writer << "x"
      Fiber.schedule { nil } until stop
    end
    assert stop
  end

  def test_fibers_that_never_wait_long_do_not_starve_io
    reader, writer = IO.pipe
    stop = false
    schedule do
      2.times { Fiber.schedule { sleep(0) until stop } }
      Fiber.schedule { reader.read(1) && stop = true }
      writer << "x"
    end
    assert stop
  end
end
