/* Waiting for a child process through its pidfd. */
#include "scheduler.h"

#include <math.h>
#include <sys/syscall.h>
#include <unistd.h>

struct exit_wait {
    struct scheduler *scheduler;
    int pidfd;
};

static VALUE exit_wait_run(VALUE arg)
{
    struct exit_wait *wait = (struct exit_wait *)arg;
    struct operation operation;
    operation_init(&operation, operation_wake, NULL);
    weft_value result = weft_selector_wait_fd(scheduler_selector(wait->scheduler), &operation.op,
                                              wait->pidfd, POLLIN);
    result = operation_wait(wait->scheduler, &operation, result, "process", INFINITY);
    if (result < 0)
        scheduler_raise_errno("process_wait", result);
    return Qtrue;
}

static VALUE exit_wait_end(VALUE arg)
{
    close(((struct exit_wait *)arg)->pidfd);
    return Qnil;
}

/* wait_exit(pid): wait until a process has ended. nil if the kernel has no pidfd for it. */
static VALUE scheduler_wait_exit(VALUE self, VALUE pid)
{
    struct exit_wait wait = {.scheduler = scheduler_get(self)};
    wait.pidfd = (int)syscall(SYS_pidfd_open, NUM2PIDT(pid), 0);
    if (wait.pidfd < 0)
        return Qnil;
    VALUE result = rb_ensure(exit_wait_run, (VALUE)&wait, exit_wait_end, (VALUE)&wait);
    RB_GC_GUARD(self);
    return result;
}

void init_process_hooks(VALUE klass)
{
    rb_define_private_method(klass, "wait_exit", scheduler_wait_exit, 1);
}
