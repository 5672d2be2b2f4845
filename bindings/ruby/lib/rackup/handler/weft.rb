# frozen_string_literal: true

# Rack 3: rackup -s weft
require "rackup/handler"
require "weft/server/handler"

module Rackup
  module Handler
    # See Weft::Server::Handler.
    Weft = ::Weft::Server::Handler

    register :weft, Weft
  end
end
