/*
 * The memory of streams. A thread keeps buffers for whoever reads or writes next, each size on a
 * shelf of its own: a stream has a buffer only while it holds something, so that a hundred thousand
 * connections need no more of them than are at work. The heap would be asked for each, and where
 * they lie at its end, it would be cut and grown by a system call each time.
 */
#include "io/stream.h"

#include <pthread.h>

/* Sizes that a thread keeps buffers of: for reading, for writing, and two that have grown. */
#define SHELVES 4
/* What a shelf holds at most: with io_uring a whole batch of connections writes at once. */
#define SHELF_BYTES_MAX ((size_t)1 << 20)

/* A buffer that nobody has: its first bytes lead to the next. */
typedef struct spare {
    struct spare *next;
} spare;

/* Buffers of one size. */
typedef struct shelf {
    size_t bytes;
    size_t count;
    spare *first;
} shelf;

typedef struct spares {
    bool is_known;   /* to the key, by which they are freed with the thread */
    unsigned victim; /* the shelf that is cleared next for another size */
    shelf shelves[SHELVES];
} spares;

static __thread spares kept;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

static void clear_shelf(shelf *f)
{
    while (f->first != NULL) {
        spare *next = f->first->next;
        free(f->first);
        f->first = next;
    }
    f->count = 0;
}

static void free_spares(void *arg)
{
    spares *s = arg;
    for (int i = 0; i < SHELVES; i++)
        clear_shelf(&s->shelves[i]);
    s->is_known = false;
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, free_spares) == 0;
}

/* Without the key they would outlive their thread. */
static bool may_keep(spares *s)
{
    if (s->is_known)
        return true;
    pthread_once(&once, make_key);
    s->is_known = has_key && pthread_setspecific(key, s) == 0;
    return s->is_known;
}

/* The shelf of a size; NULL: none has it. */
static shelf *find_shelf(spares *s, size_t bytes)
{
    for (int i = 0; i < SHELVES; i++)
        if (s->shelves[i].bytes == bytes)
            return &s->shelves[i];
    return NULL;
}

/* The same, and in place of another one if there is none. */
static shelf *make_shelf(spares *s, size_t bytes)
{
    shelf *f = find_shelf(s, bytes);
    if (f != NULL)
        return f;
    f = &s->shelves[s->victim++ % SHELVES];
    clear_shelf(f);
    f->bytes = bytes;
    return f;
}

static bool is_kept(size_t bytes)
{
    return bytes >= sizeof(spare) && bytes <= SHELF_BYTES_MAX;
}

static char *take(size_t bytes)
{
    shelf *f = find_shelf(&kept, bytes);
    if (f == NULL || f->first == NULL)
        return malloc(bytes + 1);
    spare *taken = f->first;
    f->first = taken->next;
    f->count--;
    return (char *)taken;
}

static void give(char *data, size_t bytes)
{
    shelf *f = is_kept(bytes) && may_keep(&kept) ? make_shelf(&kept, bytes) : NULL;
    if (f == NULL || f->count * bytes + bytes > SHELF_BYTES_MAX) {
        free(data);
        return;
    }
    spare *given = (spare *)(void *)data;
    given->next = f->first;
    f->first = given;
    f->count++;
}

/* The data that it is to have from now on, with what it holds. */
static char *move_to(weft__buffer *b, size_t bytes)
{
    bool is_own = b->data != NULL && b->data != b->lent;
    bool fits = b->lent != NULL && bytes <= b->lent_bytes;
    if (is_own && !fits && !is_kept(bytes))
        return realloc(b->data, bytes + 1);
    char *data = fits ? b->lent : take(bytes);
    if (data == NULL || data == b->data)
        return data;
    if (weft__buffer_held(b) > 0)
        memcpy(data, b->data + b->head, weft__buffer_held(b));
    if (is_own)
        give(b->data, b->bytes);
    return data;
}

int weft__buffer_resize(weft__buffer *b, size_t bytes)
{
    weft__buffer_compact(b);
    char *data = move_to(b, bytes);
    if (data == NULL)
        return -ENOMEM;
    b->data = data;
    b->bytes = bytes;
    return 0;
}

void weft__buffer_release(weft__buffer *b)
{
    if (b->data != NULL && b->data != b->lent)
        give(b->data, b->bytes);
    b->data = NULL;
    b->bytes = 0;
    b->head = 0;
    b->tail = 0;
}
