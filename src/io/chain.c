/*
 * Chains. A chain runs several operations in sequence. Consecutive links that the backend can link
 * are submitted together. Other links run one by one. The rest of a partly done link also runs
 * separately.
 */
#include "core/limits.h"
#include "core/op/op.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/net.h>

static bool must_be_whole(const weft_link *l)
{
    return l->kind == WEFT_LINK_WRITE || l->kind == WEFT_LINK_SEND;
}

static const char *link_fault(const weft_link *l)
{
    bool has_buffer = l->kind >= WEFT_LINK_READ && l->kind <= WEFT_LINK_SEND;
    if (l->kind < WEFT_LINK_READ || l->kind > WEFT_LINK_FSYNC)
        return "kind is unknown";
    if (l->fd < 0 || (l->kind == WEFT_LINK_SPLICE && l->fd_out < 0))
        return "fd or fd_out is negative";
    if (has_buffer && l->data == NULL && l->bytes > 0)
        return "data is NULL";
    return NULL;
}

/* Return the operation for the remaining bytes of a link after done bytes. */
static weft__op link_op(const weft_link *l, size_t done)
{
    void *data = l->data != NULL ? (char *)l->data + done : NULL;
    size_t bytes = l->bytes - done;
    switch (l->kind) {
    case WEFT_LINK_READ:
        return (weft__op){
            .code = WEFT__OP_READ, .fd = l->fd, .u.buffer = {data, bytes, WEFT__OFFSET_CURRENT}};
    case WEFT_LINK_WRITE:
        return (weft__op){
            .code = WEFT__OP_WRITE, .fd = l->fd, .u.buffer = {data, bytes, WEFT__OFFSET_CURRENT}};
    case WEFT_LINK_RECV:
        return (weft__op){
            .code = WEFT__OP_RECV, .fd = l->fd, .u.packet = {data, bytes, l->flags & ~MSG_WAITALL}};
    case WEFT_LINK_SEND:
        return (weft__op){
            .code = WEFT__OP_SEND, .fd = l->fd, .u.packet = {data, bytes, l->flags & ~MSG_WAITALL}};
    case WEFT_LINK_FSYNC:
        return (weft__op){.code = WEFT__OP_FSYNC, .fd = l->fd};
    case WEFT_LINK_SPLICE:
        break;
    }
    return (weft__op){.code = WEFT__OP_SPLICE,
                      .fd = l->fd,
                      .u.copy = {.bytes = bytes, .fd_out = l->fd_out, .flags = (unsigned)l->flags}};
}

/*
 * Add the result of an operation to the result of its link. Returns true if the link is complete or
 * has failed.
 */
static bool link_record_result(weft_link *l, intptr_t result)
{
    size_t done = l->result > 0 ? (size_t)l->result : 0;
    if (result < 0) {
        l->result = result;
        return true;
    }
    l->result = (ssize_t)(done + (size_t)result);
    bool must_continue = must_be_whole(l) || (l->kind == WEFT_LINK_SPLICE && result > 0);
    return !must_continue || (size_t)l->result >= l->bytes;
}

/*
 * Run one link to its end. If the fiber was interrupted, the call returns false and stores the
 * return value of weft_chain in *result.
 */
static bool link_run(weft_link *l, intptr_t *result)
{
    bool is_over = false;
    while (!is_over) {
        weft__op op = link_op(l, l->result > 0 ? (size_t)l->result : 0);
        *result = weft__op_run(&op);
        if (weft__was_interrupted())
            return false;
        is_over = link_record_result(l, *result);
    }
    return true;
}

/* Return the number of leading links that can be submitted together. */
static size_t count_linkable(const weft_link *links, size_t count)
{
    size_t n = 0;
    while (n < count && n < WEFT__LINKS_MAX && links[n].kind != WEFT_LINK_SPLICE)
        n++;
    return n;
}

/*
 * Submit count links together, and record their results. *done must be 0. The call stores the
 * number of complete links in *done. The last complete link may have failed. Returns 0, or the
 * error that interrupted the call.
 */
static intptr_t links_run_linked(weft_link *links, size_t count, size_t *done)
{
    weft__chain_op run[WEFT__LINKS_MAX];
    for (size_t i = 0; i < count; i++)
        run[i].op = link_op(&links[i], 0);
    bool is_submitted;
    intptr_t rc = weft__chain_run(run, count, &is_submitted);
    bool is_interrupted = weft__was_interrupted();
    if (!is_submitted)
        return rc;
    for (; *done < count; ++*done) {
        intptr_t result = run[*done].result;
        if (result == -ECANCELED && !is_interrupted)
            break; /* not started, because the previous link was only partly done */
        if (!link_record_result(&links[*done], result))
            break;
        if (result < 0) {
            ++*done;
            break;
        }
    }
    return rc;
}

/*
 * Run at least one of the remaining links. *done must be 0. The call stores the number of complete
 * links in *done. If the fiber was interrupted, the call returns false and stores the return value
 * of weft_chain in *result.
 */
static bool links_run_some(weft_link *links, size_t count, size_t *done, intptr_t *result)
{
    size_t linkable = count_linkable(links, count);
    if (linkable > 1) {
        *result = links_run_linked(links, linkable, done);
        if (weft__was_interrupted())
            return false;
        if (*done > 0)
            return true;
    }
    *done = 1;
    return link_run(&links[0], result);
}

ssize_t weft_chain(weft_link *links, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *fault = link_fault(&links[i]);
        if (fault != NULL)
            return weft_fail(-EINVAL, "weft_chain: link %zu: %s", i, fault);
    }
    for (size_t i = 0; i < count; i++)
        links[i].result = -ECANCELED;
    for (size_t i = 0; i < count;) {
        size_t done = 0;
        intptr_t result = 0;
        if (!links_run_some(links + i, count - i, &done, &result))
            return result;
        i += done;
        if (links[i - 1].result < 0)
            return links[i - 1].result;
    }
    return count > 0 ? links[count - 1].result : 0;
}
