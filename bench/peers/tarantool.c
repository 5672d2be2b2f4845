/*
 * Fibers of Tarantool in C. A contender of bench/README.md.
 *
 * build: cc -O2 -shared -fPIC -Ibench -o build/peers/tarantool.so bench/peers/tarantool.c
 * run:   tarantool bench/peers/tarantool_c.lua build/peers/tarantool.so [WORK COUNT N]
 *
 * Tarantool loads this module. The fibers run in the thread that runs Lua. A latch is a mutex. A
 * condition variable has no mutex. Fibers of one thread need a mutex only for data that they use
 * across a wait. The program exports channels, but no header of the package declares them. This
 * file declares the functions that implement the channels of Lua. There is no select and no
 * mailbox. Only a wait arms a timeout.
 *
 * The stack of a fiber needs two of the 65,530 mappings that the kernel allows. More than about
 * 30,000 fibers are therefore not possible.
 */
#define _GNU_SOURCE

#include "bench.h"

#include <tarantool/module.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#define WARM_UPS 1000
#define BACKLOG 4096
#define BUFFER_BYTES 4096
#define ARGUMENTS_MAX 4
/* The infinite timeout of Tarantool, in seconds. Tarantool then arms no timer. */
#define FOREVER (365 * 86400 * 100.0)

struct fiber_channel;
struct fiber_channel *fiber_channel_new(uint32_t size);
void fiber_channel_delete(struct fiber_channel *channel);
int fiber_channel_put_timeout(struct fiber_channel *channel, void *data, double seconds);
int fiber_channel_get_timeout(struct fiber_channel *channel, void **data, double seconds);

int luaopen_peer(lua_State *lua);

/* State of the running workload. There is one at a time. */
static size_t each; /* operations per fiber */
static size_t done;
static struct fiber_channel *there, *back;
static box_latch_t *latch;
static struct fiber_cond *cond;
static int whose;

static struct fiber *spin(fiber_func fn)
{
    struct fiber *f = fiber_new("peer", fn);
    bench_require(f != NULL);
    fiber_set_joinable(f, true);
    return f;
}

static size_t at_least_1(size_t n)
{
    return n > 0 ? n : 1;
}

/* Return the time per operation, after a warm-up. run returns the number of its operations. */
static double measure(double (*now)(void), size_t (*run)(size_t count, size_t n), size_t count,
                      size_t n)
{
    run(count, n < WARM_UPS ? n : WARM_UPS);
    double began = now();
    size_t did = run(count, n);
    return (now() - began) / (double)did;
}

/* Fibers, mutexes and condition variables. */

static size_t warm;

static void reschedule(size_t times)
{
    for (size_t i = 0; i < times; i++)
        fiber_reschedule();
}

static int snooze_fiber(va_list args)
{
    (void)args;
    reschedule(warm + each);
    return 0;
}

/* The measuring fiber. Between two of its yields, each other fiber yields once. */
static int snooze_taker(va_list args)
{
    double *took = va_arg(args, double *);
    reschedule(warm);
    double began = bench_cpu_ns();
    reschedule(each);
    *took = bench_cpu_ns() - began;
    return 0;
}

static void snooze(size_t count, size_t n)
{
    double took = 0;
    struct fiber **fibers = calloc(count, sizeof *fibers);
    each = at_least_1(n / count);
    warm = 1 + WARM_UPS / count;
    for (size_t i = 0; i < count; i++)
        fiber_start(fibers[i] = spin(i == 0 ? snooze_taker : snooze_fiber), &took);
    for (size_t i = 0; i < count; i++)
        fiber_join(fibers[i]);
    free(fibers);
    bench_print(took / (double)(each * count));
}

static int end_at_once(va_list args)
{
    (void)args;
    done++;
    return 0;
}

static size_t do_spins(size_t count, size_t n)
{
    (void)count;
    done = 0;
    for (size_t i = 0; i < n; i++) {
        struct fiber *f = spin(end_at_once);
        fiber_start(f);
        fiber_join(f);
    }
    bench_require(done == n);
    return n;
}

static void spins(size_t count, size_t n)
{
    bench_print(measure(bench_cpu_ns, do_spins, count, n));
}

static int contend(va_list args)
{
    (void)args;
    for (size_t i = 0; i < each; i++) {
        box_latch_lock(latch);
        fiber_reschedule();
        done++;
        box_latch_unlock(latch);
    }
    return 0;
}

static size_t do_mutex(size_t count, size_t n)
{
    struct fiber **fibers = calloc(count, sizeof *fibers);
    each = at_least_1(n / count);
    done = 0;
    for (size_t i = 0; i < count; i++)
        fiber_wakeup(fibers[i] = spin(contend));
    for (size_t i = 0; i < count; i++)
        fiber_join(fibers[i]);
    free(fibers);
    bench_require(done == each * count);
    return done;
}

static void mutex(size_t count, size_t n)
{
    latch = box_latch_new();
    bench_print(measure(bench_cpu_ns, do_mutex, count, n));
}

static void take_turns(int mine)
{
    for (size_t i = 0; i < each; i++) {
        while (whose != mine)
            fiber_cond_wait(cond);
        whose = !mine;
        fiber_cond_signal(cond);
    }
}

static int take_turns_too(va_list args)
{
    (void)args;
    take_turns(1);
    return 0;
}

static size_t do_condition(size_t count, size_t n)
{
    (void)count;
    each = n;
    struct fiber *other = spin(take_turns_too);
    fiber_wakeup(other);
    take_turns(0);
    fiber_join(other);
    return n;
}

