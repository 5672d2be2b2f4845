/*
 * The inspector page, on the public API of libweft.
 *
 * A viewer is a connection with an event stream (stream.c). Viewers share samples (sampler.c): a
 * viewer takes a snapshot if the last one is too old. There is no fiber that samples, so sampling
 * ends with the last viewer. An index (index.c) groups the fibers of a snapshot. A view (view.c)
 * selects the rows that a viewer sees. rows.c writes them as JSON.
 */
#ifndef WEFT_INSPECT_INSPECT_H
#define WEFT_INSPECT_INSPECT_H

#include "http/json/json.h"

#include <weft/inspect.h>
#include <weft/snapshot.h>

#include <pthread.h>
#include <stdatomic.h>

/* An index of a fiber or a group that does not exist. */
#define WEFT__NONE UINT32_MAX
/* Fibers of one parent with equal keys are one row if there are at least this number. */
#define WEFT__GROUP_MIN 4
/* Rows of the table of wait reasons. Further reasons are not listed. */
#define WEFT__REASONS_MAX 64
/* Rows of the table of stack advice. */
#define WEFT__ADVICE_MAX 16
/* The largest time between two samples. */
#define WEFT__PERIOD_MAX_S 3600.0
/* Points of the timeline. */
#define WEFT__POINTS_MAX 60
/* Cords with a curve of their own in the timeline. */
#define WEFT__POINT_CORDS_MAX 8
/* Remembered names of code addresses. */
#define WEFT__SYMBOLS_MAX 3072
/* Slots of the hash table of these names. Empty slots keep each search short. */
#define WEFT__SYMBOL_SLOTS 4096
/* The size of a name with its NUL. weft_spin cuts names to 31 bytes. */
#define WEFT__NAME_BYTES 32

/* The place of a fiber in the tree. */
typedef struct weft__tree_node {
    uint32_t parent;      /* WEFT__NONE: a root */
    uint32_t group;       /* the group of the fiber */
    uint32_t next;        /* the next fiber of the group, or WEFT__NONE */
    uint32_t groups;      /* the first group of children, or WEFT__NONE */
    uint32_t groups_last; /* the last group of children, or WEFT__NONE */
} weft__tree_node;

/* Children of one parent with the same name except digits, function, state and wait reason. */
typedef struct weft__fiber_group {
    uint64_t key;    /* a hash of these properties; the same in each snapshot */
    uint32_t parent; /* WEFT__NONE: roots */
    uint32_t next;   /* the next group of the parent, or WEFT__NONE */
    uint32_t first, last;
    uint32_t count;
} weft__fiber_group;

/* A reason for waits: a row of the table of wait reasons. */
typedef struct weft__wait_reason {
    const char *text;
    size_t count;
    double waiting_s;   /* the longest wait */
    weft_fiber waiting; /* the fiber with the longest wait */
} weft__wait_reason;

/* The tree, the groups and the sums of a snapshot. */
typedef struct weft__index {
    const weft_snapshot *snapshot;
    weft__tree_node *nodes; /* one for each fiber of the snapshot */
    weft__fiber_group *groups;
    size_t groups_count;
    uint32_t roots;    /* the first group of main fibers, or WEFT__NONE */
    uint32_t *by_id;   /* hash table of fibers: index + 1; 0: empty */
    size_t by_id_mask; /* the size of the table minus 1 */
    weft__wait_reason reasons[WEFT__REASONS_MAX]; /* most fibers first */
    size_t reasons_count;
    size_t running, runnable, waiting; /* fibers by state */
    uint64_t stack_bytes, stack_used;  /* sums of all fibers */
} weft__index;

/*
 * Build the index of a snapshot, which must outlive the index. Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__index_open(weft__index *x, const weft_snapshot *snapshot);
void weft__index_close(weft__index *x);

/* Return the index of a fiber in the snapshot, or WEFT__NONE. */
uint32_t weft__index_find(const weft__index *x, weft_fiber id);

/* Hash a text (FNV-1a), beginning with a hash. */
#define WEFT__HASH_FIRST 14695981039346656037u
static inline uint64_t weft__hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

/* The state of all cords at one time: a point of the timeline. */
typedef struct weft__point {
    double at_s; /* seconds since the epoch */
    uint64_t switches_per_s;
    uint64_t runnable, fibers;
    unsigned stalled; /* cords that did not reply */
    uint32_t cpu;     /* of the process, in hundredths of a percent of a core */
    struct {
        int thread_id;
        uint32_t cpu;
    } cords[WEFT__POINT_CORDS_MAX];
    size_t cords_count;
} weft__point;

