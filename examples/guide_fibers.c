/* Each way to create a fiber. docs/guide.md shows the functions of this file. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

static weft_value measure(void *arg)
{
    int rc = weft_sleep(0.01);
    return rc < 0 ? rc : 10 * (weft_value)arg;
}

static weft_value print_line(void *arg)
{
    return puts(arg) < 0 ? -EIO : 0;
}

/* Spin: the caller awaits the value. */
static int spin(void)
{
    weft_fiber a = weft_spin(measure, (void *)1);
    weft_fiber b = weft_spin(measure, (void *)2);
    weft_value values[2];
    int rc = weft_await_all((weft_fiber[]){a, b}, 2, values);
    if (rc == 0)
        printf("spin: %d and %d\n", (int)values[0], (int)values[1]);
    return rc;
}

/* Go: no fiber awaits the value, so no value is stored. */
static int go(void)
{
    int rc = weft_go(print_line, "go: a fiber that ends by itself");
    return rc < 0 ? rc : weft_await_children();
}

/* New: the fiber does not run until it is started. weft_start runs it before it returns. */
static weft_value begin(void)
{
    weft_fiber f = weft_new(print_line, "new: runs inside weft_start");
    weft_value rc = weft_start(f);
    puts("new: weft_start returns");
    return rc < 0 ? rc : weft_await(f);
}

/* After: the fiber runs later, unless it is cancelled before. */
static int later(void)
{
    weft_fiber warning = weft_after(10.0, print_line, "after: not printed");
    weft_fiber notice = weft_after(0.01, print_line, "after: 0.01 s later");
    weft_cancel(warning);
    return (int)weft_await(notice);
}

/* Group: the fibers use a local variable, and end with the block. */
static weft_value add_one(void *arg)
{
    int rc = weft_sleep(0.01);
    ++*(int *)arg;
    return rc;
}

static int count_to_three(void)
{
    int count = 0, rc;
    WEFT_GROUP(g, rc) {
        for (int i = 0; i < 3; i++)
            weft_group_spin(&g, add_one, &count);
    }
    printf("group: %d\n", count);
    return rc;
}

/* Supervise: a fiber that fails runs again. */
static weft_value fail_twice(void *arg)
{
    int *runs = arg;
    return ++*runs < 3 ? weft_fail(-EIO, "fail_twice: run %d", *runs) : 0;
}

static int retry(void)
{
    int runs = 0;
    weft_child child = {.fn = fail_twice, .arg = &runs, .restart = WEFT_ON_ERROR};
    int rc = weft_supervise(&child, 1, NULL);
    printf("supervise: %d runs\n", runs);
    return rc;
}

/* Several results, of which some may be errors: a fiber stores its error, and does not fail. */
typedef struct probe {
    int number;
    int error; /* 0: none */
} probe;

static weft_value run_probe(void *arg)
{
    probe *p = arg;
    p->error = p->number == 2 ? -EIO : weft_sleep(0.01);
    return 0;
}

static int probe_all(probe *probes, int n)
{
    int rc;
    WEFT_GROUP(g, rc) {
        for (int i = 0; i < n; i++)
            weft_group_spin(&g, run_probe, &probes[i]);
    }
    return rc;
}

int main(void)
{
    if (spin() < 0 || go() < 0 || begin() < 0 || later() < 0 || count_to_three() < 0 || retry() < 0)
        return 1;
    probe probes[] = {{1, 0}, {2, 0}, {3, 0}};
    if (probe_all(probes, 3) < 0)
        return 1;
    for (int i = 0; i < 3; i++)
        printf("probe %d: %s\n", probes[i].number, probes[i].error < 0 ? "failed" : "good");
}
