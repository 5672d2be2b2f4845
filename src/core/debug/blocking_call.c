/* The system call in which a thread waits. See blocking_call.h. */
#include "core/debug/blocking_call.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Calls that can block for long. */
static const struct {
    long number;
    const char *name;
} calls[] = {
#define CALL(name)        \
    {                     \
        SYS_##name, #name \
    }
    CALL(read),
    CALL(write),
    CALL(readv),
    CALL(writev),
    CALL(pread64),
    CALL(pwrite64),
    CALL(preadv),
    CALL(pwritev),
    CALL(openat),
    CALL(close),
    CALL(fsync),
    CALL(fdatasync),
    CALL(flock),
    CALL(fcntl),
    CALL(ioctl),
    CALL(fallocate),
    CALL(ppoll),
    CALL(pselect6),
    CALL(epoll_pwait),
    CALL(nanosleep),
    CALL(clock_nanosleep),
    CALL(futex),
    CALL(recvfrom),
    CALL(recvmsg),
    CALL(recvmmsg),
    CALL(sendto),
    CALL(sendmsg),
    CALL(sendmmsg),
    CALL(accept),
    CALL(accept4),
    CALL(connect),
    CALL(wait4),
    CALL(waitid),
    CALL(rt_sigtimedwait),
    CALL(rt_sigsuspend),
    CALL(splice),
    CALL(sendfile),
    CALL(copy_file_range),
    CALL(io_uring_enter),
    CALL(getrandom),
    CALL(msgrcv),
    CALL(msgsnd),
    CALL(semop),
    CALL(semtimedop),
    CALL(mmap),
    CALL(munmap),
    CALL(madvise),
    CALL(msync),
    CALL(execve),
    CALL(clone),
    CALL(statx),
    CALL(newfstatat),
    CALL(getdents64),
    CALL(unlinkat),
    CALL(renameat2),
    CALL(sync),
#ifdef SYS_open /* older calls, which new architectures lack */
    CALL(open),
    CALL(poll),
    CALL(select),
    CALL(epoll_wait),
    CALL(pause),
    CALL(fork),
    CALL(vfork),
    CALL(stat),
    CALL(lstat),
    CALL(unlink),
    CALL(rename),
#endif
#ifdef SYS_clone3
    CALL(clone3),
#endif
#ifdef SYS_epoll_pwait2
    CALL(epoll_pwait2),
#endif
#undef CALL
};

/* Read /proc/self/task/ID/syscall. The file has the number of the call, "running", or -1. */
static bool read_number(pid_t thread_id, long *out)
{
    char path[64], text[32];
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)thread_id);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (bytes <= 0)
        return false;
    text[bytes] = '\0';
    char *end;
    *out = strtol(text, &end, 10);
    return end != text && *out >= 0;
}

bool weft__blocking_call(pid_t thread_id, char *out, size_t bytes)
{
    long number;
    if (!read_number(thread_id, &number))
        return false;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i].number == number) {
            snprintf(out, bytes, "%s", calls[i].name);
            return true;
        }
    snprintf(out, bytes, "number %ld", number);
    return true;
}
