/* Offloaded calls and cords. docs/guide.md shows the functions of this file. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Offload with a copy: the argument may be on the stack. */
typedef struct sum {
    int a, b;
    int result;
} sum;

static weft_value add_slowly(void *arg)
{
    sum *s = arg;
    usleep(1000);
    s->result = s->a + s->b;
    return 0;
}

static int offload_copy(void)
{
    sum s = {.a = 2, .b = 3};
    weft_value rc = weft_offload_copy(add_slowly, &s, sizeof s);
    printf("copy: %d\n", s.result);
    return (int)rc;
}

/* Offload with drop: if the caller abandons the call, weft frees the argument after the call. */
static int offload_owned(void)
{
    sum *s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->a = 4;
    bool has_ended;
    weft_value rc = weft_offload_with(
        add_slowly, s, &(weft_offload_options){.drop = free, .has_ended = &has_ended});
    if (has_ended) {
        printf("owned: %d\n", s->result);
        free(s);
    }
    return (int)rc;
}

/* A cord: it has state, and its fibers use it without a lock. */
static int hits; /* only the fibers of the cord use it */

static weft_value count_hit(void *arg)
{
    hits += (int)(intptr_t)arg;
    return hits;
}

static int call_cord(void)
{
    weft_cord counter = weft_cord_start(NULL, NULL, &(weft_cord_options){.name = "counter"});
    if (counter == 0)
        return weft_error()->code;
    weft_value n = 0;
    for (int i = 0; i < 3 && !weft_is_error(n); i++)
        n = weft_cord_call(counter, count_hit, (void *)1);
    printf("cord: %d hits\n", (int)n);
    weft_cord_cancel(counter);
    weft_cord_join(counter); /* -ECANCELED */
    return n < 0 ? (int)n : 0;
}

/* A shared channel: values between the fibers of several cords. */
static weft_value square_all(void *arg)
{
    weft_chan *numbers = arg;
    weft_value n, squares = 0;
    while (!weft_is_error(n = weft_chan_recv(numbers)))
        squares += n * n;
    return n == -EPIPE ? squares : n;
}

static int share_channel(void)
{
    weft_chan *numbers = weft_chan_new_shared(4);
    if (numbers == NULL)
        return -ENOMEM;
    weft_cord cords[2];
    for (int i = 0; i < 2; i++)
        cords[i] = weft_cord_start(square_all, numbers, NULL);
    for (int n = 1; n <= 10; n++)
        weft_chan_send(numbers, n);
    weft_chan_close(numbers);
    int squares = 0;
    for (int i = 0; i < 2; i++)
        squares += (int)weft_cord_join(cords[i]);
    printf("shared channel: %d\n", squares);
    weft_chan_free(numbers);
    return squares < 0 ? squares : 0;
}

int main(void)
{
    return offload_copy() < 0 || offload_owned() < 0 || call_cord() < 0 || share_channel() < 0;
}
