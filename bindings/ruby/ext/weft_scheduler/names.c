/* The hook of name lookups: getaddrinfo(3) in a worker thread of weft. */
#include "scheduler.h"

#include <arpa/inet.h>
#include <math.h>
#include <netdb.h>
#include <string.h>

struct lookup {
    char *name;
    struct addrinfo *addresses;
};

static weft_value lookup_run(void *arg)
{
    struct lookup *lookup = arg;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    return getaddrinfo(lookup->name, NULL, &hints, &lookup->addresses);
}

/* Also runs in a worker thread: it must not call Ruby. */
static void lookup_free(void *arg)
{
    struct lookup *lookup = arg;
    if (lookup->addresses != NULL)
        freeaddrinfo(lookup->addresses);
    free(lookup->name);
    free(lookup);
}

/* Copy a name without its scope ("fe80::1%eth0"). */
static struct lookup *lookup_new(VALUE name)
{
    const char *text = StringValueCStr(name);
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (lookup != NULL)
        lookup->name = strndup(text, strcspn(text, "%"));
    if (lookup == NULL || lookup->name == NULL) {
        free(lookup);
        rb_memerror();
    }
    return lookup;
}

static VALUE address_text(const struct addrinfo *address)
{
    char text[INET6_ADDRSTRLEN];
    const void *bytes = address->ai_family == AF_INET6
                            ? (const void *)&((struct sockaddr_in6 *)address->ai_addr)->sin6_addr
                            : (const void *)&((struct sockaddr_in *)address->ai_addr)->sin_addr;
    if (inet_ntop(address->ai_family, bytes, text, sizeof text) == NULL)
        return Qnil;
    return rb_str_new_cstr(text);
}

static VALUE lookup_addresses(VALUE arg)
{
    struct lookup *lookup = (struct lookup *)arg;
    VALUE addresses = rb_ary_new();
    for (struct addrinfo *address = lookup->addresses; address != NULL;
         address = address->ai_next) {
        VALUE text = address_text(address);
        if (!NIL_P(text) && !RTEST(rb_ary_includes(addresses, text)))
            rb_ary_push(addresses, text);
    }
    return addresses;
}

static VALUE lookup_end(VALUE arg)
{
    lookup_free((struct lookup *)arg);
    return Qnil;
}

/* address_resolve(name): an Array of numeric addresses, or nil if the name is unknown. */
static VALUE hook_address_resolve(VALUE self, VALUE name)
{
    struct scheduler *scheduler = scheduler_get(self);
    weft_selector *selector = scheduler_selector(scheduler);
    struct lookup *lookup = lookup_new(name);
    struct operation operation;
    operation_init(&operation, operation_wake, NULL);
    weft_value result =
        weft_selector_offload(selector, &operation.op, lookup_run, lookup, lookup_free);
    if (result < 0 && result != WEFT_SELECTOR_PENDING) {
        lookup_free(lookup);
        scheduler_raise_errno("weft_selector_offload", result);
    }
    result = operation_wait(scheduler, &operation, result, "names", INFINITY);
    RB_GC_GUARD(self);
    VALUE addresses = rb_ensure(lookup_addresses, (VALUE)lookup, lookup_end, (VALUE)lookup);
    return result == 0 ? addresses : Qnil;
}

void init_names_hooks(VALUE klass)
{
    rb_define_method(klass, "address_resolve", hook_address_resolve, 1);
}
