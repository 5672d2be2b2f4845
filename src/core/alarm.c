/*
 * Cancellation and raised errors: what makes a blocking call fail that could have waited.
 *
 * Everything here ends in one of two ways: the fiber waits, and is taken out of its wait in the
 * same step; or it does not, and its next blocking call finds the alarm set.
 */
#include "core/alarm.h"

#include "core/error.h"
#include "core/report.h"
#include "core/scope.h"
#include "core/tree.h"

/* What the scopes say, from the innermost outwards. */
typedef enum verdict { OPEN, CANCELLED, SHIELDED } verdict;

static verdict judge_scopes(const weft__fiber *f)
{
    for (const weft__scope *s = f->life->scope; s != NULL; s = s->outer) {
        if (s->is_cancelled)
            return CANCELLED;
        if (weft__scope_keeps_out(s))
            return SHIELDED;
    }
    return OPEN;
}

/* Is there a shield anywhere around the current call? Errors from outside wait behind it. */
static bool is_shielded(const weft__fiber *f)
{
    for (const weft__scope *s = f->life->scope; s != NULL; s = s->outer)
        if (weft__scope_keeps_out(s))
            return true;
    return false;
}

static bool is_struck_once(const weft__fiber *f)
{
    return f->life->raised != NULL || f->life->raised_code != 0;
}

bool weft__alarm_is_stop(const weft__fiber *f)
{
    return f->is_stopped && judge_scopes(f) == OPEN;
}

void weft__alarm_update(weft__fiber *f)
{
    verdict v = judge_scopes(f);
    bool from_outside = f->is_stopped || is_struck_once(f);
    bool is_set = v == CANCELLED || (from_outside && v == OPEN) || f->life->no_switch > 0;
    f->alarm = is_set;
    if (!is_set)
        f->refusals = 0;
}

weft_value weft__alarm_take(weft__fiber *f)
{
    if (is_shielded(f) || f->is_stopped || !is_struck_once(f)) {
        weft__scopes_note_cut(weft__cord_self, f);
        return -ECANCELED;
    }
    bool has_words = f->life->raised != NULL;
    int code = weft__error_next(f);
    if (has_words)
        f->error->is_unseen = !f->error->is_by_hand;
    weft__alarm_update(f);
    return code;
}

void weft__alarm_raise(weft__cord *c, weft__fiber *f, weft__where where)
{
    weft__alarm_update(f);
    if (!f->alarm || f->waits_in == NULL || f->waits_in->leave == NULL)
        return;
    if (f->phase == WEFT__FRESH && !f->is_stopped)
        return;
    if (f->waits_in->leave(f))
        weft__wake(c, f, weft__alarm_take(f), where);
}

/* Nothing cuts the pause short. */
static const weft__wait_kind waits_pause = {.name = "a pause: it ignores its cancellation"};

/*
 * The current fiber keeps calling although its calls fail. Name it once, and let a process that
 * ends go on without it when its time is up.
 */
COLD static void slow_down(weft__cord *c, weft__fiber *f)
{
    int64_t now_ns = weft__cord_now(c);
    if (f->refusals == WEFT__REFUSALS_NAMED)
        weft__report_ignored(f);
    if (f->refusals >= WEFT__REFUSALS_NAMED && c->give_up_ns != 0 && now_ns >= c->give_up_ns)
        weft__tree_give_up(c, f);
    weft__hold_timer(c, f, &f->life->timer, weft__ns_later(now_ns, WEFT__REFUSAL_PAUSE_NS));
    weft__wait(c, &waits_pause, NULL);
}

weft_value weft__refuse(weft__cord *c)
{
    weft__fiber *f = c->current;
    if (f->life->no_switch > 0) {
        weft__report("fiber #%llu '%s' would switch where switching is forbidden",
                     (unsigned long long)f->id, f->name);
        return -EPERM;
    }
    /*
     * Code that ignores the error may loop: let the others run, and the one who waits for our end.
     */
    f->refusals += f->refusals < UINT16_MAX;
    if (UNLIKELY(f->refusals >= WEFT__REFUSALS_PAUSED))
        slow_down(c, f);
    else if (f->refusals >= WEFT__REFUSALS_MAX)
        weft__yield(c, 0);
    return weft__alarm_take(f);
}

weft_value weft__settle(weft__fiber *f, weft_value result)
{
    f->was_struck = result == -ECANCELED && (f->is_interrupted || f->alarm);
    if (f->was_struck)
        result = f->is_interrupted ? f->life->interrupt_code : weft__alarm_take(f);
    f->is_interrupted = false;
    return result;
}

void weft__fiber_end(weft__cord *c, weft__fiber *f, weft_value value, weft__end why)
{
    f->is_stopped = true;
    f->is_shutdown = why == WEFT__END_WITH_PARENT;
    f->is_restarting = why == WEFT__END_TO_RESTART;
    f->result = value;
    if (weft__runnable_is_queued(&f->queued)) {
        weft__runqueue_remove(&c->runqueue, &f->queued);
        weft__runqueue_push_front(&c->runqueue, &f->queued);
    }
    weft__alarm_raise(c, f, WEFT__FRONT);
}

int weft_stop(weft_fiber fiber, weft_value value)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__find_living(fiber, &c, &f);
    if (rc < 0)
        return rc;
    if (f->parent == NULL)
        return weft_fail(-EINVAL, "a main fiber cannot be stopped");
    if (f->phase != WEFT__ENDING)
        weft__fiber_end(c, f, value, WEFT__END_AS_TOLD);
    else
        f->is_restarting = false; /* too late for a value, not for this */
    return 0;
}

int weft_cancel(weft_fiber fiber)
{
    return weft_stop(fiber, -ECANCELED);
}

int weft_raise(weft_fiber fiber, int code, const char *format, ...)
{
    if (!weft_is_error(code) || format == NULL)
        return weft_fail(-EINVAL, "weft_raise wants an error code and a format, not %d", code);
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__find_living(fiber, &c, &f);
    if (rc < 0)
        return rc;
    va_list args;
    va_start(args, format);
    weft__error *e = weft__error_new(c->current, code, NULL, format, args);
    va_end(args);
    weft__error_locate(e);
    if (e != NULL)
        e->is_by_hand = true;
    rc = weft__error_queue(f, code, e);
    if (rc == 0)
        weft__alarm_raise(c, f, WEFT__FRONT);
    return rc;
}

void weft__raise_again(weft__fiber *f, int code)
{
    weft__error_set(f, weft__error_of_end(f, code));
    weft__error_own(f);
    weft__error_queue(f, code, weft__error_ref(f->error));
    weft__alarm_update(f);
}

void weft_no_switch_begin(void)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return;
    c->current->life->no_switch++;
    weft__alarm_update(c->current);
}

void weft_no_switch_end(void)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL || c->current->life->no_switch == 0)
        return;
    c->current->life->no_switch--;
    weft__alarm_update(c->current);
}
