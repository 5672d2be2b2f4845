/* Tutorial, step 5: cancel a fiber, and clean up. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

/* Stands for a message to another machine. Blocks the fiber. */
static void log_out(const char *user)
{
    int rc = weft_sleep(0.01);
    printf("%s: %s\n", user, rc == 0 ? "logged out" : "no time to log out");
}

static weft_value hold_session(void *arg)
{
    const char *user = arg;
    printf("%s: logged in\n", user);
    WEFT_DEFER(puts, "session closed");
    int rc = weft_sleep(3600.0);
    if (rc < 0)
        printf("%s: cancelled\n", user);
    log_out(user); /* fails: every blocking call of a cancelled fiber fails */
    WEFT_SHIELD(1.0) {
        log_out(user);
    }
    return rc;
}

/* Compute until cancelled. Such a fiber must let other fibers run. */
static weft_value compute(void *arg)
{
    unsigned *rounds = arg;
    while (!weft_is_cancelled()) {
        ++*rounds;
        weft_snooze();
    }
    return -ECANCELED;
}

int main(void)
{
    weft_fiber session = weft_spin(hold_session, "ann");
    weft_sleep(0.1);
    weft_cancel(session);
    weft_value value = weft_await(session);
    printf("the session has ended: %s\n", value == -ECANCELED ? "cancelled" : "?");

    unsigned rounds = 0;
    weft_fiber computer = weft_spin(compute, &rounds);
    weft_snooze();
    weft_terminate(computer, 1.0); /* cancel and wait */
    printf("the computation has ended: %s\n", rounds > 0 ? "cancelled" : "?");
}
