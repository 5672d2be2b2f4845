# frozen_string_literal: true

# Replaces test/fiber/scheduler.rb in a copy of the sources of Ruby, so that Ruby's own tests run on
# Weft::Scheduler. Child processes of the tests load this file, too, without options: WEFT_LOAD_PATH has
# the folders of the gem.
ENV.fetch("WEFT_LOAD_PATH").split(":").reverse_each { |folder| $LOAD_PATH.unshift(folder) }

require "socket"
require "weft/scheduler"

begin
  require "io/nonblock"
rescue LoadError
  nil
end

GC.auto_compact = true if ENV["WEFT_TEST_COMPACT"]

class Scheduler < Weft::Scheduler
  # The tests of Ruby 4.0 use the loop fiber of a scheduler.
  def transfer
    run
  end
end

class IOBufferScheduler < Scheduler
end

class BrokenUnblockScheduler < Scheduler
  def unblock(blocker, fiber)
    super
    raise "Broken unblock!"
  end
end

class SleepingUnblockScheduler < Scheduler
  def unblock(blocker, fiber)
    super
    sleep(0.1)
  end
end

class SleepingBlockingScheduler < Scheduler
  def kernel_sleep(duration = nil)
    Fiber.blocking { sleep(0.0001) }
    super
  end
end

# Records what is written.
class IOScheduler < Scheduler
  def operations
    @operations ||= []
  end

  def io_write(io, buffer, length, offset)
    descriptor = io.fileno
    string = buffer.get_string
    operations << [:io_write, descriptor, string]
    Fiber.blocking { buffer.write(io, 0, offset) }
  end
end

# Fails all transfers.
class IOErrorScheduler < Scheduler
  def io_read(*)
    -Errno::EBADF::Errno
  end

  def io_write(*)
    -Errno::EINVAL::Errno
  end
end