/* The CPU time of a cord at the last sample. */
typedef struct weft__cord_cpu {
    int thread_id;
    double cpu_s;
    uint64_t switches;
    uint32_t share;          /* in hundredths of a percent of a core */
    uint64_t switches_per_s; /* since the sample before */
} weft__cord_cpu;

/* A snapshot with its index, shared by viewers. */
typedef struct weft__sample {
    unsigned users; /* guarded by the lock of the inspector */
    uint64_t number;
    weft_snapshot *snapshot;
    weft__index index;
    weft_counters total;
    weft_stack_use advice[WEFT__ADVICE_MAX]; /* the site that wastes most is the first */
    size_t advice_count;
    weft_inspector *inspector; /* has the names of functions */
    weft__point point;
    weft__cord_cpu *cords; /* one for each cord of the snapshot */
    double process_cpu_s;
    double copy_s;     /* the estimated CPU time to copy a fiber */
    double interval_s; /* until the next sample */
} weft__sample;

/* The name of a code address. All-zero is an unused entry. */
typedef struct weft__symbol_entry {
    const void *address;
    weft_symbol symbol;
} weft__symbol_entry;

struct weft_inspector {
    char *title, *token, *hosts; /* token and hosts may be NULL */
    weft_inspector_options options;
    pthread_mutex_t lock; /* guards all fields below; held for a short time, never in a switch */
    size_t viewers;
    weft__sample *latest; /* NULL: none, or no viewer */
    bool is_sampling;     /* a viewer takes a snapshot */
    double next_s;        /* when the next sample is due, of the monotonic clock */
    uint64_t samples;     /* number of samples so far; tests watch it */
    weft__point points[WEFT__POINTS_MAX];
    uint64_t points_count; /* all points so far; the last WEFT__POINTS_MAX are in points */
    weft_cord *accounted;  /* cords where the inspector has called weft_account(true) */
    size_t accounted_count;
    weft__symbol_entry *symbols; /* hash table of WEFT__SYMBOL_SLOTS entries */
    size_t symbols_count;
};

/*
 * Samples.
 */

/* Count a viewer. Returns 0, or -EBUSY if too many viewers are connected. */
int weft__viewer_enter(weft_inspector *i);

/* Forget a viewer. The last viewer frees the sample, and ends the accounting. */
void weft__viewer_leave(weft_inspector *i);

/*
 * Get the latest sample, and take a new one if it is due. If another viewer takes one, get the
 * sample before it, if one exists. Release the sample with weft__sample_release. Returns 0, or an
 * error of weft_snapshot_take.
 */
int weft__sample_get(weft_inspector *i, weft__sample **out);
void weft__sample_release(weft_inspector *i, weft__sample *sample);

/* Copy the points after number *since, at most WEFT__POINTS_MAX, and advance *since. */
size_t weft__points_copy(weft_inspector *i, uint64_t *since, weft__point *out);

/* Turn accounting on in cords where it is off, or off where the inspector has turned it on. */
void weft__account_start(weft_inspector *i, const weft_snapshot *snapshot);
void weft__account_stop(weft_inspector *i);

/* Return the CPU time of the calling thread. */
double weft__cpu_time_self(void);

/*
 * Symbols.
 */

/*
 * Find the names of addresses on a worker thread, unless they are remembered. After the call,
 * weft__symbol_get returns them. Returns 0, or an error of weft_offload.
 */
int weft__symbols_find(weft_inspector *i, const void *const *addresses, size_t count);

/* Return the address of a call for weft__symbols_find: a return address is behind its call. */
static inline const void *weft__call_address(const void *return_address)
{
    return return_address != NULL ? (const char *)return_address - 1 : NULL;
}

/* Return the remembered name of an address. All strings are "" if there is none. */
weft_symbol weft__symbol_get(weft_inspector *i, const void *address);

/*
 * Views.
 */

typedef enum weft__view_sort {
    WEFT__SORT_CPU,
    WEFT__SORT_WAIT,
    WEFT__SORT_STACK,
    WEFT__SORT_SWITCHES,
    WEFT__SORT_NAME,
} weft__view_sort;

