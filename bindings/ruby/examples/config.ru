# frozen_string_literal: true

# Run with: rackup -s weft -O processes=2 config.ru
#
#   curl http://127.0.0.1:9292/
#   curl -N http://127.0.0.1:9292/count        a streaming reply
#   curl --data-binary @FILE http://127.0.0.1:9292/digest
#   a WebSocket client at ws://127.0.0.1:9292/echo
require "digest"
require "weft/server"

TEXT = { "content-type" => "text/plain" }.freeze

# Each part leaves at once. Other requests run while this one sleeps.
count = lambda do |_env|
  parts = Enumerator.new do |out|
    5.times do |i|
      out << "#{i + 1}\n"
      sleep 0.2
    end
  end
  [200, TEXT.dup, parts]
end

# The body is read as it arrives. A client that is faster waits.
digest = lambda do |env|
  sum = Digest::SHA256.new
  while (piece = env["rack.input"].read(65_536))
    sum << piece
  end
  [200, TEXT.dup, ["#{sum.hexdigest}\n"]]
end

echo = lambda do |env|
  Weft::WebSocket.open(env) do |socket|
    socket.each { |message| socket.send(message) }
  end
end

map("/count") { run count }
map("/digest") { run digest }
map("/echo") { run echo }
run ->(env) { [200, TEXT.dup, ["Hello from #{env["SERVER_PROTOCOL"]}\n"]] }
