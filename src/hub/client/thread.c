/*
 * Hubs and threads. A hub belongs to the thread that opened it, and to its process.
 *
 * A thread that ends without closing its hubs ends their fibers first. Deferred calls of other
 * fibers may still use the hubs. The memory is freed when the thread is gone. The memory of the
 * main thread remains reachable until the process ends.
 */
#include "hub/client/hub.h"

#include <pthread.h>
#include <stdatomic.h>

/* The address is different in each thread. */
static __thread weft__list thread_hubs;

static atomic_uint forks; /* incremented in each child of a fork */
static pthread_key_t hubs_key;
static pthread_once_t hubs_once = PTHREAD_ONCE_INIT;
static bool is_prepared;

static void note_fork(void)
{
    atomic_fetch_add(&forks, 1);
}

static weft_hub *hub_of(weft__list *node)
{
    return CONTAINER_OF(node, weft_hub, node);
}

/*
 * The destructor of hubs_key. weft ends the fibers of a thread in a destructor too, and the order
 * is not defined. The first call therefore asks for another one.
 */
static void thread_end(void *arg)
{
    weft__list *hubs = arg;
    static __thread bool was_called;
    if (!was_called && pthread_setspecific(hubs_key, hubs) == 0) {
        was_called = true;
        return;
    }
    while (!weft__list_is_empty(hubs))
        weft__hub_free(hub_of(hubs->next));
}

static void hubs_prepare(void)
{
    is_prepared = pthread_key_create(&hubs_key, thread_end) == 0 &&
                  pthread_atfork(NULL, NULL, note_fork) == 0;
}

int weft__thread_add_hub(weft_hub *hub)
{
    pthread_once(&hubs_once, hubs_prepare);
    if (!is_prepared || pthread_setspecific(hubs_key, &thread_hubs) != 0)
        return -ENOMEM;
    if (thread_hubs.next == NULL)
        weft__list_init(&thread_hubs);
    weft__list_insert(&thread_hubs, &hub->node);
    hub->thread = &thread_hubs;
    hub->forks = atomic_load(&forks);
    return 0;
}

bool weft__thread_is_own(const weft_hub *hub)
{
    return hub->thread == &thread_hubs;
}

bool weft__thread_is_forked(const weft_hub *hub)
{
    return UNLIKELY(hub->forks != atomic_load_explicit(&forks, memory_order_relaxed));
}
