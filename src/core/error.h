/*
 * Errors with words: shared and counted, of one cord. The words never change once made; where an
 * error waits and what it has climbed to does.
 */
#ifndef WEFT_CORE_ERROR_H
#define WEFT_CORE_ERROR_H

#include "core/fiber.h"

#include <stdarg.h>

struct weft__error {
    weft_error_info info; /* points into this struct, and to the cause */
    uint32_t refs;
    uint32_t depth;           /* errors in the chain from here on */
    struct weft__error *next; /* in a fiber's raised list */
    bool is_raised;           /* in such a list */
    bool is_by_hand;          /* raised by weft_raise: not of a child */
    bool is_unseen;           /* of a child, returned by a call; nobody has asked for it since */
    uint8_t frames_count;
    uint8_t path_count;
    void *frames[WEFT__ERROR_FRAMES_MAX];   /* where it was recorded */
    weft_fiber path[WEFT__ERROR_CHAIN_MAX]; /* the fibers that it climbed to, in order */
    char fiber_name[WEFT__NAME_BYTES];
    char message[WEFT__ERROR_MESSAGE_BYTES];
};

/* A new error of fiber f. cause may be NULL; a reference to it is taken. NULL: no memory. */
weft__error *weft__error_new(const weft__fiber *f, int code, weft__error *cause, const char *format,
                             va_list args);

/* The same with plain words, and no cause. */
weft__error *weft__error_plain(const weft__fiber *f, int code, const char *words);

/* Note where the caller is, for the report. NULL is fine. */
void weft__error_locate(weft__error *e);

weft__error *weft__error_ref(weft__error *e);
void weft__error_unref(weft__error *e); /* NULL is fine */

/*
 * Make e the fiber's last error, taking over the reference. e may be NULL: no words, the old error
 * is forgotten.
 */
void weft__error_set(weft__fiber *f, weft__error *e);

/*
 * While it is not NULL, the calling thread, which is no cord and need not become one for that,
 * records its errors here: a record with an id and a name, in place of a fiber.
 */
extern __thread weft__fiber *weft__error_stand_in;

/*
 * The words for code with which f ends: its last error if that is it, else new ones. A reference;
 * NULL: no memory.
 */
weft__error *weft__error_of_end(weft__fiber *f, int code);

/*
 * Queue an error, which is in no queue, for delivery to f, taking over the reference; e may be
 * NULL, then only the code travels. Does not wake f. 0; -ENOMEM if another code without words waits
 * already: this one is lost.
 */
int weft__error_queue(weft__fiber *f, int code, weft__error *e);

/*
 * Take the oldest queued error, making it the fiber's last; returns its code, 0 if there is none.
 */
int weft__error_next(weft__fiber *f);

/*
 * Take this very error (NULL: the code without words) out of the queue, if it is there: it has been
 * delivered another way.
 */
void weft__error_unqueue(weft__fiber *f, const weft__error *e, int code);

/* Take one that is raised by hand out of the queue; the reference is the caller's. NULL: none. */
weft__error *weft__error_next_by_hand(weft__fiber *f);

/* Has the fiber's last error come from a child, and has the fiber not looked at it? */
static inline bool weft__error_is_unseen(const weft__fiber *f)
{
    return f->error != NULL && f->error->is_unseen;
}

/* Forget everything that is queued. */
void weft__error_drop_queue(weft__fiber *f);

/*
 * See to it that the fiber's last error is in no fiber's queue: it may be shared with others, then
 * it is copied.
 */
void weft__error_own(weft__fiber *f);

/*
 * A copy of an error and its causes that shares nothing with it, to be given to another thread;
 * NULL for NULL, or if there is no memory.
 */
weft__error *weft__error_clone(const weft__error *e);

/* The words of an errno, never NULL. */
const char *weft__error_text(int code);

#endif
