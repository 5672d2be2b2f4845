/*
 * The thread of the inspection socket. It accepts clients, reads requests, and writes replies. One
 * thread serves all clients with poll(2), so that a slow client does not delay others.
 */
#ifndef WEFT_CORE_INSPECT_SOCKET_SERVER_H
#define WEFT_CORE_INSPECT_SOCKET_SERVER_H

#include <stdbool.h>

/* The largest number of connected clients. */
#define WEFT__INSPECT_CLIENTS_MAX 8

/*
 * Wait for events of the clients, of the listener and of wake_fd, and handle them. listener is a
 * listening socket, or -1.
 */
void weft__server_run_once(int listener, int wake_fd);

/* Send the results of profiles, because the process exits. The call takes at most 1 s. */
void weft__server_flush(void);

/* Disconnect all clients. */
void weft__server_drop_clients(void);

/* Close the descriptors of all clients in a child of fork(2), without effect on the parent. */
void weft__server_after_fork(void);

#endif
