/*
 * How slow a peer may be with a body. A peer has credit, in seconds: waiting for it costs them,
 * each byte that moves earns some, by the least rate that is allowed, and there is never more than
 * at the start. So a stall is forgiven up to slow_s, and a trickle below the rate is not, however
 * long what went before.
 */
#include "http/server.h"

#include <weft/time.h>

#include <errno.h>
#include <math.h>

void weft__pace_start(weft__pace *p, const weft__server *s)
{
    p->credit_s = s->options.limits.slow_s;
}

int weft__pace_open(weft__pace_turn *t, weft__pace *p, const weft__server *s)
{
    t->pace = p;
    t->server = s;
    t->from_s = weft_now();
    return weft_scope_open(&t->scope, p->credit_s);
}

int weft__pace_close(weft__pace_turn *t, uint64_t bytes)
{
    const weft_http_limits *l = &t->server->options.limits;
    /* Also if it cut the call short after a part: that is no timeout of the scope. */
    bool is_up = weft_scope_is_cancelled(&t->scope);
    (void)weft_scope_close(&t->scope);
    double spent_s = weft_now() - t->from_s;
    double left_s = t->pace->credit_s - spent_s + (double)bytes / l->body_bytes_per_s_min;
    t->pace->credit_s = fmin(fmax(left_s, 0), l->slow_s);
    return is_up ? -ETIMEDOUT : 0;
}
