/* The limits and sizes of the core, with units and reasons. */
#ifndef WEFT_CORE_LIMITS_H
#define WEFT_CORE_LIMITS_H

#include <stddef.h>

/* Code that is compiled with a sanitizer needs several times as much stack. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEFT__STACK_BYTES_DEFAULT ((size_t)256 << 10)
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEFT__STACK_BYTES_DEFAULT ((size_t)256 << 10)
#endif
#endif
/*
 * printf of a double needs about 8 KiB of stack, and getaddrinfo needs 30 KiB. 64 KiB is enough for
 * most code. Untouched pages use no memory.
 */
#ifndef WEFT__STACK_BYTES_DEFAULT
#define WEFT__STACK_BYTES_DEFAULT ((size_t)64 << 10)
#endif

/* In a smaller stack, weft's frames and one printf leave no space for the program's frames. */
#define WEFT__STACK_BYTES_MIN ((size_t)16 << 10)
/* A larger size is probably a wrong unit. */
#define WEFT__STACK_BYTES_MAX ((size_t)1 << 30)

/*
 * The size of the top part of a stack. When a stack in the cache is emptied, its top part may keep
 * its pages. Most fibers use only the top part.
 */
#define WEFT__STACK_TOP_BYTES ((size_t)16 << 10)

/*
 * Slots per mapping of stacks. A slot is the memory of one stack and its guard. The first mapping
 * is small, for small programs. Each further mapping is twice as large, up to 4,096 slots or 256
 * MiB. A million stacks need about 250 mappings. By default, Linux allows a process 65,530
 * mappings.
 */
#define WEFT__STACK_CHUNK_SLOTS_MIN ((size_t)16)
#define WEFT__STACK_CHUNK_SLOTS_MAX ((size_t)4096)
#define WEFT__STACK_CHUNK_BYTES_MAX ((size_t)256 << 20)
/* A stack of more than this many bytes has its own mapping. */
#define WEFT__STACK_LARGE_BYTES ((size_t)1 << 20)
/* Free large stacks that remain mapped, per size class. */
#define WEFT__STACK_LARGE_CACHED ((size_t)2)

/*
 * Slots that one system call guards or empties. With 64 slots, the system call itself is a tenth of
 * the cost. A guard then takes 595 ns. With 1,024 slots, a guard would take 570 ns. The vector of
 * 64 slots has 1 KiB, and fits on a small stack.
 */
#define WEFT__STACK_BATCH ((size_t)64)

/*
 * Free stacks of a size class that keep their pages: MIN, or 1/PART of all stacks of the class if
 * that is more. A page takes 4 KiB of memory. Discarding a page takes 1 us, and getting a page
 * again takes 2 to 4 us. Therefore a busy thread keeps more pages than an idle thread.
 */
#define WEFT__STACK_WARM_MIN ((size_t)16384)
#define WEFT__STACK_WARM_PART ((size_t)4)
#define WEFT__STACK_WARM_BUSY_MIN ((size_t)131072)
#define WEFT__STACK_WARM_BUSY_PART ((size_t)2)
/* An idle thread discards pages only if its next timer is more than this many ns away. */
#define WEFT__TRIM_IDLE_NS 10000000
/*
 * Free stacks per size class, free fiber records with a stack, and free fiber records, that keep
 * their pages after an unused period. The next fibers use these pages. A stack has two pages, so
 * the stacks of an idle thread take half a MiB.
 */
#define WEFT__STACK_WARM_IDLE ((size_t)32)
#define WEFT__WARM_IDLE 32
#define WEFT__RECORDS_IDLE 256
/* The length of a period, in ns. See sched/trim.h. */
#define WEFT__TRIM_PERIOD_NS 1000000000

/*
 * If a size class has more than this many stacks, the top pages of new stacks are populated in
 * batches. The fibers of a class that grows this large use the pages soon.
 */
#define WEFT__STACK_POPULATE_FROM ((size_t)1024)

/*
 * Releases of stacks between two checks. A check tests whether a released stack has resident pages
 * below its top part. Such a stack is deep. A check is a system call of 1.2 us. One check per 1,024
 * releases adds about 1 ns to a release. The interval starts at FIRST, and doubles after each check
 * that finds no deep stack. After a deep stack is found, every release is checked.
 */
#define WEFT__STACK_SAMPLE_EVERY_FIRST ((size_t)16)
#define WEFT__STACK_SAMPLE_EVERY_MAX ((size_t)1024)
/*
 * Pages that one check inspects, from the top part downwards. The check needs one byte of stack per
 * page.
 */
