/* Faults that tests inject: broken connections, isolated hubs and a broker that stands still. */
#include "hub/broker/faults.h"

#include "hub/broker/conn.h"

#include <weft/error.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct isolated_name {
    weft__list node;
    char text[];
} isolated_name;

static isolated_name *isolated_find(const weft_hub_broker *b, const char *hub_name)
{
    WEFT__LIST_FOR(node, &b->isolated) {
        isolated_name *name = CONTAINER_OF(node, isolated_name, node);
        if (strcmp(name->text, hub_name) == 0)
            return name;
    }
    return NULL;
}

bool weft__fault_is_isolated(const weft_hub_broker *b, const char *hub_name)
{
    return isolated_find(b, hub_name) != NULL;
}

static void isolated_remove(weft_hub_broker *b, const char *hub_name)
{
    isolated_name *name = isolated_find(b, hub_name);
    if (name == NULL)
        return;
    weft__list_unlink(&name->node);
    free(name);
}

static int isolated_add(weft_hub_broker *b, const char *hub_name)
{
    if (isolated_find(b, hub_name) != NULL)
        return 0;
    size_t bytes = strlen(hub_name) + 1;
    isolated_name *name = malloc(sizeof *name + bytes);
    if (name == NULL)
        return weft_fail(-ENOMEM, "weft_hub_broker_isolate: no memory");
    memcpy(name->text, hub_name, bytes);
    weft__list_insert(&b->isolated, &name->node);
    return 0;
}

void weft__faults_free(weft_hub_broker *b)
{
    while (!weft__list_is_empty(&b->isolated))
        free(CONTAINER_OF(weft__list_pop(&b->isolated), isolated_name, node));
}

static bool conn_has_name(const weft__broker_conn *conn, const char *hub_name)
{
    return conn->name != NULL && strcmp(conn->name, hub_name) == 0;
}

bool weft__broker_conn_is_held(const weft__broker_conn *conn)
{
    return conn->is_isolated || conn->broker->is_paused;
}

int weft__broker_conn_pass_gate(weft__broker_conn *conn)
{
    while (!conn->is_closed && weft__broker_conn_is_held(conn)) {
        int rc = weft_cond_wait(&conn->broker->gate, NULL);
        if (rc < 0)
            return rc;
    }
    return conn->is_closed ? -ECONNRESET : 0;
}

int weft_hub_broker_cut(weft_hub_broker *broker, const char *hub_name)
{
    int rc = weft__broker_check(broker, "weft_hub_broker_cut"), count = 0;
    if (rc < 0)
        return rc;
    WEFT__LIST_FOR(node, &broker->conns) {
        weft__broker_conn *conn = CONTAINER_OF(node, weft__broker_conn, node);
        if (conn->is_closed || (hub_name != NULL && !conn_has_name(conn, hub_name)))
            continue;
        weft__broker_conn_cut(conn);
        count++;
    }
    return count;
}

int weft_hub_broker_isolate(weft_hub_broker *broker, const char *hub_name, bool is_isolated)
{
    int rc = weft__broker_check(broker, "weft_hub_broker_isolate");
    if (rc == 0 && hub_name == NULL)
        rc = weft_fail(-EINVAL, "weft_hub_broker_isolate: hub_name is NULL");
    if (rc == 0 && is_isolated)
        rc = isolated_add(broker, hub_name);
    if (rc < 0)
        return rc;
    if (!is_isolated)
        isolated_remove(broker, hub_name);
    WEFT__LIST_FOR(node, &broker->conns) {
        weft__broker_conn *conn = CONTAINER_OF(node, weft__broker_conn, node);
        if (conn_has_name(conn, hub_name))
            conn->is_isolated = is_isolated;
    }
    weft_cond_broadcast(&broker->gate);
    return 0;
}

int weft_hub_broker_pause(weft_hub_broker *broker, bool is_paused)
{
    int rc = weft__broker_check(broker, "weft_hub_broker_pause");
    if (rc < 0)
        return rc;
    broker->is_paused = is_paused;
    weft_cond_broadcast(&broker->gate);
    return weft_event_set(&broker->wake);
}
