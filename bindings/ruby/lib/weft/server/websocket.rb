# frozen_string_literal: true

module Weft
  # A WebSocket connection of Weft::Server, over HTTP/1.1 or HTTP/2.
  #
  #   run do |env|
  #     Weft::WebSocket.open(env, protocols: ["chat"]) do |socket|
  #       socket.each { |message| socket.send(message) }
  #     end
  #   end
  #
  # Any fiber or thread may send. One fiber at a time receives. The server answers pings, closes, and
  # compresses. When it drains, receive returns nil.
  class WebSocket
    NORMAL = 1000
    INTERNAL_ERROR = 1011

    # Return whether a request asks for a WebSocket connection.
    def self.request?(env)
      env["HTTP_UPGRADE"].to_s.split(/\s*,\s*/).any? { |name| name.casecmp?("websocket") }
    end

    # Accept a connection, call the block, and close the connection. Return a response for Rack, which
    # the server ignores. If the handshake is invalid, the server refuses it, and the block is not
    # called.
    #
    # protocols: subprotocols in the order of preference. origins: pages that may connect; "*" for all,
    # nil for those of the same origin.
    def self.open(env, protocols: nil, origins: nil, max_message_bytes: 1 << 20, compress: true)
      request = env["weft.request"] or raise ArgumentError, "Weft::WebSocket needs Weft::Server"
      socket = new(request)
      if socket.accept(protocols, origins, max_message_bytes, compress)
        begin
          yield socket
          socket.close
        rescue Exception # rubocop:disable Lint/RescueException
          socket.close(INTERNAL_ERROR)
          raise
        end
      end
      [200, Server::Application::TEXT.dup, []]
    end

    # Private: see open.
    def initialize(request)
      @request = request
    end

    # Private: see open.
    def accept(protocols, origins, max_message_bytes, compress)
      @request.websocket_accept(protocols && Array(protocols).join(", "), origins && Array(origins).join(", "),
                                max_message_bytes, compress)
      while (is_open = @request.websocket_open?) == false
        @request.waiter(0).pop
      end
      is_open
    end

    # Wait for a message. Return a String: in UTF-8 for text, in BINARY for other messages. Return nil
    # after the end of the connection.
    def receive
      while (message = @request.receive_message) == false
        @request.waiter(0).pop
      end
      message
    end

    def each
      while (message = receive)
        yield message
      end
      self
    end

    # Send a message: binary if the String is in BINARY, otherwise text. Wait while the client has not
    # read earlier messages. Raise Errno::EPIPE after the end of the connection.
    def send(message)
      message.encoding == Encoding::BINARY ? send_binary(message) : send_text(message)
    end
    alias << send
    alias write send

    def send_text(message)
      text = message.encoding == Encoding::UTF_8 ? message : message.encode(Encoding::UTF_8)
      raise ArgumentError, "the message is not valid UTF-8" unless text.valid_encoding?

      put(text, true)
    end

    def send_binary(message)
      put(message, false)
    end

    # Close the connection. Messages that were sent before still arrive. If the code or the reason is
    # invalid, the client gets INTERNAL_ERROR.
    def close(code = NORMAL, reason = nil)
      @request.websocket_close(code, reason)
      nil
    end

    # The code of the client's close. 1006: the connection has ended without one.
    def close_code = @request.websocket_info[0]
    def close_reason = @request.websocket_info[1]

    # The subprotocol, or "".
    def protocol = @request.websocket_info[2]

    private

    def put(message, is_text)
      @request.waiter(1).pop until @request.send_message(message, is_text)
      self
    end
  end
end
