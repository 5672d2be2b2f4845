/*
 * Fault tests of descriptors and threads: the n-th allocation or system call fails, for each n. No
 * byte is lost without an error, no descriptor stays open, and a thread releases all its resources.
 */
#include "support/fault.h"
#include "support/suite.h"

#define STREAM_BYTES ((ssize_t)150000)

/* One end of a stream. The fiber that uses an end closes it. */
typedef struct stream {
    int fd;
    ssize_t moved;
    ssize_t result; /* of the last read or write */
} stream;

static weft_value write_stream(void *arg)
{
    stream *s = arg;
    static const char bytes[7000];
    do {
        s->result = weft_write(s->fd, bytes, sizeof bytes);
        s->moved += s->result > 0 ? s->result : 0;
    } while (s->result > 0 && s->moved < STREAM_BYTES);
    REQUIRE(weft_close(s->fd) == 0);
    REQUIRE(s->result == -EPIPE || REQUIRE_OR_FAULT(s->result) || fault.injected > 0);
    return 0;
}

static weft_value read_stream(void *arg)
{
    stream *s = arg;
    char bytes[5000];
    while ((s->result = weft_read(s->fd, bytes, sizeof bytes)) > 0)
        s->moved += s->result;
    REQUIRE(weft_close(s->fd) == 0);
    REQUIRE_OR_FAULT(s->result);
    return 0;
}

/* Move STREAM_BYTES through a new pair. Return true if all bytes arrived. */
static bool move_stream(int (*make)(int fd[2]))
{
    int fd[2];
    if (!REQUIRE_OR_FAULT(make(fd)))
        return false;
    stream to = {.fd = fd[1]}, from = {.fd = fd[0]};
    weft_fiber reader = require_created(weft_spin(read_stream, &from));
    weft_fiber writer = reader != 0 ? require_created(weft_spin(write_stream, &to)) : 0;
    if (reader == 0)
        REQUIRE(weft_close(fd[0]) == 0);
    if (writer == 0)
        REQUIRE(weft_close(fd[1]) == 0);
    REQUIRE(reader == 0 || weft_await(reader) == 0);
    REQUIRE(writer == 0 || weft_await(writer) == 0);
    REQUIRE(from.moved == to.moved || from.result < 0); /* a failed reader leaves bytes unread */
    return writer != 0 && from.result == 0 && to.moved >= STREAM_BYTES;
}

TEST_FAULTS(a_stream_delivers_all_its_bytes_or_reports_an_error)
{
    bool is_done = move_stream(weft_pipe);
    is_done &= move_stream(weft_socketpair);
    int fd[2];
    if (REQUIRE_OR_FAULT(weft_pipe(fd))) {
        int rc = weft_wait_fd(fd[1], POLLOUT);
        is_done &= REQUIRE_OR_FAULT(rc);
        REQUIRE(weft_close(fd[0]) == 0 && weft_close(fd[1]) == 0);
    } else {
        is_done = false;
    }
    return is_done;
}

/* weft_close succeeds even without a backend or a cord. */
static bool close_pipe(void)
{
    atomic_store(&fault.is_on, false);
    int fd[2];
    REQUIRE(__real_pipe2(fd, 0) == 0);
    atomic_store(&fault.is_on, true);
    bool is_cord = become_a_cord() || become_a_cord();
    REQUIRE(weft_close(fd[0]) == 0 && weft_close(fd[1]) == 0);
    REQUIRE(weft_close(fd[0]) == -EBADF);
    return is_cord;
}

FAULT_TEST(a_close_succeeds_whichever_call_fails, close_pipe, 1)

/* A thread without a backend has a real clock, and opens a backend when a call needs one. */
TEST_FAULTS(time_does_not_go_back_when_a_backend_opens_late)
{
    int fd[2];
    double before = weft_now();
    bool is_open = REQUIRE_OR_FAULT(weft_pipe(fd));
    REQUIRE(weft_now() >= before);
    if (!is_open)
        return false;
    REQUIRE(weft_close(fd[0]) == 0);
    REQUIRE(weft_close(fd[1]) == 0);
    return true;
}

/* The fiber of the main thread that the other thread schedules, and the results. */
typedef struct thread_job {
    weft_fiber target;
    int scheduled;
    bool is_done;
} thread_job;

static void *cord_thread(void *arg)
{
    thread_job *job = arg;
    job->scheduled = weft_schedule(job->target, 7);
    job->is_done = become_a_cord();
    for (int i = 0; i < 3 && job->is_done; i++) {
        weft_fiber f = require_created(weft_spin(return_soon, as_arg(5)));
        weft_fiber failing = require_created(weft_spin(fail_deep, as_arg(EPROTO)));
        job->is_done &= f != 0 && failing != 0;
        REQUIRE(f == 0 || weft_await(f) == 5 || failing != 0);
        REQUIRE(failing == 0 || weft_await(failing) == -EPROTO);
        REQUIRE(f == 0 || weft_state_of(f) == WEFT_DEAD || weft_await(f) == 5);
    }
    return NULL;
}

TEST_FAULTS(a_thread_with_fibers_starts_and_ends_whichever_call_fails)
{
    thread_job job = {.target = require_created(weft_spin(suspend, NULL))};
    if (job.target != 0)
        REQUIRE(weft_snooze() == 0);
    pthread_t thread;
    REQUIRE(__real_pthread_create(&thread, NULL, cord_thread, &job) == 0);
    pthread_join(thread, NULL);
    if (job.target != 0) {
        if (!REQUIRE_OR_FAULT(job.scheduled))
            REQUIRE(weft_schedule(job.target, 7) == 0);
        REQUIRE(weft_await(job.target) == 7);
    }
    return job.target != 0 && job.scheduled == 0 && job.is_done;
}
