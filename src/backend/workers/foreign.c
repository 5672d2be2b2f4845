/* Count the threads of the process in /proc, see foreign.h. */
#include "backend/workers/foreign.h"

#include "arch/sanitizers.h"
#include "backend/workers/worker_queue.h"
#include "base/thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TASK_DIRECTORY "/proc/self/task"

/*
 * Return whether a thread has ended, or belongs to io_uring (iou-wrk-PID, iou-sqp-PID). A main
 * thread that has ended remains listed while other threads run.
 */
static bool is_passive_thread(int directory, const char *id)
{
    char path[NAME_MAX + sizeof "/stat"], text[64]; /* "ID (NAME) STATE ...", see proc(5) */
    snprintf(path, sizeof path, "%s/stat", id);
    int fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false; /* the thread has ended, but may have started another thread before */
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *name = strchr(text, '('), *end = strrchr(text, ')');
    if (name == NULL || end == NULL)
        return false;
    return memcmp(name, "(iou-", 5) == 0 || memcmp(end, ") Z", 3) == 0;
}

/*
 * Count passive threads. The directory listing may miss a thread if another thread ends meanwhile.
 */
static unsigned count_passive_threads(void)
{
    DIR *directory = opendir(TASK_DIRECTORY);
    if (directory == NULL)
        return 0;
    unsigned count = 0;
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL)
        count += entry->d_name[0] != '.' && is_passive_thread(dirfd(directory), entry->d_name);
    closedir(directory);
    return count;
}

/* Odd while the watchdog runs. Each start and end changes the value. */
static atomic_uint watchdog_run;

void weft__foreign_set_watchdog(bool is_running)
{
    if ((atomic_load(&watchdog_run) & 1) != is_running)
        atomic_fetch_add(&watchdog_run, 1);
}

bool weft__foreign_threads_exist(unsigned cords)
{
    unsigned run = atomic_load(&watchdog_run);
    unsigned own = cords + (run & 1) + weft__internal_thread_count() + WEFT__SANITIZER_THREADS +
                   weft__workers_freeze();
    struct stat task; /* link count of a directory: 2, plus 1 for each subdirectory */
    bool has_foreign =
        stat(TASK_DIRECTORY, &task) < 0 ||
        (task.st_nlink > 2 + own && task.st_nlink > 2 + own + count_passive_threads());
    weft__workers_thaw();
    /* If the watchdog has ended meanwhile, a foreign thread may have been counted in its place. */
    return has_foreign || atomic_load(&watchdog_run) != run;
}
