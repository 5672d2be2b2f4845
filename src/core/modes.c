/* Floating-point modes: the thread's, or a fiber's own. */
#include "core/modes.h"

#include "core/cord.h"

static bool owns_modes(const weft__fiber *f)
{
    return f->life->extras != NULL && f->life->extras->has_modes;
}

static void note_owner(weft__cord *c, weft__extras *x, bool is_own)
{
    x->has_modes = is_own;
    c->modes_owners += is_own ? 1u : -1u;
    c->has_more_to_swap = c->cxx != NULL || c->modes_owners > 0;
}

void weft__modes_swap(weft__cord *c, const weft__fiber *from, const weft__fiber *to)
{
    bool is_own_before = owns_modes(from), is_own_after = owns_modes(to);
    if (is_own_before)
        from->life->extras->modes = weft__modes_read();
    else if (is_own_after)
        c->modes = weft__modes_read();
    if (is_own_after)
        weft__modes_write(to->life->extras->modes);
    else if (is_own_before)
        weft__modes_write(c->modes);
}

void weft__modes_drop(weft__cord *c, const weft__fiber *f)
{
    if (!owns_modes(f))
        return;
    if (f == c->current)
        weft__modes_write(c->modes);
    note_owner(c, f->life->extras, false);
}

int weft_own_modes(bool is_own)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (!is_own) {
        weft__modes_drop(c, c->current);
        return 0;
    }
    weft__extras *x = weft__extras_here();
    if (x == NULL)
        return -ENOMEM;
    if (!x->has_modes) {
        c->modes = weft__modes_read();
        note_owner(c, x, true);
    }
    return 0;
}
