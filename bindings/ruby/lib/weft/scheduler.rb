# frozen_string_literal: true

require "fiber"
require "weft/scheduler_ext"

# Ruby passes an IO::Buffer to io_read and io_write. The first one prints a warning, which is of no use to
# programs that do not use the class themselves.
experimental = Warning[:experimental]
begin
  Warning[:experimental] = false
  IO::Buffer.new(0)
ensure
  Warning[:experimental] = experimental
end

module Weft
  # A scheduler for the fibers of a thread (Fiber::Scheduler). The extension implements most hooks.
  # This file has those that run rarely.
  class Scheduler
    # Names for the option backend and for the environment variable WEFT_BACKEND.
    BACKENDS = %w[io_uring epoll libev libev-epoll libev-poll libev-select].freeze

    class << self
      # Run a block in a fiber, and return its value. See Weft.run.
      def run(**options)
        raise ThreadError, "the thread already has a scheduler" if Fiber.scheduler

        scheduler = new(**options)
        result = nil
        begin
          Fiber.set_scheduler(scheduler)
          Fiber.schedule { result = yield(scheduler) }
          scheduler.run
        ensure
          Fiber.set_scheduler(nil)
        end
        result
      end

      # Return the name of the backend that a new scheduler uses, for example "io_uring".
      def backend
        probe(nil)
      end

      # Return the names of the backends that work here.
      def backends
        BACKENDS.select { |name| works?(name) }
      end

      private

      def probe(name)
        scheduler = new(backend: name)
        scheduler.backend
      ensure
        scheduler&.close
      end

      # libweft uses another backend, and reports it on stderr, if a known backend does not work.
      def works?(name)
        probe(name) == name
      rescue ArgumentError
        false
      end
    end

    # backend: a Symbol or String of BACKENDS. nil: WEFT_BACKEND, or the best that works.
    # stall_warning: report fibers that run for this number of seconds without a wait.
    # offload: run zlib, file operations and the like in worker threads (Ruby 3.4 or later).
    def initialize(backend: nil, stall_warning: nil, offload: false)
      setup(backend&.to_s, stall_warning)
      extend(Offload) if offload
    end

    # Run fibers until none is ready or waiting, or until #stop. In Ruby 4.0, a signal raises its
    # exception here and not in a fiber.
    if RUBY_VERSION >= "4.0"
      def run
        Thread.handle_interrupt(SignalException => :never) { run_loop(true) }
      end
    else
      def run
        run_loop(false)
      end
    end

    # Run all fibers, then close the scheduler.
    def close
      return Fiber.set_scheduler(nil) if Fiber.scheduler.equal?(self)

      scheduler_close
    end

    # Ruby calls this hook at the end of the thread and in Fiber.set_scheduler. If the thread ends with
    # an exception or by Thread#kill, fibers that wait do not continue.
    def scheduler_close(error = $!)
      return if closed?

      begin
        run unless error || Thread.current.status == "aborting"
      ensure
        release
      end
    end

    # Wait for a child process. A thread waits if there is no pidfd for the wait: any child, process
    # groups, and children that stop.
    def process_wait(pid, flags)
      if pid.positive? && flags.zero?
        status = Process::Status.wait(pid, Process::WNOHANG)
        return status if status

        return Process::Status.wait(pid, Process::WNOHANG) if wait_exit(pid)
      end
      wait_in_thread { Process::Status.wait(pid, flags) }
    end

    if RUBY_VERSION >= "3.2"
      # Ruby itself checks which descriptors are ready: it knows about buffered input.
      def io_select(readables, writables = nil, exceptables = nil, timeout = nil)
        deadline = timeout && now + timeout
        events = select_events(readables, writables, exceptables)
        loop do
          ready = Fiber.blocking { IO.select(readables, writables, exceptables, 0) }
          return ready if ready

          rest = deadline && deadline - now
          return nil if rest && rest <= 0

          wait_any(events, rest)
        end
      end
    end

    if RUBY_VERSION >= "4.0"
      # Fibers that wait for the descriptor get Errno::EBADF.
      def io_close(descriptor)
        close_descriptor(descriptor)
      end
    end

    # The option offload.
    module Offload
      if private_method_defined?(:offload) || Scheduler.private_method_defined?(:offload)
        def blocking_operation_wait(work)
          work.call unless offload(work)
        end
      elsif RUBY_VERSION >= "3.4"
        def blocking_operation_wait(work)
          wait_in_thread { work.call }
        end
      end
    end
    private_constant :Offload

    private

    def wait_in_thread(&block)
      thread = Thread.new(&block)
      thread.report_on_exception = false
      thread.value
    ensure
      thread&.kill
    end

    def select_events(readables, writables, exceptables)
      lists = [[readables, IO::READABLE], [writables, IO::WRITABLE], [exceptables, IO::PRIORITY]]
      lists.flat_map do |ios, events|
        Array(ios).map { |io| [IO.try_convert(io).fileno, events] }
      end
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def report_stall(fiber, seconds)
      place = caller_locations.find { |location| location.path != __FILE__ }
      warn format("weft: %<fiber>p ran for %<ms>d ms before it waited at %<place>s",
                  fiber: fiber, ms: seconds * 1000, place: place)
    end
  end
end
