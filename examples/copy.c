/* Copy a file while another fiber prints the progress. Neither fiber blocks the other. */
#include <weft.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define PIECE_BYTES 65536
#define PIECES 64

static off_t copied; /* bytes */

static weft_value watch(void *arg)
{
    (void)arg;
    int rc;
    while ((rc = weft_sleep(0.01)) == 0)
        fprintf(stderr, "%lld bytes so far\n", (long long)copied);
    return rc;
}

static weft_value copy(int from, int to)
{
    char piece[PIECE_BYTES / 4];
    ssize_t n;
    while ((n = weft_pread(from, piece, sizeof piece, copied)) > 0) {
        n = weft_pwrite(to, piece, (size_t)n, copied);
        if (n < 0)
            return n;
        copied += n;
    }
    return n < 0 ? n : weft_fsync(to);
}

static int make_source(char *path)
{
    static char piece[PIECE_BYTES];
    int fd = weft_mkstemp(path);
    for (int i = 0; i < PIECES && fd >= 0; i++) {
        memset(piece, 'a' + i % 26, sizeof piece);
        if (weft_write_all(fd, piece, sizeof piece) < 0)
            return -1;
    }
    return fd;
}

int main(void)
{
    char source[] = "/tmp/weft-copy-XXXXXX", target[] = "/tmp/weft-copy-XXXXXX";
    int from = make_source(source), to = weft_mkstemp(target);
    if (from < 0 || to < 0)
        return 1;
    weft_fiber watcher = weft_spin(watch, NULL);
    weft_value rc = copy(from, to);
    weft_cancel(watcher);

    struct stat status = {0};
    weft_fstat(to, &status);
    printf("copied %lld bytes, the copy has %lld bytes: %s\n", (long long)copied,
           (long long)status.st_size, rc < 0 ? "failed" : "ok");
    weft_close(from);
    weft_close(to);
    weft_unlink(source);
    weft_unlink(target);
    return rc < 0;
}
