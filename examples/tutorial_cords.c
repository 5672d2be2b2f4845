/* Tutorial, step 10: compute on several cores. */
#include <weft.h>

#include <stdio.h>

#define CORDS 4
#define NUMBERS_MAX 200000

typedef struct range {
    int from, to;
} range;

static bool is_prime(int n)
{
    for (int d = 2; d * d <= n; d++)
        if (n % d == 0)
            return false;
    return n > 1;
}

/* Runs in the main fiber of each cord. */
static weft_value count_primes(void *arg)
{
    const range *r = arg;
    int primes = 0;
    for (int n = r->from; n < r->to; n++)
        primes += is_prime(n);
    return primes;
}

int main(void)
{
    static range ranges[CORDS];
    weft_cord cords[CORDS];
    for (int i = 0; i < CORDS; i++) {
        ranges[i] = (range){NUMBERS_MAX / CORDS * i, NUMBERS_MAX / CORDS * (i + 1)};
        cords[i] = weft_cord_start(count_primes, &ranges[i], NULL);
        if (cords[i] == 0)
            return 1;
    }
    int primes = 0;
    for (int i = 0; i < CORDS; i++) {
        weft_value n = weft_cord_join(cords[i]);
        if (weft_is_error(n))
            return 1;
        primes += (int)n;
    }
    printf("%d primes below %d\n", primes, NUMBERS_MAX);
}
