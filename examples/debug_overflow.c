/*
 * A function needs more stack than its fiber has. The fault is in the guard below the stack, and
 * weft reports the fiber on stderr. The fault ends a child process, so that main can continue.
 */
#include <weft.h>

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define PAGE_BYTES (1 << 20)

/* The bug: the frame of this function is larger than the default stack. */
static int format_page(const char *text)
{
    char page[PAGE_BYTES];
    int n = snprintf(page, sizeof page, "%s", text);
    return n > 0 && page[n - 1] == text[n - 1] ? n : -1;
}

static weft_value render(void *arg)
{
    return format_page(arg);
}

/* Run render in a child process, with a stack of the given size. Return whether it ended well. */
static bool render_in_child(size_t stack_bytes)
{
    int status;
    fflush(stdout);
    pid_t pid = weft_fork();
    if (pid != 0)
        return pid > 0 && weft_waitpid(pid, &status, 0) == pid && status == 0;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); /* no core file */
    weft_spin_options options = {.name = "render", .stack_bytes = stack_bytes};
    _exit(weft_await(weft_spin_with(render, "text", &options)) != 4);
}

int main(void)
{
    printf("default stack: %s\n", render_in_child(0) ? "works" : "fails");
    printf("stack of 2 MiB: %s\n", render_in_child(2 << 20) ? "works" : "fails");
}
