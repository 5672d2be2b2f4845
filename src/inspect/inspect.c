/* Create and free inspectors. */
#include "inspect/inspect.h"

#include <weft/error.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VIEWERS_MAX 16
#define PERIOD_S 1.0
#define CPU_SHARE_MAX 0.02
#define TOKEN_BYTES_MIN 16
#define TOKEN_BYTES_MAX 256

/* A token is a value of a header, without spaces. */
static bool is_token(const char *token)
{
    size_t bytes = strlen(token);
    for (const char *at = token; *at != '\0'; at++)
        if (*at <= ' ' || *at >= 0x7f)
            return false;
    return bytes >= TOKEN_BYTES_MIN && bytes <= TOKEN_BYTES_MAX;
}

static int inspector_options_check(const weft_inspector_options *o)
{
    if (o->token != NULL && !is_token(o->token))
        return weft_fail(-EINVAL, "weft_inspector_new: token must have 16 to 256 visible "
                                  "ASCII characters");
    if (!(o->period_s >= 0 && o->period_s <= WEFT__PERIOD_MAX_S))
        return weft_fail(-EINVAL, "weft_inspector_new: period_s is %g", o->period_s);
    if (!(o->cpu_share_max >= 0 && o->cpu_share_max <= 1))
        return weft_fail(-EINVAL, "weft_inspector_new: cpu_share_max is %g", o->cpu_share_max);
    return 0;
}

static void inspector_options_fill_in(weft_inspector_options *o)
{
    if (o->viewers_max == 0)
        o->viewers_max = VIEWERS_MAX;
    if (o->period_s == 0)
        o->period_s = PERIOD_S;
    if (o->cpu_share_max == 0)
        o->cpu_share_max = CPU_SHARE_MAX;
}

/* Copy a string that may be NULL. Sets *failed if memory is exhausted. */
static char *copy_option(const char *text, bool *failed)
{
    char *copy = text != NULL ? strdup(text) : NULL;
    *failed = *failed || (text != NULL && copy == NULL);
    return copy;
}

weft_inspector *weft_inspector_new(const weft_inspector_options *options)
{
    const weft_inspector_options o = options != NULL ? *options : (weft_inspector_options){0};
    if (inspector_options_check(&o) < 0)
        return NULL;
    weft_inspector *i = calloc(1, sizeof *i);
    bool failed = i == NULL;
    if (i != NULL) {
        i->options = o;
        inspector_options_fill_in(&i->options);
        i->title = copy_option(o.title != NULL ? o.title : program_invocation_short_name, &failed);
        i->token = copy_option(o.token, &failed);
        i->hosts = copy_option(o.hosts, &failed);
        i->symbols = calloc(WEFT__SYMBOL_SLOTS, sizeof *i->symbols);
        failed = failed || i->symbols == NULL;
        pthread_mutex_init(&i->lock, NULL);
    }
    if (!failed)
        return i;
    weft_inspector_free(i);
    weft_fail(-ENOMEM, "weft_inspector_new: memory is exhausted");
    return NULL;
}

void weft_inspector_free(weft_inspector *i)
{
    if (i == NULL)
        return;
    pthread_mutex_destroy(&i->lock);
    free(i->title);
    free(i->token);
    free(i->hosts);
    free(i->symbols);
    free(i->accounted);
    free(i);
}
