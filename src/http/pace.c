/*
 * How slow a peer may be with a body. A peer has credit, in seconds: waiting for it costs them,
 * each byte that moves earns some, by the least rate that is allowed, and there is never more than
 * at the start. So a stall is forgiven up to slow_s, and a trickle below the rate is not, however
 * long what went before.
 */
#include "http/server.h"

#include <weft/time.h>

#include <math.h>

void weft__pace_start(weft__pace *p, const weft__server *s)
{
    p->credit_s = s->options.limits.slow_s;
}

int weft__pace_open(weft__pace *p, weft_scope *scope, double *from_s)
{
    *from_s = weft_now();
    return weft_scope_open(scope, p->credit_s);
}

int weft__pace_close(weft__pace *p, const weft__server *s, weft_scope *scope, double from_s,
                     uint64_t bytes)
{
    const weft_http_limits *l = &s->options.limits;
    int rc = weft_scope_close(scope);
    double left = p->credit_s - (weft_now() - from_s) + (double)bytes / l->body_bytes_per_s_min;
    p->credit_s = fmin(fmax(left, 0), l->slow_s);
    return rc;
}
