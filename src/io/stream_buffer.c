/*
 * The memory of streams. A thread keeps spare buffers, in a class for each size: a stream has a
 * buffer only while it holds something, so that a hundred thousand connections need only as many as
 * are at work. malloc would shrink and grow the heap by system calls where the buffers are at its
 * end.
 */
#include "io/stream.h"

#include "base/compiler.h"

#include <pthread.h>

/* Sizes that a thread keeps buffers of: the usual one, which is the first, and three others. */
#define CLASSES 4
/* Buffers of a class: with io_uring a whole batch of connections writes at once. */
#define CLASS_BUFFERS_MAX 128
/* Bytes of a class. */
#define CLASS_BYTES_MAX ((size_t)2 << 20)
/* A larger buffer is not kept: one that a line has made grow would take the room of many. */
#define BUFFER_BYTES_MAX ((size_t)1 << 20)

/* A free buffer: its first bytes lead to the next. */
typedef struct spare {
    struct spare *next;
} spare;

/* Buffers of one size. */
typedef struct size_class {
    size_t bytes;
    unsigned count, count_max;
    spare *first;
    uint64_t used; /* number of its last use; not counted for the first class */
} size_class;

typedef struct spares {
    bool is_known; /* to the key, by which they are freed with the thread */
    uint64_t uses;
    size_class classes[CLASSES];
} spares;

static __thread spares kept;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

/* The buffer that was freed last; there is one. */
static char *pop(size_class *f)
{
    spare *popped = f->first;
    f->first = popped->next;
    f->count--;
    return (char *)popped;
}

static void clear_class(size_class *f)
{
    while (f->first != NULL)
        free(pop(f));
}

static void free_spares(void *arg)
{
    spares *s = arg;
    for (int i = 0; i < CLASSES; i++)
        clear_class(&s->classes[i]);
    s->is_known = false;
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, free_spares) == 0;
}

/* Without the key they would outlive their thread. */
static COLD bool open_classes(spares *s)
{
    pthread_once(&once, make_key);
    s->is_known = has_key && pthread_setspecific(key, s) == 0;
    s->classes[0].bytes = WEFT__BUFFER_BYTES;
    s->classes[0].count_max = CLASS_BUFFERS_MAX;
    return s->is_known;
}

static bool is_kept(size_t bytes)
{
    return bytes >= sizeof(spare) && bytes <= BUFFER_BYTES_MAX;
}

/* The class of a size other than the usual one; NULL: there is none. */
static size_class *find_class(spares *s, size_t bytes)
{
    for (int i = 1; i < CLASSES; i++)
        if (s->classes[i].bytes == bytes) {
            s->classes[i].used = ++s->uses;
            return &s->classes[i];
        }
    return NULL;
}

/* The same; if there is none, replace the class that has been unused for longest. */
static size_class *make_class(spares *s, size_t bytes)
{
    size_class *found = find_class(s, bytes);
    if (found != NULL)
        return found;
    size_class *oldest = &s->classes[1];
    for (int i = 2; i < CLASSES; i++)
        oldest = s->classes[i].used < oldest->used ? &s->classes[i] : oldest;
    clear_class(oldest);
    size_t fit = CLASS_BYTES_MAX / bytes;
    *oldest = (size_class){
        .bytes = bytes, .count_max = fit < CLASS_BUFFERS_MAX ? (unsigned)fit : CLASS_BUFFERS_MAX};
    oldest->used = ++s->uses;
    return oldest;
}

static char *take(size_t bytes)
{
    spares *s = &kept;
    size_class *f = bytes == WEFT__BUFFER_BYTES ? &s->classes[0] : find_class(s, bytes);
    return f != NULL && f->first != NULL ? pop(f) : malloc(bytes + 1);
}

static void give(char *data, size_t bytes)
{
    spares *s = &kept;
    size_class *f = NULL;
    if (LIKELY(s->is_known) || open_classes(s))
        f = bytes == WEFT__BUFFER_BYTES ? &s->classes[0]
            : is_kept(bytes)            ? make_class(s, bytes)
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
