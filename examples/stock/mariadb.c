/*
 * MariaDB or MySQL with libmariadb: fibers query on their own connections with TLS. libcrypto reads
 * from the socket, and weft_adopt also hooks libcrypto, because libmariadb needs libcrypto.
 *
 * usage: mariadb PORT CA-FILE
 */
#include <weft.h>
#include <weft/posix.h>

#include <errno.h>
#include <mysql.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIBERS 10

static unsigned port;
static const char *ca_file;
static int done; /* queries */

static MYSQL *connect_to_mariadb(void)
{
    MYSQL *c = mysql_init(NULL);
    if (c == NULL)
        return NULL;
    mysql_ssl_set(c, NULL, NULL, ca_file, NULL, NULL);
    if (mysql_real_connect(c, "127.0.0.1", "stock", NULL, NULL, port, NULL, 0) != NULL)
        return c;
    weft_fail(-ECONNREFUSED, "mariadb: %s", mysql_error(c));
    mysql_close(c);
    return NULL;
}

/* Run a query. Return its number, or an error. */
static int query(MYSQL *c, const char *text)
{
    if (mysql_real_query(c, text, strlen(text)) != 0)
        return weft_fail(-EIO, "mariadb: %s", mysql_error(c));
    MYSQL_RES *result = mysql_store_result(c);
    MYSQL_ROW row = result != NULL ? mysql_fetch_row(result) : NULL;
    int number = row != NULL && row[0] != NULL ? atoi(row[0]) : -ENODATA;
    mysql_free_result(result);
    return number;
}

static weft_value ask(void *arg)
{
    (void)arg;
    MYSQL *c = connect_to_mariadb();
    if (c == NULL)
        return -ECONNREFUSED;
    int number = query(c, "select 1 + sleep(0.1)");
    done += number == 1;
    mysql_close(c);
    return number;
}

int main(int argc, char **argv)
{
    port = (unsigned)atoi(argc > 2 ? argv[1] : getenv("STOCK_MARIADB_PORT"));
    ca_file = argc > 2 ? argv[2] : getenv("STOCK_CA");
    if (weft_adopt("libmariadb.so", NULL) < 0 || mysql_library_init(0, NULL, NULL) != 0)
        return 1;
    for (int i = 0; i < FIBERS; i++)
        weft_go_with(ask, NULL, &(weft_spin_options){.stack_bytes = 256 * 1024});
    if (weft_await_children() < 0)
        return 1;
    printf("%d queries\n", done);
    mysql_library_end();
}
