/*
 * A pipeline of fibers over channels. Each stage is a filter. A finished stage closes its output
 * channel, so that the next stage ends too. A full channel blocks the stages before it.
 */
#include <weft.h>

#include <stdio.h>

typedef struct point {
    int x, square;
} point;

WEFT_CHAN_OF(point_chan, point);

static weft_chan *numbers;
static point_chan *points;

static weft_value count(void *arg)
{
    (void)arg;
    for (int n = 1; n <= 5; n++) {
        int rc = weft_chan_send(numbers, n);
        if (rc < 0)
            return rc;
    }
    return weft_chan_close(numbers);
}

static weft_value square(void *arg)
{
    (void)arg;
    weft_value n;
    while (!weft_is_error(n = weft_chan_recv(numbers))) {
        int rc = point_chan_send(points, (point){(int)n, (int)(n * n)});
        if (rc < 0)
            return rc;
    }
    return point_chan_close(points);
}

int main(void)
{
    numbers = weft_chan_new(2);
    points = point_chan_new(0); /* a rendezvous */
    weft_spin(count, NULL);
    weft_spin(square, NULL);
    point p;
    while (point_chan_recv(points, &p) == 0)
        printf("%d squared is %d\n", p.x, p.square);
    point_chan_free(points);
    weft_chan_free(numbers);
}
