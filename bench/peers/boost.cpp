// What bench/messages.c and sync.c measure, with Boost.Fiber: the same names, one line each.
//
// One thread with the default scheduler (round robin). There is no select over channels. A
// buffered channel must be made with a power of two, and holds one less.
#include <boost/fiber/all.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

namespace fibers = boost::fibers;

constexpr int rounds = 21;
constexpr std::size_t number = 10000;
constexpr std::size_t room = 128;
constexpr std::size_t crowd = 4;

static double now()
{
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

static void require(bool is_true, const char *what)
{
    if (is_true)
        return;
    std::fprintf(stderr, "boost: %s\n", what);
    std::exit(1);
}

static double chan_round_trip(std::size_t n)
{
    fibers::unbuffered_channel<std::intptr_t> there, back;
    fibers::fiber other([&] {
        for (std::size_t i = 0; i < n; i++)
            back.push(there.value_pop());
    });
    std::intptr_t got = 0;
    double began = now();
    for (std::size_t i = 1; i <= n; i++) {
        there.push(static_cast<std::intptr_t>(i));
        got = back.value_pop();
    }
    double took = now() - began;
    other.join();
    require(got == static_cast<std::intptr_t>(n), "the last answer is wrong");
    return took;
}

static double chan_stream(std::size_t n)
{
    fibers::buffered_channel<std::intptr_t> there(room);
    std::intptr_t sum = 0;
    fibers::fiber other([&] {
        for (std::size_t i = 0; i < n; i++)
            sum += there.value_pop();
    });
    double began = now();
    for (std::size_t i = 1; i <= n; i++)
        there.push(static_cast<std::intptr_t>(i));
    other.join();
    double took = now() - began;
    require(sum == static_cast<std::intptr_t>(n * (n + 1) / 2), "messages are missing");
    return took;
}

static double mutex_free(std::size_t n)
{
    fibers::mutex mutex;
    double began = now();
    for (std::size_t i = 0; i < n; i++) {
        mutex.lock();
        mutex.unlock();
    }
    return now() - began;
}

// Not always handed on: whoever runs may take it again before one who waits.
static double mutex_contended(std::size_t n)
{
    fibers::mutex mutex;
    std::vector<fibers::fiber> all;
    std::size_t done = 0;
    double began = now();
    for (std::size_t i = 0; i < crowd; i++)
        all.emplace_back([&] {
            for (std::size_t j = 0; j < n / crowd; j++) {
                mutex.lock();
                boost::this_fiber::yield();
                done++;
                mutex.unlock();
            }
        });
    for (auto &fiber : all)
        fiber.join();
    double took = now() - began;
    require(done == n / crowd * crowd, "not all was done");
    return took;
}

static double cond_round_trip(std::size_t n)
{
    fibers::mutex mutex;
    fibers::condition_variable cond;
    int whose = 0;
    auto take_turns = [&](int mine) {
        std::unique_lock<fibers::mutex> lock(mutex);
        for (std::size_t i = 0; i < n; i++) {
            while (whose != mine)
                cond.wait(lock);
            whose = !mine;
            cond.notify_one();
        }
    };
    fibers::fiber other(take_turns, 1);
    double began = now();
    take_turns(0);
    other.join();
    return now() - began;
}

// Print the median of the rounds, after one to warm up.
static void measure(const char *what, double (*run)(std::size_t))
{
    std::vector<double> took(rounds);
    run(number);
    for (auto &t : took)
        t = run(number) / static_cast<double>(number);
    std::sort(took.begin(), took.end());
    std::printf("%s %.2f\n", what, took[rounds / 2]);
}

int main()
{
    measure("channel round trip", chan_round_trip);
    measure("channel of 128, a message", chan_stream);
    measure("mutex, free", mutex_free);
    measure("mutex, handed on among 4", mutex_contended);
    measure("condition round trip", cond_round_trip);
    return 0;
}
