/*
 * The declarations of all hooked functions. Some names have no declaration in a header of libc,
 * because only compiled code uses them: the fortified names and the guards of C++.
 */
#ifndef WEFT_POSIX_CALLS_H
#define WEFT_POSIX_CALLS_H

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

/* Fortified names of descriptors. `room` is the size of the buffer. */
ssize_t __pread64_chk(int fd, void *buffer, size_t bytes, off64_t offset, size_t room);
ssize_t __pread_chk(int fd, void *buffer, size_t bytes, off_t offset, size_t room);
ssize_t __read_chk(int fd, void *buffer, size_t bytes, size_t room);
ssize_t __recv_chk(int fd, void *buffer, size_t bytes, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *__restrict buffer, size_t bytes, size_t room, int flags,
                       __SOCKADDR_ARG address, socklen_t *__restrict address_bytes);
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                const sigset_t *mask, size_t room);
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int folder, const char *path, int flags);
int __openat64_2(int folder, const char *path, int flags);

__sighandler_t bsd_signal(int signal, __sighandler_t handler);
_Noreturn void __longjmp_chk(jmp_buf buffer, int value);

/* The guards of static variables in C++. */
int __cxa_guard_acquire(uint64_t *guard);
void __cxa_guard_abort(uint64_t *guard);
void __cxa_guard_release(uint64_t *guard);

#endif
