# frozen_string_literal: true

# Support of the tests. WEFT_BACKEND selects the backend of all schedulers.
require "minitest/autorun"
require "socket"
require "timeout"
require "weft"

# The test methods of a class run in their own threads, each with a scheduler.
class SchedulerTest < Minitest::Test
  # A test that waits for longer has lost a wake-up.
  HANG_SECONDS = 20

  # Run a block in a thread with a scheduler, then all fibers. Return the value of the block.
  def schedule(**options)
    in_thread do
      scheduler = @scheduler = Weft::Scheduler.new(**options)
      Fiber.set_scheduler(scheduler)
      value = yield(scheduler)
      scheduler.run
      value
    end
  end

  # Run a block in a fiber of a new scheduler, in a thread.
  def in_fiber(**options, &block)
    in_thread { Weft.run(**options) { |scheduler| block.call(@scheduler = scheduler) } }
  end

  def in_thread(&block)
    thread = Thread.new(&block)
    thread.report_on_exception = false
    unless thread.join(HANG_SECONDS)
      report = describe_hang(thread)
      thread.kill
      flunk report
    end
    thread.value
  end

  def describe_hang(thread)
    fibers = @scheduler ? @scheduler.waiting.map { |fiber, reason| [reason, *fiber.backtrace] } : []
    ["the test hangs", *thread.backtrace, @scheduler&.statistics, *fibers].join("\n")
  end

  # Run Ruby code in a child process. Return its output and status.
  def run_ruby(code)
    libs = $LOAD_PATH.flat_map { |folder| ["-I", folder] }
    reader, writer = IO.pipe
    pid = Process.spawn(RbConfig.ruby, *libs, "-W0", "-e", code, out: writer, err: %i[child out])
    writer.close
    output = Timeout.timeout(HANG_SECONDS) { reader.read }
    Process.wait(pid)
    [output, $?]
  rescue Timeout::Error
    Process.kill(:KILL, pid)
    Process.wait(pid)
    flunk "the child hangs"
  ensure
    reader&.close
  end
end
