# frozen_string_literal: true

# A small HTTP server: a fiber per connection, one thread.
#
# usage: ruby examples/http_server.rb [PORT [BACKEND]]
require "socket"
require "weft"

port = Integer(ARGV.fetch(0, 3002))
scheduler = Weft::Scheduler.new(backend: ARGV[1])
Fiber.set_scheduler(scheduler)

# Read requests and answer them until the client closes the connection. A client that resets it, or
# closes it before the answer, ends only its own fiber.
def serve(socket)
  while (line = socket.gets)
    next unless line == "\r\n"

    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
  end
rescue Errno::EPIPE, Errno::ECONNRESET
  nil
ensure
  socket.close
end

Fiber.schedule do
  server = TCPServer.new("127.0.0.1", port)
  puts "http://127.0.0.1:#{server.local_address.ip_port}/ on #{scheduler.backend}"
  $stdout.flush
  loop do
    socket = server.accept
    Fiber.schedule { serve(socket) }
  end
end

begin
  scheduler.run
rescue Interrupt
  exit
end
