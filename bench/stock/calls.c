/*
 * Costs of hooks: calls that need not wait, and a round trip between two fibers. The program adopts
 * itself. The addresses of libc's functions are taken before the adoption.
 */
#include "stock.h"

#include <weft.h>
#include <weft/posix.h>

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define BLOCKS 200
#define CALLS_PER_BLOCK 500

/* The functions of one kind: libc, or hooks. */
typedef struct functions {
    __typeof__(send) *send;
    __typeof__(recv) *recv;
    __typeof__(poll) *poll;
    __typeof__(pthread_mutex_lock) *lock;
    __typeof__(pthread_mutex_unlock) *unlock;
} functions;

static functions of_libc, of_hooks;
static int fd[2];
static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

/* Read the import slots of the program. */
__attribute__((noinline)) static functions read_slots(void)
{
    return (functions){send, recv, poll, pthread_mutex_lock, pthread_mutex_unlock};
}

static void send_and_receive(const functions *f)
{
    char byte = 0;
    require(f->send(fd[0], &byte, 1, 0) == 1 && f->recv(fd[1], &byte, 1, 0) == 1, "send, recv");
}

static void poll_ready(const functions *f)
{
    struct pollfd entry = {.fd = fd[0], .events = POLLOUT};
    require(f->poll(&entry, 1, 1000) == 1, "poll");
}

static void lock_normal(const functions *f)
{
    f->lock(&normal);
    f->unlock(&normal);
}

static void lock_recursive(const functions *f)
{
    f->lock(&recursive);
    f->unlock(&recursive);
}

static const struct {
    const char *name;
    void (*call)(const functions *);
} cases[] = {
    {"send-recv", send_and_receive},
    {"poll", poll_ready},
    {"mutex", lock_normal},
    {"recursive-mutex", lock_recursive},
};

#define CASES (sizeof cases / sizeof *cases)

/* Nanoseconds of one call, the least of all blocks. Blocks of libc and hooks alternate. */
typedef struct costs {
    double libc_ns, hook_ns;
} costs;

static double time_block(void (*call)(const functions *), const functions *f)
{
    double begin = wall_s();
    for (int i = 0; i < CALLS_PER_BLOCK; i++)
        call(f);
    return 1e9 * (wall_s() - begin) / CALLS_PER_BLOCK;
}

static costs measure(void (*call)(const functions *))
{
    costs least = {1e9, 1e9};
    for (int i = 0; i < BLOCKS; i++) {
        double libc_ns = time_block(call, &of_libc), hook_ns = time_block(call, &of_hooks);
        if (libc_ns < least.libc_ns)
            least.libc_ns = libc_ns;
        if (hook_ns < least.hook_ns)
            least.hook_ns = hook_ns;
    }
    return least;
}

/* In a thread that is not a cord. */
static void *measure_all(void *results)
{
    for (size_t i = 0; i < CASES; i++)
        ((costs *)results)[i] = measure(cases[i].call);
    return NULL;
}

static weft_value measure_in_fiber(void *results)
{
    measure_all(results);
    return 0;
}

static weft_value suspend_forever(void *arg)
{
    (void)arg;
    return weft_sleep(3600);
}

void run_calls(void)
{
    costs off[CASES], on[CASES];
    pthread_t thread;
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0, "socketpair");
    of_libc = read_slots();
    require(weft_adopt("", &(weft_adopt_options){.is_alone = true}) > 0, "weft_adopt");
    of_hooks = read_slots();
    require(of_libc.recv != of_hooks.recv, "recv is not hooked");
    require(pthread_create(&thread, NULL, measure_all, off) == 0, "pthread_create");
    pthread_join(thread, NULL);
    weft_fiber other = weft_spin(suspend_forever, NULL);
    weft_await(weft_spin(measure_in_fiber, on));
    weft_cancel(other);
    for (size_t i = 0; i < CASES; i++)
        printf("%s %.1f %.1f %.1f %.1f\n", cases[i].name, off[i].libc_ns, off[i].hook_ns,
               on[i].libc_ns, on[i].hook_ns);
}

/*
 * Round trips of one byte. A client library has room for more bytes, and a short result means that
 * no more bytes have arrived. If the byte fills the buffer, a hook must try once more at the next
 * call.
 */

#define ROOM_BYTES 4096

static size_t room_bytes;

static weft_value answer_hooked(void *arg)
{
    (void)arg;
    char data[ROOM_BYTES];
    while (recv(fd[1], data, room_bytes, 0) == 1 && send(fd[1], data, 1, 0) == 1)
        ;
    return 0;
}

static weft_value answer_weft(void *arg)
{
    (void)arg;
    char data[ROOM_BYTES];
    while (weft_recv(fd[1], data, room_bytes, 0) == 1 && weft_send(fd[1], data, 1, 0) == 1)
        ;
    return 0;
}

static void trip_hooked(void)
{
    static char data[ROOM_BYTES];
    require(send(fd[0], data, 1, 0) == 1 && recv(fd[0], data, room_bytes, 0) == 1, "round trip");
}

static void trip_weft(void)
{
    static char data[ROOM_BYTES];
    require(weft_send(fd[0], data, 1, 0) == 1 && weft_recv(fd[0], data, room_bytes, 0) == 1,
            "round trip");
}

static double time_trips(weft_fn *answer, void (*trip)(void), double seconds)
{
    long n = 0;
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0, "socketpair");
    weft_fiber f = weft_spin(answer, NULL);
    double begin = wall_s(), end;
    do {
        for (int i = 0; i < 100; i++)
            trip();
        n += 100;
        end = wall_s();
    } while (end - begin < seconds);
    weft_close(fd[0]);
    weft_await(f);
    weft_close(fd[1]);
    return 1e6 * (end - begin) / (double)n;
}

/* Print the times of hooks and of weft, the least of 10 blocks. Blocks alternate. */
static void print_trips(size_t room, double seconds)
{
    double hooked_us = 1e9, weft_us = 1e9;
    room_bytes = room;
    for (int i = 0; i < 10; i++) {
        double us = time_trips(answer_hooked, trip_hooked, seconds / 40);
        hooked_us = us < hooked_us ? us : hooked_us;
        us = time_trips(answer_weft, trip_weft, seconds / 40);
        weft_us = us < weft_us ? us : weft_us;
    }
    printf("%.2f %.2f\n", hooked_us, weft_us);
}

void run_round_trips(double seconds)
{
    require(weft_adopt("", &(weft_adopt_options){.is_alone = true}) > 0, "weft_adopt");
    print_trips(ROOM_BYTES, seconds);
    print_trips(1, seconds);
}
