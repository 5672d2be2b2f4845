/* A limit on a rate, with a burst: a bucket of tokens that fills up with time. */
#ifndef CHAT_RATE_H
#define CHAT_RATE_H

typedef struct rate {
    double per_s, burst;
    double tokens; /* negative: taken in advance */
    double at_s;   /* the time of tokens */
} rate;

/* Take one token. Returns the seconds to wait before the token may be used. */
double rate_take(rate *r, double now_s);

#endif
