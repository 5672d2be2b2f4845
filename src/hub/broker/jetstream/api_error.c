/* Errors of the API of JetStream. See api_error.h. */
#include "hub/broker/jetstream/api_error.h"

#include <inttypes.h>
#include <stdio.h>

#define DESCRIPTION_BYTES 128

static const struct {
    int code, err_code;
    const char *description;
} errors[] = {
#define ERROR_ROW(name, code, err_code, description) \
    [WEFT__API_##name] = {code, err_code, description},
    WEFT__API_ERRORS(ERROR_ROW)
#undef ERROR_ROW
};

void weft__api_error_write(weft__api_error error, const uint64_t *number, weft__json_out *out)
{
    char description[DESCRIPTION_BYTES];
    if (number == NULL)
        snprintf(description, sizeof description, "%s", errors[error].description);
    else
        snprintf(description, sizeof description, "%s: %" PRIu64, errors[error].description,
                 *number);
    weft__json_out_name(out, "error");
    weft__json_out_begin(out, '{');
    weft__json_out_integer_member(out, "code", errors[error].code);
    weft__json_out_integer_member(out, "err_code", errors[error].err_code);
    weft__json_out_text_member(out, "description", description);
    weft__json_out_end(out, '}');
}

weft__api_error weft__api_error_of(int code)
{
    return code == -ENOMEM ? WEFT__API_NO_MEMORY : WEFT__API_BAD_JSON;
}
