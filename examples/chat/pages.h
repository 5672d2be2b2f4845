/* The HTTP side: the files of the page, rooms for programs such as curl, and the inspector. */
#ifndef CHAT_PAGES_H
#define CHAT_PAGES_H

#include <weft/web.h>

typedef struct pages {
    weft_http_router *routes;
    weft_http_files *files;
    weft_inspector *inspector; /* shows the fibers of the chat to clients on the same machine */
} pages;

/* Create the routes of the chat. dir is the directory of the page. Returns 0 or an error. */
int pages_open(pages *p, const char *dir);

/* Free all-zero or open pages. No request may be in progress. */
void pages_close(pages *p);

#endif
