/* The numbers, each with its unit and its reason. */
#ifndef WEFT_CORE_LIMITS_H
#define WEFT_CORE_LIMITS_H

#include <stddef.h>

/* Sanitized code needs several times the stack. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEFT__STACK_BYTES_DEFAULT ((size_t)256 << 10)
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WEFT__STACK_BYTES_DEFAULT ((size_t)256 << 10)
#endif
#endif
/*
 * Printing a double with printf takes about 8 KiB, getaddrinfo 30: 64 KiB serve most code, and
 * untouched pages cost nothing.
 */
#ifndef WEFT__STACK_BYTES_DEFAULT
#define WEFT__STACK_BYTES_DEFAULT ((size_t)64 << 10)
#endif

/* Below this our own frames and one printf leave nothing to the user. */
#define WEFT__STACK_BYTES_MIN ((size_t)16 << 10)
/* Above this it is a mistake in units rather than a wish. */
#define WEFT__STACK_BYTES_MAX ((size_t)1 << 30)

/* Part of a stack, from its top, whose pages a cached stack may keep: most fibers go no deeper. */
#define WEFT__STACK_TOP_BYTES ((size_t)16 << 10)

/*
 * Slots mapped at once: few at first, for the small program; doubling up to 4096, or 256 MiB, so
 * that a million stacks are some 250 mappings (of 65,530).
 */
#define WEFT__STACK_CHUNK_SLOTS_MIN ((size_t)16)
#define WEFT__STACK_CHUNK_SLOTS_MAX ((size_t)4096)
#define WEFT__STACK_CHUNK_BYTES_MAX ((size_t)256 << 20)
/* Slots above this many bytes have a mapping each; but for a few, free ones are unmapped. */
#define WEFT__STACK_ALONE_BYTES ((size_t)1 << 20)
#define WEFT__STACK_ALONE_CACHED ((size_t)2)

/*
 * Slots that one system call guards, or empties: at 64 the call itself is a tenth of the cost
 * (595 ns a guard; 570 with 1024), and the vector of 1 KiB fits on a small stack.
 */
#define WEFT__STACK_BATCH ((size_t)64)

/*
 * Free stacks of a class that keep their pages: so many, or that part of all there are. A page
 * costs 4 KiB to keep, a microsecond to give back and 2 to 4 to get again: so a thread that has
 * something to do keeps more of them, until it has nothing to do for so long (ns).
 */
#define WEFT__STACK_WARM_MIN ((size_t)16384)
#define WEFT__STACK_WARM_PART ((size_t)4)
#define WEFT__STACK_WARM_BUSY_MIN ((size_t)131072)
#define WEFT__STACK_WARM_BUSY_PART ((size_t)2)
#define WEFT__CALM_NS 10000000
/*
 * Of free stacks that were not used for a period (ns) so many of a size keep their pages, and so
 * many free records, for the next burst.
 */
#define WEFT__STACK_WARM_REST ((size_t)256)
#define WEFT__RECORDS_REST 1024
#define WEFT__REST_PERIOD_NS 1000000000

/*
 * Where a class has so many stacks already, the top pages of new ones are asked for together: it
 * grows fast, and will need them.
 */
#define WEFT__STACK_POPULATE_FROM ((size_t)1024)

/*
 * Releases between two samples of whether stacks were used deeply. One is a system call of 1.2
 * microseconds: each 1024th adds 1 ns to a release. It starts low, doubles while nothing is found,
 * and every release is sampled while stacks are found deep.
 */
#define WEFT__STACK_SAMPLE_EVERY_FIRST ((size_t)16)
#define WEFT__STACK_SAMPLE_EVERY_MAX ((size_t)1024)
/* Pages that a sample inspects, going down from the top part: one byte of vector each. */
#define WEFT__STACK_SAMPLE_PAGES ((size_t)64)
/*
 * Bytes (of slots) newly found deep in a class before the cold ones of them are emptied below their
 * top parts: emptying and touching again costs 27 to 222 microseconds, so the warm ones stay.
 */
#define WEFT__STACK_DEEP_BYTES_MAX ((size_t)16 << 20)

/*
 * Ended children of one parent that were not awaited: so many keep their records, 256 bytes each,
 * and can be restarted. So many in all are reported, once.
 */
#define WEFT__ENDED_WHOLE 1024
#define WEFT__ENDED_SAID 100000

/* Free records that keep their stacks; beyond so many, stacks go back to the pool. */
#define WEFT__WARM_MAX 256

/*
 * Tops of neighbours are shifted against each other by so many bytes (a cache line), in so many
 * steps: equal offsets in all slots would fall into the same few cache sets. Below 1 KiB in all, to
 * leave most of the top page to the fiber.
 */
#define WEFT__STACK_COLOUR_BYTES ((size_t)64)
#define WEFT__STACK_COLOURS ((size_t)16)

/* The largest guard: page tables for it are 8 bytes a page, for every stack. */
#define WEFT__GUARD_BYTES_MAX ((size_t)16 << 20)

/* Percent of vm.max_map_count that guards made by mprotect (two mappings each) may take. */
#define WEFT__GUARD_MAPS_PERCENT 40

/*
 * Bytes of the stack for signal handlers, beside what the kernel puts there: our report takes under
 * 8 KiB, but a handler that was there before us may want more, and untouched pages cost nothing.
 */
#define WEFT__SIGNAL_STACK_BYTES ((size_t)64 << 10)

