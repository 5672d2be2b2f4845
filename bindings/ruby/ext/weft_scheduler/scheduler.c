/* Weft::Scheduler: its memory, its selector, fork, run and close. */
#include "scheduler.h"

#include <pthread.h>
#include <ruby/util.h>

/* The number of forks between the first process and this one. */
static unsigned fork_epoch;

static ID id_pending_interrupt;

static void count_fork(void)
{
    fork_epoch++;
}

static struct waiter *waiter_of(struct link *link)
{
    return (struct waiter *)link; /* link is the first member */
}

static int mark_blocked(st_data_t fiber, st_data_t waiter, st_data_t arg)
{
    (void)waiter, (void)arg;
    rb_gc_mark((VALUE)fiber);
    return ST_CONTINUE;
}

static void scheduler_mark(void *data)
{
    struct scheduler *scheduler = data;
    rb_gc_mark(scheduler->self);
    rb_gc_mark(scheduler->run_fiber);
    ready_queue_mark(scheduler);
    struct link *waiters = &scheduler->waiters;
    for (struct link *link = waiters->next; link != waiters; link = link->next)
        rb_gc_mark(waiter_of(link)->ready.fiber);
    st_foreach(scheduler->blocked, mark_blocked, 0);
}

static void scheduler_free(void *data)
{
    struct scheduler *scheduler = data;
    weft_selector_close(scheduler->selector);
    st_free_table(scheduler->blocked);
    xfree(scheduler->backend);
    xfree(scheduler->hints);
    xfree(scheduler);
}

static size_t scheduler_size(const void *data)
{
    const struct scheduler *scheduler = data;
    return sizeof *scheduler + st_memsize(scheduler->blocked);
}

