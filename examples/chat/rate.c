#include "rate.h"

#include <math.h>

double rate_take(rate *r, double now_s)
{
    r->tokens = fmin(r->burst, r->tokens + (now_s - r->at_s) * r->per_s) - 1;
    r->at_s = now_s;
    return r->tokens < 0 ? -r->tokens / r->per_s : 0;
}
