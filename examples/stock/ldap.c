/*
 * OpenLDAP: four fibers search with one handle. libldap holds a mutex of the handle while it waits,
 * and weft hooks the mutex. The file name of libldap differs between versions.
 *
 * usage: ldap URL NAME
 */
#include <weft.h>
#include <weft/posix.h>

#include <errno.h>
#include <ldap.h>
#include <stdio.h>
#include <stdlib.h>

#define SEARCHES 4

static const char *name;
static int done; /* searches */

static LDAP *open_handle(const char *url)
{
    LDAP *handle;
    int version = LDAP_VERSION3;
    if (ldap_initialize(&handle, url) != LDAP_SUCCESS)
        return NULL;
    ldap_set_option(handle, LDAP_OPT_PROTOCOL_VERSION, &version);
    struct berval password = {0, NULL}; /* anonymous */
    int code = ldap_sasl_bind_s(handle, NULL, LDAP_SASL_SIMPLE, &password, NULL, NULL, NULL);
    if (code == LDAP_SUCCESS)
        return handle;
    weft_fail(-ECONNREFUSED, "%s: %s", url, ldap_err2string(code));
    ldap_unbind_ext_s(handle, NULL, NULL);
    return NULL;
}

static weft_value search(void *handle)
{
    LDAPMessage *found = NULL;
    int code = ldap_search_ext_s(handle, name, LDAP_SCOPE_BASE, NULL, NULL, 0, NULL, NULL, NULL, 0,
                                 &found);
    ldap_msgfree(found);
    if (code != LDAP_SUCCESS)
        return weft_fail(-EIO, "%s: %s", name, ldap_err2string(code));
    return ++done;
}

int main(int argc, char **argv)
{
    name = argc > 2 ? argv[2] : getenv("STOCK_LDAP_LATE");
    if (weft_adopt("libldap.so", NULL) < 0 && weft_adopt("libldap-2.5.so", NULL) < 0)
        return 1;
    LDAP *handle = open_handle(argc > 2 ? argv[1] : getenv("STOCK_LDAP"));
    if (handle == NULL)
        return 1;
    for (int i = 0; i < SEARCHES; i++)
        weft_go_with(search, handle, &(weft_spin_options){.stack_bytes = 256 * 1024});
    if (weft_await_children() < 0)
        return 1;
    printf("%d searches with one handle\n", done);
    ldap_unbind_ext_s(handle, NULL, NULL);
}
