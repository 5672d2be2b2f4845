# frozen_string_literal: true

require_relative "lib/weft/version"

Gem::Specification.new do |spec|
  spec.name = "weft"
  spec.version = Weft::VERSION
  spec.summary = "A fiber scheduler and a Rack server on io_uring, epoll or libev"
  spec.description = "Weft::Scheduler makes the I/O of Ruby concurrent: sockets, Net::HTTP, processes, locks, " \
                     "timeouts and name lookups wait in their fiber, and other fibers run meanwhile."
  spec.authors = ["The weft authors"]
  spec.license = "MIT"
  spec.required_ruby_version = ">= 3.1"
  # ext/libweft exists after `rake vendor`. Without it the gem needs an installed libweft.
  spec.files = Dir.chdir(__dir__) do
    Dir["*.md", "LICENSE", "lib/**/*.rb", "sig/**/*.rbs", "ext/**/*.{rb,c,h,S}", "examples/**/*"]
  end
  spec.extensions = Dir.glob("ext/*/extconf.rb", base: __dir__).sort
end
