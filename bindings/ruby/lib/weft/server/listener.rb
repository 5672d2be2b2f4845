# frozen_string_literal: true

module Weft
  class Server
    # The socket that a server listens on.
    module Listener
      BACKLOG = 4096

      module_function

      def open(options)
        return open_unix(options[:socket]) if options[:socket]

        open_tcp(options[:host], Integer(options[:port]), options[:processes].to_i > 1)
      end

      def open_tcp(host, port, is_shared)
        address = Addrinfo.tcp(host, port)
        socket = Socket.new(address.pfamily, Socket::SOCK_STREAM, 0)
        socket.setsockopt(:SOCKET, :REUSEADDR, true)
        socket.setsockopt(:SOCKET, :REUSEPORT, true) if is_shared
        socket.bind(address)
        socket.listen(BACKLOG)
        socket
      end

      # Return a socket for each process, with the address of the first one. Processes share a Unix
      # socket, or a socket of the program.
      def open_each(first, options)
        address = first.local_address
        return [first] * options[:processes].to_i if address.unix? || options[:listener]

        rest = Array.new(options[:processes].to_i - 1) { open_tcp(address.ip_address, address.ip_port, true) }
        [first, *rest]
      end

      # Replace the socket of a server that has ended, but not one in use.
      def open_unix(path)
        File.unlink(path) if File.socket?(path) && !in_use?(path)
        server = UNIXServer.new(path)
        server.listen(BACKLOG)
        server
      end

      def in_use?(path)
        UNIXSocket.new(path).close
        true
      rescue SystemCallError
        false
      end

      # Return [host, port] for SERVER_NAME and SERVER_PORT.
      def address(listener, options)
        return [options[:host].to_s, options[:tls] ? "443" : "80"] if listener.local_address.unix?

        [options[:host].to_s, listener.local_address.ip_port.to_s]
      end

      def url(listener, options)
        return "unix:#{listener.local_address.unix_path}" if listener.local_address.unix?

        host, port = address(listener, options)
        host = "[#{host}]" if host.include?(":")
        "#{options[:tls] ? "https" : "http"}://#{host}:#{port}"
      end
    end
  end
end
