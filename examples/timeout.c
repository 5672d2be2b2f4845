/* Deadlines nest, and each one unwinds to its own block. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int slow_query(void)
{
    int rc = weft_sleep(10.0);
    return rc < 0 ? weft_fail(rc, "the query was cut short") : 0;
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
            slow_query(); /* the outer deadline comes first */
        }
        puts("still inside the outer block, where every call fails at once:");
        printf("  sleep says: %s\n", strerror(-weft_sleep(1.0)));
    }
    printf("the outer block says: %s\n", strerror(-rc));
}