#define WEFT__STACK_SAMPLE_PAGES ((size_t)64)
/*
 * The maximal size of deep free stacks in a size class, in bytes. Above this size, the colder half
 * of the deep stacks is emptied below the top part. Emptying a stack and touching its pages again
 * takes 27 to 222 us.
 */
#define WEFT__STACK_DEEP_BYTES_MAX ((size_t)16 << 20)

/*
 * Unawaited children of a parent, that is, ended children that no fiber has awaited. This many of
 * them keep their records of 256 bytes, and can be restarted.
 */
#define WEFT__UNAWAITED_RECORDS 1024
/*
 * Unawaited children of a parent before weft prints a warning. The warning is printed once per
 * process.
 */
#define WEFT__UNAWAITED_WARN 100000

/*
 * Free fiber records that keep their stacks. The stacks of further free records return to the stack
 * cache.
 */
#define WEFT__WARM_MAX 256

/*
 * The tops of neighbouring stacks have different offsets (colours). A colour is a multiple of a
 * cache line. With equal offsets, the tops of all stacks would share few cache sets. All colours
 * are below 1 KiB, which leaves most of the top page to the fiber.
 */
#define WEFT__STACK_COLOUR_BYTES ((size_t)64)
#define WEFT__STACK_COLOURS ((size_t)16)

/* The maximal size of a guard. A guard needs page tables with 8 bytes per page. */
#define WEFT__GUARD_BYTES_MAX ((size_t)16 << 20)

/*
 * The part of vm.max_map_count that guards made by mprotect may use, in percent. Each of these
 * guards needs two mappings.
 */
#define WEFT__GUARD_MAPS_PERCENT 40

/*
 * Bytes of the signal stack, without the kernel's frame. weft's report needs less than 8 KiB. An
 * earlier handler of the program may need more. Untouched pages use no memory.
 */
#define WEFT__SIGNAL_STACK_BYTES ((size_t)64 << 10)

/* Bytes of a fiber's name, including the terminator. The size of the record allows no more. */
#define WEFT__NAME_BYTES 32

/*
 * Bits of an id for the slot of the fiber in its cord, and for the cord. These bits limit the
 * number of fibers per cord, and the number of cords.
 */
#define WEFT__FIBERS_BITS 22
#define WEFT__CORDS_BITS 10

/*
 * Tables of chunks in a cord. A chunk is an array of fiber records. Each table is twice as large as
 * the previous table.
 */
#define WEFT__TABLES_MAX (WEFT__FIBERS_BITS + 1)

/* Remote messages in one allocation. The allocation (a slab) has 1.3 KiB. */
#define WEFT__MSG_SLAB_COUNT 32
/*
 * Delivered remote messages that a cord keeps, to send them again with new content. Each of these
 * messages may keep a slab allocated.
 */
#define WEFT__SPARE_MSGS_MAX 8

/*
 * Remote messages that a cord delivers in one round: BATCH, or 1/PART of the runnable fibers if
 * that is more. In a round, each runnable fiber runs once. Delivering 256 messages takes about 20
 * us, and delays timers and I/O by this time. Without the limit, fibers of remote spawns would fill
 * the run queue. With 1/8, the number of new fibers per round is less than a seventh of the number
 * of other fibers.
 */
#define WEFT__REMOTE_BATCH 256
#define WEFT__REMOTE_PART 8

/*
 * Remote messages that may be pending in a cord before senders wait or fail with -EAGAIN. A cord
 * that reads its inbox regularly has far fewer pending messages. This many messages take 640 KiB,
 * or 9 MiB if all are remote spawns.
 */
#define WEFT__REMOTE_PENDING_MAX 16384

/*
 * If only a thread without fibers could wake a cord, the cord counts the threads of the process
 * several times. The first check is after this many ns. The interval doubles with each check, so
 * the last check is after about 1 s. By then, a thread that ends after its last message has usually
 * ended.
 */
#define WEFT__FOREIGN_CHECK_NS 16000000
#define WEFT__FOREIGN_CHECKS_MAX 6

/*
 * When the process ends, it waits at most this many seconds for threads that weft started, and for
 * fibers that ignore their cancellation.
 */
#define WEFT__EXIT_GRACE_S 5

/*
 * The maximal number of switches per tick of the scheduler. At the end of a tick, the scheduler
 * reads the clock.
 */
#define WEFT__TICK_SWITCHES_MAX 64
/*
 * If a tick takes longer than this many ns, the next tick has half as many switches. If a tick
 * takes less than a quarter of this time, the next tick has twice as many switches. This rule
 * bounds the delay of timers and I/O.
 */
