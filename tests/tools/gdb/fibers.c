/*
 * The program that the tests of the gdb script inspect: fibers in all kinds of waits, in two cords.
 * gdb stops in checkpoint. Afterwards the program ends all fibers, and exits with 0.
 */
#include <weft.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static weft_mutex accounts, journal;
static weft_chan *jobs;
static int silent[2], remote[2]; /* socket pairs that no fiber writes to */
static int ready[2];             /* the second cord writes to it */
weft_scope main_scope;
weft_fiber sleeper_id;
weft_value last_value = -EAGAIN;
int switches_seen; /* the fibers of `snoozers` count it up */

/* Innermost functions of the program have local variables that the tests print. */
static weft_value reader(void *arg)
{
    char line[80] = "not read yet";
    volatile int secret = 4711;
    ssize_t n = weft_read(*(int *)arg, line, sizeof line);
    return n > 0 && secret == 4711 ? 0 : n;
}

static __attribute__((noinline)) int lock_second(weft_mutex *second, int depth)
{
    volatile int level = depth;
    int rc = weft_mutex_lock(second);
    if (rc == 0)
        weft_mutex_unlock(second);
    return level == depth ? rc : -EFAULT;
}

static weft_value lock_both(weft_mutex *first, weft_mutex *second)
{
    int rc = weft_mutex_lock(first);
    if (rc < 0)
        return rc;
    weft_snooze();
    rc = lock_second(second, 7);
    weft_mutex_unlock(first);
    return rc;
}

static weft_value transfer(void *arg)
{
    (void)arg;
    return lock_both(&accounts, &journal);
}

static weft_value audit(void *arg)
{
    (void)arg;
    return lock_both(&journal, &accounts);
}

static weft_value sleeper(void *arg)
{
    (void)arg;
    return weft_sleep(3600.0);
}

/* Stacks of equal depth, in different lines. */
static weft_value sleep_in_one_of_two_lines(void *arg)
{
    if (arg != NULL)
        return weft_sleep(3600.0) + 1;
    return weft_sleep(3600.0) + 2;
}

/* The compiler holds the variables in callee-saved registers during the wait. */
static weft_value in_registers(void *arg)
{
    const volatile long *from = arg;
    long a = from[0], b = from[1], c = from[2], d = from[3], e = from[4], f = from[5];
    weft_suspend();
    return ((((a * 3 + b) * 3 + c) * 3 + d) * 3 + e) * 3 + f > 0 ? 0 : -EFAULT;
}

static weft_value receiver(void *arg)
{
    (void)arg;
    return weft_chan_recv(jobs);
}

static weft_value awaiter(void *arg)
{
    return weft_await(*(weft_fiber *)arg);
}

static weft_value snoozer(void *arg)
{
    (void)arg;
    volatile int rounds = 0;
    while (weft_snooze() == 0 && rounds < 10) {
        rounds++;
        switches_seen++;
    }
    return rounds == 10 ? 0 : -EFAULT;
}

static weft_value second_cord(void *arg)
{
    (void)arg;
    weft_fiber id = weft_spin_with(reader, &remote[0], &(weft_spin_options){.name = "remote"});
    weft_snooze(); /* the fiber runs until it waits */
    if (weft_write_all(ready[1], "x", 1) < 0)
        return -EIO;
    weft_await(id);
    return 0;
}

/* gdb stops here, also without symbols if `signal` is not 0. */
static __attribute__((noinline)) void checkpoint(int signal)
{
    if (signal != 0)
        raise(signal);
    __asm__ volatile("" ::: "memory");
}

static void spin(weft_fn *fn, void *arg, const char *name)
{
    if (weft_spin_with(fn, arg, &(weft_spin_options){.name = name}) == 0)
        exit(2);
}

static void spin_many(int count)
{
    char name[32];
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "idle-%d", i);
        spin(sleeper, NULL, name);
    }
}

static int signal_named(const char *name)
{
    return strcmp(name, "stop") == 0 ? SIGSTOP : SIGTRAP;
}

/*
 * The first argument is the number of sleeping fibers with equal stacks. With a second argument,
 * the program raises SIGSTOP ("stop") or SIGTRAP in checkpoint.
 */
int main(int argc, char **argv)
{
    jobs = weft_chan_new(0);
    if (jobs == NULL || weft_socketpair(silent) < 0 || weft_socketpair(remote) < 0 ||
        weft_socketpair(ready) < 0)
        return 1;
    weft_scope_open(&main_scope, 1000.0);
    spin(reader, &silent[0], "reader");
    spin(transfer, NULL, "transfer");
    spin(audit, NULL, "audit");
    sleeper_id = weft_spin_with(sleeper, NULL, &(weft_spin_options){.name = "sleeper"});
    spin(receiver, NULL, "receiver");
    spin(awaiter, &sleeper_id, "awaiter");
    spin(in_registers, (long[]){101, 102, 103, 104, 105, 106}, "registers");
    spin_many(argc > 1 ? atoi(argv[1]) : 20);
    for (int i = 0; i < 10; i++)
        spin(sleep_in_one_of_two_lines, i % 2 ? &jobs : NULL, "forked");
    weft_set_name(weft_new(sleeper, NULL), "unstarted");
    weft_cord cord = weft_cord_start(second_cord, NULL, &(weft_cord_options){.name = "second"});
    char byte;
    if (cord == 0 || weft_read(ready[0], &byte, 1) != 1)
        return 1;
    for (int i = 0; i < 3; i++)
        spin(snoozer, NULL, "snoozer");
    weft_snooze();
    spin(sleeper, NULL, "fresh");
    checkpoint(argc > 2 ? signal_named(argv[2]) : 0);
    while (switches_seen < 30)
        weft_snooze();
    weft_terminate_children(1.0);
    weft_scope_close(&main_scope);
    if (weft_write_all(remote[1], "y", 1) < 0 || weft_cord_join(cord) != 0)
        return 1;
    weft_chan_free(jobs);
    puts("all fibers have ended");
    return 0;
}
