# frozen_string_literal: true

module Weft
  class Server
    # The stream of a body with call (Rack 3), and of a partial hijack. The application writes the body
    # of the reply, and may read the body of the request, or the bytes of the other protocol.
    class Stream
      def initialize(request)
        @request = request
        @input = request.input || Input.new(request)
        @is_closed = false
      end

      def read(length = nil, buffer = nil)
        @input.read(length, buffer)
      end

      # Return what has arrived, up to length bytes. Wait only if there is nothing.
      def readpartial(length, buffer = nil)
        data = @input.readpartial(length)
        buffer ? buffer.replace(data) : data
      end

      def gets(*) = @input.gets
      def each(&block) = @input.each(&block)

      def write(*parts)
        raise IOError, "closed stream" if @is_closed

        parts.sum { |part| @request.write(part.to_s) }
      end
      alias syswrite write

      def <<(part)
        write(part)
        self
      end

      # Parts leave at once.
      def flush = self

      def close
        close_write
        nil
      end

      def close_read
        @input.close
      end

      def close_write
        @request.finish unless @is_closed
        @is_closed = true
        nil
      end

      def closed? = @is_closed
    end
  end
end
