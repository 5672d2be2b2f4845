/* libmariadb on a Unix socket. */
#include "stock.h"

#include <mysql.h>
#include <string.h>

static void *open_mariadb(void)
{
    MYSQL *c = mysql_init(NULL);
    require(mysql_real_connect(c, NULL, "stock", NULL, NULL, 0, setting("STOCK_MARIADB"), 0) !=
                NULL,
            mysql_error(c));
    return c;
}

static void run_query(MYSQL *c, const char *text)
{
    require(mysql_real_query(c, text, strlen(text)) == 0, mysql_error(c));
    mysql_free_result(mysql_store_result(c));
}

static void mariadb_request(void *conn)
{
    run_query(conn, "select 1");
}

static void mariadb_wait(void *conn)
{
    run_query(conn, "select sleep(1)");
}

static void mariadb_close(void *conn)
{
    mysql_close(conn);
}

const client mariadb_client = {"libmariadb.so", open_mariadb, mariadb_request, mariadb_wait,
                               mariadb_close};
