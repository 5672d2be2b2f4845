/* URLs and address lists without memory: each is complete, or the call fails. */
#include "http/url/ip.h"
#include "support/fault.h"
#include "support/suite.h"

#include <weft/web.h>

TEST_FAULTS(a_url_is_opened_or_the_call_fails)
{
    weft_url base, url;
    if (!REQUIRE_OR_FAULT(weft_url_open(&base, "http://a/b?c")))
        return false;
    bool is_done = REQUIRE_OR_FAULT(weft_url_open_in(&url, &base, "../d#e"));
    if (is_done) {
        REQUIRE(strcmp(url.path, "/d") == 0 && strcmp(url.fragment, "e") == 0);
        weft_url_close(&url);
    }
    REQUIRE(strcmp(base.path, "/b") == 0 && strcmp(base.query, "c") == 0);
    weft_url_close(&base);
    return is_done;
}

TEST_FAULTS(an_address_list_is_complete_or_empty)
{
    weft__cidr_list list;
    bool is_done = REQUIRE_OR_FAULT(weft__cidr_parse(&list, "10.0.0.0/8, ::1, unix"));
    REQUIRE(is_done ? list.count == 2 && list.has_unix : list.count == 0 && !list.has_unix);
    weft__cidr_close(&list);
    return is_done;
}
