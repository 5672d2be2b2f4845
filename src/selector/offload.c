/* Calls of a host on worker threads. See selector.h. */
#include "selector/selector.h"

#include "core/cord/cord.h"

#include <errno.h>
#include <stdlib.h>

/* A call. A worker thread may use it after the operation has ended. */
typedef struct host_call {
    weft_fn *fn;
    void *arg;
    void (*drop)(void *arg); /* NULL: the call cannot be left while it runs */
} host_call;

/* If fn has created fibers, end them: an idle worker must not be a cord. */
static intptr_t host_call_run(void *arg)
{
    const host_call *call = arg;
    weft_value value = call->fn(call->arg);
    if (weft__cord_self != NULL)
        weft__cord_close(weft__cord_self);
    return value;
}

static void host_call_drop(void *arg)
{
    host_call *call = arg;
    call->drop(call->arg);
    free(call);
}

/* After a cancellation with drop, host_call_drop frees the call, and arg is NULL. */
static void host_call_leave(weft__record *r)
{
    const host_call *call = r->op.u.call.arg;
    if (call != NULL && call->drop != NULL)
        call->drop(call->arg);
}

static void host_call_release(weft__record *r)
{
    free(r->op.u.call.arg);
}

weft_value weft_selector_offload(weft_selector *s, weft_selector_op *op, weft_fn *fn, void *arg,
                                 void (*drop)(void *arg))
{
    weft__record *r;
    int rc = fn != NULL ? weft__record_new(s, op, &r) : -EINVAL;
    if (rc < 0)
        return rc;
    host_call *call = malloc(sizeof *call);
    if (call == NULL) {
        weft__record_free(r);
        return -ENOMEM;
    }
    *call = (host_call){fn, arg, drop};
    r->op.code = WEFT__OP_CALL;
    r->op.fd = -1;
    r->op.u.call.fn = host_call_run;
    r->op.u.call.arg = call;
    r->op.u.call.drop = drop != NULL ? host_call_drop : NULL;
    r->op.u.call.worker_queue = WEFT__WORKER_QUEUE_USER;
    r->release = host_call_release;
    r->leave = host_call_leave;
    r->is_kept = true;
    return weft__record_submit(r);
}
