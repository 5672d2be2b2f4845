// g++ -O2 -o fiber bench/peers/fiber.cpp -l:libboost_fiber.a -l:libboost_context.a -pthread
//
// Boost.Fiber 1.74, with its default scheduler (round robin) and stacks from its pool. Fibers of
// spin and parked start at once (launch::dispatch). A buffered channel has a power of two as
// capacity, and holds one value less. Between threads, a channel wakes the other scheduler with a
// condition variable. There is no select and no mailbox. Sockets need Asio, another library.
#include "peer.h"

#include <boost/fiber/all.hpp>

#include <thread>
#include <vector>

namespace fibers = boost::fibers;

using stack_pool = fibers::pooled_fixedsize_stack;
using channel = fibers::buffered_channel<std::size_t>;
using direct_channel = fibers::unbuffered_channel<std::size_t>;

// The capacity of the channel between threads.
constexpr std::size_t flow_room = 1024;
// The largest number of stacks that the pool takes from malloc at once. The pool doubles its
// allocations up to this number. One allocation of a million stacks would fail.
constexpr std::size_t stacks_at_once_max = 8192;

static stack_pool &stacks()
{
    static thread_local stack_pool pool(PEER_STACK_BYTES, 32, stacks_at_once_max);
    return pool;
}

template <typename Fn> static fibers::fiber spin_one(fibers::launch how, Fn fn)
{
    return fibers::fiber(how, std::allocator_arg, stacks(), fn);
}

template <typename Fn> static void spin_and_join(std::size_t count, Fn fn)
{
    std::vector<fibers::fiber> all;
    all.reserve(count);
    for (std::size_t i = 0; i < count; i++)
        all.push_back(spin_one(fibers::launch::post, [fn, i] { fn(i); }));
    for (auto &one : all)
        one.join();
}

static void snooze(std::size_t count, std::size_t n)
{
    peer_crowd crowd = peer_crowd_make(count, n);
    spin_and_join(count, [&crowd](std::size_t) {
        while (peer_crowd_continues(&crowd))
            boost::this_fiber::yield();
    });
    bench_print(crowd.took_ns / static_cast<double>(n));
}

static double spin_pass(std::size_t, std::size_t n)
{
    double began = bench_cpu_ns();
    for (std::size_t i = 0; i < n; i++)
        spin_one(fibers::launch::dispatch, [] {}).join();
    return (bench_cpu_ns() - began) / static_cast<double>(n);
}

static void spin(std::size_t count, std::size_t n)
{
    bench_measure(spin_pass, count, n);
}

template <typename Channel> static void answer(Channel &there, Channel &back, std::size_t n)
{
    for (std::size_t i = 0; i < n; i++)
        back.push(there.value_pop());
}

template <typename Channel> static void ask(Channel &there, Channel &back, std::size_t n)
{
    for (std::size_t i = 1; i <= n; i++) {
        there.push(i);
        bench_require(back.value_pop() == i);
    }
}

static double rendezvous_pass(std::size_t, std::size_t n)
{
    direct_channel there, back;
    auto other = spin_one(fibers::launch::post, [&] { answer(there, back, n); });
    double began = bench_cpu_ns();
    ask(there, back, n);
    double took = bench_cpu_ns() - began;
    other.join();
    return took / static_cast<double>(n);
}

static void rendezvous(std::size_t count, std::size_t n)
{
    bench_measure(rendezvous_pass, count, n);
}

static void send_all(channel &there, std::size_t n)
{
    for (std::size_t i = 1; i <= n; i++)
        there.push(i);
}

static void receive_all(channel &there, std::size_t n)
{
    std::size_t sum = 0;
    for (std::size_t i = 0; i < n; i++)
        sum += there.value_pop();
    bench_require(sum == n * (n + 1) / 2);
}

