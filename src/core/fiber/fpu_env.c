/*
 * The FPU environments of a thread: one shared environment, and the environments of single fibers.
 */
#include "core/fiber/fpu_env.h"

#include "core/cord/cord.h"

static bool has_own_fpu_env(const weft__fiber *f)
{
    return f->live->extras != NULL && f->live->extras->has_fpu_env;
}

/* Record whether a fiber has its own environment, and update the cord's count. */
static void fpu_env_note_owner(weft__cord *c, weft__extras *x, bool is_own)
{
    x->has_fpu_env = is_own;
    c->fpu_env_owners += is_own ? 1u : -1u;
    weft__cord_update_slow_switch(c);
}

void weft__fpu_env_swap(weft__cord *c, const weft__fiber *from, const weft__fiber *to)
{
    bool is_own_before = has_own_fpu_env(from), is_own_after = has_own_fpu_env(to);
    if (is_own_before)
        from->live->extras->fpu_env = weft__fpu_env_read();
    else if (is_own_after)
        c->fpu_env = weft__fpu_env_read();
    if (is_own_after)
        weft__fpu_env_write(to->live->extras->fpu_env);
    else if (is_own_before)
        weft__fpu_env_write(c->fpu_env);
}

void weft__fpu_env_drop(weft__cord *c, const weft__fiber *f)
{
    if (!has_own_fpu_env(f))
        return;
    if (f == c->current)
        weft__fpu_env_write(c->fpu_env);
    fpu_env_note_owner(c, f->live->extras, false);
}

int weft_own_fpu_env(bool is_own)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (!is_own) {
        weft__fpu_env_drop(c, c->current);
        return 0;
    }
    weft__extras *x = weft__extras_here();
    if (x == NULL)
        return -ENOMEM;
    if (!x->has_fpu_env) {
        c->fpu_env = weft__fpu_env_read();
        fpu_env_note_owner(c, x, true);
    }
    return 0;
}
