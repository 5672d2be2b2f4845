# frozen_string_literal: true

require "helper"
require "net/http"
require "openssl"
require "resolv"

class TestNet < SchedulerTest
  # A server that answers when all clients have sent their requests: one after the other would hang.
  def serve_together(count, server)
    waiting = []
    count.times do
      socket = server.accept
      Fiber.schedule do
        nil until ["\r\n", nil].include?(socket.gets)
        waiting << Fiber.current
        answer_all(waiting) if waiting.size == count
        sleep
      rescue IOError
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        socket.close
      end
    end
  end

  def answer_all(fibers)
    scheduler = Fiber.scheduler
    fibers.each { |fiber| Fiber.schedule { scheduler.raise(fiber, IOError) } }
  end

  def test_twenty_requests_at_the_same_time
    server = TCPServer.new("127.0.0.1", 0)
    bodies = []
    schedule do
      Fiber.schedule { serve_together(20, server) }
      20.times { Fiber.schedule { bodies << Net::HTTP.get("127.0.0.1", "/", server.local_address.ip_port) } }
    end
    assert_equal ["ok"] * 20, bodies
  end

  def test_a_read_timeout
    server = TCPServer.new("127.0.0.1", 0)
    in_fiber do
      http = Net::HTTP.new("127.0.0.1", server.local_address.ip_port)
      http.read_timeout = 0.01
      http.max_retries = 0
      assert_raises(Net::ReadTimeout) { http.get("/") }
    end
  end

  def test_connect_to_a_closed_port
    server = TCPServer.new("127.0.0.1", 0)
    port = server.local_address.ip_port
    server.close
    in_fiber { assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("127.0.0.1", port) } }
  end

  def test_udp
    in_fiber do
      server = UDPSocket.new
      server.bind("127.0.0.1", 0)
      Fiber.schedule { UDPSocket.new.send("ping", 0, "127.0.0.1", server.addr[1]) }
      assert_equal "ping", server.recvfrom(10).first
    end
  end

  def test_names_of_the_hosts_file
    in_fiber do
      addresses = Addrinfo.getaddrinfo("localhost", 80, nil, :STREAM).map(&:ip_address)
      refute_empty addresses & %w[127.0.0.1 ::1]
      assert_equal addresses.first, IPSocket.getaddress("localhost")
    end
  end

  def test_unknown_names
    in_fiber do |scheduler|
      assert_nil scheduler.address_resolve("no-such-host.invalid")
      assert_raises(SocketError) { TCPSocket.new("no-such-host.invalid", 80) }
    end
  end

  def test_a_lookup_can_be_interrupted
    in_fiber do
      20.times do
        Timeout.timeout(0.0001) { Addrinfo.getaddrinfo("localhost", 80) }
      rescue Timeout::Error
        nil
      end
    end
  end

  def test_tls_client_and_server_in_one_thread
    server = OpenSSL::SSL::SSLServer.new(TCPServer.new("127.0.0.1", 0), tls_context)
    replies = []
    schedule do
      Fiber.schedule { 5.times { tls_echo(server.accept) } }
      5.times { |i| Fiber.schedule { replies << tls_ask(server.addr[1], "hello #{i}") } }
    end
    assert_equal Array.new(5) { |i| "HELLO #{i}\n" }, replies.sort
  end

  private

  def tls_echo(socket)
    Fiber.schedule { (line = socket.gets) && socket.puts(line.upcase) || socket.close }
  end

  def tls_ask(port, text)
    socket = OpenSSL::SSL::SSLSocket.new(TCPSocket.new("127.0.0.1", port))
    socket.sync_close = true
    socket.connect
    socket.puts(text)
    socket.gets
  ensure
    socket&.close
  end

  def tls_context
    key = OpenSSL::PKey::EC.generate("prime256v1")
    certificate = OpenSSL::X509::Certificate.new
    certificate.subject = certificate.issuer = OpenSSL::X509::Name.parse("/CN=localhost")
    certificate.not_before = Time.now - 60
    certificate.not_after = Time.now + 3600
    certificate.public_key = key
    certificate.serial = 1
    certificate.sign(key, "SHA256")
    OpenSSL::SSL::SSLContext.new.tap { |context| context.add_certificate(certificate, key) }
  end
end
