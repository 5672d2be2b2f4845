/* Tutorial, step 4: errors, their messages, and how they reach the parent. */
#include <weft.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

/* Print the last error of this fiber and the errors that caused it. */
static void print_error(void)
{
    for (const weft_error_info *e = weft_error(); e != NULL; e = e->cause)
        printf("  %s\n", e->message);
    weft_error_clear();
}

static weft_value read_config(void *arg)
{
    const char *path = arg;
    int fd = weft_open(path, O_RDONLY);
    if (fd < 0)
        return weft_fail(fd, "read_config: cannot open %s", path);
    weft_close(fd);
    return 0;
}

static int start_server(const char *path)
{
    weft_value rc = weft_await(weft_spin(read_config, (void *)(uintptr_t)path));
    if (weft_is_error(rc))
        return weft_fail((int)rc, "start_server: no configuration");
    return 0;
}

static weft_value lose_disk(void *arg)
{
    (void)arg;
    int rc = weft_sleep(0.1);
    return rc < 0 ? rc : weft_fail(-EIO, "lose_disk: the disk is gone");
}

int main(void)
{
    if (start_server("/nowhere/weft.conf") == -ENOENT) {
        puts("start_server failed:");
        print_error();
    }

    if (weft_go(lose_disk, NULL) < 0)
        return 1;
    int rc = weft_sleep(3600.0);
    if (rc == -EIO) {
        puts("a child failed while main slept:");
        print_error();
    }
}
