# frozen_string_literal: true

# Rack 2: rackup -s weft
require "rack/handler"
require "weft/server/handler"

module Rack
  module Handler
    # See Weft::Server::Handler.
    Weft = ::Weft::Server::Handler

    register :weft, "Rack::Handler::Weft"
  end
end