#define WEFT__TICK_NS_MAX 200000
/* Time between two polls while fibers are runnable, in ns. A poll takes as long as 100 switches. */
#define WEFT__POLL_EVERY_NS 50000

/*
 * Timers are coalesced if COALESCE_TIMERS timers have fired within COALESCE_NS, and as many are due
 * within the next COALESCE_NS. The due timers then fire together at the end of this interval.
 * Otherwise, each timer would need its own wait, a system call of 10 to 20 us. Timers that are not
 * coalesced are as exact as the kernel's clock.
 */
#define WEFT__COALESCE_TIMERS 4
#define WEFT__COALESCE_NS 1000000

/*
 * Consecutive operations that complete without waiting, before the fiber yields. A read of
 * available data takes 1 us, so the cost of a switch is small in comparison.
 */
#define WEFT__OPS_IN_A_ROW_MAX 64

/*
 * Consecutive refused calls of a fiber, before each further refused call yields. A refused call is
 * a blocking call that fails because the fiber is cancelled.
 */
#define WEFT__REFUSALS_MAX 16

/*
 * Consecutive refused calls, before each further refused call pauses the fiber. During the pause
 * (in ns), the processor is free, and virtual time can advance.
 */
#define WEFT__REFUSALS_PAUSED 1000
#define WEFT__REFUSAL_PAUSE_NS 1000000
/*
 * Consecutive refused calls, before weft reports the fiber on stderr. The pauses until then take
 * about 1 s.
 */
#define WEFT__REFUSALS_NAMED (WEFT__REFUSALS_PAUSED + 1000)

/*
 * Seconds that a fiber may compute before weft_check_slice prints a warning, and before it fails.
 * Users notice a delay of about 1 s.
 */
#define WEFT__SLICE_WARN_S 0.5
#define WEFT__SLICE_FAIL_S 1.0

/*
 * Consecutive checks in which the watchdog finds no progress of a cord, before the watchdog reports
 * the running fiber.
 */
#define WEFT__WATCHDOG_CHECKS 4
/*
 * Minimal time between two checks of the watchdog, in ns. This is about one time slice of the
 * kernel.
 */
#define WEFT__WATCHDOG_CHECK_NS_MIN 1000000
/*
 * Time that the watchdog waits for the backtrace of a stalled thread, in ns. The thread may have to
 * wait for a processor.
 */
#define WEFT__WATCHDOG_REPLY_NS 2000000000
#define WEFT__WATCHDOG_FRAMES_MAX 32

/*
 * Snapshots: the default time for cords to reply, and the time in which a stalled thread must
 * handle the signal for its backtrace.
 */
#define WEFT__SNAPSHOT_REPLY_S 0.5
#define WEFT__SNAPSHOT_TRACE_NS 100000000

/*
 * The maximal size of a report for a log function (weft_log_fn). The tree of fibers in a deadlock
 * report has no other bound. 1 MiB has room for some 500 fibers with backtraces.
 */
#define WEFT__REPORT_BYTES_MAX (1 << 20)

/*
 * The period of the shares of CPU time, in ns (debug/top.h). The weight of a period is half the
 * weight of the next period. Two periods must fit in 32 bits.
 */
#define WEFT__SHARE_PERIOD_NS 1000000000

/* The maximal number of errors in a chain of causes. */
#define WEFT__ERROR_CHAIN_MAX 16
/* Bytes of an error message, including the terminator. */
#define WEFT__ERROR_MESSAGE_BYTES 256
/* The maximal number of return addresses that an error records. */
#define WEFT__ERROR_FRAMES_MAX 16

/* The maximal number of fiber-local keys in the process. */
#define WEFT__KEYS_MAX 64

/*
 * The maximal number of operations that are submitted as one chain, from an array on the stack.
 * io/chain.c splits longer chains.
 */
#define WEFT__LINKS_MAX 16

/*
 * Time between two checks of the backend's descriptors, in ns. If the program closes a descriptor
 * of the backend (closefrom), events are delayed by at most this time. The counters that other
 * threads read are older than this time only if the thread does not switch (core/debug/stats.h).
 */
#define WEFT__CHECK_NS 100000000

/* The time between two copies of a busy cord's counters for other threads, in ns. */
#define WEFT__STATS_NS 10000000

/* A stall: fibers run for this time, and the cord neither polls nor reads its inbox. */
#define WEFT__STALL_NS 10000000

#endif
