/* Nested deadlines. Each deadline unwinds to its own block. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int slow_query(void)
{
    int rc = weft_sleep(10.0);
    return rc < 0 ? weft_fail(rc, "slow_query: interrupted") : 0;
}

int main(void)
{
    WEFT_MOVE_ON_AFTER(0.1) {
        slow_query();
        printf("moving on: %s\n", weft_error()->message);
    }

    int rc;
    WEFT_CANCEL_AFTER(0.2, rc) {
        WEFT_MOVE_ON_AFTER(5.0) {
            slow_query(); /* the outer deadline is earlier */
        }
        puts("still inside the outer block, where blocking calls fail at once:");
        printf("  weft_sleep returns: %s\n", strerror(-weft_sleep(1.0)));
    }
    printf("the outer block returns: %s\n", strerror(-rc));
}
