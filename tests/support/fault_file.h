/* Fault scenarios on files, streams, chains, and copies between descriptors, as in fault_net.h. */
#ifndef TESTS_SUPPORT_FAULT_FILE_H
#define TESTS_SUPPORT_FAULT_FILE_H

#include "support/fault.h"

/* A directory for the files of the scenario, and the paths in it. */
typedef struct workspace {
    char folder[64];
    char file[80], other[80], below[80];
} workspace;

static inline void make_workspace(workspace *p)
{
    snprintf(p->folder, sizeof p->folder, "/tmp/weft-fault-XXXXXX");
    REQUIRE(mkdtemp(p->folder) != NULL);
    snprintf(p->file, sizeof p->file, "%s/file", p->folder);
    snprintf(p->other, sizeof p->other, "%s/other", p->folder);
    snprintf(p->below, sizeof p->below, "%s/below", p->folder);
}

static inline void remove_workspace(const workspace *p)
{
    unlink(p->file);
    unlink(p->other);
    rmdir(p->below);
    REQUIRE(rmdir(p->folder) == 0); /* nothing else is there */
}

/* Write at offset 3 from several buffers, then read back. */
static inline void fill_file(int fd)
{
    char data[8] = "";
    struct iovec pieces[2] = {{data, 3}, {data + 3, 2}};
    struct iovec out[2] = {{"ab", 2}, {"cde", 3}};
    bool is_written = REQUIRE_OR_FAULT(weft_pwrite(fd, "...", 3, 0));
    is_written &= REQUIRE_OR_FAULT(weft_pwritev(fd, out, 2, 3));
    REQUIRE_OR_FAULT(weft_fsync(fd));
    REQUIRE_OR_FAULT(weft_fdatasync(fd));
    ssize_t n = weft_pread(fd, data, 8, 0);
    if (REQUIRE_OR_FAULT(n) && is_written)
        REQUIRE(n == 8 && memcmp(data, "...abcde", 8) == 0);
    n = weft_preadv(fd, pieces, 2, 3);
    if (REQUIRE_OR_FAULT(n) && is_written)
        REQUIRE(n == 5 && memcmp(data, "abcde", 5) == 0);
}

static inline void stat_and_truncate_file(const workspace *p, int fd)
{
    struct stat status;
    REQUIRE_OR_FAULT(weft_fstat(fd, &status));
    bool is_truncated = REQUIRE_OR_FAULT(weft_ftruncate(fd, 4));
    if (REQUIRE_OR_FAULT(weft_stat(p->file, &status)) && is_truncated)
        REQUIRE(status.st_size == 4);
}

static inline int count_entry(const char *name, int type, void *ctx)
{
    (void)name;
    (void)type;
    ++*(int *)ctx;
    return 0;
}

/* A step that reports success has taken effect. A step that fails has not. */
static inline void rename_and_scan(const workspace *p)
{
    bool is_moved = REQUIRE_OR_FAULT(weft_rename(p->file, p->other));
    REQUIRE((access(p->other, F_OK) == 0) == is_moved);
    bool is_made = REQUIRE_OR_FAULT(weft_mkdir(p->below, 0700));
    REQUIRE((access(p->below, F_OK) == 0) == is_made);
    int entries = 0;
    if (REQUIRE_OR_FAULT(weft_scan_dir(p->folder, count_entry, &entries)))
        REQUIRE(entries == 1 + is_made);
    if (is_made)
        REQUIRE_OR_FAULT(weft_rmdir(p->below));
    if (is_moved)
        REQUIRE_OR_FAULT(weft_unlink(p->other));
}

FAULT_STEPS(use_files)
{
    workspace p;
    WITHOUT_FAULTS(make_workspace(&p));
    int fd = weft_open(p.file, O_RDWR | O_CREAT, 0600);
    if (REQUIRE_OR_FAULT(fd)) {
        fill_file(fd);
        stat_and_truncate_file(&p, fd);
        REQUIRE(weft_close(fd) == 0);
        rename_and_scan(&p);
    }
    char *path = format("%s/XXXXXX", p.folder);
    fd = weft_mkstemp(path);
    if (REQUIRE_OR_FAULT(fd))
        REQUIRE(weft_close(fd) == 0 && unlink(path) == 0);
    WITHOUT_FAULTS(remove_workspace(&p));
}

/* Streams: one fiber at each end of a pipe. */

#define LINES 40

