# frozen_string_literal: true

require "helper"

class TestGC < SchedulerTest
  def work
    reader, writer = IO.pipe
    queue = Queue.new
    result = []
    schedule do
      Fiber.schedule { result << reader.gets }
      Fiber.schedule { result << queue.pop }
      Fiber.schedule { result << (Timeout.timeout(0.001) { sleep } rescue :timeout) }
      Fiber.schedule { writer.puts("line") || queue << :value }
    end
    assert_equal ["line\n", :timeout, :value], result.sort_by(&:to_s)
  ensure
    [reader, writer].each(&:close)
  end

  def test_stress
    GC.stress = true
    work
  ensure
    GC.stress = false
  end

  def test_compaction
    before = GC.auto_compact
    GC.auto_compact = true
    10.times { work }
    schedule do
      100.times { |i| Fiber.schedule { sleep(i / 10_000.0) && "#{i}" * 100 } }
      Fiber.schedule { 5.times { GC.compact && sleep(0) } }
    end
  ensure
    GC.auto_compact = before
  end

  def test_a_scheduler_with_waiting_fibers_becomes_garbage
    output, status = run_ruby(<<~RUBY)
      require "weft"
      50.times do
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

  def test_finished_fibers_are_freed
    in_fiber do
      1000.times { Fiber.schedule { sleep(0) } }
      sleep(0.001)
      GC.start
      assert_operator ObjectSpace.each_object(Fiber).count, :<, 500
    end
  end
end
