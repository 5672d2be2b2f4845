/* Fibers that end with a block: the first that fails ends the others, a deadline ends them all. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static weft_value fetch(void *arg)
{
    const char *name = arg;
    int rc = weft_sleep(strlen(name) * 0.01); /* as if it came from far away */
    if (rc < 0) {
        printf("%s: called off\n", name);
        return rc;
    }
    if (strcmp(name, "broken") == 0)
        return weft_fail(-EIO, "%s does not answer", name);
    printf("%s: there\n", name);
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
        weft_group_spin(&g, fetch, "a much longer way");
    }
    printf("one has failed: %s\n", rc < 0 ? weft_error()->message : "no");

    int late;
    WEFT_CANCEL_AFTER(0.1, late) {
        WEFT_GROUP(g, rc) {
            weft_group_spin(&g, fetch, "four");
            weft_group_spin(&g, fetch, "longer than anyone would like to wait for");
        }
    }
    printf("in time: %s\n", late == -ETIMEDOUT ? "no" : "yes");
}
