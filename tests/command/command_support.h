/*
 * Helpers for the tests of the command: a folder with files, and the command in a separate process.
 * The variable WEFT_COMMAND names the program.
 */
#ifndef TESTS_COMMAND_COMMAND_SUPPORT_H
#define TESTS_COMMAND_COMMAND_SUPPORT_H

#include "support/process_support.h"

#include <weft/web.h>

#include <sys/stat.h>

static char folder[] = "/tmp/weft-command-XXXXXX";

/* Return a path in the folder. The last 4 results are valid. */
static inline char *folder_path(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static inline void create_text_file(const char *name, const char *text)
{
    FILE *file = fopen(folder_path(name), "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

/* Create a certificate NAME.pem for names, with its key NAME.key, in the folder. */
static inline void create_certificate(const char *name, const char *names)
{
    char *cert, *key, file[64];
    ck_assert_int_eq(weft_tls_self_signed(names, 2, &cert, &key), 0);
    snprintf(file, sizeof file, "%s.pem", name);
    create_text_file(file, cert);
    snprintf(file, sizeof file, "%s.key", name);
    create_text_file(file, key);
    free(cert);
    free(key);
}

static inline const char *read_file(const char *name)
{
    static char text[8192];
    FILE *file = fopen(folder_path(name), "re");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static inline void remove_folder(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    (void)weft_system(command);
}

static inline char *command_path(void)
{
    char *path = getenv("WEFT_COMMAND");
    ck_assert_msg(path != NULL, "WEFT_COMMAND is not set");
    return path;
}

#endif