/*
 * Bytes of a fiber's name, with its end: enough to tell fibers apart, small enough to sit in the
 * record.
 */
#define WEFT__NAME_BYTES 32

/* Fibers of one thread, and threads with fibers at once: what an id has bits for (22 and 10). */
#define WEFT__FIBERS_BITS 22
#define WEFT__CORDS_BITS 10

/* The table of a thread's fibers doubles: so often at most. */
#define WEFT__TABLES_MAX (WEFT__FIBERS_BITS + 1)

/*
 * Letters to other threads that are allocated at once, and those that a thread keeps when it has
 * read them, to answer on: each may hold a pad of 1.3 KiB.
 */
#define WEFT__PAD_LETTERS 32
#define WEFT__SPARE_LETTERS 8

/*
 * Remote messages that a cord delivers at once: 256 take some 20 microseconds, of which a timer or
 * a descriptor may be late. So many, or that part of the runnable fibers if it is more, are
 * delivered before each of these fibers has run: else fibers that other threads make would pile up
 * on the run queue. An eighth keeps them below a seventh of the others.
 */
#define WEFT__REMOTE_BATCH 256
#define WEFT__REMOTE_PART 8

/*
 * Remote messages that may be pending at a cord before senders wait or get -EAGAIN. Far more than a
 * cord that keeps up ever has; in memory 640 KiB of messages, or 9 MiB of fibers that are not made
 * yet.
 */
#define WEFT__REMOTE_PENDING_MAX 16384

/*
 * A cord that only a thread without fibers could wake looks whether such a thread is still there
 * after so many ns, then after twice as long, and so on, so often: for a second in all. A thread
 * that has sent its last message ends long before that; another one is not waited for by looking.
 */
#define WEFT__THREAD_LOOK_NS 16000000
#define WEFT__THREAD_LOOKS_MAX 6

/*
 * Seconds that started threads, and fibers that ignore their cancellation, are given to end when
 * the process does.
 */
#define WEFT__EXIT_GRACE_S 5

/*
 * Switches between two looks at the clock while fibers are runnable; fewer when they compute long
 * between switches.
 */
#define WEFT__TURN_SWITCHES_MAX 64
/*
 * A turn that took longer than this (ns) is halved next time, one shorter than a quarter of it
 * doubled: bounds how late timers and I/O can be.
 */
#define WEFT__TURN_NS_MAX 200000
/*
 * With fibers always runnable, the kernel is asked this often (ns): a poll costs about as much as
 * 100 switches.
 */
#define WEFT__POLL_EVERY_NS 50000

/*
 * Where so many timers have fired within so many ns, and so many are due in the next so many ns,
 * they are served in that beat: to wait for each of them would be a system call of 10 to 20
 * microseconds, and other runtimes have timers of a whole millisecond. Fewer timers are as exact as
 * the kernel is, however often one of them is armed again.
 */
#define WEFT__CROWD_TIMERS 4
#define WEFT__CROWD_BEAT_NS 1000000

/*
 * Operations that need not wait, before they let the others run: a read of what is there takes a
 * microsecond, a switch little beside it.
 */
#define WEFT__OPS_IN_A_ROW_MAX 64

/*
 * Blocking calls in a row that a cancelled fiber may ignore before each of them lets the others
 * run.
 */
#define WEFT__REFUSALS_MAX 16

/*
 * The same before each of them pauses the fiber for a millisecond, so that it does not keep the
 * processor busy (and so that virtual time passes), and before it is named on stderr: after about
 * one second.
 */
#define WEFT__REFUSALS_PAUSED 1000
#define WEFT__REFUSAL_PAUSE_NS 1000000
#define WEFT__REFUSALS_NAMED (WEFT__REFUSALS_PAUSED + 1000)

/*
 * Seconds that a fiber may compute before it is said, and before weft_check_slice fails: half of
 * what people notice as a standstill, and that.
 */
#define WEFT__SLICE_WARN_S 0.5
#define WEFT__SLICE_FAIL_S 1.0

/*
 * The watchdog: so many looks have to find a fiber where it was, with at least so long (ns) between
 * them, about as long as the system lets a thread run. For the backtrace it waits so long (ns): the
 * thread has to take it, and may have to wait for a processor first.
 */
#define WEFT__WATCHDOG_LOOKS 4
#define WEFT__WATCHDOG_LOOK_NS_MIN 1000000
#define WEFT__WATCHDOG_ANSWER_NS 2000000000
#define WEFT__WATCHDOG_FRAMES_MAX 32

/*
 * The period (ns) of the shares of CPU time: what is older counts half as much, and so on. Twice
 * that has to fit in 32 bits.
 */
#define WEFT__SHARE_PERIOD_NS 1000000000

/* Errors in a chain, and bytes of a message: a chain that only ever grows must end somewhere. */
#define WEFT__ERROR_CHAIN_MAX 16
#define WEFT__ERROR_MESSAGE_BYTES 256
/* Return addresses kept with an error. */
#define WEFT__ERROR_FRAMES_MAX 16

/* Fiber-local keys in all. */
#define WEFT__KEYS_MAX 64

/* Operations that are submitted as one chain; a longer one is cut. They are on the stack. */
#define WEFT__LINKS_MAX 16

/*
 * How often (ns) a thread checks, before it waits, that its backend's descriptors are still its
 * own. A program that closes them (closefrom) is delayed by that at most.
 */
#define WEFT__CHECK_NS 100000000

#endif
