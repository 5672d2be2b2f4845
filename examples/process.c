/* Run programs: a filter, a conversation, a program with a time limit, and a shell command. */
#include <weft.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* Run a filter from memory to memory. */
static int sort_lines(void)
{
    static const char text[] = "pear\napple\nfig\n";
    char *const argv[] = {"sort", NULL};
    weft_output got;
    int status = weft_run(argv, text, strlen(text), NULL, &got);
    if (status < 0)
        return status;
    printf("%s", got.out);
    weft_output_free(&got);
    return status;
}

/* Run a filter as a conversation: read each reply before writing the next line. */
static int talk(void)
{
    static const char *const lines[] = {"one\n", "two\n"};
    char *const argv[] = {"cat", NULL};
    weft_process p;
    int rc = weft_spawn_process(
        &p, argv, &(weft_process_options){.in = WEFT_STDIO_PIPE, .out = WEFT_STDIO_PIPE});
    if (rc < 0)
        return rc;
    WEFT_DEFER(weft_process_close, &p);
    for (size_t i = 0; i < 2; i++) {
        char answer[16] = "";
        if ((rc = (int)weft_write_all(p.in, lines[i], strlen(lines[i]))) < 0 ||
            (rc = (int)weft_read(p.out, answer, sizeof answer - 1)) < 0)
            return rc;
        printf("cat replies: %s", answer);
    }
    weft_close(p.in);
    p.in = -1;
    return weft_process_wait(&p);
}

/* Limit the time with a scope. The program ends with the scope. */
static int wait_in_vain(void)
{
    int rc = 0;
    WEFT_CANCEL_AFTER(0.1, rc) {
        weft_system("exec sleep 1000");
    }
    printf("sleep 1000: %s\n", rc == -ETIMEDOUT ? "timed out" : "ended");
    return rc == -ETIMEDOUT ? 0 : -1;
}

int main(void)
{
    if (sort_lines() != 0 || talk() != 0 || wait_in_vain() != 0)
        return 1;
    char *const argv[] = {"no-such-program", NULL};
    if (weft_run(argv, NULL, 0, NULL, NULL) < 0)
        printf("%s\n", weft_error()->message);
    weft_error_clear();
    int status = weft_system("exit 3");
    printf("the shell exited with status %d\n", WEXITSTATUS(status));
    return 0;
}
