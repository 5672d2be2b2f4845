/* A stock library whose code contains the address of a function of libc. */
#include <time.h>

int textrel_sleep(long ms);

/* Load the address by a relocation of the code. */
static int (*nanosleep_address(void))(const struct timespec *, struct timespec *)
{
    int (*address)(const struct timespec *, struct timespec *);
    __asm__("movabs $nanosleep, %0" : "=r"(address));
    return address;
}

int textrel_sleep(long ms)
{
    struct timespec time = {.tv_nsec = ms * 1000000};
    return nanosleep_address()(&time, NULL);
}
