/*
 * Work spread over cores. Main sends parts of the work to cords, and each cord sends its finished
 * parts back. A faster cord gets more parts. Main computes nothing itself.
 */
#include <weft.h>

#include <stdio.h>

#define CORDS 4
#define PARTS 40
#define PART_SIZE 5000

typedef struct part {
    int from, to;
    int primes;       /* the result */
    weft_cord worker; /* the cord that computes it */
} part;

static int is_prime(int n)
{
    for (int d = 2; d * d <= n; d++)
        if (n % d == 0)
            return 0;
    return n > 1;
}

/* Runs in each cord. A message is a part, or 0 if no parts remain. */
static weft_value work(void *arg)
{
    weft_fiber boss = *(weft_fiber *)arg;
    weft_value message, count = 0;
    while ((message = weft_receive()) > 0) {
        part *p = (part *)message;
        for (int n = p->from; n < p->to; n++)
            p->primes += is_prime(n);
        weft_tell(boss, message);
        count++;
    }
    return message < 0 ? message : count;
}

int main(void)
{
    static part parts[PARTS];
    weft_fiber self = weft_self();
    weft_cord cords[CORDS];
    int given = 0, primes = 0;
    for (int i = 0; i < PARTS; i++)
        parts[i] = (part){.from = i * PART_SIZE, .to = (i + 1) * PART_SIZE};
    for (int i = 0; i < CORDS; i++) {
        cords[i] = weft_cord_start(work, &self, &(weft_cord_options){.name = "worker"});
        if (cords[i] == 0)
            return 1;
        parts[given].worker = cords[i];
        weft_tell(cords[i], (weft_value)&parts[given++]);
    }
    for (int i = 0; i < PARTS; i++) {
        weft_value message = weft_receive();
        if (weft_is_error(message))
            return 1;
        part *done = (part *)message;
        primes += done->primes;
        if (given < PARTS)
            parts[given].worker = done->worker;
        weft_tell(done->worker, given < PARTS ? (weft_value)&parts[given++] : 0);
    }
    int count = 0;
    for (int i = 0; i < CORDS; i++)
        count += (int)weft_cord_join(cords[i]);
    printf("%d primes below %d, counted in %d parts\n", primes, PARTS * PART_SIZE, count);
}
