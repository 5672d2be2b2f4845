/*
 * Views: the rows that a viewer sees.
 *
 * The tree is walked without recursion, because fibers can be nested deeper than a stack is. By
 * default fibers are open and groups are closed. The view lists the exceptions.
 */
#include "inspect/inspect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_DEFAULT 100
#define LIMIT_MAX 200
#define TOGGLED_MAX 400

/* A walk over the rows of the tree. */
typedef struct tree_walk {
    const weft__view *view;
    const weft__index *x;
    weft__view_page *page;
    const unsigned char *marks; /* MARK_ of each fiber; NULL: all match */
    const uint32_t *visible;    /* visible fibers of each group; NULL: all */
    uint32_t level;
} tree_walk;

enum { MARK_MATCHES = 1, MARK_IS_ABOVE = 2 };

static int compare_keys(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* The keys of fibers and groups must differ: the lowest bit is 1 for a group. */
static uint64_t key_of_fiber(weft_fiber id)
{
    return id << 1;
}

static uint64_t key_of_group(const weft__fiber_group *g)
{
    return g->key << 1 | 1;
}

static bool is_toggled(const weft__view *v, uint64_t key)
{
    return v->toggled_count > 0 &&
           bsearch(&key, v->toggled, v->toggled_count, sizeof key, compare_keys) != NULL;
}

/*
 * The query.
 */

static const char *query_text(weft_http_request *r, const char *name)
{
    const char *value = weft_http_query_param(r, name);
    return value != NULL ? value : "";
}

static size_t query_number(weft_http_request *r, const char *name, size_t otherwise, size_t max)
{
    const char *text = query_text(r, name);
    if (text[0] < '0' || text[0] > '9')
        return otherwise;
    unsigned long long number = strtoull(text, NULL, 10);
    return number < max ? (size_t)number : max;
}

static weft__view_sort query_sort(weft_http_request *r)
{
    static const char *const names[] = {"cpu", "wait", "stack", "switches", "name"};
    const char *text = query_text(r, "sort");
    for (size_t s = 0; s < sizeof names / sizeof names[0]; s++)
        if (strcmp(text, names[s]) == 0)
            return (weft__view_sort)s;
    return WEFT__SORT_CPU;
}

/* Read the keys of toggled rows: hexadecimal numbers, separated by points. */
static int query_toggled(weft__view *v, weft_http_request *r)
{
    const char *at = query_text(r, "toggled");
    v->toggled = weft_http_alloc(r, TOGGLED_MAX * sizeof *v->toggled);
    if (v->toggled == NULL)
        return -ENOMEM;
    while (*at != '\0') {
        char *end;
        uint64_t key = strtoull(at, &end, 16);
        if (end == at || (*end != '.' && *end != '\0') || v->toggled_count == TOGGLED_MAX)
            return -EINVAL;
        v->toggled[v->toggled_count++] = key;
        at = *end == '.' ? end + 1 : end;
    }
    qsort(v->toggled, v->toggled_count, sizeof *v->toggled, compare_keys);
    return 0;
}

int weft__view_read(weft__view *v, weft_http_request *r)
{
    *v = (weft__view){
        .is_list = strcmp(query_text(r, "mode"), "list") == 0,
        .sort = query_sort(r),
        .text = query_text(r, "q"),
        .state = query_text(r, "state"),
        .reason = query_text(r, "reason"),
        .thread_id = (int)query_number(r, "cord", 0, INT32_MAX),
        .from = query_number(r, "from", 0, UINT32_MAX),
        .limit = query_number(r, "limit", LIMIT_DEFAULT, LIMIT_MAX),
    };
    return query_toggled(v, r);
}

/*
 * The filter.
 */

bool weft__view_has_filter(const weft__view *v)
{
    return v->text[0] != '\0' || v->state[0] != '\0' || v->reason[0] != '\0' || v->thread_id != 0;
}

/* A text matches the name, the function, the wait reason or the id. */
static bool matches_text(const char *text, weft_inspector *i, const weft_info *info)
{
    char id[24];
    if (strcasestr(info->name, text) != NULL || strcasestr(info->waits_for, text) != NULL)
        return true;
    if (text[0] == '#' || (text[0] >= '0' && text[0] <= '9')) {
        snprintf(id, sizeof id, "%llu", (unsigned long long)info->id);
        if (strcmp(id, text + (text[0] == '#')) == 0)
            return true;
    }
    return info->fn != NULL &&
           strcasestr(weft__symbol_get(i, (const void *)info->fn).function, text) != NULL;
}

bool weft__view_matches(const weft__view *v, weft_inspector *i, const weft__index *x, uint32_t f)
{
    const weft_snapshot_fiber *fiber = &x->snapshot->fibers[f];
    const weft_info *info = &fiber->info;
    if (v->thread_id != 0 && x->snapshot->cords[fiber->cord].thread_id != v->thread_id)
        return false;
    if (v->state[0] != '\0' && strcmp(v->state, weft__state_name(info->state)) != 0)
        return false;
    if (v->reason[0] != '\0' && strcmp(v->reason, info->waits_for) != 0)
        return false;
    return v->text[0] == '\0' || matches_text(v->text, i, info);
}

/* Mark matching fibers and the fibers above them. Count the visible fibers of each group. */
static void marks_fill(const weft__view *v, weft_inspector *i, const weft__index *x,
                       unsigned char *marks, uint32_t *visible, size_t *matching)
{
    size_t count = x->snapshot->fibers_count;
    for (uint32_t f = 0; f < count; f++) {
        if (!weft__view_matches(v, i, x, f))
            continue;
        marks[f] |= MARK_MATCHES;
        (*matching)++;
        for (uint32_t up = x->nodes[f].parent; up != WEFT__NONE && !(marks[up] & MARK_IS_ABOVE);
             up = x->nodes[up].parent)
            marks[up] |= MARK_IS_ABOVE;
    }
    for (uint32_t f = 0; f < count; f++)
        visible[x->nodes[f].group] += marks[f] != 0;
}

/*
 * The tree.
 */

static void page_add(weft__view_page *page, const weft__view *v, const weft__view_row *row)
{
    if (page->total >= page->from && page->count < v->limit)
        page->rows[page->count++] = *row;
    page->total++;
}

static bool is_visible(const tree_walk *w, uint32_t f)
{
    return w->marks == NULL || w->marks[f] != 0;
}

static uint32_t visible_count(const tree_walk *w, uint32_t g)
{
    return w->visible == NULL ? w->x->groups[g].count : w->visible[g];
}

static bool has_own_row(const tree_walk *w, uint32_t g)
{
    return visible_count(w, g) >= WEFT__GROUP_MIN;
}

/* Return the next group with a visible fiber, beginning with g. */
static uint32_t skip_groups(const tree_walk *w, uint32_t g)
{
    while (g != WEFT__NONE && visible_count(w, g) == 0)
        g = w->x->groups[g].next;
    return g;
}

static uint32_t skip_fibers(const tree_walk *w, uint32_t f)
{
    while (f != WEFT__NONE && !is_visible(w, f))
        f = w->x->nodes[f].next;
    return f;
}

/* Write the row of a group, if it has one. Returns its first fiber, or WEFT__NONE if closed. */
static uint32_t walk_into_group(tree_walk *w, uint32_t g)
{
    const weft__fiber_group *group = &w->x->groups[g];
    uint32_t first = skip_fibers(w, group->first);
    w->level++;
    if (!has_own_row(w, g))
        return first;
    uint64_t key = key_of_group(group);
    bool is_open = is_toggled(w->view, key);
    page_add(w->page, w->view,
             &(weft__view_row){.key = key,
                               .fiber = first,
                               .group = g,
                               .count = visible_count(w, g),
                               .level = w->level,
                               .can_open = true,
                               .is_open = is_open});
    if (!is_open) {
        w->level--;
        return WEFT__NONE;
    }
    w->level++;
    return first;
}

/* Enter a group or one of its later siblings. Returns the first fiber, or WEFT__NONE. */
static uint32_t walk_into_groups(tree_walk *w, uint32_t g)
{
    for (g = skip_groups(w, g); g != WEFT__NONE; g = skip_groups(w, w->x->groups[g].next)) {
        uint32_t f = walk_into_group(w, g);
        if (f != WEFT__NONE)
            return f;
    }
    return WEFT__NONE;
}

/* Leave a fiber without its children. Returns the next fiber, or WEFT__NONE at the end. */
static uint32_t walk_on(tree_walk *w, uint32_t f)
{
    while (f != WEFT__NONE) {
        uint32_t next = skip_fibers(w, w->x->nodes[f].next), g = w->x->nodes[f].group;
        if (next != WEFT__NONE)
            return next;
        w->level -= has_own_row(w, g) ? 2 : 1;
        next = walk_into_groups(w, w->x->groups[g].next);
        if (next != WEFT__NONE)
            return next;
        f = w->x->groups[g].parent;
    }
    return WEFT__NONE;
}

static void walk_tree(tree_walk *w)
{
    uint32_t f = walk_into_groups(w, w->x->roots);
    while (f != WEFT__NONE) {
        const weft__tree_node *node = &w->x->nodes[f];
        uint64_t key = key_of_fiber(w->x->snapshot->fibers[f].info.id);
        bool can_open = skip_groups(w, node->groups) != WEFT__NONE;
        bool is_open = can_open && !is_toggled(w->view, key);
        page_add(
            w->page, w->view,
            &(weft__view_row){.key = key,
                              .fiber = f,
                              .group = WEFT__NONE,
                              .count = 1,
                              .level = w->level,
                              .can_open = can_open,
                              .is_open = is_open,
                              .is_context = w->marks != NULL && !(w->marks[f] & MARK_MATCHES)});
        uint32_t child = is_open ? walk_into_groups(w, node->groups) : WEFT__NONE;
        f = child != WEFT__NONE ? child : walk_on(w, f);
    }
}

/*
 * The list.
 */

/* A fiber and its rank in the order of the list. */
typedef struct ranked_fiber {
    double rank; /* highest first */
    uint32_t fiber;
    const char *name; /* of fibers with the same rank */
} ranked_fiber;

static double rank_of(const weft_info *info, weft__view_sort sort)
{
    switch (sort) {
    case WEFT__SORT_CPU:
        return info->cpu_share > 0 ? info->cpu_share : 0;
    case WEFT__SORT_WAIT:
        return info->waiting_s;
    case WEFT__SORT_STACK:
        return (double)info->stack_used;
    case WEFT__SORT_SWITCHES:
        return (double)info->switches;
    default:
        return 0;
    }
}

static int compare_ranks(const void *a, const void *b)
{
    const ranked_fiber *left = a, *right = b;
    if (left->rank < right->rank || left->rank > right->rank)
        return left->rank < right->rank ? 1 : -1;
    int order = left->name != right->name ? strcmp(left->name, right->name) : 0;
    return order != 0 ? order : left->fiber < right->fiber ? -1 : 1;
}

static int list_select(const weft__view *v, const weft__index *x, const unsigned char *marks,
                       weft__view_page *page)
{
    size_t count = 0, all = x->snapshot->fibers_count;
    ranked_fiber *ranked = malloc((all + 1) * sizeof *ranked);
    if (ranked == NULL)
        return -ENOMEM;
    for (uint32_t f = 0; f < all; f++) {
        const weft_info *info = &x->snapshot->fibers[f].info;
        if (marks == NULL || marks[f] & MARK_MATCHES)
            ranked[count++] = (ranked_fiber){rank_of(info, v->sort), f,
                                             v->sort == WEFT__SORT_NAME ? info->name : ""};
    }
    qsort(ranked, count, sizeof *ranked, compare_ranks);
    for (size_t r = 0; r < count; r++)
        page_add(
            page, v,
            &(weft__view_row){.key = key_of_fiber(x->snapshot->fibers[ranked[r].fiber].info.id),
                              .fiber = ranked[r].fiber,
                              .group = WEFT__NONE,
                              .count = 1,
                              .level = 1});
    free(ranked);
    return 0;
}

static int select_rows(const weft__view *v, const weft__index *x, const unsigned char *marks,
                       const uint32_t *visible, weft__view_page *page)
{
    page->count = page->total = 0;
    if (v->is_list)
        return list_select(v, x, marks, page);
    tree_walk w = {.view = v, .x = x, .page = page, .marks = marks, .visible = visible};
    walk_tree(&w);
    return 0;
}

int weft__view_select(const weft__view *v, weft_inspector *i, const weft__index *x,
                      weft__view_page *page)
{
    size_t fibers = x->snapshot->fibers_count;
    bool has_filter = weft__view_has_filter(v);
    unsigned char *marks = has_filter ? calloc(fibers + 1, sizeof *marks) : NULL;
    uint32_t *visible = has_filter ? calloc(x->groups_count + 1, sizeof *visible) : NULL;
    *page = (weft__view_page){.from = v->from, .matching = has_filter ? 0 : fibers};
    page->rows = malloc((v->limit + 1) * sizeof *page->rows);
    int rc = page->rows == NULL || (has_filter && (marks == NULL || visible == NULL)) ? -ENOMEM : 0;
    if (rc == 0 && has_filter)
        marks_fill(v, i, x, marks, visible, &page->matching);
    if (rc == 0)
        rc = select_rows(v, x, marks, visible, page);
    if (rc == 0 && page->count == 0 && page->total > 0 && v->limit > 0) { /* beyond the end */
        page->from = (page->total - 1) / v->limit * v->limit;
        rc = select_rows(v, x, marks, visible, page);
    }
    free(marks);
    free(visible);
    if (rc < 0) {
        free(page->rows);
        page->rows = NULL;
    }
    return rc;
}
