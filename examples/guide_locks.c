/* Locks and other primitives. docs/guide.md shows the functions of this file. */
#include <weft.h>

#include <stdio.h>

/* No lock: no switchpoint is between the read and the write. */
static int total;

static void add(int n)
{
    total += n;
}

/* A mutex: the balance is in use across a switchpoint. */
static weft_mutex mutex;
static int balance = 100;

static weft_value withdraw(void *arg)
{
    int rc = weft_mutex_lock(&mutex);
    if (rc < 0)
        return rc;
    WEFT_DEFER(weft_mutex_unlock, &mutex);
    int old = balance;
    rc = weft_sleep(0.001); /* ask the bank */
    if (rc == 0)
        balance = old - (int)(intptr_t)arg;
    return rc;
}

/* A semaphore: at most two fibers at a time. */
static weft_sem seats;
static int inside, inside_max;

static weft_value visit(void *arg)
{
    (void)arg;
    int rc = weft_sem_wait(&seats);
    if (rc < 0)
        return rc;
    WEFT_DEFER(weft_sem_post, &seats);
    inside++;
    if (inside > inside_max)
        inside_max = inside;
    rc = weft_sleep(0.001);
    inside--;
    return rc;
}

/* A condition variable: wait until a condition holds, which other fibers change. */
static weft_cond arrived;
static int guests;

static weft_value open_door(void *arg)
{
    (void)arg;
    int rc = 0;
    while (rc == 0 && guests < 3)
        rc = weft_cond_wait(&arrived, NULL); /* no mutex: fibers of one thread */
    printf("condition: %d guests\n", guests);
    return rc;
}

static weft_value arrive(void *arg)
{
    (void)arg;
    guests++;
    weft_cond_signal(&arrived);
    return 0;
}

/* A latch: wait for a number of events, not for the ends of fibers. */
static weft_latch ready;

static weft_value start_service(void *arg)
{
    (void)arg;
    int rc = weft_sleep(0.001);
    weft_latch_done(&ready);
    return rc < 0 ? rc : weft_sleep(3600.0); /* serve */
}

static int start_services(void)
{
    int rc;
    weft_latch_add(&ready, 3);
    for (int i = 0; i < 3; i++)
        weft_spin(start_service, NULL);
    rc = weft_latch_wait(&ready);
    puts("latch: 3 services are ready");
    weft_terminate_children(1.0);
    return rc;
}

int main(void)
{
    int rc;
    for (int i = 0; i < 4; i++)
        add(i);
    printf("no lock: %d\n", total);
    WEFT_GROUP(g, rc) {
        for (int i = 0; i < 4; i++)
            weft_group_spin(&g, withdraw, (void *)(intptr_t)10);
    }
    printf("mutex: %d\n", balance);
    weft_sem_open(&seats, 2);
    WEFT_GROUP(g, rc) {
        for (int i = 0; i < 6; i++)
            weft_group_spin(&g, visit, NULL);
    }
    printf("semaphore: at most %d at a time\n", inside_max);
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, open_door, NULL);
        for (int i = 0; i < 3; i++)
            weft_group_spin(&g, arrive, NULL);
    }
    return rc < 0 || start_services() < 0;
}