/* What a viewer sees: the query of the event stream. The strings belong to the request. */
typedef struct weft__view {
    bool is_list; /* a sorted list; false: the tree */
    weft__view_sort sort;
    const char *text;   /* search text; "": none */
    const char *state;  /* "running", "runnable" or "waiting"; "": all */
    const char *reason; /* the reason of the wait; "": all */
    int thread_id;      /* fibers of this cord; 0: all */
    uint64_t *toggled;  /* sorted keys: opened groups and closed fibers */
    size_t toggled_count;
    size_t from;  /* the first visible row */
    size_t limit; /* number of visible rows */
} weft__view;

/* A visible row: a fiber or a group. */
typedef struct weft__view_row {
    uint64_t key;
    uint32_t fiber; /* the fiber, or the first fiber of the group */
    uint32_t group; /* WEFT__NONE: the row is a fiber */
    uint32_t count; /* fibers of the group */
    uint32_t level; /* 1: a root */
    bool can_open, is_open;
    bool is_context; /* does not match the filter, but has descendants that do */
} weft__view_row;

/* The visible rows of a sample. */
typedef struct weft__view_page {
    weft__view_row *rows;
    size_t count;
    size_t from;     /* of the view, or less if there are fewer rows */
    size_t total;    /* rows on all pages */
    size_t matching; /* fibers that match the filter */
} weft__view_page;

/* Read the query of a request. Returns 0, -EINVAL or -ENOMEM. */
int weft__view_read(weft__view *v, weft_http_request *request);

bool weft__view_has_filter(const weft__view *v);

/* Return whether a fiber matches the filter. */
bool weft__view_matches(const weft__view *v, weft_inspector *i, const weft__index *x, uint32_t f);

/* Compute the visible rows. The caller frees page->rows. Returns 0 or -ENOMEM. */
int weft__view_select(const weft__view *v, weft_inspector *i, const weft__index *x,
                      weft__view_page *page);

/*
 * JSON.
 */

/*
 * Write the values of a row, except the begin of its wait. Returns the begin of the wait in ms
 * since the epoch, of a group the begin of the longest wait, or 0 if the row does not wait.
 */
int64_t weft__row_write(weft__json *w, weft_inspector *i, const weft__index *x, const weft__view *v,
                        const weft__view_row *row);

/* Write members of the update: counters, cords, reasons, points, latencies, stack advice. */
void weft__write_program(weft__json *w, const weft_inspector *i);
void weft__write_sums(weft__json *w, const weft__sample *s);
void weft__write_cords(weft__json *w, const weft__sample *s);
void weft__write_reasons(weft__json *w, const weft__sample *s);
void weft__write_points(weft__json *w, const weft__point *points, size_t count);
void weft__write_latency(weft__json *w, const weft__sample *s);
void weft__write_advice(weft__json *w, const weft__sample *s);

/* The name of a state. */
const char *weft__state_name(weft_state state);

/*
 * Requests.
 */

/* Send updates until the viewer leaves. */
int weft__serve_events(weft_http_request *request, weft_inspector *i);

/* Reply with the details and the backtrace of the fiber in the query. */
int weft__serve_fiber(weft_http_request *request, weft_inspector *i);

/* Stop the fiber in the form of the request, or write its dump. */
int weft__serve_stop(weft_http_request *request, weft_inspector *i);
int weft__serve_dump(weft_http_request *request, weft_inspector *i);

/*
 * Take a snapshot of one fiber with its backtrace, and find all names. id is a decimal number.
 * Returns 0, an error of weft_snapshot_take or weft_offload, or:
 * -ESRCH if id is NULL or not the id of a fiber
 * -ETIMEDOUT if the cord of the fiber is stalled
 */
int weft__fiber_snapshot(weft_inspector *i, const char *id, weft_snapshot **out);

/* Return whether the options allow the client and the host of a request. */
bool weft__access_is_allowed(weft_http_request *request, const weft_inspector *i);

/* Return whether a request comes from a page of this origin, or from a program. */
bool weft__access_is_same_origin(weft_http_request *request);

/* Return whether a request has the token. The time does not depend on the bytes of the token. */
bool weft__access_has_token(weft_http_request *request, const weft_inspector *i);

/* The files of the page, from src/inspect/page/ (tools/embed). */
typedef struct weft__page_file {
    const char *name; /* "": the page itself */
    const char *type;
    const unsigned char *bytes;
    size_t count;
} weft__page_file;
extern const weft__page_file weft__page_files[];
extern const size_t weft__page_files_count;

#endif
