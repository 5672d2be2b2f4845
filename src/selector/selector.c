/* Open and close selectors. See selector.h. */
#include "selector/selector.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The address of this variable identifies a thread. */
static __thread char thread_mark;

/* The number of forks since the first process. */
static unsigned forks;

static void count_fork(void)
{
    forks++;
}

static void install_fork_handler(void)
{
    (void)pthread_atfork(NULL, NULL, count_fork);
}

bool weft__selector_is_inherited(const weft_selector *s)
{
    return s->forks != forks;
}

/* Find the static name of the backend. NULL: the environment names none. Returns 0 or -errno. */
static int find_backend(const weft_selector_options *o, const char **out)
{
    const char *requested = o != NULL ? o->backend : NULL;
    const char *name = requested != NULL ? requested : getenv("WEFT_BACKEND");
    *out = name != NULL ? weft__backend_known(name) : NULL;
    if (requested != NULL && *out == NULL)
        return -EINVAL;
    return *out != NULL && strcmp(*out, weft__backend_sim.name) == 0 ? -EOPNOTSUPP : 0;
}

int weft_selector_open(weft_selector **out, const weft_selector_options *options)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *name = NULL;
    int rc = out != NULL ? find_backend(options, &name) : -EINVAL;
    if (rc < 0)
        return rc;
    weft_selector *s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    pthread_once(&once, install_fork_handler);
    s->backend_name = name;
    s->forks = forks;
    weft__list_init(&s->completed);
    weft__list_init(&s->records);
    weft__list_init(&s->free_records);
    weft__wheel_init(&s->wheel, weft__clock_ns());
    *out = s;
    return 0;
}

int weft__selector_open_backend(weft_selector *s, const char *name)
{
    const char *ignored;
    weft__backend *b;
    int rc = weft__backend_open(&b, name, false, &ignored);
    if (rc < 0) {
        weft__backend_none_open(&s->none, rc);
        b = &s->none.base;
    }
    b->is_hosted = true;
    atomic_store(&s->backend, b);
    return rc;
}

static COLD int selector_first_use(weft_selector *s)
{
    if (weft__selector_is_inherited(s))
        return -ENOTRECOVERABLE;
    if (s->thread != NULL)
        return -EXDEV;
    int rc = weft__selector_open_backend(s, s->backend_name);
    if (rc < 0)
        atomic_store(&s->backend, NULL); /* the next use tries again */
    else
        s->thread = &thread_mark;
    return rc;
}

int weft__selector_use(weft_selector *s)
{
    if (LIKELY(s->thread == &thread_mark && s->forks == forks))
        return 0;
    return selector_first_use(s);
}

const char *weft_selector_backend(weft_selector *s)
{
    return weft__selector_use(s) == 0 ? weft__selector_backend(s)->type->name : NULL;
}

size_t weft_selector_pending(const weft_selector *s)
{
    return s->pending;
}

double weft_selector_now(void)
{
    return (double)weft__clock_ns() / WEFT__NS_PER_S;
}

/* Leave all operations, and cancel those of the backend. The host's operations are not used. */
static void records_leave(weft_selector *s)
{
    weft__list *node = s->records.next;
    while (node != &s->records) {
        weft__record *r = CONTAINER_OF(node, weft__record, link);
        weft__backend *b = weft__selector_backend(s);
        node = node->next;
        if (r->host == NULL)
            continue;
        r->host = NULL;
        if (r->is_submitted && !b->type->cancel(b, &r->op)) {
            s->abandoned++;
            continue;
        }
        if (r->leave != NULL)
            r->leave(r);
        weft__record_free(r);
    }
}

/*
 * Give up the backend of another thread, whose ring only that thread can enter. Only jobs of worker
 * threads remain.
 */
static void backend_leave(weft_selector *s)
{
    weft__backend *old = weft__selector_backend(s);
    old->type->give_up(old, -ECANCELED);
    old->retired = s->retired;
    s->retired = old;
    weft__backend_none_open(&s->none, -ECANCELED);
    weft__finished_jobs_hand_over(old, &s->none.base);
    atomic_store(&s->backend, &s->none.base);
}

static void selector_free(weft_selector *s)
{
    for (weft__record_slab *slab = s->slabs, *next; slab != NULL; slab = next) {
        next = slab->next;
        free(slab);
    }
    free(s);
}

static void backends_close(weft_selector *s)
{
    weft__backend *b = weft__selector_backend(s);
    if (b != NULL) {
        weft__finished_jobs_close(b); /* jobs of a retired backend use its memory */
        b->type->close(b);
    }
    for (weft__backend *old = s->retired, *next; old != NULL; old = next) {
        next = old->retired;
        old->type->close(old);
    }
}

/*
 * Close the copy of a parent's selector. If another thread of the parent has used it, its memory
 * may be inconsistent, and is not freed.
 */
static void selector_close_copy(weft_selector *s)
{
    weft__backend *b = weft__selector_backend(s);
    bool is_own = s->thread == NULL || s->thread == &thread_mark;
    if (b != NULL && b->type->abandon != NULL)
        b->type->abandon(b, is_own);
    if (!is_own)
        return;
    backends_close(s);
    selector_free(s);
}

void weft_selector_close(weft_selector *s)
{
    if (s == NULL)
        return;
    if (weft__selector_is_inherited(s)) {
        selector_close_copy(s);
        return;
    }
    if (weft__selector_backend(s) != NULL) {
        records_leave(s);
        if (s->thread != &thread_mark)
            backend_leave(s);
        while (s->abandoned > 0)
            weft__selector_poll_backend(s, WEFT__POLL_FOREVER);
        backends_close(s);
    }
    selector_free(s);
}
