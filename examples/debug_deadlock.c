/*
 * Two fibers lock two mutexes in opposite order. Neither can continue. weft detects the deadlock,
 * reports all fibers on stderr, and makes the wait of main fail with -EDEADLK.
 */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

static weft_mutex accounts, journal;

static weft_value lock_both(weft_mutex *first, weft_mutex *second)
{
    int rc = weft_mutex_lock(first);
    if (rc < 0)
        return rc;
    weft_snooze(); /* the other fiber locks its first mutex */
    rc = weft_mutex_lock(second);
    if (rc == 0)
        weft_mutex_unlock(second);
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
    return lock_both(&journal, &accounts); /* the bug: use one order everywhere */
}

int main(void)
{
    weft_spin_with(transfer, NULL, &(weft_spin_options){.name = "transfer"});
    weft_spin_with(audit, NULL, &(weft_spin_options){.name = "audit"});
    int rc = weft_await_children();
    printf("weft_await_children returns %s\n", rc == -EDEADLK ? "-EDEADLK" : "another result");
}