const rb_data_type_t scheduler_type = {
    .wrap_struct_name = "Weft::Scheduler",
    .function = {.dmark = scheduler_mark, .dfree = scheduler_free, .dsize = scheduler_size},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE scheduler_alloc(VALUE klass)
{
    st_table *blocked = st_init_numtable();
    struct scheduler *scheduler;
    VALUE self = TypedData_Make_Struct(klass, struct scheduler, &scheduler_type, scheduler);
    scheduler->self = self;
    scheduler->run_fiber = Qnil;
    scheduler->fork_epoch = fork_epoch;
    scheduler->blocked = blocked;
    scheduler->switches_before_poll = SWITCHES_PER_POLL;
    link_init(&scheduler->waiters);
    ready_queue_init(scheduler);
    return self;
}

/* Forget all fibers. They remain suspended until they are garbage. */
static void drop_fibers(struct scheduler *scheduler)
{
    while (!link_is_alone(&scheduler->waiters))
        waiter_leave(scheduler, waiter_of(scheduler->waiters.next));
    ready_queue_clear(scheduler);
    st_clear(scheduler->blocked);
}

/* In a child of fork, the fibers of the parent do not run, and their operations do not exist. */
static void start_clean_after_fork(struct scheduler *scheduler)
{
    scheduler->fork_epoch = fork_epoch;
    drop_fibers(scheduler);
    weft_selector_close(scheduler->selector);
    scheduler->selector = NULL;
    scheduler->selector_serial++;
    scheduler->run_fiber = Qnil; /* the child may end without a return to run */
    scheduler->is_polling = false;
    scheduler->is_stopping = false;
}

struct scheduler *scheduler_get(VALUE self)
{
    struct scheduler *scheduler;
    TypedData_Get_Struct(self, struct scheduler, &scheduler_type, scheduler);
    if (scheduler->fork_epoch != fork_epoch)
        start_clean_after_fork(scheduler);
    return scheduler;
}

/* Raise SystemCallError for a negative result. what names the function. */
void scheduler_raise_errno(const char *what, weft_value result)
{
    rb_syserr_fail((int)-result, what);
}

/* Return the selector. Open it at the first use. */
weft_selector *scheduler_selector(struct scheduler *scheduler)
{
    if (scheduler->selector != NULL)
        return scheduler->selector;
    if (scheduler->is_closed)
        rb_raise(rb_eIOError, "Weft::Scheduler is closed");
    weft_selector_options options = {.backend = scheduler->backend};
    int error = weft_selector_open(&scheduler->selector, &options);
    if (error != 0)
        scheduler_raise_errno("weft_selector_open", error);
    scheduler->selector_serial++;
    return scheduler->selector;
}

/* setup(backend, stall_seconds): the part of initialize in C. Checks the name of the backend. */
static VALUE scheduler_setup(VALUE self, VALUE backend, VALUE stall_seconds)
{
    struct scheduler *scheduler = scheduler_get(self);
    if (!NIL_P(stall_seconds))
        scheduler->stall_seconds = seconds_of(stall_seconds);
    if (!NIL_P(backend))
        scheduler->backend = ruby_strdup(StringValueCStr(backend));
    weft_selector_options options = {.backend = scheduler->backend};
    weft_selector *selector;
    int error = weft_selector_open(&selector, &options);
    if (error != 0)
        rb_raise(rb_eArgError, "no such backend: %s",
                 scheduler->backend != NULL ? scheduler->backend : "(WEFT_BACKEND)");
    weft_selector_close(selector);
    return self;
}

/* backend: the name of the backend in use, for example "io_uring". Opens it. */
static VALUE scheduler_backend(VALUE self)
{
    const char *name = weft_selector_backend(scheduler_selector(scheduler_get(self)));
    if (name == NULL)
        rb_raise(rb_eThreadError, "Weft::Scheduler#backend: another thread uses the scheduler");
    return rb_str_new_cstr(name);
}

/* Return whether run must return, because an exception that run masks waits for the thread. */
bool scheduler_must_leave_run(struct scheduler *scheduler)
{
    return scheduler->leaves_run_on_interrupt &&
           RTEST(rb_funcall(rb_thread_current(), id_pending_interrupt, 0));
}

static bool has_work(struct scheduler *scheduler)
{
    return scheduler->waiter_count > 0 || scheduler->ready_count > 0;
}

static VALUE run_turns(VALUE self)
{
    struct scheduler *scheduler = scheduler_get(self);
    while (has_work(scheduler) && !scheduler->is_stopping && !scheduler_must_leave_run(scheduler)) {
        rb_thread_check_ints();
        struct ready_entry *entry = scheduler_next(scheduler);
        if (entry != NULL)
            scheduler_switch_to(scheduler, entry);
        else
            scheduler_poll_without_gvl(scheduler);
        scheduler = scheduler_get(self); /* a fork may have happened */
    }
    return Qnil;
}

static VALUE run_end(VALUE self)
{
    struct scheduler *scheduler = scheduler_get(self);
    scheduler->run_fiber = Qnil;
    scheduler->is_stopping = false;
    scheduler->leaves_run_on_interrupt = false;
    return Qnil;
}

/*
 * run_loop(leaves_on_interrupt): run fibers until none is ready or waits, or until stop. With
 * leaves_on_interrupt, also return if an exception that is masked waits for the thread.
 */
static VALUE scheduler_run_loop(VALUE self, VALUE leaves_on_interrupt)
{
    struct scheduler *scheduler = scheduler_get(self);
    if (!NIL_P(scheduler->run_fiber))
        rb_raise(rb_eThreadError, "Weft::Scheduler#run: the scheduler is already running");
    scheduler->run_fiber = rb_fiber_current();
    scheduler->leaves_run_on_interrupt = RTEST(leaves_on_interrupt);
    return rb_ensure(run_turns, self, run_end, self);
}

/* stop: make run return. Waiting fibers continue to wait. Any thread may call it. */
static VALUE scheduler_stop(VALUE self)
{
    struct scheduler *scheduler = scheduler_get(self);
    if (!NIL_P(scheduler->run_fiber))
        scheduler->is_stopping = true;
    scheduler_wake_poll(scheduler);
    return Qnil;
}

/* release: drop all fibers and close the selector. */
static VALUE scheduler_release(VALUE self)
{
    struct scheduler *scheduler = scheduler_get(self);
    weft_selector *selector = scheduler->selector;
    scheduler->is_closed = true;
    scheduler->selector = NULL;
    scheduler->selector_serial++;
    weft_selector_close(selector);
    drop_fibers(scheduler);
    return Qnil;
}

static VALUE scheduler_is_closed(VALUE self)
{
    return scheduler_get(self)->is_closed ? Qtrue : Qfalse;
}

/* waiting: a Hash from each waiting fiber to what it waits for. */
static VALUE scheduler_waiting(VALUE self)
{
    struct scheduler *scheduler = scheduler_get(self);
    VALUE waiting = rb_hash_new();
    rb_funcall(waiting, rb_intern("compare_by_identity"), 0);
    struct link *waiters = &scheduler->waiters;
    for (struct link *link = waiters->next; link != waiters; link = link->next) {
        struct waiter *waiter = waiter_of(link);
        rb_hash_aset(waiting, waiter->ready.fiber, ID2SYM(rb_intern(waiter->reason)));
    }
    return waiting;
}

static void put(VALUE hash, const char *name, VALUE value)
{
    rb_hash_aset(hash, ID2SYM(rb_intern(name)), value);
}

/* statistics: counters since the scheduler was created. */
static VALUE scheduler_statistics(VALUE self)
{
    struct scheduler *scheduler = scheduler_get(self);
    VALUE hash = rb_hash_new();
    put(hash, "ready", SIZET2NUM(scheduler->ready_count));
    put(hash, "waiting", SIZET2NUM(scheduler->waiter_count));
    put(hash, "polls", ULONG2NUM(scheduler->polls));
    put(hash, "switches", ULONG2NUM(scheduler->switches));
    put(hash, "idle_seconds", DBL2NUM(scheduler->idle_seconds));
    return hash;
}

static void init_scheduler_methods(VALUE klass)
{
    rb_define_alloc_func(klass, scheduler_alloc);
    rb_define_private_method(klass, "setup", scheduler_setup, 2);
    rb_define_private_method(klass, "run_loop", scheduler_run_loop, 1);
    rb_define_private_method(klass, "release", scheduler_release, 0);
    rb_define_method(klass, "backend", scheduler_backend, 0);
    rb_define_method(klass, "stop", scheduler_stop, 0);
    rb_define_method(klass, "closed?", scheduler_is_closed, 0);
    rb_define_method(klass, "waiting", scheduler_waiting, 0);
    rb_define_method(klass, "statistics", scheduler_statistics, 0);
}

RUBY_FUNC_EXPORTED void Init_scheduler_ext(void)
{
#ifdef HAVE_RB_EXT_RACTOR_SAFE
    rb_ext_ractor_safe(true);
#endif
    id_pending_interrupt = rb_intern("pending_interrupt?");
    pthread_atfork(NULL, NULL, count_fork);
    VALUE klass = rb_define_class_under(rb_define_module("Weft"), "Scheduler", rb_cObject);
    init_scheduler_methods(klass);
    init_block_hooks(klass);
    init_fiber_hooks(klass);
    init_io_hooks(klass);
    init_transfer_hooks(klass);
    init_names_hooks(klass);
    init_process_hooks(klass);
    init_timeout_hooks(klass);
    init_blocking_operation_hooks(klass);
}
