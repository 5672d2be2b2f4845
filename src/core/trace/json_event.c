/* Events in the JSON format of Chrome. See json_event.h. */
#include "core/trace/json_event.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Begin an event. The caller adds fields, and closes the object with "}". */
static void begin_event(weft__trace_file *file, const char *phase, weft__trace_point at)
{
    weft__trace_file_print(file, "%s{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRId64 ".%03d",
                           file->has_events ? ",\n" : "\n", phase, at.pid, at.tid, at.ns / 1000,
                           (int)(at.ns % 1000));
    file->has_events = true;
}

void weft__trace_print_slice(weft__trace_file *file, weft__trace_point at, int64_t end_ns,
                             const char *category, const char *name)
{
    int64_t ns = end_ns > at.ns ? end_ns - at.ns : 0;
    begin_event(file, "X", at);
    weft__trace_file_print(file, ",\"dur\":%" PRId64 ".%03d,\"cat\":\"%s\",\"name\":", ns / 1000,
                           (int)(ns % 1000), category);
    weft__trace_file_string(file, name);
}

void weft__trace_print_instant(weft__trace_file *file, weft__trace_point at, const char *category,
                               const char *name)
{
    begin_event(file, "i", at);
    weft__trace_file_print(file, ",\"s\":\"t\",\"cat\":\"%s\",\"name\":", category);
    weft__trace_file_string(file, name);
}

void weft__trace_print_arrow(weft__trace_file *file, weft__trace_point from, weft__trace_point to,
                             const char *name)
{
    if (to.ns < from.ns)
        return; /* the clocks of the cords differ */
    file->arrows++;
    begin_event(file, "s", from);
    weft__trace_file_print(file, ",\"cat\":\"flow\",\"name\":\"%s\",\"id\":%" PRIu64 "}", name,
                           file->arrows);
    begin_event(file, "f", to);
    weft__trace_file_print(file,
                           ",\"bp\":\"e\",\"cat\":\"flow\",\"name\":\"%s\",\"id\":%" PRIu64 "}",
                           name, file->arrows);
}

void weft__trace_print_name(weft__trace_file *file, weft__trace_point at, const char *what,
                            const char *name, weft_fiber id)
{
    char text[64];
    if (id != 0)
        snprintf(text, sizeof text, "%s #%llu", name[0] != '\0' ? name : "fiber",
                 (unsigned long long)id);
    else
        snprintf(text, sizeof text, "%s", name);
    begin_event(file, "M", at);
    weft__trace_file_print(file, ",\"name\":\"%s_name\",\"args\":{\"name\":", what);
    weft__trace_file_string(file, text);
    weft__trace_file_print(file, "}}");
    begin_event(file, "M", at);
    weft__trace_file_print(file, ",\"name\":\"%s_sort_index\",\"args\":{\"sort_index\":%d}}", what,
                           strcmp(what, "process") == 0 ? at.pid : at.tid);
}
