# frozen_string_literal: true

require "tempfile"

module Weft
  class Server
    # The body of a request without a body. All such requests share one object.
    class EmptyInput
      def read(length = nil, buffer = nil)
        buffer&.clear
        length.nil? || length.zero? ? (buffer || +"") : nil
      end

      def gets(*) = nil

      def each
        self
      end

      def rewind = 0
      def close = nil
    end

    # The body of a request, read as it arrives (rack.input). The client waits while the application
    # does not read.
    class Input
      def initialize(request)
        @request = request
        @buffer = +"".b
      end

      def read(length = nil, buffer = nil)
        raise ArgumentError, "negative length #{length}" if length&.negative?

        fill(length)
        data = length ? @buffer.slice!(0, length) : take_all
        data = nil if length&.positive? && data.empty?
        return data unless buffer

        buffer.replace(data || "")
        data && buffer
      end

      # Return what has arrived, up to length bytes. Wait only if there is nothing.
      def readpartial(length)
        return +"" if length.zero?

        add_piece if @buffer.empty?
        raise EOFError, "end of file reached" if @buffer.empty?

        @buffer.slice!(0, length)
      end

      def gets(*)
        nil while !@buffer.include?("\n") && add_piece
        @buffer.slice!(0, (@buffer.index("\n") || @buffer.bytesize) + 1).then { |line| line unless line.empty? }
      end

      def each
        while (piece = take_piece)
          yield piece
        end
        self
      end

      def close
        @is_closed = true
        @buffer.clear
        nil
      end

      private

      def take_all
        data = @buffer
        @buffer = +"".b
        data
      end

      def take_piece
        return next_piece if @buffer.empty?

        take_all
      end

      # Fill the buffer with length bytes, or with the whole body.
      def fill(length)
        nil while (length.nil? || @buffer.bytesize < length) && add_piece
      end

      def add_piece
        piece = next_piece
        @buffer << piece if piece
      end

      def next_piece
        @is_closed ? nil : @request.read
      end
    end

    # Rack 2 requires that an application can read a body again. What was read goes to memory, and
    # beyond SPOOL_BYTES to a file without a name.
    class RewindableInput < Input
      SPOOL_BYTES = 64 << 10

      def initialize(request)
        super
        @spool = StringIO.new(+"".b)
        @position = 0
      end

      def rewind
        @buffer.clear
        @position = 0
      end

      def close
        super
        @spool.close
      end

      private

      def next_piece
        return nil if @is_closed

        piece = replay || receive
        @position += piece.bytesize if piece
        piece
      end

      def replay
        return if @position == @spool.size

        @spool.pos = @position
        @spool.read(Request::PIECE_BYTES)
      end

      def receive
        piece = @request.read or return
        spill if @spool.is_a?(StringIO) && @spool.size + piece.bytesize > SPOOL_BYTES
        @spool.seek(0, IO::SEEK_END)
        @spool.write(piece)
        piece
      end

      def spill
        file = Tempfile.create("weft-body", binmode: true)
        File.unlink(file.path)
        file.sync = true
        file.write(@spool.string)
        @spool = file
      end
    end
  end
end
