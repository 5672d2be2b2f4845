/*
 * The minimum rate of a body. A peer has a time credit. The initial credit is slow_s seconds.
 * Waiting for the peer uses credit. Each transferred byte adds 1 / body_bytes_per_s_min seconds.
 * The credit never exceeds slow_s. A peer may therefore stall for slow_s seconds. A peer cannot
 * remain below the rate, even if the peer was faster before.
 */
#include "http/server/server.h"

#include <weft/time.h>

#include <errno.h>
#include <math.h>

int weft__min_rate_open(weft__min_rate_call *call, weft__min_rate *rate, const weft__server *server)
{
    call->rate = rate;
    call->server = server;
    call->from_s = weft_now();
    return weft_scope_open(&call->scope, rate->credit_s);
}

int weft__min_rate_close(weft__min_rate_call *call, uint64_t bytes)
{
    const weft_http_limits *l = &call->server->options.limits;
    /*
     * A call that is interrupted after a partial transfer succeeds. weft_scope_close then reports
     * no timeout.
     */
    bool is_timed_out = weft_scope_is_cancelled(&call->scope);
    (void)weft_scope_close(&call->scope);
    double spent_s = weft_now() - call->from_s;
    double left_s = call->rate->credit_s - spent_s + (double)bytes / l->body_bytes_per_s_min;
    call->rate->credit_s = fmin(fmax(left_s, 0), l->slow_s);
    return is_timed_out ? -ETIMEDOUT : 0;
}
