# frozen_string_literal: true

require "helper"

# Clients of databases, unchanged. tests/stock/servers starts the servers and sets the variables.
class TestDatabases < SchedulerTest
  # Each query waits for a lock that the last fiber releases: one after the other would hang.
  def test_postgres
    address = ENV.fetch("STOCK_POSTGRES") { skip "STOCK_POSTGRES is not set" }
    require "pg"
    holder = PG.connect(address)
    holder.exec("SELECT pg_advisory_lock(1)")
    values = []
    schedule do
      10.times do |i|
        Fiber.schedule { values << PG.connect(address).exec("SELECT pg_advisory_lock_shared(1), #{i}").getvalue(0, 1) }
      end
      Fiber.schedule do
        sleep(0.001) until waiting_queries(holder) == 10
        holder.exec("SELECT pg_advisory_unlock(1)")
      end
    end
    assert_equal ("0".."9").to_a, values.sort
  end

  def test_redis
    path = ENV.fetch("STOCK_REDIS") { skip "STOCK_REDIS is not set" }
    require "redis"
    values = []
    schedule do
      10.times { |i| Fiber.schedule { values << Redis.new(path: path).blpop("weft-#{i}", timeout: 60) } }
      Fiber.schedule do
        redis = Redis.new(path: path)
        sleep(0.001) until redis.info["blocked_clients"] == "10"
        10.times { |i| redis.rpush("weft-#{i}", i) }
      end
    end
    assert_equal Array.new(10) { |i| ["weft-#{i}", i.to_s] }, values.sort
  end

  private

  def waiting_queries(connection)
    connection.exec("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'").getvalue(0, 0).to_i
  end
end
