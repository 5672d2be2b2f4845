/* The table of notes, see fd_note.h. */
#include "posix/io/fd_note.h"

#include "posix/hook.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define CHUNK_BITS 10
#define CHUNK_NOTES (1 << CHUNK_BITS)
#define CHUNKS_MAX 1024 /* higher numbers have no notes */

/* Bits 63 to 32 are the generation, the others are the bits of the note. */
typedef _Atomic(uint64_t) note_word;

typedef _Atomic(note_word *) note_chunk; /* NULL: no notes; never freed */

static note_chunk chunks[CHUNKS_MAX];

static note_word *word_find(int fd)
{
    unsigned chunk = (unsigned)fd >> CHUNK_BITS;
    note_word *words = chunk < CHUNKS_MAX ? atomic_load(&chunks[chunk]) : NULL;
    return words != NULL ? &words[fd & (CHUNK_NOTES - 1)] : NULL;
}

/* Return NULL if memory is exhausted, or if the number is too high. */
static note_word *word_ensure(int fd)
{
    unsigned chunk = (unsigned)fd >> CHUNK_BITS;
    if (chunk >= CHUNKS_MAX || atomic_load(&chunks[chunk]) != NULL)
        return word_find(fd);
    note_word *words = calloc(CHUNK_NOTES, sizeof *words), *expected = NULL;
    if (words != NULL && !atomic_compare_exchange_strong(&chunks[chunk], &expected, words))
        free(words); /* another thread has added the chunk */
    return word_find(fd);
}

uint32_t weft__fd_note(int fd)
{
    const note_word *word = word_find(fd);
    uint64_t value = word != NULL ? atomic_load_explicit(word, memory_order_relaxed) : 0;
    return value >> 32 == weft__fd_generation_here(fd) ? (uint32_t)value : 0;
}

void weft__fd_note_change(int fd, uint32_t clear, uint32_t set)
{
    note_word *word = word_ensure(fd);
    if (word == NULL)
        return;
    uint64_t generation = weft__fd_generation_here(fd);
    uint64_t before = atomic_load_explicit(word, memory_order_relaxed), after;
    do {
        uint32_t bits = before >> 32 == generation ? (uint32_t)before : 0;
        after = generation << 32 | ((bits & ~clear) | set);
    } while (!atomic_compare_exchange_weak(word, &before, after));
}

bool weft__fd_note_expects_wait(uint32_t note)
{
    static __thread unsigned reads;
    uint32_t full = note & (WEFT__NOTE_FULL | WEFT__NOTE_EXACT);
    return note & WEFT__NOTE_WAITED && full != WEFT__NOTE_FULL &&
           ++reads % WEFT__READS_PER_TRY != 0;
}

void weft__fd_note_waited(int fd, uint32_t note, bool was_tried, bool is_full)
{
    bool is_exact = note & WEFT__NOTE_EXACT || (was_tried && note & WEFT__NOTE_FULL);
    uint32_t bits =
        WEFT__NOTE_WAITED | (is_full ? WEFT__NOTE_FULL : 0) | (is_exact ? WEFT__NOTE_EXACT : 0);
    if ((note & WEFT__NOTE_READS) != bits)
        weft__fd_note_change(fd, WEFT__NOTE_READS, bits);
}

static weft__fd_kind_note socket_kind(int fd)
{
    int type = SOCK_STREAM;
    socklen_t bytes = sizeof type;
    (void)getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes);
    return type == SOCK_SEQPACKET ? WEFT__FD_SEQPACKET : WEFT__FD_SOCKET;
}

/* RWF_NOWAIT fails for files that do not support the flag. These become WEFT__FD_POLLED later. */
static weft__fd_kind_note kind_find(int fd)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return WEFT__FD_UNKNOWN;
    if (S_ISSOCK(status.st_mode))
        return socket_kind(fd);
    bool is_on_disk = S_ISREG(status.st_mode) || S_ISBLK(status.st_mode) || S_ISDIR(status.st_mode);
    return is_on_disk ? WEFT__FD_DISK : WEFT__FD_NOWAIT;
}

weft__fd_kind_note weft__fd_kind_renew(int fd)
{
    weft__fd_kind_note kind = kind_find(fd);
    if (kind != WEFT__FD_UNKNOWN)
        weft__fd_kind_set(fd, kind);
    return kind;
}

weft__fd_kind_note weft__fd_kind_of(int fd)
{
    weft__fd_kind_note kind = weft__fd_note(fd) & WEFT__NOTE_KIND;
    return kind == WEFT__FD_UNKNOWN && fd >= 0 ? weft__fd_kind_renew(fd) : kind;
}
