/* OpenLDAP on fibers. The library holds the mutex of a handle while it waits for results. */
#include "stock/stock_support.h"

#include <ldap.h>

#define SEARCHES 4

static void adopt_libldap(void)
{
    adopt_library_of("ldap_search_ext_s");
}

FIXTURE(adopt_libldap, NULL)

static LDAP *open_handle(void)
{
    LDAP *handle;
    int version = LDAP_VERSION3;
    ck_assert_int_eq(ldap_initialize(&handle, server_address("STOCK_LDAP")), LDAP_SUCCESS);
    ck_assert_int_eq(ldap_set_option(handle, LDAP_OPT_PROTOCOL_VERSION, &version), LDAP_SUCCESS);
    struct berval none = {0, NULL};
    ck_assert_int_eq(ldap_sasl_bind_s(handle, NULL, LDAP_SASL_SIMPLE, &none, NULL, NULL, NULL),
                     LDAP_SUCCESS);
    return handle;
}

static int search(LDAP *handle, const char *base)
{
    LDAPMessage *found = NULL;
    int rc = ldap_search_ext_s(handle, base, LDAP_SCOPE_BASE, NULL, NULL, 0, NULL, NULL, NULL, 0,
                               &found);
    ldap_msgfree(found);
    return rc;
}

static weft_value search_slowly(void *handle)
{
    call_begin();
    int rc = search(handle, server_address("STOCK_LDAP_LATE"));
    call_end();
    ck_assert_msg(rc == LDAP_SUCCESS, "%s", ldap_err2string(rc));
    return 0;
}

TEST(the_searches_of_fibers_with_one_handle_overlap)
{
    LDAP *handle = open_handle();
    assert_calls_overlap(search_slowly, handle, SEARCHES);
    ldap_unbind_ext_s(handle, NULL, NULL);
}

static weft_value search_with_own_handle(void *arg)
{
    LDAP *handle = open_handle();
    search_slowly(handle);
    ldap_unbind_ext_s(handle, NULL, NULL);
    return 0;
}

TEST(the_searches_of_fibers_with_own_handles_overlap)
{
    assert_calls_overlap(search_with_own_handle, NULL, SEARCHES);
}

TEST(a_search_fails_at_the_deadline_of_a_scope)
{
    LDAP *handle = open_handle();
    int rc = 0, code = LDAP_SUCCESS;
    WEFT_CANCEL_AFTER(0.1, rc) {
        code = search(handle, server_address("STOCK_LDAP_LATE"));
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_ne(code, LDAP_SUCCESS);
    ldap_unbind_ext_s(handle, NULL, NULL);
    handle = open_handle();
    ck_assert_int_eq(search(handle, ""), LDAP_SUCCESS);
    ldap_unbind_ext_s(handle, NULL, NULL);
}
