/* The inspection socket of the process (weft_inspect_socket_open, WEFT_INSPECT). */
#ifndef WEFT_CORE_INSPECT_SOCKET_INSPECT_SOCKET_H
#define WEFT_CORE_INSPECT_SOCKET_INSPECT_SOCKET_H

#include <weft/inspect_socket.h>

/* Open the socket that WEFT_INSPECT names. Only the first call in the process has an effect. */
void weft__inspect_socket_install(void);

#endif
