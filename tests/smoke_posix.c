/* A smoke test of an installed libweft-posix: two fibers sleep at the same time, by nanosleep. */
#define _GNU_SOURCE
#include <weft.h>
#include <weft/posix.h>

#include <time.h>

static int order[2], count;

static weft_value nap(void *arg)
{
    struct timespec time = {.tv_nsec = 1000000 * (long)(intptr_t)arg};
    if (nanosleep(&time, NULL) < 0)
        return -1;
    order[count++] = (int)(intptr_t)arg;
    return 0;
}

int main(void)
{
    /* A program that contains weft cannot be adopted. */
    bool is_shared = weft_adopt("", NULL) > 0;
    weft_backend_name();
    weft_spin(nap, (void *)20);
    weft_spin(nap, (void *)1);
    if (weft_await_children() < 0 || count != 2)
        return 1;
    return !is_shared || order[0] == 1 ? 0 : 1;
}
