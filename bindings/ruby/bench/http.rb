# frozen_string_literal: true

# Measure schedulers with an HTTP server in one Ruby thread and wrk.
#
# usage: rake bench BENCH="[--rounds N] [--seconds N] [--connections N]"
#
# The rounds of the servers are interleaved. The table has the medians of requests per second and of
# the CPU time of the server per request. With close per request wrk is saturated before the servers:
# compare CPU times.
require "optparse"

FOLDER = __dir__
SERVERS = %w[blocking threads reference async weft:io_uring weft:epoll weft:libev].freeze
options = { rounds: 3, seconds: 3, connections: 64 }
OptionParser.new do |parser|
  options.each_key { |name| parser.on("--#{name} N", Integer) { |value| options[name] = value } }
end.parse!

# Return the CPU time of a process in seconds.
def cpu_seconds(pid)
  File.read("/proc/#{pid}/stat").split(") ").last.split.values_at(11, 12).sum(&:to_i) / 100.0
end

# Start a server, load it, and return requests per second and microseconds of CPU per request.
def measure(name, mode, options)
  server = IO.popen([RbConfig.ruby, *$LOAD_PATH.flat_map { |folder| ["-I", folder] }, "-W0",
                     "#{FOLDER}/server.rb", name, mode])
  port = Integer(server.gets)
  before = cpu_seconds(server.pid)
  output = IO.popen(["wrk", "-t1", "-c#{options[:connections]}", "-d#{options[:seconds]}",
                     "http://127.0.0.1:#{port}/"], &:read)
  cpu = cpu_seconds(server.pid) - before
  requests = Integer(output[/(\d+) requests in/, 1])
  [Float(output[%r{Requests/sec:\s+(\S+)}, 1]), cpu / requests * 1e6]
ensure
  Process.kill(:TERM, server.pid)
  server.close
end

def median(values) = values.sort[values.size / 2]

%w[keep-alive close].each do |mode|
  results = Hash.new { |hash, name| hash[name] = [] }
  options[:rounds].times { SERVERS.each { |name| results[name] << measure(name, mode, options) } }
  puts format("%-20s %10s %12s %22s", mode, "req/s", "us CPU/req", "min..max us")
  results.each do |name, rounds|
    rates, costs = rounds.transpose
    puts format("%-20s %10d %12.1f %22s", name, median(rates), median(costs),
                format("%.1f..%.1f", *costs.minmax))
  end
end
