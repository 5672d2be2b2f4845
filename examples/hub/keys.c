/*
 * A counter in the key-value store, with compare and set: of two writers that have read the same
 * value, one gets -ESTALE and reads again.
 * usage: keys [URL]
 */
#include <weft.h>
#include <weft/hub.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define FIBERS 4
#define STEPS 25

/* Read a number. A key that does not exist has the value 0 and the revision 0. */
static int read_number(weft_hub *hub, const char *key, long *number, uint64_t *revision)
{
    weft_hub_msg *value;
    int rc = weft_hub_get(hub, key, &value, revision);
    if (rc == -ENOENT) {
        *number = 0;
        *revision = 0;
        return 0;
    }
    if (rc == 0) {
        *number = atol(value->data);
        weft_hub_free(value);
    }
    return rc;
}

static int increment(weft_hub *hub, const char *key)
{
    int rc;
    do {
        long number;
        uint64_t revision;
        char text[32];
        rc = read_number(hub, key, &number, &revision);
        if (rc < 0)
            return rc;
        int bytes = snprintf(text, sizeof text, "%ld", number + 1);
        rc = weft_hub_set(hub, key, text, (size_t)bytes, &revision);
    } while (rc == -ESTALE);
    return rc;
}

static weft_value increment_often(void *arg)
{
    int rc = 0;
    for (int i = 0; i < STEPS && rc == 0; i++)
        rc = increment(arg, "visits");
    return rc;
}

int main(int argc, char **argv)
{
    weft_hub *hub = weft_hub_open(argc > 1 ? argv[1] : "mem:", NULL);
    if (hub == NULL) {
        fprintf(stderr, "%s\n", weft_error()->message);
        return 1;
    }
    long number = 0;
    uint64_t revision;
    weft_hub_delete(hub, "visits", NULL);
    weft_group g;
    weft_group_open(&g);
    for (int i = 0; i < FIBERS; i++)
        weft_group_spin(&g, increment_often, hub);
    int rc = weft_group_close(&g);
    if (rc == 0)
        rc = read_number(hub, "visits", &number, &revision);
    printf("%d fibers, %d steps each: %ld\n", FIBERS, STEPS, number);
    weft_hub_close(hub);
    return rc < 0;
}
