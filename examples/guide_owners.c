/* Owners of arguments, messages and memory. docs/guide.md shows the functions of this file. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A copy of a local variable, on the stack of the new fiber. */
typedef struct greeting {
    char text[32];
} greeting;

static weft_value greet(void *arg)
{
    const greeting *g = arg;
    printf("copied argument: %s\n", g->text);
    return 0;
}

static int spin_with_copy(void)
{
    greeting local = {"hello"};
    return weft_go_with(greet, &local, &(weft_spin_options){.arg_bytes = sizeof local});
}

/* Memory that the fiber frees. If the fiber never runs, drop frees the memory. */
static void drop_text(void *arg)
{
    printf("dropped: %s\n", (char *)arg);
    free(arg);
}

static weft_value print_text(void *arg)
{
    printf("printed: %s\n", (char *)arg);
    free(arg);
    return 0;
}

static weft_fiber spin_with_text(const char *text)
{
    char *copy = strdup(text);
    weft_fiber f = 0;
    if (copy != NULL)
        f = weft_spin_with(print_text, copy, &(weft_spin_options){.drop = drop_text});
    if (f == 0)
        free(copy); /* no fiber: the caller still owns the memory */
    return f;
}

/* Messages that own memory. The receiver frees them, also the messages that it does not use. */
static weft_value count_letters(void *arg)
{
    int *letters = arg;
    weft_value text;
    while (!weft_is_error(text = weft_receive())) {
        *letters += (int)strlen((char *)text);
        free((char *)text);
    }
    while (!weft_is_error(text = weft_try_receive())) /* arrived during the cancellation */
        free((char *)text);
    return 0;
}

static int send_text(weft_fiber to, const char *text)
{
    char *copy = strdup(text);
    if (copy == NULL)
        return -ENOMEM;
    int rc = weft_tell(to, (weft_value)copy);
    if (rc < 0)
        free(copy); /* not sent: the sender still owns the memory */
    return rc;
}

/* Memory that weft frees when the fiber has ended, after the fiber's children. */
static weft_value build_index(void *arg)
{
    (void)arg;
    int *index = weft_alloc(1000 * sizeof *index);
    if (index == NULL)
        return -ENOMEM;
    for (int i = 0; i < 1000; i++)
        index[i] = i;
    return index[999];
}

/* A large frame needs a large stack. */
static weft_value sort_on_stack(void *arg)
{
    (void)arg;
    volatile char table[200 * 1024]; /* volatile: the compiler does not remove the array */
    for (size_t i = 0; i < sizeof table; i++)
        table[i] = 1;
    weft_info info;
    int rc = weft_info_of(weft_self(), &info);
    printf("large frame: %s\n", info.stack_used >= sizeof table ? "on its own stack" : "?");
    return rc < 0 ? rc : table[0];
}

static weft_value spin_large(void)
{
    weft_spin_options options = {.name = "sort", .stack_bytes = 256 * 1024};
    return weft_await(weft_spin_with(sort_on_stack, NULL, &options));
}

int main(void)
{
    int letters = 0;
    if (spin_with_copy() < 0 || weft_await_children() < 0)
        return 1;
    weft_await(spin_with_text("this fiber runs"));
    weft_cancel(spin_with_text("this fiber is cancelled first"));
    weft_snooze();
    weft_fiber counter = weft_spin(count_letters, &letters);
    if (send_text(counter, "warp") < 0 || send_text(counter, "weft") < 0)
        return 1;
    weft_snooze();
    weft_terminate(counter, 1.0);
    printf("letters: %d\n", letters);
    printf("index: %d\n", (int)weft_await(weft_spin(build_index, NULL)));
    return spin_large() < 0;
}
