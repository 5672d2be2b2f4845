/* weft hub call, tell, put, queue, get, set and delete: one operation each. */
#include "command/command.h"
#include "command/hub/hub.h"

#include "base/buffer.h"

#include <weft/io.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES (64 * 1024)
#define DATA_BYTES_MAX (64u << 20)

static int read_stdin(weft__buffer *out)
{
    for (;;) {
        int rc = weft__buffer_reserve(out, READ_BYTES);
        if (rc < 0)
            return rc;
        ssize_t got = weft_read(STDIN_FILENO, out->data + out->bytes, READ_BYTES);
        if (got <= 0)
            return (int)got;
        out->bytes += (size_t)got;
        if (out->bytes > DATA_BYTES_MAX)
            return -EMSGSIZE;
    }
}

/* Get the data of the second argument, or of stdin. The caller frees out. */
static int get_data(const hub_run *run, weft__buffer *out)
{
    const char *text = run->args_count > 1 ? run->args[1] : "-";
    if (strcmp(text, "-") == 0)
        return read_stdin(out);
    size_t bytes = strlen(text);
    int rc = weft__buffer_reserve(out, bytes + 1);
    if (rc < 0)
        return rc;
    memcpy(out->data, text, bytes);
    out->bytes = bytes;
    return 0;
}

/* Print data as it is. A terminal also gets a newline. Return the exit status. */
static int print_data(const hub_run *run, const weft_hub_msg *msg)
{
    fwrite(msg->data, 1, msg->bytes, stdout);
    if (isatty(STDOUT_FILENO))
        putchar('\n');
    return fflush(stdout) == 0 ? EXIT_SUCCESS : weft__hub_command_fail(run, -errno);
}

int weft__hub_command_call(hub_run *run)
{
    weft__buffer data = {0};
    weft_hub_msg *reply = NULL;
    int rc = get_data(run, &data);
    if (rc == 0)
        rc = weft_hub_call(run->hub, run->args[0], data.data, data.bytes, &reply);
    weft__buffer_free(&data);
    int status = rc < 0 ? weft__hub_command_fail(run, rc) : print_data(run, reply);
    weft_hub_free(reply);
    return status;
}

int weft__hub_command_tell(hub_run *run)
{
    weft__buffer data = {0};
    int rc = get_data(run, &data);
    if (rc == 0)
        rc = weft_hub_tell(run->hub, run->args[0], data.data, data.bytes);
    weft__buffer_free(&data);
    return rc < 0 ? weft__hub_command_fail(run, rc) : EXIT_SUCCESS;
}

int weft__hub_command_queue(hub_run *run)
{
    int rc = weft_hub_queue(run->hub, run->args[0], &run->settings->queue);
    return rc < 0 ? weft__hub_command_fail(run, rc) : EXIT_SUCCESS;
}

int weft__hub_command_put(hub_run *run)
{
    weft__buffer data = {0};
    int rc = get_data(run, &data);
    if (rc == 0)
        rc = weft_hub_put(run->hub, run->args[0], run->settings->id, data.data, data.bytes);
    weft__buffer_free(&data);
    if (rc == 1)
        fprintf(stderr, "weft: hub: put %s: an item with the id %s was put before\n", run->args[0],
                run->settings->id);
    return rc < 0 ? weft__hub_command_fail(run, rc) : EXIT_SUCCESS;
}

int weft__hub_command_get(hub_run *run)
{
    weft_hub_msg *value = NULL;
    uint64_t revision;
    int rc = weft_hub_get(run->hub, run->args[0], &value, &revision);
    if (rc < 0)
        return weft__hub_command_fail(run, rc);
    if (run->settings->is_verbose)
        fprintf(stderr, "revision %" PRIu64 "\n", revision);
    int status = print_data(run, value);
    weft_hub_free(value);
    return status;
}

int weft__hub_command_set(hub_run *run)
{
    weft__buffer data = {0};
    uint64_t revision = run->settings->revision;
    int rc = get_data(run, &data);
    if (rc == 0)
        rc = weft_hub_set(run->hub, run->args[0], data.data, data.bytes, &revision);
    weft__buffer_free(&data);
    if (rc < 0)
        return weft__hub_command_fail(run, rc);
    printf("%" PRIu64 "\n", revision);
    return EXIT_SUCCESS;
}

int weft__hub_command_delete(hub_run *run)
{
    int rc = weft_hub_delete(run->hub, run->args[0], &run->settings->revision);
    return rc < 0 ? weft__hub_command_fail(run, rc) : EXIT_SUCCESS;
}
