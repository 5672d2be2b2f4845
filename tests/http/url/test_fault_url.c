/* URLs and lists of addresses when memory is short: each is there, whole, or refused. */
#include "fault.h"
#include "http/ip.h"

static bool opening(void)
{
    if (!become_a_cord())
        return false;
    weft_url base, url;
    if (!REQUIRE_TOLD(weft_url_open(&base, "http://a/b?c")))
        return false;
    bool is_done = REQUIRE_TOLD(weft_url_open_in(&url, &base, "../d#e"));
    if (is_done) {
        REQUIRE(strcmp(url.path, "/d") == 0 && strcmp(url.fragment, "e") == 0);
        weft_url_close(&url);
    }
    REQUIRE(strcmp(base.path, "/b") == 0 && strcmp(base.query, "c") == 0);
    weft_url_close(&base);
    return is_done;
}

START_TEST(a_url_is_opened_or_nothing_is)
{
    strike_each_call(opening);
}
END_TEST

static bool listing(void)
{
    if (!become_a_cord())
        return false;
    weft__cidr_list list;
    bool is_done = REQUIRE_TOLD(weft__cidr_parse(&list, "10.0.0.0/8, ::1, unix"));
    REQUIRE(is_done ? list.count == 2 && list.has_unix : list.count == 0 && !list.has_unix);
    weft__cidr_close(&list);
    return is_done;
}

START_TEST(a_list_of_addresses_is_whole_or_empty)
{
    strike_each_call(listing);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_url_is_opened_or_nothing_is,
        &a_list_of_addresses_is_whole_or_empty,
    };
    return run_suite("fault_url", tests, COUNT_OF(tests));
}
