/*
 * A reaper handles the end of fibers instead of their parent. Each group and each supervisor has a
 * reaper.
 */
#ifndef WEFT_CORE_LIFETIME_REAPER_H
#define WEFT_CORE_LIFETIME_REAPER_H

#include <weft/base.h>

struct weft__fiber;
typedef struct weft__reaper weft__reaper;

typedef struct weft__reaper_type {
    /*
     * Handle the end of a fiber. Return false if the reaper no longer needs the fiber. Return true
     * to keep the record of the fiber. The reaper must then restart or release the fiber later. If
     * the reaper has also set f->reaper to NULL, the reaper must collect the fiber instead.
     */
    bool (*ended)(weft__reaper *r, struct weft__fiber *f, weft_value value);
    /*
     * Stop tracking a fiber, because the fiber gets another parent or another reaper. weft_fork
     * also calls this function in the child, where the fiber does not exist.
     */
    void (*left)(weft__reaper *r, struct weft__fiber *f);
    /*
     * Handle a fiber that becomes a child of a fiber with this children_reaper. The child is new,
     * restarted or attached. NULL: the reaper is never a children_reaper.
     */
    void (*joined)(weft__reaper *r, struct weft__fiber *f);
    /*
     * Return whether the reaper is ending the fiber. The reaper then restarts or releases the
     * fiber, and weft_restart waits until then. NULL: always false.
     */
    bool (*holds)(const weft__reaper *r, const struct weft__fiber *f);
} weft__reaper_type;

struct weft__reaper {
    const weft__reaper_type *type;
    bool is_ending; /* the fibers of the reaper are stopped, and must not restart */
};

#endif