typedef struct stream_end {
    int fd;
    int lines; /* that are complete */
    int failed;
} stream_end;

static inline weft_value print_lines(void *arg)
{
    stream_end *e = arg;
    weft_stream s;
    REQUIRE(weft_stream_open(&s, e->fd) == 0);
    REQUIRE(weft_stream_configure(&s, &(weft_stream_options){.write_bytes = 100}) == 0);
    int rc = 0;
    for (int i = 0; i < LINES && rc >= 0; i++) {
        rc = (int)weft_stream_printf(&s, "%d %0*d\n", i, 1 + i * 5, i);
        if (rc >= 0 && i % 10 == 9)
            rc = weft_stream_flush(&s);
        e->lines = rc >= 0 && i % 10 == 9 ? i + 1 : e->lines;
    }
    e->failed = rc < 0 ? rc : 0;
    REQUIRE_OR_PEER_FAULT(rc);
    REQUIRE_OR_PEER_FAULT(weft_stream_close(&s));
    return 0;
}

static inline weft_value read_lines(void *arg)
{
    stream_end *e = arg;
    weft_stream s;
    REQUIRE(weft_stream_open(&s, e->fd) == 0);
    REQUIRE(weft_stream_configure(&s, &(weft_stream_options){.read_bytes = 50}) == 0);
    char *line;
    size_t bytes;
    int rc;
    while ((rc = weft_stream_line(&s, &line, &bytes)) > 0) {
        int number = -1, again = -1;
        bool is_whole = bytes > 0 && sscanf(line, "%d %d", &number, &again) == 2;
        if (!is_whole || number != e->lines || again != number)
            break; /* the end of the line is missing, only because the writer failed */
        e->lines++;
    }
    e->failed = rc < 0 ? rc : 0;
    REQUIRE(rc >= 0 || fault_explains(rc));
    REQUIRE_OR_PEER_FAULT(weft_stream_close(&s));
    return 0;
}

FAULT_STEPS(stream_lines)
{
    int fd[2];
    WITHOUT_FAULTS(REQUIRE(weft_pipe(fd) == 0));
    stream_end from = {.fd = fd[0]}, to = {.fd = fd[1]};
    weft_fiber reader = require_created(weft_spin(read_lines, &from));
    weft_fiber printer = require_created(weft_spin(print_lines, &to));
    if (reader == 0)
        REQUIRE(weft_close(fd[0]) == 0);
    if (printer == 0)
        REQUIRE(weft_close(fd[1]) == 0);
    REQUIRE(printer == 0 || weft_await(printer) == 0);
    REQUIRE(reader == 0 || weft_await(reader) == 0);
    REQUIRE(reader == 0 || from.failed < 0 || from.lines >= to.lines);
    REQUIRE_UNLESS_FAULT(from.lines == LINES);
}

/* Copies between descriptors. */

#define COPY_BYTES 200000

typedef struct sink {
    int fd;
    ssize_t sum;
} sink;

static inline weft_value drain_sink(void *arg)
{
    static char data[30000];
    sink *s = arg;
    ssize_t n;
    while ((n = weft_read(s->fd, data, sizeof data)) > 0)
        s->sum += n;
    REQUIRE_OR_FAULT(n);
    REQUIRE(weft_close(s->fd) == 0);
    return 0;
}

