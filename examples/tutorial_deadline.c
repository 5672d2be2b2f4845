/* Tutorial, step 3: limit the time of any code. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

/* Stands for a request to another machine. The function has no parameter for a time limit. */
static int request(double seconds)
{
    int rc = weft_sleep(seconds);
    return rc < 0 ? rc : 200;
}

/* Return the status of a request, or -ETIMEDOUT. */
static int request_within(double limit, double seconds)
{
    int status = 0, rc;
    WEFT_CANCEL_AFTER(limit, rc) {
        status = request(seconds);
    }
    return rc < 0 ? rc : status;
}

/* Return a new price if there is one in time, else the old price. */
static int price(int old)
{
    int new = old;
    WEFT_MOVE_ON_AFTER(0.1) {
        if (request(10.0) == 200)
            new = old + 1;
    }
    return new;
}

int main(void)
{
    printf("fast request: %d\n", request_within(10.0, 0.01));
    printf("slow request: %s\n", request_within(0.1, 10.0) == -ETIMEDOUT ? "timeout" : "reply");
    printf("price: %d\n", price(7));
}
