/* A stock library that needs another one, sleeper.c. */
int sleeper_direct(long ms);
int user_sleep(long ms);

int user_sleep(long ms)
{
    return sleeper_direct(ms);
}