static inline int make_copy_source(void)
{
    static const char data[COPY_BYTES];
    int fd = memfd_create("file", MFD_CLOEXEC);
    REQUIRE(fd >= 0 && write(fd, data, sizeof data) == COPY_BYTES);
    REQUIRE(lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

/*
 * Copy by one of three methods: all at once, in chunks, or with sendfile. Return the bytes copied
 * from the input.
 */
static inline ssize_t copy_by(int method, int in, int out)
{
    const weft_chunk_format format = {.chunk_prefix = "%zx\r\n", .chunk_postfix = "\r\n"};
    off_t offset = 0;
    switch (method) {
    case 0:
        return weft_splice_all(in, out);
    case 1:
        return weft_splice_chunks(in, out, &format);
    default:
        return weft_sendfile(out, in, &offset, COPY_BYTES);
    }
}

static inline void copy_to(int method, int (*make)(int fd[2]))
{
    int fd[2], in;
    WITHOUT_FAULTS(REQUIRE(make(fd) == 0));
    WITHOUT_FAULTS(in = make_copy_source());
    sink s = {.fd = fd[0]};
    weft_fiber f = require_created(weft_spin(drain_sink, &s));
    if (f == 0)
        REQUIRE(weft_close(fd[0]) == 0);
    ssize_t n = copy_by(method, in, fd[1]);
    bool is_done = REQUIRE_OR_PEER_FAULT(n) && f != 0;
    REQUIRE(weft_close(fd[1]) == 0);
    REQUIRE(weft_close(in) == 0);
    REQUIRE(f == 0 || weft_await(f) == 0);
    REQUIRE(n < 0 || f == 0 || n == COPY_BYTES);
    if (is_done && method != 1)
        REQUIRE_UNLESS_FAULT(s.sum == n);
    REQUIRE_UNLESS_FAULT(s.sum >= n);
}

FAULT_STEPS(copy_all)
{
    for (int method = 0; method < 3; method++) {
        copy_to(method, weft_pipe);
        copy_to(method, weft_socketpair);
    }
}

/* tee does not consume the bytes of its input. */
static inline void tee_one(const int from[2], const int to[2])
{
    char byte = 0;
    WITHOUT_FAULTS(REQUIRE(write(from[1], "t", 1) == 1));
    ssize_t n = weft_tee(from[0], to[1], 10, 0);
    if (REQUIRE_OR_FAULT(n))
        WITHOUT_FAULTS(REQUIRE(weft_read(to[0], &byte, 1) == 1 && byte == 't'));
    n = weft_splice(from[0], NULL, to[1], NULL, 10, 0);
    int left = REQUIRE_OR_FAULT(n) ? to[0] : from[0];
    WITHOUT_FAULTS(REQUIRE(weft_read(left, &byte, 1) == 1 && byte == 't'));
}

FAULT_STEPS(splice_and_tee)
{
    int from[2], to[2];
    WITHOUT_FAULTS(REQUIRE(weft_pipe(from) == 0 && weft_pipe(to) == 0));
    tee_one(from, to);
    ssize_t n = 1;
    WEFT_MOVE_ON_AFTER(0.0005)
        n = weft_splice(from[0], NULL, to[1], NULL, 10, 0);
    REQUIRE(n == -ECANCELED || fault_explains(n));
    tee_one(from, to);
    for (int i = 0; i < 2; i++)
        REQUIRE(weft_close(from[i]) == 0 && weft_close(to[i]) == 0);
}

/* Chains: a link that was not started has no effect. */

static inline void chain_on_file(int fd)
{
    char data[4] = "";
    weft_link links[] = {
        {.kind = WEFT_LINK_WRITE, .fd = fd, .data = "data", .bytes = 4},
        {.kind = WEFT_LINK_FSYNC, .fd = fd},
    };
    ssize_t n = weft_chain(links, COUNT_OF(links));
    if (REQUIRE_OR_FAULT(n))
        REQUIRE(links[0].result == 4 && pread(fd, data, 4, 0) == 4 && memcmp(data, "data", 4) == 0);
}

static inline void chain_on_sockets(const int fd[2])
{
    char data[4] = "";
    weft_link links[] = {
        {.kind = WEFT_LINK_SEND, .fd = fd[1], .data = "more", .bytes = 4},
        {.kind = WEFT_LINK_RECV, .fd = fd[0], .data = data, .bytes = 4},
        {.kind = WEFT_LINK_SEND, .fd = fd[0], .data = "back", .bytes = 4},
    };
    ssize_t n = weft_chain(links, COUNT_OF(links));
    bool is_done = REQUIRE_OR_FAULT(n);
    bool has_failed = false;
    for (size_t i = 0; i < COUNT_OF(links); i++) {
        REQUIRE(!has_failed || links[i].result == -ECANCELED);
        has_failed |= links[i].result < 0;
        REQUIRE(links[i].result == 4 || has_failed);
    }
    REQUIRE(links[1].result < 0 || memcmp(data, "more", 4) == 0);
    REQUIRE(has_failed == !is_done);
}

FAULT_STEPS(run_chains)
{
    int fd[2], file;
    WITHOUT_FAULTS(REQUIRE(weft_socketpair(fd) == 0));
    WITHOUT_FAULTS(file = memfd_create("file", MFD_CLOEXEC));
    REQUIRE(file >= 0);
    chain_on_file(file);
    chain_on_sockets(fd);
    REQUIRE(weft_close(fd[0]) == 0 && weft_close(fd[1]) == 0 && weft_close(file) == 0);
}

#endif
