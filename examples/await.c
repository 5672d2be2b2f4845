/* Await one fiber, await a fiber through another fiber, and await several fibers at once. */
#include <weft.h>

#include <stdio.h>

static weft_value sleep_and_tell(void *arg)
{
    int rc = weft_sleep(0.1);
    return rc < 0 ? rc : (weft_value)arg;
}

static weft_value pass_on(void *arg)
{
    return weft_await(*(weft_fiber *)arg);
}

static weft_value times_ten(void *arg)
{
    return 10 * *(int *)arg;
}

int main(void)
{
    weft_fiber a = weft_spin(sleep_and_tell, "foo");
    weft_fiber b = weft_spin(pass_on, &a);
    weft_value value = weft_await(b);
    if (weft_is_error(value))
        return 1;
    printf("b returns the value of a: %s\n", (const char *)value);

    int numbers[] = {0, 1, 2};
    weft_fiber fibers[3];
    for (int i = 0; i < 3; i++)
        fibers[i] = weft_spin(times_ten, &numbers[i]);
    weft_value results[3];
    int rc = weft_await_all(fibers, 3, results);
    if (rc < 0)
        return 1;
    printf("all three: %d, %d, %d\n", (int)results[0], (int)results[1], (int)results[2]);
}
