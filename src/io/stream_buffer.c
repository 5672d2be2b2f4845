/*
 * The memory of streams. A thread keeps buffers for whoever reads or writes next, each size on a
 * shelf of its own: a stream has a buffer only while it holds something, so that a hundred thousand
 * connections need no more of them than are at work. The heap would be asked for each, and where
 * they lie at its end, it would be cut and grown by a system call each time.
 */
#include "io/stream.h"

#include "base/compiler.h"

#include <pthread.h>

/* Sizes that a thread keeps buffers of: the usual one, which is the first, and three others. */
#define SHELVES 4
/* Buffers on a shelf: with io_uring a whole batch of connections writes at once. */
#define SHELF_MAX 128
/* Bytes on a shelf. */
#define SHELF_BYTES_MAX ((size_t)2 << 20)
/* A larger buffer is not kept: one that a line has made grow would take the room of many. */
#define BUFFER_BYTES_MAX ((size_t)1 << 20)

/* A buffer that nobody has: its first bytes lead to the next. */
typedef struct spare {
    struct spare *next;
} spare;

/* Buffers of one size. */
typedef struct shelf {
    size_t bytes;
    unsigned count, count_max;
    spare *first;
    uint64_t used; /* when it was last looked for, by a count of that; not of the first shelf */
} shelf;

typedef struct spares {
    bool is_known; /* to the key, by which they are freed with the thread */
    uint64_t uses;
    shelf shelves[SHELVES];
} spares;

static __thread spares kept;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

/* The buffer that was put there last; there is one. */
static char *pop(shelf *f)
{
    spare *popped = f->first;
    f->first = popped->next;
    f->count--;
    return (char *)popped;
}

static void clear_shelf(shelf *f)
{
    while (f->first != NULL)
        free(pop(f));
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
static COLD bool open_shelves(spares *s)
{
    pthread_once(&once, make_key);
    s->is_known = has_key && pthread_setspecific(key, s) == 0;
    s->shelves[0].bytes = WEFT__BUFFER_BYTES;
    s->shelves[0].count_max = SHELF_MAX;
    return s->is_known;
}

static bool is_kept(size_t bytes)
{
    return bytes >= sizeof(spare) && bytes <= BUFFER_BYTES_MAX;
}

/* The shelf of another size than the usual one; NULL: none has it. */
static shelf *find_shelf(spares *s, size_t bytes)
{
    for (int i = 1; i < SHELVES; i++)
        if (s->shelves[i].bytes == bytes) {
            s->shelves[i].used = ++s->uses;
            return &s->shelves[i];
        }
    return NULL;
}

/* The same, and if there is none, in place of the one that was not used for longest. */
static shelf *make_shelf(spares *s, size_t bytes)
{
    shelf *found = find_shelf(s, bytes);
    if (found != NULL)
        return found;
    shelf *oldest = &s->shelves[1];
    for (int i = 2; i < SHELVES; i++)
        oldest = s->shelves[i].used < oldest->used ? &s->shelves[i] : oldest;
    clear_shelf(oldest);
    size_t fit = SHELF_BYTES_MAX / bytes;
    *oldest = (shelf){.bytes = bytes, .count_max = fit < SHELF_MAX ? (unsigned)fit : SHELF_MAX};
    oldest->used = ++s->uses;
    return oldest;
}

static char *take(size_t bytes)
{
    spares *s = &kept;
    shelf *f = bytes == WEFT__BUFFER_BYTES ? &s->shelves[0] : find_shelf(s, bytes);
    return f != NULL && f->first != NULL ? pop(f) : malloc(bytes + 1);
}

static void give(char *data, size_t bytes)
{
    spares *s = &kept;
    shelf *f = NULL;
    if (LIKELY(s->is_known) || open_shelves(s))
        f = bytes == WEFT__BUFFER_BYTES ? &s->shelves[0]
            : is_kept(bytes)            ? make_shelf(s, bytes)
                                        : NULL;
    if (f == NULL || f->count == f->count_max) {
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
