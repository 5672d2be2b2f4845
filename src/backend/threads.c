/* Counting threads, see threads.h. */
#include "backend/threads.h"

#include "arch/annotate.h"
#include "backend/lane.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "/proc/self/task"

/* io_uring's threads are called iou-wrk-PID and iou-sqp-PID. */
static bool is_ring_thread(int folder, const char *id)
{
    char path[NAME_MAX + sizeof "/comm"], name[4] = "";
    snprintf(path, sizeof path, "%s/comm", id);
    int fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false; /* it may have just ended, and started another before */
    ssize_t n = read(fd, name, sizeof name);
    close(fd);
    return n == sizeof name && memcmp(name, "iou-", sizeof name) == 0;
}

/* As far as they are seen: a thread that ends meanwhile can hide another. */
static unsigned count_ring_threads(void)
{
    DIR *folder = opendir(FOLDER);
    if (folder == NULL)
        return 0;
    unsigned count = 0;
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL)
        count += entry->d_name[0] != '.' && is_ring_thread(dirfd(folder), entry->d_name);
    closedir(folder);
    return count;
}

bool weft__threads_are_others(unsigned cords)
{
    unsigned own = cords + WEFT__SANITIZER_THREADS + weft__lanes_freeze();
    struct stat task; /* a folder has a link from each of its folders, and two of its own */
    bool are_others = stat(FOLDER, &task) < 0 ||
                      (task.st_nlink > 2 + own && task.st_nlink > 2 + own + count_ring_threads());
    weft__lanes_thaw();
    return are_others;
}
