# frozen_string_literal: true

module Weft
  class Server
    # Several processes that accept on one port. The first process never calls weft: it starts
    # workers, replaces those that die, and replaces all of them on HUP or USR2. New workers begin to
    # serve before the old ones stop, so that no connection is refused.
    #
    # Each worker has a socket of its own, and the kernel spreads the connections (SO_REUSEPORT): with
    # one socket, the thread of an idle worker would accept all connections of a burst. The first
    # process keeps all sockets open, so that connections wait for the next worker of a socket.
    #
    # Workers with fresh code are forks if the server loads its application by config or a block.
    # Otherwise the command of the process runs again, for each worker, and the listening socket is
    # handed over.
    class Cluster
      HANDOVER = "WEFT_SERVER_HANDOVER"
      # The command of the process and its folder, before a program changes them.
      COMMAND = (File.read("/proc/self/cmdline").split("\0") if File.readable?("/proc/self/cmdline"))
      FOLDER = Dir.pwd

      # Delays before a worker that died soon is replaced, in seconds. A worker that lived for
      # STABLE_SECONDS is replaced at once.
      BACKOFF_SECONDS = [0, 0.1, 0.2, 0.5, 1, 2, 5].freeze
      STABLE_SECONDS = 10
      # After the drain, kill workers that still run, in seconds.
      KILL_SECONDS = 5

      Child = Struct.new(:pid, :slot, :generation, :ready, :is_ready, :is_stopping, :started, keyword_init: true)

      class << self
        # Return the descriptors that a supervisor has handed over to this process, or nil.
        def handed_over
          text = ENV.delete(HANDOVER) or return
          listener, ready, life = text.split(",").map { |number| Integer(number) }
          { listener: Socket.for_fd(listener), ready: IO.for_fd(ready), life: IO.for_fd(life) }
        end

        # Serve in this process until TERM, or until the supervisor has ended.
        def run_worker(server, listener:, ready:, life:)
          signals = Thread::Queue.new
          worker = Worker.new(server.application, listener, server.options)
          trap_signals(signals)
          worker.start
          ready.write(".")
          ready.close
          watch_life(life, signals)
          Thread.new { signals.pop && worker.stop }
          end_worker(server, worker.wait)
        end

        private

        # Ctrl-C goes to all processes of a terminal. The supervisor then sends TERM.
        def trap_signals(signals)
          trap("TERM") { signals << :stop }
          %w[INT HUP USR2].each { |name| trap(name, "IGNORE") }
          trap("CHLD", "DEFAULT")
        end

        def watch_life(life, signals)
          Thread.new do
            life.read
            signals << :stop
          end
        end

        # Fibers that never end must not keep the process.
        def end_worker(server, has_ended)
          return if has_ended

          server.log "process #{Process.pid} ends with unfinished fibers"
          [$stdout, $stderr].each(&:flush)
          exit!(0)
        end
      end

      def initialize(server)
        @server = server
        @options = server.options
        @children = {}
        @deaths = Hash.new(0)
        @next_start = Hash.new(0)
        @generation = @newest_generation = 0
      end

      # Run until TERM or INT, and until all workers have ended.
      def run
        @life_reader, @life_writer = IO.pipe
        @signal_reader, @signal_writer = IO.pipe
        old = trap_signals
        @server.application unless @server.loader?
        @listeners = Listener.open_each(@server.listener, @options)
        @server.log "#{@server.url} (process #{Process.pid}, #{@options[:processes]} workers)"
        step until @is_over
      ensure
        old&.each { |name, handler| trap(name, handler || "DEFAULT") }
        @children.each_key { |pid| kill(:KILL, pid) }
        @listeners&.each { |listener| listener.close unless listener.equal?(@options[:listener]) || listener.closed? }
      end

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def trap_signals
        %w[TERM INT HUP USR2 CHLD].to_h do |name|
          [name, trap(name) { @signal_writer.write_nonblock("#{name}\n", exception: false) }]
        end
      end

      def step
        start_missing unless @is_stopping
        wait_for_event
        reap
        finish_restart if @is_restarting
        kill_late if @is_stopping
        @is_over = @is_stopping && @children.empty?
      end

      # Wait for a signal, a worker that is ready, or the time of the next start.
      def wait_for_event
        starting = @children.values.reject { |child| child.ready.closed? }
        readable, = IO.select([@signal_reader, *starting.map(&:ready)], nil, nil, wait_seconds)
        readable&.delete(@signal_reader) && handle_signals
        starting.each { |child| note_ready(child) if readable&.include?(child.ready) }
      end

      def wait_seconds
        times = @next_start.values.select { |time| time > now }
        times << @kill_at if @kill_at
        times.empty? ? 60 : (times.min - now).clamp(0.01, 60)
      end

      # A worker that ends before it is ready closes its pipe, too.
      def note_ready(child)
        child.is_ready = child.ready.read_nonblock(1, exception: false) == "."
        child.ready.close
        fail_restart(child) unless child.is_ready
      end

      def handle_signals
        @signal_reader.read_nonblock(4096).each_line do |line|
          case line.chomp
          when "TERM", "INT" then stop
          when "HUP", "USR2" then restart
          end
        end
      end

      # Workers

      def slots = (0...@options[:processes].to_i)

      def start_missing
        slots.each do |slot|
          next if @children.each_value.any? { |child| child.slot == slot && child.generation == @generation }

          start_worker(slot) if @next_start[slot] <= now
        end
      end

      def start_worker(slot)
        ready, writer = IO.pipe
        pid = @generation.positive? && !@server.loader? ? spawn_worker(slot, writer) : fork_worker(slot, ready, writer)
        @children[pid] = Child.new(pid: pid, slot: slot, generation: @generation, ready: ready, started: now)
      ensure
        writer&.close
      end

      def fork_worker(slot, ready, writer)
        fork do
          [@life_writer, @signal_reader, @signal_writer, ready].each(&:close)
          @children.each_value { |child| child.ready.close unless child.ready.closed? }
          Cluster.run_worker(@server, listener: @listeners[slot], ready: writer, life: @life_reader)
        end
      end

      # Run the command of this process again. Its call of Weft::Server#run becomes a worker.
      def spawn_worker(slot, writer)
        ios = [@listeners[slot], writer, @life_reader]
        command = @options[:restart_command] || COMMAND
        spawn({ HANDOVER => ios.map(&:fileno).join(",") }, *command, chdir: FOLDER, **ios.to_h { |io| [io, io] })
      end

      def reap
        @children.keys.each do |pid|
          next unless Process.wait(pid, Process::WNOHANG)

          child = @children.delete(pid)
          child.ready.close unless child.ready.closed?
          note_death(child, $?) unless child.is_stopping
        end
      end

      def note_death(child, status)
        @server.log "worker #{child.pid} has ended: #{status.inspect}"
        return fail_restart(child) if @is_restarting && child.generation == @generation

        @deaths[child.slot] = now - child.started > STABLE_SECONDS ? 0 : @deaths[child.slot] + 1
        delay = BACKOFF_SECONDS[[@deaths[child.slot], BACKOFF_SECONDS.size - 1].min]
        @next_start[child.slot] = now + delay
      end

      # Restart

      def restart
        return if @is_stopping || @is_restarting

        @is_restarting = true
        @old_generation = @generation
        @generation = @newest_generation += 1
        @next_start.clear
        @server.log "restart"
      end

      # Stop the old workers when all new ones serve.
      def finish_restart
        fresh = @children.values.select { |child| child.generation == @generation && child.is_ready }
        return unless fresh.size == slots.size

        @is_restarting = false
        terminate { |child| child.generation < @generation }
        @server.log "restarted"
      end

      # A new worker has failed. Keep the old ones.
      def fail_restart(child)
        return unless @is_restarting && child.generation == @generation

        @is_restarting = false
        terminate { |other| other.generation == @generation }
        @generation = @old_generation
        @server.log "the restart has failed, the old workers continue"
      end

      # Stop

      # A second signal does not wait for the drain.
      def stop
        @kill_at = @is_stopping ? now : now + @options[:drain] + KILL_SECONDS
        @is_stopping = true
        @is_restarting = false
        terminate { true }
      end

      def terminate
        @children.each_value do |child|
          next if child.is_stopping || !yield(child)

          child.is_stopping = true
          kill(:TERM, child.pid)
        end
      end

      def kill_late
        return if now < @kill_at

        @children.each_key { |pid| kill(:KILL, pid) }
      end

      def kill(signal, pid)
        Process.kill(signal, pid)
      rescue Errno::ESRCH
        nil
      end
    end
  end
end
