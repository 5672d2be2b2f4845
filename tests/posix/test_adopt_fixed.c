/*
 * Adoption of a program with fixed addresses (not a PIE). The address of a function of libc is then
 * a stub in the program.
 */
#include "posix/posix_support.h"

#include <poll.h>

typedef int poll_fn(struct pollfd *fds, nfds_t count, int timeout_ms);

static weft_value poll_by_address(void *arg)
{
    poll_fn *volatile fn = poll; /* the address of the stub */
    return -fn(NULL, 0, 1);
}

static weft_value poll_directly(void *arg)
{
    return -poll(NULL, 0, 1);
}

TEST(a_program_with_fixed_addresses_adopts_itself)
{
    adopt_program();
    weft_spin(poll_by_address, NULL);
    weft_spin(poll_directly, NULL);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_uint_eq(posix_stats().waits, 2);
    weft_no_switch_begin();
    ck_assert_int_eq(poll_by_address(NULL), 0);
    weft_no_switch_end();
    ck_assert_uint_eq(posix_stats().waits, 2);
}
