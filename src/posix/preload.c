/*
 * The start of libweft-preload. A hook may be called before: the constructors of other libraries
 * may run first. The hooks then find the real functions by themselves, and weft is off, because the
 * thread is not a cord.
 */
#include "posix/adopt.h"
#include "posix/hook.h"
#include "posix/wait.h"

#include <weft/fiber.h>
#include <weft/posix.h>

#include <string.h>

static bool is_set_to(const char *name, const char *value)
{
    const char *found = getenv(name);
    return found != NULL && strcmp(found, value) == 0;
}

/*
 * WEFT_POSIX=0 switches the hooks off. WEFT_POSIX=1 makes the main thread a cord. Otherwise, a
 * thread becomes a cord when the program calls weft. WEFT_POSIX_REPORT=1 prints a report on stderr,
 * in this program only, not in its children.
 */
__attribute__((constructor)) static void preload_start(void)
{
    weft__adopt_spare_weft();
    weft__hooks_are_off = is_set_to("WEFT_POSIX", "0");
    if (weft__hooks_are_off)
        return;
    weft__posix_states_add();
    if (is_set_to("WEFT_POSIX_REPORT", "1")) {
        unsetenv("WEFT_POSIX_REPORT");
        (void)weft_posix_report(STDERR_FILENO);
    }
    if (is_set_to("WEFT_POSIX", "1"))
        (void)weft_self();
}
