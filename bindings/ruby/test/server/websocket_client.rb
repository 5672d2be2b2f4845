# frozen_string_literal: true

require "digest"
require "securerandom"

# A small WebSocket client of HTTP/1.1, without extensions.
class WebSocketClient
  TEXT = 1
  BINARY = 2
  CLOSE = 8

  attr_reader :status, :headers

  def initialize(client, path = "/", headers = {})
    @client = client
    key = SecureRandom.base64(16)
    client.request("GET", path, { "Connection" => "Upgrade", "Upgrade" => "websocket", "Sec-WebSocket-Key" => key,
                                  "Sec-WebSocket-Version" => "13" }.merge(headers))
    @status, @headers = client.head
    accept = Digest::SHA1.base64digest("#{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
    raise "no handshake: #{@status}" if @status == 101 && @headers["sec-websocket-accept"] != [accept]
  end

  def send_frame(kind, data)
    size = data.bytesize
    length = case size
             when 0..125 then [size | 128].pack("C")
             when 126..65_535 then [126 | 128, size].pack("Cn")
             else [127 | 128, size].pack("CQ>")
             end
    @client.write([128 | kind].pack("C") + length + "\0\0\0\0" + data.b)
  end

  # Return [kind, data] of the next message, or nil.
  def receive
    first, second = @client.io.read(2)&.unpack("CC")
    return unless second

    size = second & 127
    size = @client.io.read(2).unpack1("n") if size == 126
    size = @client.io.read(8).unpack1("Q>") if size == 127
    [first & 15, @client.io.read(size)]
  end

  def close(code = 1000)
    send_frame(CLOSE, [code].pack("n"))
  end
end
