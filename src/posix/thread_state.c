/*
 * State of libc and OpenSSL that each fiber has for itself: errno, h_errno, the locale of
 * uselocale, the depth of weft_posix_pass, and the error queue of OpenSSL.
 */
#include "posix/hook.h"
#include "posix/wait.h"

#include <weft/thread_state.h>

#include <dlfcn.h>
#include <locale.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

typedef struct libc_state {
    locale_t locale;
    int error, resolver_error;
    int passes;
} libc_state;

static void libc_save(void *to)
{
    libc_state *state = to;
    state->error = errno;
    state->locale = uselocale((locale_t)0);
    state->resolver_error = h_errno;
    state->passes = weft__hook_thread_self.passes;
}

static void set_locale(locale_t locale)
{
    if (uselocale((locale_t)0) != locale)
        uselocale(locale);
}

static void libc_reset(void)
{
    set_locale(LC_GLOBAL_LOCALE);
    weft__hook_thread_self.passes = 0;
}

static void libc_restore(void *from)
{
    const libc_state *state = from;
    set_locale(state->locale);
    h_errno = state->resolver_error;
    weft__hook_thread_self.passes = state->passes;
    errno = state->error;
}

static const weft_thread_state libc_thread_state = {sizeof(libc_state), libc_save, libc_reset,
                                                    libc_restore};

/*
 * OpenSSL. Since version 3.2, OpenSSL has functions that save its error queue. In older versions,
 * the queue is the struct below.
 */

#define QUEUE_LENGTH 16

/* The ERR_STATE of OpenSSL 3.0 and 3.1. The queue is empty if top equals bottom. */
typedef struct queue_30 {
    int flags[QUEUE_LENGTH], marks[QUEUE_LENGTH];
    unsigned long codes[QUEUE_LENGTH];
    char *data[QUEUE_LENGTH];
    size_t data_bytes[QUEUE_LENGTH];
    int data_flags[QUEUE_LENGTH];
    char *files[QUEUE_LENGTH];
    int lines[QUEUE_LENGTH];
    char *functions[QUEUE_LENGTH];
    int top, bottom;
} queue_30;

/* Functions of libcrypto. */
typedef struct openssl_calls {
    unsigned long (*peek)(void);
    void (*clear)(void);
    queue_30 *(*get)(void);   /* 3.0 and 3.1 */
    void *(*state_new)(void); /* since 3.2, as the next three */
    void (*state_free)(void *state);
    void (*state_save)(void *state);
    void (*state_restore)(const void *state);
} openssl_calls;

static openssl_calls openssl; /* constant after the state of OpenSSL is registered */

/* Move the error queue to allocated memory. Return NULL if it is empty or memory is exhausted. */
static void *queue_take(void)
{
    if (openssl.peek() == 0)
        return NULL;
    if (openssl.state_new != NULL) {
        void *state = openssl.state_new();
        if (state != NULL)
            openssl.state_save(state);
        return state;
    }
    queue_30 *saved = malloc(sizeof *saved), *queue = openssl.get();
    if (saved != NULL) {
        *saved = *queue;
        memset(queue, 0, sizeof *queue); /* `saved` owns the texts */
    }
    return saved;
}

static void queue_put(void *saved)
{
    if (openssl.peek() != 0)
        openssl.clear();
    if (saved == NULL)
        return;
    if (openssl.state_new != NULL) {
        openssl.state_restore(saved);
        openssl.state_free(saved);
        return;
    }
    openssl.clear(); /* frees the texts of entries that were read */
    *openssl.get() = *(queue_30 *)saved;
    free(saved);
}

static void openssl_save(void *to)
{
    int error = errno;
    *(void **)to = queue_take();
    errno = error;
}

static void openssl_reset(void)
{
    int error = errno;
    if (openssl.peek() != 0)
        openssl.clear();
    errno = error;
}

static void openssl_restore(void *from)
{
    int error = errno;
    queue_put(*(void **)from);
    errno = error;
}

static const weft_thread_state openssl_thread_state = {sizeof(void *), openssl_save, openssl_reset,
                                                       openssl_restore};

/* Find a function, and store its address in a pointer to a function. */
static bool find_function(void *library, const char *name, void *pointer)
{
    void *address = dlsym(library, name);
    memcpy(pointer, &address, sizeof address);
    return address != NULL;
}

/* Find the functions of libcrypto, if a module of the process has loaded libcrypto. */
static bool openssl_find(openssl_calls *calls)
{
    void *library = dlopen("libcrypto.so.3", RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        return false;
    bool has_all = find_function(library, "ERR_peek_error", &calls->peek) &&
                   find_function(library, "ERR_clear_error", &calls->clear);
    bool is_new = find_function(library, "OSSL_ERR_STATE_new", &calls->state_new) &&
                  find_function(library, "OSSL_ERR_STATE_free", &calls->state_free) &&
                  find_function(library, "OSSL_ERR_STATE_save", &calls->state_save) &&
                  find_function(library, "OSSL_ERR_STATE_restore", &calls->state_restore);
    if (!is_new)
        calls->state_new = NULL;
    /* The reference keeps libcrypto loaded, because every switch uses libcrypto from now on. */
    return has_all && (is_new || find_function(library, "ERR_get_state", &calls->get));
}

/*
 * Register the state of OpenSSL once. The lock must not be held during dlopen: a constructor that
 * dlopen runs in another thread may call weft_adopt.
 */
static void openssl_register(const openssl_calls *calls, _Atomic(bool) *is_registered)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    REAL(pthread_mutex_lock)(&lock);
    if (!atomic_load(is_registered)) {
        openssl = *calls;
        (void)weft_thread_state_add(&openssl_thread_state);
        atomic_store(is_registered, true);
    }
    REAL(pthread_mutex_unlock)(&lock);
}

void weft__posix_states_add(void)
{
    static _Atomic(bool) has_openssl;
    openssl_calls calls;
    (void)weft_thread_state_add(&libc_thread_state);
    if (!atomic_load(&has_openssl) && openssl_find(&calls))
        openssl_register(&calls, &has_openssl);
}
