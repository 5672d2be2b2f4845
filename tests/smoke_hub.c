/*
 * A small program against libweft-hub, in the common subset of C and C++. The build compiles it as
 * both languages and against installed packages. Details are tested elsewhere.
 */
#include <weft.h>
#include <weft/hub.h>
#include <weft/hub_broker.h>

#include <stdio.h>

int main(void)
{
    weft_hub *hub = weft_hub_open("mem:smoke", NULL);
    uint64_t revision = 0, found = 0;
    if (hub == NULL || weft_hub_set(hub, "key", "value", 5, &revision) < 0 ||
        weft_hub_get(hub, "key", NULL, &found) < 0 || revision != found) {
        fprintf(stderr, "smoke_hub.c: the key has not the expected revision\n");
        return 1;
    }
    return weft_hub_close(hub) < 0;
}
