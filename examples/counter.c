#include <weft.h>

#include <stdio.h>

static weft_value counter(void *arg)
{
    (void)arg;
    for (int n = 1;; n++) {
        int rc = weft_sleep(1.0);
        if (rc < 0)
            return rc; /* cancelled: unwind */
        printf("count: %d\n", n);
    }
}

int main(void)
{
    weft_spin(counter, NULL); /* a child of the main fiber */
    puts("Press return to stop");
    char line[64];
    weft_read(0, line, sizeof line); /* blocks this fiber, not the rest */
} /* the child is stopped and joined */
