/* The tables of `weft profile` on the terminal. See profile.h. */
#include "command/profile/profile.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_ROWS 12

/* Values by name. Rows are sorted before they are printed. */
typedef struct sum_row {
    const char *name;
    uint64_t self, total;
    size_t last_stack; /* 1 + the index of the last stack that was added to total; 0: none */
} sum_row;

typedef struct sums {
    sum_row *rows;
    size_t count, capacity;
} sums;

/* Return the row of a name. Return NULL if memory is exhausted. */
static sum_row *sums_find(sums *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->rows[i].name, name) == 0)
            return &t->rows[i];
    if (t->count == t->capacity) {
        size_t capacity = t->capacity > 0 ? 2 * t->capacity : 64;
        sum_row *rows = realloc(t->rows, capacity * sizeof *rows);
        if (rows == NULL)
            return NULL;
        t->rows = rows;
        t->capacity = capacity;
    }
    t->rows[t->count] = (sum_row){.name = name};
    return &t->rows[t->count++];
}

/* Add the value of a stack to a name. A name counts once per stack, even in a recursion. */
static void sums_add(sums *t, const char *name, size_t stack, uint64_t value, bool is_self)
{
    sum_row *r = sums_find(t, name);
    if (r == NULL)
        return;
    r->self += is_self ? value : 0;
    if (r->last_stack != stack + 1)
        r->total += value;
    r->last_stack = stack + 1;
}

static int row_compare(const void *a, const void *b)
{
    const sum_row *x = a, *y = b;
    if (x->self != y->self)
        return x->self < y->self ? 1 : -1;
    return (x->total < y->total) - (x->total > y->total);
}

static void print_text(const char *text, FILE *out)
{
    for (; *text != '\0'; text++)
        fputc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, out);
    fputc('\n', out);
}

/* Print the largest rows as shares of `all`. unit converts values to seconds. */
static void sums_print(sums *t, const char *title, uint64_t all, double unit, bool has_totals,
                       FILE *out)
{
    qsort(t->rows, t->count, sizeof *t->rows, row_compare);
    fprintf(out, "\n%8s %7s%s  %s\n", "SECONDS", "SHARE", has_totals ? "   TOTAL" : "", title);
    for (size_t i = 0; i < t->count && i < TABLE_ROWS; i++) {
        const sum_row *r = &t->rows[i];
        fprintf(out, "%8.3f %6.1f%%", (double)r->self * unit, 100 * (double)r->self / (double)all);
        if (has_totals)
            fprintf(out, " %6.1f%%", 100 * (double)r->total / (double)all);
        fprintf(out, "  ");
        print_text(r->name, out);
    }
    free(t->rows);
    *t = (sums){0};
}

static uint64_t sum_all(const profile_data *p, bool is_wait)
{
    uint64_t all = 0;
    for (size_t i = 0; i < p->count; i++)
        all += p->stacks[i].is_wait == is_wait ? p->stacks[i].value : 0;
    return all;
}

static void print_cpu(const profile_data *p, FILE *out)
{
    sums fibers = {0}, functions = {0};
    uint64_t all = sum_all(p, false);
    double unit = p->hz > 0 ? 1.0 / p->hz : 0;
    fprintf(out, "CPU: %llu samples, %.3f s of CPU in %.1f s\n", (unsigned long long)all,
            (double)all * unit, p->seconds);
    if (all == 0)
        return;
    for (size_t i = 0; i < p->count; i++) {
        const profile_stack *s = &p->stacks[i];
        if (s->is_wait)
            continue;
        sums_add(&fibers, s->names[1], i, s->value, true);
        for (size_t k = 2; k < s->count; k++)
            sums_add(&functions, s->names[k], i, s->value, k + 1 == s->count);
    }
    sums_print(&fibers, "FIBER", all, unit, false, out);
    sums_print(&functions, "FUNCTION", all, unit, true, out);
}

static void print_waits(const profile_data *p, FILE *out)
{
    sums reasons = {0}, fibers = {0};
    uint64_t all = sum_all(p, true);
    fprintf(out, "\nWaits: %llu snapshots, %.3f s of waits in %.1f s\n",
            (unsigned long long)p->wait_samples, (double)all / 1e6, p->seconds);
    if (all == 0)
        return;
    for (size_t i = 0; i < p->count; i++) {
        const profile_stack *s = &p->stacks[i];
        if (!s->is_wait)
            continue;
        sums_add(&reasons, s->reason, i, s->value, true);
        sums_add(&fibers, s->names[1], i, s->value, true);
    }
    sums_print(&reasons, "REASON", all, 1e-6, false, out);
    sums_print(&fibers, "FIBER", all, 1e-6, false, out);
}

void weft__profile_print(const profile_data *p, bool has_cpu, bool has_waits, FILE *out)
{
    if (has_cpu)
        print_cpu(p, out);
    if (has_waits)
        print_waits(p, out);
    if (p->lost > 0)
        fprintf(out, "\n%llu samples were lost\n", (unsigned long long)p->lost);
}
