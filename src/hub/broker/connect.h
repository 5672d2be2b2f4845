/* The way of the client to a broker of this process. */
#ifndef WEFT_HUB_BROKER_CONNECT_H
#define WEFT_HUB_BROKER_CONNECT_H

/*
 * Connect to the broker of a name, and create it if it does not exist. May switch.
 *
 * Returns a descriptor that speaks the protocol of NATS. The caller closes it. Errors:
 * -EINVAL if name is NULL or too long
 * -ENOMEM if memory is exhausted
 * -EOPNOTSUPP if the broker belongs to another thread, and one of the threads uses the backend sim
 * and the errors of weft_socketpair and weft_cord_spin
 */
int weft__broker_connect(const char *name);

#endif
