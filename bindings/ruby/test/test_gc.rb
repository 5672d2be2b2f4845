# frozen_string_literal: true

require "helper"

class TestGC < SchedulerTest
  WORK = <<~RUBY
    require "timeout"
    require "weft"
    def work
      reader, writer = IO.pipe
      queue = Queue.new
      result = []
      Weft.run do
        Fiber.schedule { result << reader.gets }
        Fiber.schedule { result << queue.pop }
        Fiber.schedule { result << (Timeout.timeout(0.001) { sleep } rescue :timeout) }
        Fiber.schedule { writer.puts("line") || queue << :value }
      end
      [reader, writer].each(&:close)
      result.sort_by(&:to_s)
    end
  RUBY

  def test_stress
    output, = run_ruby(<<~RUBY)
      #{WORK}
      GC.stress = true
      result = work
      GC.stress = false
      p result
    RUBY
    assert_equal %(["line\\n", :timeout, :value]\n), output
  end

  def test_compaction
    output, = run_ruby(<<~RUBY)
      #{WORK}
      GC.auto_compact = true
      10.times { work }
      ended = 0
      Weft.run do
        100.times { |i| Fiber.schedule { sleep(i / 10_000.0) && ended += 1 } }
        Fiber.schedule { 5.times { GC.compact && sleep(0) } }
      end
      p ended, work
    RUBY
    assert_equal %(100\n["line\\n", :timeout, :value]\n), output
  end

  def test_a_scheduler_with_waiting_fibers_becomes_garbage
    output, status = run_ruby(<<~RUBY)
      require "weft"
      20.times do
        Thread.new do
          Weft.run do |scheduler|
            reader, = IO.pipe
            3.times { Fiber.schedule { reader.read(1) } }
            Fiber.schedule { sleep }
            sleep(0)
            raise "leave"
          end
        rescue RuntimeError
          nil
        end.join
        GC.start
      end
      puts "done"
    RUBY
    assert_equal "done\n", output
    assert_predicate status, :success?
  end

  # A finalizer that has to run is an interrupt, and prevents a wait without the GVL.
  def test_finalizers_do_not_prevent_waits
    output, = run_ruby(<<~RUBY)
      require "weft"
      reader, writer = IO.pipe
      Weft.run do
        Fiber.schedule { 20_000.times { ObjectSpace.define_finalizer(Object.new, proc {}) && reader.gets } }
        20_000.times { writer.puts("x") || sleep(0) }
      end
      puts "done"
    RUBY
    assert_equal "done\n", output
  end

  def test_finished_fibers_are_freed
    in_fiber do
      1000.times { Fiber.schedule { sleep(0) } }
      sleep(0.001)
      GC.start
      assert_operator ObjectSpace.each_object(Fiber).count, :<, 500
    end
  end
end