static double buffered_pass(std::size_t count, std::size_t n)
{
    channel there(count);
    auto other = spin_one(fibers::launch::post, [&] { receive_all(there, n); });
    double began = bench_cpu_ns();
    send_all(there, n);
    other.join();
    return (bench_cpu_ns() - began) / static_cast<double>(n);
}

static void buffered(std::size_t count, std::size_t n)
{
    bench_measure(buffered_pass, count, n);
}

// unlock does not hand over the mutex. A running fiber may lock it again before a waiter.
static double mutex_pass(std::size_t count, std::size_t n)
{
    fibers::mutex mutex;
    std::size_t left = n;
    double began = bench_cpu_ns();
    spin_and_join(count, [&mutex, &left](std::size_t) {
        while (left > 0) {
            left--;
            mutex.lock();
            boost::this_fiber::yield();
            mutex.unlock();
        }
    });
    return (bench_cpu_ns() - began) / static_cast<double>(n);
}

static void mutex(std::size_t count, std::size_t n)
{
    bench_measure(mutex_pass, count, n);
}

static double condition_pass(std::size_t, std::size_t n)
{
    fibers::mutex mutex;
    fibers::condition_variable turn;
    int whose = 0;
    auto take_turns = [&](int mine) {
        std::unique_lock<fibers::mutex> lock(mutex);
        for (std::size_t i = 0; i < n; i++) {
            while (whose != mine)
                turn.wait(lock);
            whose = !mine;
            turn.notify_one();
        }
    };
    auto other = spin_one(fibers::launch::post, [&] { take_turns(1); });
    double began = bench_cpu_ns();
    take_turns(0);
    other.join();
    return (bench_cpu_ns() - began) / static_cast<double>(n);
}

static void condition(std::size_t count, std::size_t n)
{
    bench_measure(condition_pass, count, n);
}

// The other thread replies once before the clock starts.
static double cords_pass(std::size_t, std::size_t n)
{
    channel there(2), back(2);
    std::thread other([&] {
        answer(there, back, n + 1);
    });
    ask(there, back, 1);
    double began = bench_real_ns();
    ask(there, back, n);
    double took = bench_real_ns() - began;
    other.join();
    return took / static_cast<double>(n);
}

static void cords(std::size_t count, std::size_t n)
{
    bench_measure(cords_pass, count, n);
}

static double flow_pass(std::size_t, std::size_t n)
{
    channel there(flow_room), ready(2);
    std::thread other([&] {
        ready.push(1);
        receive_all(there, n);
        ready.push(2);
    });
    ready.value_pop();
    double began = bench_real_ns();
    send_all(there, n);
    ready.value_pop();
    double took = bench_real_ns() - began;
    other.join();
    return took / static_cast<double>(n);
}

static void flow(std::size_t count, std::size_t n)
{
    bench_measure(flow_pass, count, n);
}

static void park(std::size_t count)
{
    static fibers::mutex mutex;
    static fibers::condition_variable never;
    for (std::size_t i = 0; i < count; i++)
        spin_one(fibers::launch::dispatch, [] {
            std::unique_lock<fibers::mutex> lock(mutex);
            never.wait(lock);
        }).detach();
}

static void parked(std::size_t count, std::size_t)
{
    bench_measure_parked(park, count);
    // exit would wait for the fibers.
    std::fflush(stdout);
    _exit(0);
}

static void sleepers(std::size_t count, std::size_t)
{
    double began = bench_cpu_ns();
    spin_and_join(count, [](std::size_t i) {
        boost::this_fiber::sleep_for(std::chrono::microseconds(bench_sleep_us(i)));
    });
    bench_print((bench_cpu_ns() - began) / 1e6);
}

static const bench_work works[] = {
    {"snooze", snooze},     {"spin", spin},   {"rendezvous", rendezvous},
    {"buffered", buffered}, {"mutex", mutex}, {"condition", condition},
    {"cords", cords},       {"flow", flow},   {"parked", parked},
    {"sleepers", sleepers},
};

BENCH_MAIN(works)