static void condition(size_t count, size_t n)
{
    cond = fiber_cond_new();
    bench_print(measure(bench_cpu_ns, do_condition, count, n));
}

/* Channels. */

static void put(struct fiber_channel *channel, uintptr_t value)
{
    bench_require(fiber_channel_put_timeout(channel, (void *)value, FOREVER) == 0);
}

static uintptr_t get(struct fiber_channel *channel)
{
    void *value = NULL;
    bench_require(fiber_channel_get_timeout(channel, &value, FOREVER) == 0);
    return (uintptr_t)value;
}

static int answer(va_list args)
{
    (void)args;
    for (size_t i = 0; i < each; i++)
        put(back, get(there));
    return 0;
}

static size_t do_rendezvous(size_t count, size_t n)
{
    (void)count;
    each = n;
    there = fiber_channel_new(0);
    back = fiber_channel_new(0);
    struct fiber *other = spin(answer);
    fiber_wakeup(other);
    for (size_t i = 0; i < n; i++) {
        put(there, i);
        bench_require(get(back) == i);
    }
    fiber_join(other);
    fiber_channel_delete(there);
    fiber_channel_delete(back);
    return n;
}

static void rendezvous(size_t count, size_t n)
{
    bench_print(measure(bench_cpu_ns, do_rendezvous, count, n));
}

static int drain(va_list args)
{
    (void)args;
    for (size_t i = 0; i < each; i++)
        done += get(there);
    return 0;
}

static size_t do_buffered(size_t count, size_t n)
{
    each = n;
    done = 0;
    there = fiber_channel_new((uint32_t)count);
    struct fiber *other = spin(drain);
    fiber_wakeup(other);
    for (size_t i = 0; i < n; i++)
        put(there, 1);
    fiber_join(other);
    fiber_channel_delete(there);
    bench_require(done == n);
    return n;
}

static void buffered(size_t count, size_t n)
{
    bench_print(measure(bench_cpu_ns, do_buffered, count, n));
}

/* Worker threads. */

static ssize_t nothing(va_list args)
{
    (void)args;
    return 1;
}

static size_t do_offload(size_t count, size_t n)
{
    (void)count;
    for (size_t i = 0; i < n; i++)
        bench_require(coio_call(nothing) == 1);
    return n;
}

static void offload(size_t count, size_t n)
{
    bench_print(measure(bench_real_ns, do_offload, count, n));
}

/* Memory and time. */

static int wait_forever(va_list args)
{
    (void)args;
    fiber_cond_wait(cond);
    return 0;
}

static void make_parked(size_t count)
{
    for (size_t i = 0; i < count; i++)
        fiber_start(spin(wait_forever));
}

static void parked(size_t count, size_t n)
{
    (void)n;
    cond = fiber_cond_new();
    bench_measure_parked(make_parked, count);
}

static int sleep_once(va_list args)
{
    fiber_sleep(bench_sleep_us(va_arg(args, size_t)) / 1e6);
    return 0;
}

static void sleepers(size_t count, size_t n)
{
    (void)n;
    struct fiber **fibers = calloc(count, sizeof *fibers);
    double began = bench_cpu_ns();
    for (size_t i = 0; i < count; i++)
        fiber_start(fibers[i] = spin(sleep_once), i);
    for (size_t i = 0; i < count; i++)
        fiber_join(fibers[i]);
    bench_print((bench_cpu_ns() - began) / 1e6);
    free(fibers);
}

/* Echo. */

static bool write_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t n = send(fd, bytes, count, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            coio_wait(fd, COIO_WRITE, FOREVER);
        else if (n < 0)
            return false;
        bytes += n > 0 ? n : 0;
        count -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Wait before each read: the next bytes have rarely arrived. */
static int serve(va_list args)
{
    int fd = va_arg(args, int);
    char buffer[BUFFER_BYTES];
    ssize_t n;
    do {
        coio_wait(fd, COIO_READ, FOREVER);
        n = recv(fd, buffer, sizeof buffer, 0);
    } while (n > 0 ? write_all(fd, buffer, (size_t)n) : n < 0 && errno == EAGAIN);
    coio_close(fd);
    return 0;
}

static int start_listening(size_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    bench_require(bind(fd, (const void *)&address, sizeof address) == 0);
    bench_require(listen(fd, BACKLOG) == 0);
    return fd;
}

static void echo(size_t port, size_t n)
{
    (void)n;
    int listener = start_listening(port);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            coio_wait(listener, COIO_READ, FOREVER);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        struct fiber *f = fiber_new("connection", serve);
        bench_require(f != NULL);
        fiber_start(f, fd);
    }
}

static const bench_work works[] = {
    {"snooze", snooze},     {"spin", spins},    {"rendezvous", rendezvous},
    {"buffered", buffered}, {"mutex", mutex},   {"condition", condition},
    {"offload", offload},   {"parked", parked}, {"sleepers", sleepers},
    {"echo", echo},
};

/* Run the workload of the command line and exit. There is nothing to clean up. */
int luaopen_peer(lua_State *lua)
{
    char *arguments[ARGUMENTS_MAX + 1] = {"tarantool"};
    int count = lua_gettop(lua);
    for (int i = 1; i <= count && i < ARGUMENTS_MAX; i++)
        arguments[i] = (char *)lua_tostring(lua, i);
    int rc = bench_main(works, sizeof works / sizeof works[0], count + 1, arguments);
    fflush(stdout);
    _exit(rc);
}
