/* Fibers that end with a block. The first failure cancels the others. A deadline cancels all. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static weft_value fetch(void *arg)
{
    const char *name = arg;
    int rc = weft_sleep(strlen(name) * 0.01); /* stands for a slow network */
    if (rc < 0) {
        printf("%s: cancelled\n", name);
        return rc;
    }
    if (strcmp(name, "broken") == 0)
        return weft_fail(-EIO, "fetch: %s does not respond", name);
    printf("%s: done\n", name);
    return 0;
}

int main(void)
{
    int rc;
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, fetch, "one");
        weft_group_spin(&g, fetch, "three");
    }
    printf("both have ended: %d\n", rc);

    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, fetch, "two");
        weft_group_spin(&g, fetch, "broken");
        weft_group_spin(&g, fetch, "a much longer name");
    }
    printf("one has failed: %s\n", rc < 0 ? weft_error()->message : "no");

    int late;
    WEFT_CANCEL_AFTER(0.1, late) {
        WEFT_GROUP(g, rc) {
            weft_group_spin(&g, fetch, "four");
            weft_group_spin(&g, fetch, "a name that takes longer than the deadline");
        }
    }
    printf("in time: %s\n", late == -ETIMEDOUT ? "no" : "yes");
}
