/*
 * I/O on descriptors: the system call's arguments; blocks the calling fiber only. A blocking or a
 * non-blocking descriptor, it makes no difference. A call that is cancelled has moved no data.
 * (On the sim backend that holds for what weft_pipe and weft_socketpair make; a descriptor of the
 * kernel blocks the thread there.)
 */
#ifndef WEFT_IO_H
#define WEFT_IO_H

#include <weft/base.h>

#include <sys/socket.h>
#include <sys/types.h>

WEFT_BEGIN

/** Read up to so many bytes; 0 at the end. As read(2). */
WEFT_SWITCHPOINT ssize_t weft_read(int fd, void *buffer, size_t bytes);

/**
 * Write up to so many bytes; may write fewer. As write(2), but a closed peer is -EPIPE and no
 * signal.
 */
WEFT_SWITCHPOINT ssize_t weft_write(int fd, const void *buffer, size_t bytes);

/**
 * Write all of it, in as many calls as it takes. Returns bytes, or the error that stopped it; how
 * much had gone out by then is not known.
 */
WEFT_SWITCHPOINT ssize_t weft_write_all(int fd, const void *buffer, size_t bytes);

/** Read until so many bytes are there or the other side is done; returns how many came. */
WEFT_SWITCHPOINT ssize_t weft_read_full(int fd, void *buffer, size_t bytes);

/**
 * Take the next connection; its descriptor is close-on-exec. address and bytes as in accept(2), may
 * be NULL. The listening socket is non-blocking afterwards.
 */
WEFT_SWITCHPOINT int weft_accept(int fd, struct sockaddr *address, socklen_t *bytes);

/** Connect a socket. As connect(2). */
WEFT_SWITCHPOINT int weft_connect(int fd, const struct sockaddr *address, socklen_t bytes);

/**
 * Wait until the descriptor is ready for one of events (POLLIN, POLLOUT); returns those it is ready
 * for, with POLLERR and POLLHUP. -EINVAL if events asks for nothing, -EPERM for a file that cannot
 * be waited on.
 */
WEFT_SWITCHPOINT int weft_wait_fd(int fd, int events);

/**
 * Close a descriptor; whoever waits on it in this thread gets -EBADF. Not cancellable: it is closed
 * in any case. Descriptors that were used with weft are closed with it.
 */
WEFT_SWITCHPOINT int weft_close(int fd);

/** A pipe: fd[0] to read from, fd[1] to write to, close-on-exec. In memory on the sim backend. */
WEFT_API int weft_pipe(int fd[2]);

/** Two connected stream sockets, close-on-exec. In memory on the sim backend. */
WEFT_API int weft_socketpair(int fd[2]);

/** The name of the backend that the calling thread uses: "epoll", "sim". */
WEFT_API const char *weft_backend_name(void);

/** Why it is that one, in a sentence. */
WEFT_API const char *weft_backend_why(void);

WEFT_END

#endif
