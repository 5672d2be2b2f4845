/* Tests that each fiber handles its own C++ exceptions, independently of other fibers. */
#include <weft.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>

static int failures;

static void expect(bool is_true, const char *what)
{
    if (is_true)
        return;
    std::fprintf(stderr, "exceptions.cc: does not hold: %s\n", what);
    failures++;
}

/* Handle an exception while other fibers throw and handle theirs. Then check it again. */
static weft_value handle_slowly(void *arg)
{
    auto mine = (intptr_t)arg;
    try {
        throw mine;
    } catch (intptr_t first) {
        for (int i = 0; i < (int)mine % 5; i++)
            weft_snooze();
        expect(first == mine, "the handled exception is the fiber's own");
        try {
            throw; /* the exception that is being handled */
        } catch (intptr_t second) {
            weft_snooze();
            expect(second == mine, "the rethrown exception is the fiber's own");
        }
    }
    expect(std::uncaught_exceptions() == 0, "no exception is in flight at the end");
    return mine;
}

struct snoozer {
    ~snoozer()
    {
        weft_snooze();
    }
};

/* Switch while an exception is in flight. */
static weft_value switch_in_a_destructor(void *arg)
{
    try {
        snoozer s;
        throw std::runtime_error("on its way");
    } catch (const std::exception &) {
        return (intptr_t)arg;
    }
    return -1;
}

int main()
{
    weft_fiber f[100];
    for (intptr_t i = 0; i < 100; i++)
        f[i] = weft_spin(i % 3 == 0 ? switch_in_a_destructor : handle_slowly, (void *)(i + 1));
    for (intptr_t i = 0; i < 100; i++)
        expect(weft_await(f[i]) == i + 1, "every fiber ends with its value");
    return failures == 0 ? 0 : 1;
}
