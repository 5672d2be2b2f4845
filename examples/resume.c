/* Control the state of a fiber with the values that resume it. */
#include <weft.h>

#include <stdio.h>

enum { INCREMENT = 1, RESET };

static weft_value counter(void *arg)
{
    (void)arg;
    int count = 0;
    weft_value message = weft_first_value();
    while (!weft_is_error(message)) {
        if (message == RESET)
            count = 0;
        else if (message == INCREMENT)
            count++;
        printf("count = %d\n", count);
        message = weft_transfer(weft_main(), 0);
    }
    return message; /* cancelled: main has ended */
}

int main(void)
{
    weft_fiber f = weft_new(counter, NULL);
    for (int i = 0; i < 3; i++)
        weft_transfer(f, INCREMENT);
    weft_transfer(f, RESET);
    for (int i = 0; i < 3; i++)
        weft_transfer(f, INCREMENT);
}
