/* The pulse: counters of the runtime, sent to all users once a second. */
#ifndef CHAT_PULSE_H
#define CHAT_PULSE_H

#include <weft.h>

/* Send the counters. For weft_every(1.0, ...). */
weft_fn pulse_beat;

/* Count a message that was sent to a user, this time after it arrived. */
void pulse_delivered(double seconds);

#endif
