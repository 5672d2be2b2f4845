/* The stacks of a profile, and their folded form. See profile.h. */
#include "command/profile/profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void stack_free(profile_stack *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->names[i]);
    free(s->names);
    free(s->reason);
}

/* Add a name to a stack. Return false if memory is exhausted. */
static bool stack_add(profile_stack *s, const char *name)
{
    char *copy = strdup(name[0] != '\0' ? name : "(unknown)");
    if (copy == NULL)
        return false;
    s->names[s->count++] = copy;
    return true;
}

/* Read "cpu|wait VALUE CORD FIBER REASON FRAME...". Return false if memory is exhausted. */
static bool stack_parse(profile_stack *s, const inspect_line *line)
{
    char reason[96];
    *s = (profile_stack){.is_wait = strcmp(line->words[0], "wait") == 0};
    s->value = strtoull(line->words[1], NULL, 10);
    s->names = calloc(line->count, sizeof *s->names);
    s->reason = strdup(line->words[4]);
    bool is_good = s->names != NULL && s->reason != NULL;
    for (size_t i = 2; is_good && i < line->count; i++)
        if (i != 4)
            is_good = stack_add(s, line->words[i]);
    snprintf(reason, sizeof reason, "[%s]", line->words[4]);
    if (is_good && s->is_wait)
        is_good = stack_add(s, reason);
    return is_good;
}

static void take_stack(profile_data *p, const inspect_line *line)
{
    if (p->count == p->capacity) {
        size_t capacity = p->capacity > 0 ? 2 * p->capacity : 64;
        profile_stack *stacks = realloc(p->stacks, capacity * sizeof *stacks);
        if (stacks == NULL) {
            p->has_failed = true;
            return;
        }
        p->stacks = stacks;
        p->capacity = capacity;
    }
    profile_stack *s = &p->stacks[p->count++];
    if (!stack_parse(s, line))
        p->has_failed = true;
}

void weft__profile_take_line(void *profile, const inspect_line *line)
{
    profile_data *p = profile;
    const char *kind = line->words[0];
    if (strcmp(kind, "profile") == 0) {
        p->seconds += strtod(line->words[1], NULL);
        p->hz = (unsigned)strtoul(line->words[2], NULL, 10);
        p->wait_samples += strtoull(line->words[4], NULL, 10);
        p->lost += strtoull(line->words[5], NULL, 10);
    } else if ((strcmp(kind, "cpu") == 0 || strcmp(kind, "wait") == 0) && line->count >= 5) {
        take_stack(p, line);
    }
}

static int stack_compare(const void *a, const void *b)
{
    const profile_stack *x = a, *y = b;
    if (x->is_wait != y->is_wait)
        return x->is_wait - y->is_wait;
    for (size_t i = 0; i < x->count && i < y->count; i++) {
        int rc = strcmp(x->names[i], y->names[i]);
        if (rc != 0)
            return rc;
    }
    return (x->count > y->count) - (x->count < y->count);
}

static int stack_compare_value(const void *a, const void *b)
{
    const profile_stack *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return stack_compare(a, b);
}

void weft__profile_merge(profile_data *p)
{
    size_t merged = 0;
    qsort(p->stacks, p->count, sizeof *p->stacks, stack_compare);
    for (size_t i = 0; i < p->count; i++) {
        if (merged > 0 && stack_compare(&p->stacks[merged - 1], &p->stacks[i]) == 0) {
            p->stacks[merged - 1].value += p->stacks[i].value;
            stack_free(&p->stacks[i]);
        } else {
            p->stacks[merged++] = p->stacks[i];
        }
    }
    p->count = merged;
    qsort(p->stacks, p->count, sizeof *p->stacks, stack_compare_value);
}

void weft__profile_free(profile_data *p)
{
    for (size_t i = 0; i < p->count; i++)
        stack_free(&p->stacks[i]);
    free(p->stacks);
    *p = (profile_data){0};
}

/* A name must contain neither a separator nor a line break. */
static void write_folded_name(const char *name, FILE *out)
{
    for (; *name != '\0'; name++)
        fputc(*name == ';' ? ':' : (unsigned char)*name < ' ' ? '?' : *name, out);
}

bool weft__profile_write_folded(const profile_data *p, bool is_wait, FILE *out)
{
    for (size_t i = 0; i < p->count; i++) {
        const profile_stack *s = &p->stacks[i];
        if (s->is_wait != is_wait || s->value == 0)
            continue;
        for (size_t k = 0; k < s->count; k++) {
            if (k > 0)
                fputc(';', out);
            write_folded_name(s->names[k], out);
        }
        fprintf(out, " %" PRIu64 "\n", s->value);
    }
    return fflush(out) == 0 && !ferror(out);
}
