%% Processes of Erlang. A contender of bench/README.md.
%%
%% build: erlc -o build/peers bench/peers/erlang_peer.erl
%% run:   erl +S 2:1 +P 2000000 -noinput -pa build/peers -run erlang_peer main -extra [WORK ...]
%%
%% One scheduler runs all processes (+S 2:1). Workloads with two threads put the second scheduler
%% online. The runtime reports its CPU time in ms, so that workloads are repeated until they take
%% 0.1 s. A process has a mailbox. There are no channels and no locks.
-module(erlang_peer).
-export([main/0]).

-define(WARM_UPS, 1000).
-define(MEASURE_MS, 100).
-define(MINUTE_MS, 60000).
-define(BUFFER_BYTES, 4096).
-define(BACKLOG, 4096).
-define(ACTIVE, 100).

main() ->
    case init:get_plain_arguments() of
        [] -> [io:format("~s~n", [Name]) || {Name, _} <- works()], halt();
        [Name | Numbers] when length(Numbers) =:= 2 ->
            run(proplists:get_value(Name, works()), [list_to_integer(Number) || Number <- Numbers]);
        _ -> usage()
    end.

works() ->
    [{"snooze", fun snooze/2}, {"spin", fun spin/2}, {"mailbox", fun mailbox/2},
     {"cords", fun cords/2}, {"flow", fun flow/2}, {"timeout", fun timeout/2},
     {"parked", fun parked/2}, {"sleepers", fun sleepers/2}, {"echo", fun echo/2}].

run(undefined, _) -> usage();
run(Work, [Count, N]) -> Work(Count, N), halt().

usage() ->
    io:format(standard_error, "usage: erlang_peer [WORK COUNT N]~n", []),
    halt(2).

%% Measurement

report(Value) -> io:format("~.7g~n", [float(Value)]).

cpu_ms() -> {Ms, _} = erlang:statistics(runtime), Ms.

%% Print the CPU time per operation in ns. Do(N) runs N operations.
measure_cpu(N, Do) ->
    Do(min(N, ?WARM_UPS)),
    repeat_cpu(N, Do, 1).

repeat_cpu(N, Do, Times) ->
    Began = cpu_ms(),
    times(Times, fun() -> Do(N) end),
    case cpu_ms() - Began of
        Took when Took >= ?MEASURE_MS -> report(Took * 1.0e6 / (Times * N));
        _ -> repeat_cpu(N, Do, Times * 2)
    end.

measure_real(N, Do) ->
    Do(min(N, ?WARM_UPS)),
    Began = erlang:monotonic_time(nanosecond),
    Do(N),
    report((erlang:monotonic_time(nanosecond) - Began) / N).

times(0, _) -> ok;
times(N, Do) -> Do(), times(N - 1, Do).

%% Workloads with one thread

%% One process measures. Between two of its yields, each other process yields once. The others never
%% end.
snooze(Count, N) ->
    [spawn(fun yield_on/0) || _ <- lists:seq(2, Count)],
    Laps = max(1, N div Count),
    await(spawn_monitor(fun() ->
        yield_times(2),
        measure_cpu(Laps * Count, fun(Yields) -> yield_times(max(1, Yields div Count)) end)
    end)).

yield_on() -> erlang:yield(), yield_on().

yield_times(0) -> ok;
yield_times(N) -> erlang:yield(), yield_times(N - 1).

await({Pid, Monitor}) ->
    receive {'DOWN', Monitor, process, Pid, normal} -> ok end.

spin(_, N) ->
    measure_cpu(N, fun spin_times/1).

spin_times(0) -> ok;
spin_times(N) -> await(spawn_monitor(fun() -> ok end)), spin_times(N - 1).

mailbox(_, N) ->
    Other = spawn_link(fun answer/0),
    measure_cpu(N, fun(Trips) -> ask(Other, Trips) end).

answer() ->
    receive {From, Value} -> From ! Value, answer() end.

ask(_, 0) -> ok;
ask(Other, N) ->
    Other ! {self(), N},
    receive N -> ask(Other, N - 1) end.

timeout(_, N) ->
    measure_cpu(N, fun arm_times/1).

