/* Counting threads, and making some; see threads.h. */
#include "backend/threads.h"

#include "arch/annotate.h"
#include "backend/lane.h"
#include "base/thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "/proc/self/task"
/* For one that only waits and passes something on. */
#define STACK_BYTES (128 << 10)

static atomic_uint started; /* by weft__thread_start, in this process */

/*
 * Is that a thread of io_uring's, which are called iou-wrk-PID and iou-sqp-PID, or one that has
 * ended? The first thread stays on the list after its end while there are others.
 */
static bool is_harmless(int folder, const char *id)
{
    char path[NAME_MAX + sizeof "/stat"], text[64]; /* "ID (NAME) STATE ...", see proc(5) */
    snprintf(path, sizeof path, "%s/stat", id);
    int fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false; /* it may have just ended, and started another before */
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *name = strchr(text, '('), *end = strrchr(text, ')');
    if (name == NULL || end == NULL)
        return false;
    return memcmp(name, "(iou-", 5) == 0 || memcmp(end, ") Z", 3) == 0;
}

/* As far as they are seen: a thread that ends meanwhile can hide another. */
static unsigned count_harmless(void)
{
    DIR *folder = opendir(FOLDER);
    if (folder == NULL)
        return 0;
    unsigned count = 0;
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL)
        count += entry->d_name[0] != '.' && is_harmless(dirfd(folder), entry->d_name);
    closedir(folder);
    return count;
}

/* Odd while the watchdog is there; never the same again. */
static atomic_uint watchdog_run;

void weft__threads_set_watchdog(bool is_there)
{
    if ((atomic_load(&watchdog_run) & 1) != is_there)
        atomic_fetch_add(&watchdog_run, 1);
}

bool weft__threads_are_others(unsigned cords)
{
    unsigned run = atomic_load(&watchdog_run);
    unsigned own =
        cords + (run & 1) + atomic_load(&started) + WEFT__SANITIZER_THREADS + weft__lanes_freeze();
    struct stat task; /* a folder has a link from each of its folders, and two of its own */
    bool are_others = stat(FOLDER, &task) < 0 ||
                      (task.st_nlink > 2 + own && task.st_nlink > 2 + own + count_harmless());
    weft__lanes_thaw();
    /* Another thread may have come in the place of a watchdog that has gone meanwhile. */
    return are_others || atomic_load(&watchdog_run) != run;
}

static void forget_started(void)
{
    atomic_store(&started, 0);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_started);
}

int weft__thread_start(void *(*fn)(void *))
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    int rc = weft__thread_make(NULL, STACK_BYTES, fn, NULL);
    if (rc == 0)
        atomic_fetch_add(&started, 1); /* not before it is there: others would be taken for it */
    return rc;
}
