/*
 * The memory of stream buffers. Each thread caches free buffers in size classes. Flushing releases
 * the output buffer, and weft_stream_wait releases both buffers. 100,000 idle connections therefore
 * need no buffers. With plain malloc, each free at the end of the heap could shrink the heap by a
 * system call.
 */
#include "io/stream/stream.h"

#include "base/compiler.h"

#include <pthread.h>

/* The number of size classes per thread. The first class has the default size. */
#define CLASSES 4
/*
 * The maximum number of cached buffers per class. With io_uring, a whole batch of connections
 * writes at the same time.
 */
#define CLASS_BUFFERS_MAX 128
/* The maximum number of cached bytes per class, except for the first class. */
#define CLASS_BYTES_MAX ((size_t)2 << 20)
/* The maximum size of a cached buffer. A larger buffer would take the space of many others. */
#define BUFFER_BYTES_MAX ((size_t)1 << 20)

/* A free buffer. Its first bytes hold the link. */
typedef struct spare {
    struct spare *next;
} spare;

/* The free buffers of one size. */
typedef struct size_class {
    size_t bytes;
    unsigned count, count_max;
    spare *first;
    uint64_t used; /* value of spares.uses at the last use; unused in the first class */
} size_class;

typedef struct spares {
    bool is_registered; /* registered with spares_key, which frees the buffers at thread exit */
    uint64_t uses;
    size_class classes[CLASSES];
} spares;

static __thread spares thread_spares;
static pthread_once_t spares_once = PTHREAD_ONCE_INIT;
static pthread_key_t spares_key;
static bool has_spares_key;

/* Pop the buffer that was freed last. The class must not be empty. */
static char *spare_pop(size_class *cls)
{
    spare *popped = cls->first;
    cls->first = popped->next;
    cls->count--;
    return (char *)popped;
}

static void class_clear(size_class *cls)
{
    while (cls->first != NULL)
        free(spare_pop(cls));
}

static void spares_free(void *arg)
{
    spares *s = arg;
    for (int i = 0; i < CLASSES; i++)
        class_clear(&s->classes[i]);
    s->is_registered = false;
}

static void spares_make_key(void)
{
    has_spares_key = pthread_key_create(&spares_key, spares_free) == 0;
}

/*
 * Register the cache of the thread, so that its buffers are freed when the thread ends. Returns
 * false if the registration fails. The thread must then not cache buffers.
 */
static COLD bool spares_register(spares *s)
{
    pthread_once(&spares_once, spares_make_key);
    s->is_registered = has_spares_key && pthread_setspecific(spares_key, s) == 0;
    s->classes[0].bytes = WEFT__BUFFER_BYTES;
    s->classes[0].count_max = CLASS_BUFFERS_MAX;
    return s->is_registered;
}

static bool is_cacheable(size_t bytes)
{
    return bytes >= sizeof(spare) && bytes <= BUFFER_BYTES_MAX;
}

/* Return the class of a size other than the default. Returns NULL if there is no such class. */
static size_class *class_find(spares *s, size_t bytes)
{
    for (int i = 1; i < CLASSES; i++)
        if (s->classes[i].bytes == bytes) {
            s->classes[i].used = ++s->uses;
            return &s->classes[i];
        }
    return NULL;
}

/* Like class_find, but if there is no such class, replace the least recently used class. */
static size_class *class_find_or_replace(spares *s, size_t bytes)
{
    size_class *found = class_find(s, bytes);
    if (found != NULL)
        return found;
    size_class *oldest = &s->classes[1];
    for (int i = 2; i < CLASSES; i++)
        oldest = s->classes[i].used < oldest->used ? &s->classes[i] : oldest;
    class_clear(oldest);
    size_t fit = CLASS_BYTES_MAX / bytes;
    *oldest = (size_class){
        .bytes = bytes, .count_max = fit < CLASS_BUFFERS_MAX ? (unsigned)fit : CLASS_BUFFERS_MAX};
    oldest->used = ++s->uses;
    return oldest;
}

static char *buffer_alloc(size_t bytes)
{
    spares *s = &thread_spares;
    size_class *cls = bytes == WEFT__BUFFER_BYTES ? &s->classes[0] : class_find(s, bytes);
    return cls != NULL && cls->first != NULL ? spare_pop(cls) : malloc(bytes + 1);
}

static void buffer_free(char *data, size_t bytes)
{
    spares *s = &thread_spares;
    size_class *cls = NULL;
    if (LIKELY(s->is_registered) || spares_register(s))
        cls = bytes == WEFT__BUFFER_BYTES ? &s->classes[0]
              : is_cacheable(bytes)       ? class_find_or_replace(s, bytes)
                                          : NULL;
    if (cls == NULL || cls->count == cls->count_max) {
        free(data);
        return;
    }
    spare *freed = (spare *)(void *)data;
    freed->next = cls->first;
    cls->first = freed;
    cls->count++;
}

/*
 * Move the held bytes to memory with a capacity of bytes bytes. Returns the memory, or NULL if
 * memory is exhausted.
 */
static char *buffer_move(weft__buffer *b, size_t bytes)
{
    bool is_own = b->data != NULL && b->data != b->borrowed;
    bool fits = b->borrowed != NULL && bytes <= b->borrowed_bytes;
    if (is_own && !fits && !is_cacheable(bytes))
        return realloc(b->data, bytes + 1);
    char *data = fits ? b->borrowed : buffer_alloc(bytes);
    if (data == NULL || data == b->data)
        return data;
    if (weft__buffer_held(b) > 0)
        memcpy(data, b->data + b->head, weft__buffer_held(b));
    if (is_own)
        buffer_free(b->data, b->bytes);
    return data;
}

int weft__buffer_resize(weft__buffer *b, size_t bytes)
{
    weft__buffer_compact(b);
    char *data = buffer_move(b, bytes);
    if (data == NULL)
        return -ENOMEM;
    b->data = data;
    b->bytes = bytes;
    return 0;
}

void weft__buffer_release(weft__buffer *b)
{
    if (b->data != NULL && b->data != b->borrowed)
        buffer_free(b->data, b->bytes);
    b->data = NULL;
    b->bytes = 0;
    b->head = 0;
    b->tail = 0;
}
