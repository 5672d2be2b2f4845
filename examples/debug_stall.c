/*
 * A fiber computes without a switch, so no other fiber runs. The watchdog reports the fiber while
 * it computes. weft_check_slice ends the computation. weft_top prints the CPU time of each fiber.
 */
#include <weft.h>

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* Compute for a while. The result only keeps the compiler from removing the loop. */
static unsigned hash_block(unsigned hash)
{
    for (int i = 0; i < 100000; i++)
        hash = (hash ^ (unsigned)i) * 16777619u;
    return hash;
}

/* Stop after the failure time of the time slice. */
static weft_value hash_greedily(void *arg)
{
    unsigned *hash = arg;
    weft_set_slice(0.2, 0.4); /* warn on stderr, fail */
    int rc;
    while ((rc = weft_check_slice()) == 0)
        *hash = hash_block(*hash);
    weft_top(STDERR_FILENO);
    return weft_fail(rc, "hash_greedily: no switch for 0.4 s");
}

/* Let other fibers run after each block. */
static weft_value hash_fairly(void *arg)
{
    unsigned *hash = arg;
    int rc = 0;
    for (int block = 0; rc == 0 && block < 200; block++) {
        *hash = hash_block(*hash);
        rc = weft_snooze();
    }
    return rc;
}

int main(void)
{
    unsigned hash = 0;
    weft_watchdog(0.1);
    weft_account(true);
    weft_fiber fair = weft_spin_with(hash_fairly, &hash, &(weft_spin_options){.name = "fair"});
    weft_fiber greedy =
        weft_spin_with(hash_greedily, &hash, &(weft_spin_options){.name = "greedy"});
    weft_value value = weft_await(greedy);
    printf("greedy: %s\n", value == -ETIME ? weft_error()->message : "unexpected value");
    value = weft_await(fair);
    printf("fair: %s\n", value == 0 ? "finished" : "failed");
    return weft_watchdog(0) < 0;
}
