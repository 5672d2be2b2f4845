/* A WebSocket client over HTTP/2 without TLS: send "hello", print the reply, and close. */
#include <weft/fetch.h>
#include <weft/ws.h>

#include <stdio.h>

static int talk(weft_ws *ws)
{
    weft_ws_message m;
    int rc = weft_ws_send(ws, WEFT_WS_TEXT, "hello", 5);
    if (rc == 0 && (rc = weft_ws_recv(ws, &m)) > 0)
        printf("%.*s\n", (int)m.bytes, m.data);
    return rc > 0 ? weft_ws_close(ws, WEFT_WS_NORMAL, NULL) : -1;
}

int main(int argc, char **argv)
{
    weft_ws *ws = NULL;
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.has_prior_knowledge = true});
    int rc = argc == 2 && fetcher != NULL ? weft_ws_connect(fetcher, argv[1], NULL, &ws) : -1;
    if (rc == 0)
        rc = talk(ws);
    if (rc < 0)
        printf("error %d\n", rc);
    weft_ws_free(ws);
    weft_fetcher_free(fetcher);
    return rc < 0;
}
