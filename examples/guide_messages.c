/* Each way to pass values between fibers. docs/guide.md shows the functions of this file. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

/* A channel: the producer waits while the consumer is busy. */
static weft_value produce(void *arg)
{
    weft_chan *numbers = arg;
    int rc = 0;
    for (int n = 1; rc == 0 && n <= 3; n++)
        rc = weft_chan_send(numbers, n);
    weft_chan_close(numbers);
    return rc;
}

static int consume(void)
{
    weft_chan *numbers = weft_chan_new(1);
    weft_value n, sum = 0;
    int rc;
    if (numbers == NULL)
        return -ENOMEM;
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, produce, numbers);
        while (!weft_is_error(n = weft_chan_recv(numbers)))
            sum += n;
    }
    weft_chan_free(numbers);
    printf("channel: sum %d\n", (int)sum);
    return rc;
}

/* A typed channel: structs are copied, so no memory changes owners. */
typedef struct point {
    int x, y;
} point;

WEFT_CHAN_OF(points, point);

static int send_point(void)
{
    points *c = points_new(1);
    point p = {0, 0};
    if (c == NULL)
        return -ENOMEM;
    int rc = points_send(c, (point){3, 4});
    if (rc == 0)
        rc = points_recv(c, &p);
    points_free(c);
    printf("typed channel: %d, %d\n", p.x, p.y);
    return rc;
}

/* A queue: urgent values go to the front, and values can be withdrawn. */
static int order_tasks(void)
{
    weft_queue *tasks = weft_queue_new(0);
    if (tasks == NULL)
        return -ENOMEM;
    int rc = weft_queue_push(tasks, 10);
    if (rc == 0)
        rc = weft_queue_push(tasks, 20);
    if (rc == 0)
        rc = weft_queue_unshift(tasks, 30); /* urgent */
    weft_queue_delete(tasks, 10);           /* withdrawn */
    int first = (int)weft_queue_try_shift(tasks), second = (int)weft_queue_try_shift(tasks);
    printf("queue: %d, then %d\n", first, second);
    weft_queue_free(tasks);
    return rc;
}

/* A mailbox: the id of a fiber is its address. The count belongs to one fiber and needs no lock. */
static weft_value keep_count(void *arg)
{
    weft_value n, count = 0;
    while ((n = weft_receive()) > 0)
        count += n;
    return n < 0 ? n : weft_tell(*(weft_fiber *)arg, count);
}

static int count_messages(void)
{
    static weft_fiber self;
    self = weft_self();
    weft_fiber counter = weft_spin(keep_count, &self);
    for (int n = 3; n >= 0; n--)
        weft_tell(counter, n);
    weft_value count = weft_receive();
    printf("mailbox: %d\n", (int)count);
    return (int)weft_await(counter);
}

/* An event: fibers wait until another fiber, or another thread, reports a change. */
static weft_event changed;
static int version;

static weft_value change(void *arg)
{
    (void)arg;
    version = 2;
    return weft_event_set(&changed);
}

static int wait_for_change(void)
{
    int rc = weft_go(change, NULL);
    while (rc == 0 && version < 2)
        rc = weft_event_wait(&changed);
    printf("event: version %d\n", version);
    return rc;
}

/* Select: the first of several events. */
static int receive_within(weft_chan *c, double seconds)
{
    weft_clause clauses[] = {weft_clause_recv(c), weft_clause_time(seconds)};
    int which = weft_select(clauses, 2);
    return which == 0 ? (int)clauses[0].value : which < 0 ? which : -ETIMEDOUT;
}

int main(void)
{
    if (consume() < 0 || send_point() < 0 || order_tasks() < 0 || count_messages() < 0 ||
        wait_for_change() < 0)
        return 1;
    weft_chan *silent = weft_chan_new(0);
    if (silent == NULL)
        return 1;
    printf("select: %s\n", receive_within(silent, 0.01) == -ETIMEDOUT ? "timeout" : "value");
    weft_chan_free(silent);
}
