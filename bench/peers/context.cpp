// g++ -O2 -o context bench/peers/context.cpp -l:libboost_context.a
//
// Boost.Context 1.74, which has no scheduler. A switch resumes one fiber from another. A new fiber
// takes a used stack from the pool of the library.
#include "peer.h"

#include <boost/context/fiber.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>

namespace context = boost::context;

static context::pooled_fixedsize_stack &stacks()
{
    static context::pooled_fixedsize_stack pool(PEER_STACK_BYTES);
    return pool;
}

template <typename Fn> static context::fiber spin_one(Fn fn)
{
    return context::fiber(std::allocator_arg, stacks(), fn);
}

static double switch_pass(std::size_t, std::size_t n)
{
    bool is_over = false;
    auto other = spin_one([&is_over](context::fiber &&back) {
        while (!is_over)
            back = std::move(back).resume();
        return std::move(back);
    });
    double began = bench_cpu_ns();
    for (std::size_t i = 0; i < n; i += 2)
        other = std::move(other).resume();
    double took = bench_cpu_ns() - began;
    is_over = true;
    other = std::move(other).resume();
    return took / static_cast<double>(n);
}

static void switch_(std::size_t count, std::size_t n)
{
    bench_measure(switch_pass, count, n);
}

// resume returns an empty fiber when the other fiber has ended.
static double spin_pass(std::size_t, std::size_t n)
{
    double began = bench_cpu_ns();
    for (std::size_t i = 0; i < n; i++) {
        auto other = spin_one([](context::fiber &&back) { return std::move(back); });
        bench_require(!std::move(other).resume());
    }
    return (bench_cpu_ns() - began) / static_cast<double>(n);
}

static void spin(std::size_t count, std::size_t n)
{
    bench_measure(spin_pass, count, n);
}

static const bench_work works[] = {{"switch", switch_}, {"spin", spin}};

BENCH_MAIN(works)
