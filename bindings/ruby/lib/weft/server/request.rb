# frozen_string_literal: true

module Weft
  class Server
    # A request, and the way to its reply. The extension has the methods that never wait.
    class Request
      PIECE_BYTES = 64 << 10

      # The reader of the body, without wrappers of the application. nil: the request has no body.
      attr_accessor :input

      # Read up to max bytes of the body, or of the other protocol. Return nil at the end.
      def read(max = PIECE_BYTES)
        while (data = read_some(max)) == false
          waiter(0).pop
        end
        data
      end

      # Write a part of the body. Wait while the client has not read earlier parts. Raise Errno::EPIPE
      # if the client has closed the connection.
      def write(data)
        offset = 0
        size = data.bytesize
        while offset < size
          taken = write_some(data, offset)
          waiter(1).pop if taken.zero?
          offset += taken
        end
        size
      end

      # Wait until the reply was sent, or has failed.
      def wait_over
        waiter(1)
        waiter(1).pop until over?
      end

      # Hijack the connection: env["rack.hijack"] is this object. Return a socket. In HTTP/1, the
      # application writes the whole reply.
      def call
        env["rack.hijack_io"] ||= begin
          ours, theirs = UNIXSocket.pair
          hijack_with(theirs.fileno)
          theirs.close
          ours
        end
      end
    end
  end
end
