# frozen_string_literal: true

# Waits as for an upstream server.
run lambda { |_env|
  sleep 0.01
  [200, { "content-type" => "text/plain" }, ["Hello, world\n"]]
}
