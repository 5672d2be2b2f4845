/*
 * Snapshots: a copy of the state of all fibers of all cords, and the names of code addresses.
 *
 * weft_dump, the reports of weft, `weft top` and the inspector page print snapshots. A snapshot
 * belongs to the caller. Fibers that run or end later do not change it.
 *
 * Each cord copies the state of its own fibers between two switches. A cord that does not switch in
 * time is represented by its running fiber only. A snapshot without backtraces stops a cord for
 * about 0.1 us per fiber.
 *
 * The structs of this header may gain fields in any version before 1.0. See version.h.
 */
#ifndef WEFT_SNAPSHOT_H
#define WEFT_SNAPSHOT_H

#include <weft/debug.h>

WEFT_BEGIN

/* Options of a snapshot. All-zero is the default. */
typedef struct weft_snapshot_options {
    weft_cord cord;      /* copy only fibers of this cord; 0: of all cords */
    weft_fiber fiber;    /* copy only this fiber; 0: all fibers */
    unsigned frames_max; /* return addresses per fiber, at most 256; 0: no backtraces */
    bool has_addresses;  /* look up the addresses of the sockets that fibers wait for */
    double timeout_s;    /* time for cords to reply; 0: 0.5 s */
} weft_snapshot_options;

/* The copy of a cord. The strings belong to the snapshot. */
typedef struct weft_snapshot_cord {
    weft_cord id;
    const char *name;    /* the name of the thread */
    const char *backend; /* the name of the backend */
    int thread_id;       /* as in gettid(2); 0: not known */
    bool has_replied;    /* false: the cord did not switch in time, and most fibers are missing */
    double stalled_s;    /* time since the last switch, if has_replied is false */
    size_t fibers_count; /* fibers of this cord in the snapshot */
    weft_counters counters;
} weft_snapshot_cord;

/* The copy of a fiber. The strings, also those of info, belong to the snapshot. */
typedef struct weft_snapshot_fiber {
    weft_info info;
    uint32_t cord;  /* index in cords of the snapshot */
    uint32_t depth; /* distance from the main fiber; 0: a main fiber */
    /*
     * Return addresses, the innermost first. Fibers with equal stacks have the same pointer. NULL:
     * no frames, or no backtraces in this snapshot.
     */
    void *const *frames;
    uint32_t frames_count;
    const char *local; /* the address of the socket info.fd; "": none */
    const char *peer;  /* the address of its peer; "": none */
} weft_snapshot_fiber;

/* Cords by index, and fibers by cord. Within a cord, parents are before their children. */
typedef struct weft_snapshot {
    double taken_s; /* seconds since the epoch */
    weft_snapshot_cord *cords;
    size_t cords_count;
    weft_snapshot_fiber *fibers;
    size_t fibers_count;
} weft_snapshot;

/**
 * Take a snapshot of the fibers of all cords.
 *
 * The call waits until each cord has replied, at most options->timeout_s. Other fibers of the
 * calling thread run meanwhile. A plain thread does not become a cord, and blocks. If options is
 * NULL, the defaults apply. The caller must free *out with weft_snapshot_free.
 *
 * Returns 0, or an error of a blocking call (see weft_await), or:
 * -EINVAL if options->timeout_s is negative or NaN
 * -ENOMEM if memory is exhausted
 * -ENOTRECOVERABLE in a child of plain fork(2)
 * -ESRCH if options names a cord or a fiber that does not exist
 */
WEFT_SWITCHPOINT int weft_snapshot_take(const weft_snapshot_options *options, weft_snapshot **out);

/** Free a snapshot. If snapshot is NULL, the call does nothing. */
WEFT_API void weft_snapshot_free(weft_snapshot *snapshot);

/* The use of stacks by the fibers that one call created with one function. */
typedef struct weft_stack_use {
    const void *spun_at; /* as in weft_info */
    weft_fn *fn;
    size_t fibers;          /* measured fibers */
    size_t stack_bytes;     /* size of their stacks; the largest if the sizes differ */
    size_t used_max;        /* deepest use, rounded up to whole pages */
    size_t suggested_bytes; /* a size for stack_bytes of weft_spin_options */
} weft_stack_use;

/**
 * Get the deepest use of stacks by spawn site.
 *
 * The result contains the fibers of the snapshot. If snapshot is NULL, the result contains no
 * living fibers. A stack keeps the mark of earlier fibers on the same stack, so the use of a living
 * fiber may be overstated. With WEFT_STACK_ADVICE=1 in the environment, the result also contains
 * all ended fibers of the process, and each fiber is measured alone. Ending a fiber then needs two
 * system calls.
 *
 * The call stores at most n sites. The site that wastes most memory is the first.
 *
 * Returns the number of known sites, which may be more than n, or:
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_stack_advice(const weft_snapshot *snapshot, weft_stack_use *out, size_t n);

/* The name of a code address. The strings belong to the library, and are never freed. */
typedef struct weft_symbol {
    const char *function; /* "": not known */
    const char *file;     /* the source file; "": not known */
    unsigned line;        /* 0: not known */
    const char *module;   /* the program or the shared library; "": not known */
    uintptr_t offset;     /* of the address in the module, for addr2line(1) */
} weft_symbol;

/**
 * Find the function and the source line of a code address.
 *
 * For a return address, pass the address minus 1. The first call loads libdw of elfutils, if it is
 * installed and 128 MiB of memory are available. Otherwise the result names only functions that the
 * symbol tables of the modules list. The call may read files, and blocks the thread. The library
 * remembers the results.
 *
 * Returns 0, or:
 * -ENOENT if the address is in no module; *out is then empty
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_symbol_find(const void *address, weft_symbol *out);

WEFT_END

#endif
