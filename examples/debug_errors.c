/*
 * A child fails, and a call of its parent returns the error. The parent ignores the result in
 * ignore(), and weft reports the error on stderr. The parent passes the error on in check().
 */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

static weft_value save(void *path)
{
    return weft_fail(-ENOSPC, "save: cannot write %s", (const char *)path);
}

static weft_value ignore(void *arg)
{
    (void)arg;
    weft_go(save, "a.txt");
    weft_sleep(1.0); /* the bug: this call returns the error of save */
    return 0;
}

static weft_value check(void *arg)
{
    (void)arg;
    weft_go(save, "b.txt");
    int rc = weft_sleep(1.0);
    return rc < 0 ? weft_fail(rc, "check: backup incomplete") : 0;
}

int main(void)
{
    weft_value value =
        weft_await(weft_spin_with(ignore, NULL, &(weft_spin_options){.name = "ignore"}));
    printf("ignore: %s\n", weft_is_error(value) ? "error" : "success");
    value = weft_await(weft_spin_with(check, NULL, &(weft_spin_options){.name = "check"}));
    printf("check: %s\n", weft_is_error(value) ? "error" : "success");
    for (const weft_error_info *e = weft_error(); e != NULL; e = e->cause)
        printf("  %s\n", e->message);
}
