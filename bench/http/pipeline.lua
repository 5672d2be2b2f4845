-- wrk: send DEPTH requests at once on each connection. usage: wrk -s pipeline.lua URL -- DEPTH
local batch

function init(args)
    batch = string.rep(wrk.format("GET", "/"), tonumber(args[1]))
end

function request()
    return batch
end
