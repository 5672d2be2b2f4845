/* A stock library that needs another one, raw.c. */
#include <time.h>

int raw_sleep(long ms);
int raw_user_sleep(long ms);

int raw_user_sleep(long ms)
{
    nanosleep(&(struct timespec){0}, NULL);
    return raw_sleep(ms);
}
