# The async gem of Ruby: tasks on fibers, over nio4r (libev). A contender of bench/README.md.
#
# run: ruby --yjit bench/peers/async.rb [WORK COUNT N]
#
# A fiber needs two of the 65,530 mappings that the kernel allows. The program fails with more than
# about 30,000 fibers. The gem has no select, and no messages between threads.
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

def report(*values)
  puts values.map { |value| format('%.7g', value) }.join(' ')
end

# Print the time per operation, after a warm-up. The block runs n operations and returns their
# number.
def measure(n)
  yield [n, WARM_UPS].min
  began = cpu_ns
  done = yield n
  report (cpu_ns - began) / done
end

# One task measures. Between two of its yields, each other task yields once.
def snooze(task, count, n)
  laps = [n / count, 1].max
  warm = 1 + WARM_UPS / count
  (count - 1).times { task.async { |one| (warm + laps).times { one.yield } } }
  task.async do |one|
    warm.times { one.yield }
    began = cpu_ns
    laps.times { one.yield }
    report (cpu_ns - began) / (laps * count)
  end
end

def spin(task, _, n)
  measure(n) do |times|
    times.times { task.async {}.wait }
    times
  end
end

# Each message wakes the receiver in the next tick of the reactor.
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
      raise 'a reply is wrong' unless back.dequeue == i
    end
    times
  end
end

# A queue always has a buffer. A capacity of 1 is the closest equivalent.
def rendezvous(task, _, n)
  measure_trips(task, n, Async::LimitedQueue, 1)
end

# Each side has an unbounded queue.
def mailbox(task, _, n)
  measure_trips(task, n, Async::Queue)
end

# The only lock for tasks is a semaphore of 1.
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

# No other task runs between two waits, so that `whose` needs no lock. A notification wakes in the
# next tick of the reactor. Async::Condition would resume the other task from within its own resume.
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
  report(*keys.zip(before).map { |key, bytes| (status_bytes(key) - bytes).fdiv(count) })
  $stdout.flush
  exit!(true) # without ending the tasks
end

def sleepers(task, count, _)
  began = cpu_ns
  all = Array.new(count) do |i|
    us = 500_000 + (i * 2_654_435_761 & 0xffffffff) % 1_000_000
    task.async { |one| one.sleep(us / 1e6) }
  end
  all.each(&:wait)
  report (cpu_ns - began) / 1e6
end

def echo(task, port, _)
  server = TCPServer.new('127.0.0.1', port)
  server.listen(BACKLOG)
  loop do
    socket = server.accept
    task.async { serve(socket) }
  end
end

# A wrapper stays registered, as in async-io. Plain calls of the socket register for each wait and
# take twice the time.
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

# Exit after an error. The reactor would only log the error and wait for the other tasks.
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
