-- Fibers and channels of Tarantool in Lua. A contender of bench/README.md.
--
-- run: tarantool bench/peers/tarantool.lua [WORK COUNT N]
--
-- tarantool.c measures locks, memory and sockets, which Lua shares with C. A condition variable has
-- no mutex. Fibers of one thread need a mutex only for data that they use across a wait.
local fiber = require('fiber')
local clock = require('clock')

local WARM_UPS = 1000

local function now()
    return tonumber(clock.proc64())
end

local function report(value)
    print(('%.7g'):format(value))
end

local function spin(fn)
    local f = fiber.new(fn)
    f:set_joinable(true)
    return f
end

local function measure(n, run)
    run(math.min(n, WARM_UPS))
    local began = now()
    run(n)
    report((now() - began) / n)
end

local function yield(times)
    for _ = 1, times do
        fiber.yield()
    end
end

local works = {}

-- One fiber measures. Between two of its yields, each other fiber yields once.
function works.snooze(count, n)
    local laps = math.max(1, math.floor(n / count))
    local warm = 1 + math.floor(WARM_UPS / count)
    local fibers, took = {}, nil
    for i = 1, count - 1 do
        fibers[i] = spin(function() yield(warm + laps) end)
    end
    fibers[count] = spin(function()
        yield(warm)
        local began = now()
        yield(laps)
        took = now() - began
    end)
    for i = 1, count do
        fibers[i]:join()
    end
    report(took / (laps * count))
end

function works.spin(_, n)
    measure(n, function(times)
        for _ = 1, times do
            spin(function() end):join()
        end
    end)
end

function works.rendezvous(_, n)
    measure(n, function(times)
        local there, back = fiber.channel(), fiber.channel()
        local other = spin(function()
            for _ = 1, times do
                back:put(there:get())
            end
        end)
        for i = 1, times do
            there:put(i)
            assert(back:get() == i, 'a reply is wrong')
        end
        other:join()
    end)
end

function works.buffered(count, n)
    measure(n, function(times)
        local there, sum = fiber.channel(count), 0
        local other = spin(function()
            for _ = 1, times do
                sum = sum + there:get()
            end
        end)
        for _ = 1, times do
            there:put(1)
        end
        other:join()
        assert(sum == times, 'messages are missing')
    end)
end

function works.condition(_, n)
    measure(n, function(times)
        local cond, whose = fiber.cond(), 0
        local function take_turns(mine)
            for _ = 1, times do
                while whose ~= mine do
                    cond:wait()
                end
                whose = 1 - mine
                cond:signal()
            end
        end
        local other = spin(function() take_turns(1) end)
        take_turns(0)
        other:join()
    end)
end

local work = works[arg[1]]
if #arg == 0 then
    for name in pairs(works) do
        print(name)
    end
elseif #arg == 3 and work then
    work(tonumber(arg[2]), tonumber(arg[3]))
else
    io.stderr:write('usage: tarantool tarantool.lua [WORK COUNT N]\n')
    os.exit(2)
end
os.exit(0)
