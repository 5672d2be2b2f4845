# frozen_string_literal: true

require "weft/version"
require "weft/scheduler"

# Fibers on io_uring, epoll or libev: Weft::Scheduler makes the I/O of Ruby concurrent.
module Weft
  # Run a block in a fiber with a scheduler, then all fibers that it has started. Return the value of
  # the block. An exception of a fiber ends the run, and the caller gets it.
  #
  #   Weft.run do
  #     3.times { |i| Fiber.schedule { puts Net::HTTP.get("example.com", "/#{i}") } }
  #   end
  def self.run(**options, &block)
    Scheduler.run(**options, &block)
  end
end
