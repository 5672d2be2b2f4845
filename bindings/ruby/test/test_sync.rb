# frozen_string_literal: true

require "helper"
require "monitor"

class TestSync < SchedulerTest
  def test_queue_between_fibers
    queue = Queue.new
    values = []
    schedule do
      Fiber.schedule { 3.times { values << queue.pop } }
      Fiber.schedule { 3.times { |i| queue << i } }
    end
    assert_equal [0, 1, 2], values
  end

  def test_sized_queue_blocks_its_writer
    queue = SizedQueue.new(1)
    values = []
    schedule do
      Fiber.schedule { 5.times { |i| queue << i } && queue.close }
      Fiber.schedule { while (value = queue.pop) do values << value end }
    end
    assert_equal [0, 1, 2, 3, 4], values
  end

  def test_mutex_excludes_fibers
    mutex = Mutex.new
    inside = most = 0
    schedule do
      20.times do
        Fiber.schedule do
          mutex.synchronize do
            most = [most, inside += 1].max
            sleep(0)
            inside -= 1
          end
        end
      end
    end
    assert_equal [0, 1], [inside, most]
  end

  def test_mutex_between_fibers_and_threads
    mutex = Mutex.new
    count = 0
    add = -> { 100.times { mutex.synchronize { (old = count) && sleep(0) && count = old + 1 } } }
    threads = Array.new(2) { Thread.new { Weft.run { 2.times { Fiber.schedule(&add) } } } }
    threads << Thread.new(&add)
    threads.each(&:join)
    assert_equal 500, count
  end

  def test_condition_variable_wakes_its_waiters
    mutex = Mutex.new
    condition = ConditionVariable.new
    ready = false
    woken = 0
    schedule do
      5.times do
        Fiber.schedule do
          mutex.synchronize { condition.wait(mutex) until ready }
          woken += 1
        end
      end
      Fiber.schedule { mutex.synchronize { (ready = true) && condition.broadcast } }
    end
    assert_equal 5, woken
  end

  def test_condition_variable_with_a_timeout
    mutex = Mutex.new
    in_fiber { mutex.synchronize { ConditionVariable.new.wait(mutex, 0.01) } }
    refute_predicate mutex, :locked?
  end

  def test_monitor
    monitor = Monitor.new
    condition = monitor.new_cond
    values = []
    schedule do
      Fiber.schedule do
        monitor.synchronize { condition.wait while values.empty? }
        values << 2
      end
      Fiber.schedule { monitor.synchronize { (values << 1) && condition.signal } }
    end
    assert_equal [1, 2], values
  end

  def test_thread_value_waits_for_a_thread
    assert_equal 7, in_fiber { Thread.new { sleep(0) && 7 }.value }
  end

  # Two queues that a thread and a fiber answer: a lost wake-up hangs.
  def test_wake_ups_of_another_thread_are_not_lost
    there = Queue.new
    back = Queue.new
    times = []
    echo = Thread.new { while (value = there.pop) do back << [value, now] end }
    in_fiber do
      500.times do |i|
        there << i
        value, sent = back.pop
        times << now - sent
        assert_equal i, value
      end
      there << nil
    end
    echo.join
    report_latency(times.sort)
  end

  def test_wake_ups_of_many_threads_are_not_lost
    queue = Queue.new
    received = []
    in_fiber do
      threads = Array.new(4) { |i| Thread.new { 200.times { |j| queue << [i, j] } } }
      800.times { received << queue.pop }
      threads.each(&:join)
    end
    assert_equal 800, received.uniq.size
    4.times { |i| assert_equal (0...200).to_a, received.select { |from, _| from == i }.map(&:last) }
  end

  # With the GVL held in the poll, the thread would never write.
  def test_other_threads_run_while_the_scheduler_waits
    reader, writer = IO.pipe
    ticks = 0
    schedule do
      Fiber.schedule { assert_equal "done", reader.read }
      Thread.new { 50.times { sleep(0) && ticks += 1 } && writer.write("done") && writer.close }
    end
    assert_equal 50, ticks
  end

  private

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  def report_latency(times)
    return unless ENV["WEFT_TEST_FIGURES"]

    puts format("\ncross-thread wake: median %<median>.0f us, max %<max>.0f us",
                median: times[times.size / 2] * 1e6, max: times.last * 1e6)
  end
end
