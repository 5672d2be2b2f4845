-- What bench/messages.c and sync.c measure, with Tarantool's fibers in Lua: the same names, one
-- line each. There is no mutex in Lua and no select. A condition has no mutex: fibers of one
-- thread need none for what they do not touch across a wait, and the measurement does without.
local fiber = require('fiber')
local clock = require('clock')

local ROUNDS = 21
local NUMBER = 10000
local ROOM = 128

local function now()
    return tonumber(clock.proc64())
end

local function spin(fn)
    local f = fiber.new(fn)
    f:set_joinable(true)
    return f
end

local function chan_round_trip(n)
    local there, back = fiber.channel(), fiber.channel()
    local other = spin(function()
        for _ = 1, n do
            back:put(there:get())
        end
    end)
    local got
    local began = now()
    for i = 1, n do
        there:put(i)
        got = back:get()
    end
    local took = now() - began
    other:join()
    assert(got == n, 'the last answer is wrong')
    return took
end

local function chan_stream(n)
    local there, sum = fiber.channel(ROOM), 0
    local other = spin(function()
        for _ = 1, n do
            sum = sum + there:get()
        end
    end)
    local began = now()
    for i = 1, n do
        there:put(i)
    end
    other:join()
    local took = now() - began
    assert(sum == n * (n + 1) / 2, 'messages are missing')
    return took
end

local function cond_round_trip(n)
    local cond, whose = fiber.cond(), 0
    local function take_turns(mine)
        for _ = 1, n do
            while whose ~= mine do
                cond:wait()
            end
            whose = 1 - mine
            cond:signal()
        end
    end
    local other = spin(function() take_turns(1) end)
    local began = now()
    take_turns(0)
    other:join()
    return now() - began
end

-- Print the median of the rounds, after one to warm up.
local function measure(what, run)
    local took = {}
    run(NUMBER)
    for i = 1, ROUNDS do
        took[i] = run(NUMBER) / NUMBER
    end
    table.sort(took)
    print(('%s %.2f'):format(what, took[(ROUNDS + 1) / 2]))
end

measure('channel round trip', chan_round_trip)
measure('channel of 128, a message', chan_stream)
measure('condition round trip', cond_round_trip)
os.exit(0)
