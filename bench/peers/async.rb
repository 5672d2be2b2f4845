# Ruby's async gem: tasks on Ruby's fibers, nio4r (libev) below; a contender of bench/README.md.
#
# run: ruby --yjit bench/peers/async.rb [WORK COUNT N]
#
# A fiber takes two mappings of the kernel's 65,530: more than 30,000 or so cannot be made, and the
# program fails with that. It has no select, and nothing that passes messages between threads.
require 'async'
require 'async/queue'
require 'async/semaphore'
require 'socket'

WARM_UPS = 1000
BUFFER_BYTES = 4096
BACKLOG = 4096

def cpu_ns
  Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :float_second) * 1e9
end

def say(*values)
  puts values.map { |value| format('%.7g', value) }.join(' ')
end

# The block does so many, and says how many it did; some come before, to warm up.
def measure(n)
  yield [n, WARM_UPS].min
  began = cpu_ns
  done = yield n
  say (cpu_ns - began) / done
end

# One of them takes the time: between its yields, all others have theirs.
def snooze(task, count, n)
  laps = [n / count, 1].max
  warm = 1 + WARM_UPS / count
  (count - 1).times { task.async { |one| (warm + laps).times { one.yield } } }
  task.async do |one|
    warm.times { one.yield }
    began = cpu_ns
    laps.times { one.yield }
    say (cpu_ns - began) / (laps * count)
  end
end

def spin(task, _, n)
  measure(n) do |times|
    times.times { task.async {}.wait }
    times
  end
end

# Each message wakes the receiver in the reactor's next turn.
def buffered(task, count, n)
  measure(n) do |times|
    queue = Async::LimitedQueue.new(count)
    receiver = task.async { times.times.sum { queue.dequeue } }
    times.times { queue << 1 }
    raise 'messages are missing' unless receiver.wait == times

    times
  end
end

def measure_trips(task, n, queue, *arguments)
  measure(n) do |times|
    there = queue.new(*arguments)
    back = queue.new(*arguments)
    task.async { times.times { back << there.dequeue } }
    times.times do |i|
      there << i
      raise 'an answer is wrong' unless back.dequeue == i
    end
    times
  end
end

# Queues have room: for one message, that is the closest.
def rendezvous(task, _, n)
  measure_trips(task, n, Async::LimitedQueue, 1)
end

# A queue without a bound for each of the two.
def mailbox(task, _, n)
  measure_trips(task, n, Async::Queue)
end

# A semaphore of one is the only lock for tasks.
def mutex(task, count, n)
  measure(n) do |times|
    lock = Async::Semaphore.new
    each = [times / count, 1].max
    all = Array.new(count) do
      task.async { |one| each.times { lock.acquire { one.yield } } }
    end
    all.each(&:wait)
    each * count
  end
end

# Between two waits no other task runs, so what they look at needs no lock. A notification wakes in
# the reactor's next turn: Async::Condition would resume the other from within its own resume.
def condition(task, _, n)
  measure(n) do |times|
    changed = Async::Notification.new
    whose = 0
    take_turns = lambda do |mine|
      times.times do
        changed.wait until whose == mine
        whose = 1 - mine
        changed.signal
      end
    end
    other = task.async { take_turns.call(1) }
    take_turns.call(0)
    other.wait
    times
  end
end

def timeout(task, _, n)
  measure(n) do |times|
    times.times { task.with_timeout(60) {} }
    times
  end
end

def status_bytes(key)
  File.read('/proc/self/status')[/^#{key}:\s*(\d+)/, 1].to_i * 1024
end

def parked(task, count, _)
  never = Async::Condition.new
  keys = %w[VmRSS VmPTE]
  before = keys.map { |key| status_bytes(key) }
  count.times { task.async { never.wait } }
  say(*keys.zip(before).map { |key, bytes| (status_bytes(key) - bytes).fdiv(count) })
  $stdout.flush
  exit!(true) # without ending them all
end

def sleepers(task, count, _)
  began = cpu_ns
  all = Array.new(count) do |i|
    us = 500_000 + (i * 2_654_435_761 & 0xffffffff) % 1_000_000
    task.async { |one| one.sleep(us / 1e6) }
  end
  all.each(&:wait)
  say (cpu_ns - began) / 1e6
end

def echo(task, port, _)
  server = TCPServer.new('127.0.0.1', port)
  server.listen(BACKLOG)
  loop do
    socket = server.accept
    task.async { serve(socket) }
  end
end

# A wrapper stays registered, as async-io has it: half of what plain calls of the socket take, which
# register it anew for each wait.
def serve(socket)
  socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
  wrapper = Async::Wrapper.new(socket)
  buffer = String.new(capacity: BUFFER_BYTES)
  while (got = socket.read_nonblock(BUFFER_BYTES, buffer, exception: false))
    got == :wait_readable ? wrapper.wait_readable : write_all(wrapper, buffer)
  end
rescue SystemCallError
  nil
ensure
  wrapper.close
end

def write_all(wrapper, bytes)
  until bytes.empty?
    sent = wrapper.io.write_nonblock(bytes, exception: false)
    sent == :wait_writable ? wrapper.wait_writable : bytes.slice!(0, sent)
  end
end

WORKS = %w[snooze spin rendezvous buffered mutex condition mailbox timeout parked sleepers
           echo].freeze

# The reactor would only log what goes wrong, and then wait for the other tasks.
def run(task, work, count, n)
  send(work, task, count, n)
rescue StandardError => e
  warn "#{work}: #{e.message}"
  exit!(false)
end

if ARGV.empty?
  puts WORKS
elsif ARGV.size == 3 && WORKS.include?(ARGV[0])
  Async { |task| run(task, ARGV[0], ARGV[1].to_i, ARGV[2].to_i) }
else
  abort "usage: #{$PROGRAM_NAME} [WORK COUNT N]"
end
