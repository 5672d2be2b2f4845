/*
 * Chains: several operations in a row. As many as the backend can take at once are submitted as
 * one; where it cannot, or where one of them has done only a part, it goes on link by link.
 */
#include "core/limits.h"
#include "core/op.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/net.h>

static bool must_be_whole(const weft_link *l)
{
    return l->kind == WEFT_LINK_WRITE || l->kind == WEFT_LINK_SEND;
}

static const char *fault_of(const weft_link *l)
{
    bool has_buffer = l->kind >= WEFT_LINK_READ && l->kind <= WEFT_LINK_SEND;
    if (l->kind < WEFT_LINK_READ || l->kind > WEFT_LINK_FSYNC)
        return "is of no kind";
    if (l->fd < 0 || (l->kind == WEFT_LINK_SPLICE && l->fd_out < 0))
        return "has no descriptor";
    if (has_buffer && l->data == NULL && l->bytes > 0)
        return "has no buffer";
    return NULL;
}

/* The operation of a link of which so many bytes are done. */
static weft__op op_of(const weft_link *l, size_t done)
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

/* Note what one more operation of this link did. True: the link is complete, or has failed. */
static bool note(weft_link *l, intptr_t result)
{
    size_t done = l->result > 0 ? (size_t)l->result : 0;
    if (result < 0) {
        l->result = result;
        return true;
    }
    l->result = (ssize_t)(done + (size_t)result);
    bool goes_on = must_be_whole(l) || (l->kind == WEFT_LINK_SPLICE && result > 0);
    return !goes_on || (size_t)l->result >= l->bytes;
}

/* One link by itself, to its end. False: it was struck, and *result is what comes back. */
static bool run_one(weft_link *l, intptr_t *result)
{
    bool is_over = false;
    while (!is_over) {
        weft__op op = op_of(l, l->result > 0 ? (size_t)l->result : 0);
        *result = weft__op_run(&op);
        if (weft__was_struck())
            return false;
        is_over = note(l, *result);
    }
    return true;
}

/* How many from here on can be submitted as one. */
static size_t count_linkable(const weft_link *links, size_t count)
{
    size_t n = 0;
    while (n < count && n < WEFT__LINKS_MAX && links[n].kind != WEFT_LINK_SPLICE)
        n++;
    return n;
}

/*
 * Submit so many as one and note what they did: *done of them are complete, and the last of those
 * may have failed. 0; or it was struck, by what this returns.
 */
static intptr_t run_linked(weft_link *links, size_t count, size_t *done)
{
    weft__link run[WEFT__LINKS_MAX];
    for (size_t i = 0; i < count; i++)
        run[i].op = op_of(&links[i], 0);
    bool is_submitted;
    intptr_t rc = weft__links_run(run, count, &is_submitted);
    bool is_struck = weft__was_struck();
    if (!is_submitted)
        return rc;
    for (; *done < count; ++*done) {
        intptr_t result = run[*done].result;
        if (result == -ECANCELED && !is_struck)
            break; /* not begun: the one before it did less than the kernel wanted */
        if (!note(&links[*done], result))
            break;
        if (result < 0) {
            ++*done;
            break;
        }
    }
    return rc;
}

/* Some of what is left: *done links are complete. False: it was struck, by *result. */
static bool run_some(weft_link *links, size_t count, size_t *done, intptr_t *result)
{
    size_t linkable = count_linkable(links, count);
    if (linkable > 1) {
        *result = run_linked(links, linkable, done);
        if (weft__was_struck())
            return false;
        if (*done > 0)
            return true;
    }
    *done = 1;
    return run_one(&links[0], result);
}

ssize_t weft_chain(weft_link *links, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *fault = fault_of(&links[i]);
        if (fault != NULL)
            return weft_fail(-EINVAL, "link %zu of the chain %s", i, fault);
    }
    for (size_t i = 0; i < count; i++)
        links[i].result = -ECANCELED;
    for (size_t i = 0; i < count;) {
        size_t done = 0;
        intptr_t result = 0;
        if (!run_some(links + i, count - i, &done, &result))
            return result;
        i += done;
        if (links[i - 1].result < 0)
            return links[i - 1].result;
    }
    return count > 0 ? links[count - 1].result : 0;
}
