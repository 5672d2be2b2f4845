/* Three fibers share a throttle and send at most ten mails per second. */
#include <weft.h>

#include <stdio.h>

#define RATE 10.0 /* mails per second */

static weft_throttle throttle;

static int send_mail(const char *from, int number)
{
    int rc = weft_throttle_wait(&throttle);
    if (rc < 0)
        return rc;
    printf("mail %d from %s\n", number, from);
    return 0;
}

static weft_value send_two(void *arg)
{
    int rc = send_mail(arg, 1);
    return rc < 0 ? rc : send_mail(arg, 2);
}

int main(void)
{
    if (weft_throttle_open(&throttle, RATE) < 0)
        return 1;
    double start = weft_now();
    weft_spin(send_two, "ann");
    weft_spin(send_two, "ben");
    weft_spin(send_two, "cleo");
    if (weft_await_children() < 0)
        return 1;
    double least = 5 / RATE; /* the first mail does not wait */
    bool is_slow = weft_now() - start > least - 1e-3;
    printf("six mails in at least 0.5 s: %s\n", is_slow ? "yes" : "no");
}
