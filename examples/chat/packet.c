#include "packet.h"

#include <stdlib.h>

packet *packet_new(json_writer *text)
{
    packet *p = text->has_failed ? NULL : calloc(1, sizeof *p);
    if (p == NULL) {
        free(text->text);
        return NULL;
    }
    p->holders = 1;
    p->text = text->text;
    p->bytes = text->bytes;
    return p;
}

int packet_tell(weft_fiber to, packet *p)
{
    int rc = weft_try_tell(to, (weft_value)p);
    if (rc == 0)
        p->holders++;
    return rc;
}

void packet_release(packet *p)
{
    if (p == NULL || --p->holders > 0)
        return;
    free(p->text);
    free(p);
}
