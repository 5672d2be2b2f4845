# frozen_string_literal: true

module Weft
  class Server
    # Serves requests in one process: a thread of C for HTTP, and a thread of Ruby with a scheduler.
    class Worker
      # After the drain, the time for fibers that no client waits for, in seconds.
      LATE_SECONDS = 1.0

      def initialize(app, listener, options)
        @listener = listener
        @options = options
        @application = Application.new(app, Listener.address(listener, options), options)
        @fibers = 0
        @ended = Thread::Queue.new
        @joining = Mutex.new # several threads may wait for the end
      end

      def start
        @bridge = Bridge.new(bridge_options)
        @thread = Thread.new { run_scheduler }
        @thread.name = "weft"
        self
      end

      def stop
        @bridge.stop
      end

      # Wait until the server has ended. Return whether all fibers have ended too.
      def wait
        @ended.pop
        @bridge.stop # after a failure of the thread
        failure = @joining.synchronize { @bridge.join }
        raise failure if failure

        !@thread.join(LATE_SECONDS).nil?
      end

      def exchanges
        @bridge.exchanges
      end

      private

      def bridge_options
        tls = @options[:tls]
        @options.slice(*LIMITS).merge(listener: @listener.fileno, drain: @options[:drain],
                                      cert: tls && tls.fetch(:cert).to_s, key: tls && tls[:key]&.to_s)
      end

      def run_scheduler
        Fiber.set_scheduler(@options[:scheduler] ? @options[:scheduler].call : Scheduler.new)
        Fiber.schedule { dispatch }
        Fiber.set_scheduler(nil) # runs all fibers
      ensure
        @ended.close
      end

      # Wait for requests, and start fibers for them.
      def dispatch
        io = IO.for_fd(@bridge.fileno, autoclose: false)
        until @bridge.ended?
          io.wait_readable
          @bridge.take
          serve_pending
        end
        @bridge.take # fibers may wait for the last notices
      ensure
        @ended.close
      end

      # A fiber serves requests one after the other until none is pending. If its request waits, this
      # method continues, and another fiber serves the next request.
      def serve_pending
        @bridge.cork
        Fiber.schedule { serve_requests } while @bridge.pending.positive? && @fibers < @options[:max_fibers]
      ensure
        @bridge.uncork
      end

      def serve_requests
        @fibers += 1
        while (request = @bridge.next_request(@application.template))
          @application.serve(request)
        end
      ensure
        @fibers -= 1
      end
    end
  end
end