arm_times(0) -> ok;
arm_times(N) ->
    erlang:cancel_timer(erlang:start_timer(?MINUTE_MS, self(), late)),
    arm_times(N - 1).

%% Workloads with two threads

%% Spawn a process on the second scheduler. Otherwise both processes soon run on one scheduler. The
%% option `scheduler` is not documented.
spawn_there(Fun) ->
    erlang:system_flag(schedulers_online, 2),
    spawn_opt(Fun, [link, {scheduler, 2}]).

%% Run Fun in a process on the first scheduler.
run_here(Fun) ->
    {_, Monitor} = spawn_opt(Fun, [monitor, {scheduler, 1}]),
    receive {'DOWN', Monitor, process, _, normal} -> ok end.

cords(_, N) ->
    Other = spawn_there(fun answer/0),
    run_here(fun() -> measure_real(N, fun(Trips) -> ask(Other, Trips) end) end).

flow(_, N) ->
    Other = spawn_there(fun count/0),
    run_here(fun() -> measure_real(N, fun(Messages) -> send_all(Other, Messages) end) end).

%% Receive {From, N}, then N messages, then send done to From. Repeat.
count() ->
    receive {From, N} -> count_down(N), From ! done, count() end.

count_down(0) -> ok;
count_down(N) -> receive one -> count_down(N - 1) end.

send_all(Other, N) ->
    Other ! {self(), N},
    times(N, fun() -> Other ! one end),
    receive done -> ok end.

%% Memory and time

status_bytes(Key) ->
    {ok, Text} = file:read_file("/proc/self/status"),
    {match, [Kib]} = re:run(Text, Key ++ ":\\s*(\\d+)", [{capture, all_but_first, list}]),
    list_to_integer(Kib) * 1024.

parked(Count, _) ->
    Resident = status_bytes("VmRSS"),
    Tables = status_bytes("VmPTE"),
    times(Count, fun() -> spawn(fun() -> receive never -> ok end end) end),
    await(spawn_monitor(fun() -> ok end)),
    Grown = [status_bytes("VmRSS") - Resident, status_bytes("VmPTE") - Tables],
    io:format("~.7g ~.7g~n", [Bytes / Count || Bytes <- Grown]).

%% Timers have a resolution of 1 ms. Round up, so that no sleep is too short.
sleepers(Count, _) ->
    Began = cpu_ms(),
    Self = self(),
    make_sleepers(Count, Self),
    times(Count, fun() -> receive done -> ok end end),
    report(cpu_ms() - Began).

make_sleepers(0, _) -> ok;
make_sleepers(I, Self) ->
    Us = 500000 + (((I - 1) * 2654435761) band 16#ffffffff) rem 1000000,
    spawn(fun() -> receive after (Us + 999) div 1000 -> Self ! done end end),
    make_sleepers(I - 1, Self).

%% Echo

echo(Port, _) ->
    os:set_signal(sigterm, default),
    Options = [binary, {ip, {127, 0, 0, 1}}, {active, false}, {nodelay, true}, {reuseaddr, true},
               {backlog, ?BACKLOG}, {buffer, ?BUFFER_BYTES}],
    {ok, Listener} = gen_tcp:listen(Port, Options),
    accept(Listener).

accept(Listener) ->
    case gen_tcp:accept(Listener) of
        {ok, Socket} ->
            Pid = spawn(fun() -> receive start -> serve(Socket) end end),
            ok = gen_tcp:controlling_process(Socket, Pid),
            Pid ! start;
        {error, _} ->
            ok
    end,
    accept(Listener).

%% The socket sends ?ACTIVE messages, then becomes passive. This is as fast as {active, true}, which
%% has no limit. gen_tcp:recv and {active, once} take twice the time.
serve(Socket) ->
    inet:setopts(Socket, [{active, ?ACTIVE}]),
    serve_active(Socket).

serve_active(Socket) ->
    receive
        {tcp, Socket, Data} -> send_back(Socket, Data);
        {tcp_passive, Socket} -> serve(Socket);
        {tcp_closed, Socket} -> ok;
        {tcp_error, Socket, _} -> ok
    end.

send_back(Socket, Data) ->
    case gen_tcp:send(Socket, Data) of
        ok -> serve_active(Socket);
        {error, _} -> gen_tcp:close(Socket)
    end.
