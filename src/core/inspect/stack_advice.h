/*
 * The stack advisor: the deepest use of stacks by spawn site.
 *
 * While the advisor is on (WEFT_STACK_ADVICE=1), the end of each fiber measures the stack of the
 * fiber, and discards its pages, so that the next fiber on the stack is measured alone. While the
 * advisor is off, only living fibers are known.
 */
#ifndef WEFT_CORE_INSPECT_STACK_ADVICE_H
#define WEFT_CORE_INSPECT_STACK_ADVICE_H

#include "core/cord/cord.h"
#include "core/debug/report.h"

#include <weft/snapshot.h>

/* Return whether WEFT_STACK_ADVICE asks for the advisor. */
bool weft__stack_advice_is_on(void);

/* Record the use of the stack of a fiber that ends. The caller may run on this stack. */
void weft__stack_advice_add(const weft__fiber *f);

/* Print a line for each spawn site. Print nothing if no site is known. */
void weft__stack_advice_print(weft__report *r, const weft_snapshot *s);

/* Print the advice to stderr, when the process ends. */
void weft__stack_advice_at_exit(void);

/* Reset the lock in a child of fork(2). */
void weft__stack_advice_after_fork(void);

#endif
