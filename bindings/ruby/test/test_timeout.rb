# frozen_string_literal: true

require "helper"

class TestTimeout < SchedulerTest
  def test_timeout_interrupts_a_read
    reader, = IO.pipe
    in_fiber { assert_raises(Timeout::Error) { Timeout.timeout(0.01) { reader.read(1) } } }
  end

  def test_timeout_raises_the_given_class_and_message
    error = in_fiber { assert_raises(IOError) { Timeout.timeout(0.01, IOError, "late") { sleep } } }
    assert_equal "late", error.message
  end

  def test_timeout_returns_the_value_of_the_block
    assert_equal 5, in_fiber { Timeout.timeout(100) { sleep(0) && 5 } }
  end

  def test_a_timeout_that_is_over_has_no_effect
    in_fiber do |scheduler|
      Timeout.timeout(0.001) { nil }
      sleep(0.005)
      assert_empty scheduler.waiting
    end
  end

  def test_nested_timeouts
    in_fiber do
      assert_raises(IOError) { Timeout.timeout(0.01, IOError) { Timeout.timeout(100) { sleep } } }
      assert_raises(IOError) { Timeout.timeout(100) { Timeout.timeout(0.01, IOError) { sleep } } }
    end
  end

  def test_a_timeout_interrupts_only_its_fiber
    reader, writer = IO.pipe
    events = []
    schedule do
      Fiber.schedule { events << reader.read(1) }
      Fiber.schedule do
        Timeout.timeout(0.01) { sleep }
      rescue Timeout::Error
        events << :timeout
        writer << "x"
      end
    end
    assert_equal [:timeout, "x"], events
  end

  def test_wait_readable_returns_nil_after_its_timeout
    reader, writer = IO.pipe
    in_fiber do
      assert_nil reader.wait_readable(0.01)
      writer << "x"
      assert_same reader, reader.wait_readable(100)
      assert_same writer, writer.wait_writable(100)
    end
  end

  def test_the_timeout_of_an_io_raises
    skip "IO#timeout needs Ruby 3.2" unless IO.method_defined?(:timeout=)
    reader, = IO.pipe
    reader.timeout = 0.01
    in_fiber { assert_raises(IO::TimeoutError) { reader.read(1) } }
  end

  def test_queue_pop_with_a_timeout
    skip "Queue#pop(timeout:) needs Ruby 3.2" unless RUBY_VERSION >= "3.2"
    in_fiber { assert_nil Queue.new.pop(timeout: 0.01) }
  end
end
