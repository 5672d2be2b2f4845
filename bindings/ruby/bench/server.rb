# frozen_string_literal: true

# The server of the benchmark, in one thread.
#
# usage: ruby bench/server.rb SCHEDULER close|keep-alive
#
# SCHEDULER: blocking, threads, async, reference (test/fiber/scheduler.rb of Ruby, from WEFT_REFERENCE),
# or weft. Prints its port.
require "socket"

NAME, MODE = ARGV
RESPONSES = {
  "close" => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
  "keep-alive" => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
}.freeze
RESPONSE = RESPONSES.fetch(MODE)
KEEPS_ALIVE = MODE == "keep-alive"

def serve(socket)
  while (line = socket.gets)
    next unless line == "\r\n"

    socket.write(RESPONSE)
    break unless KEEPS_ALIVE
  end
rescue SystemCallError
  nil
ensure
  socket.close
end

def listen
  server = Socket.new(:INET, :STREAM)
  server.setsockopt(:SOCKET, :REUSEADDR, true)
  server.bind(Addrinfo.tcp("127.0.0.1", 0))
  server.listen(Socket::SOMAXCONN)
  puts server.local_address.ip_port
  $stdout.flush
  server
end

def accept_in_fibers(server)
  Fiber.schedule do
    loop do
      socket, = server.accept
      Fiber.schedule { serve(socket) }
    end
  end
end

def run_scheduler(scheduler)
  Fiber.set_scheduler(scheduler)
  accept_in_fibers(listen)
  scheduler.run
end

trap(:TERM) { exit! }

case NAME
when "blocking"
  server = listen
  loop { serve(server.accept.first) }
when "threads"
  server = listen
  loop { Thread.new(server.accept.first) { |socket| serve(socket) } }
when "async"
  require "async"
  Async do |task|
    server = listen
    loop do
      socket, = server.accept
      task.async { serve(socket) }
    end
  end
when "reference"
  require ENV.fetch("WEFT_REFERENCE")
  run_scheduler(Scheduler.new)
when /\Aweft(?::(.*))?\z/
  require "weft"
  run_scheduler(Weft::Scheduler.new(backend: $1))
else
  abort "unknown scheduler: #{NAME}"
end
