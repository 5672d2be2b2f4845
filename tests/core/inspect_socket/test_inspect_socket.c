/* The inspection socket: its file, its users, its thread and its end. */
#include "core/inspect_socket/inspect_support.h"
#include "support/cord_support.h"

#include <grp.h>

FIXTURE(create_socket_folder, remove_socket_folder)

static bool socket_exists(void)
{
    struct stat found;
    return lstat(socket_path, &found) == 0;
}

TEST(the_socket_has_mode_0600_whatever_the_umask_and_is_removed_when_closed)
{
    struct stat found;
    umask(0);
    ck_assert_int_eq(weft_inspect_socket_open(socket_path), 0);
    ck_assert_int_eq(lstat(socket_path, &found), 0);
    ck_assert_uint_eq(found.st_mode, S_IFSOCK | S_IRUSR | S_IWUSR);
    ck_assert_fails(weft_inspect_socket_open(socket_path), -EALREADY);
    weft_inspect_socket_close();
    ck_assert(!socket_exists());
    weft_inspect_socket_close();
}

TEST(the_path_may_contain_the_process_id)
{
    ck_assert_int_eq(weft_inspect_socket_open(format("%s/a%%%%-%%p", socket_folder)), 0);
    snprintf(socket_path, sizeof socket_path, "%s/a%%-%d", socket_folder, (int)getpid());
    ck_assert(socket_exists());
}

TEST(an_invalid_path_is_refused)
{
    char path[200];
    memset(path, 'a', sizeof path);
    path[107] = '\0';
    ck_assert_fails(weft_inspect_socket_open(NULL), -EINVAL);
    ck_assert_fails(weft_inspect_socket_open(""), -EINVAL);
    ck_assert_fails(weft_inspect_socket_open("/tmp/%x"), -EINVAL);
    ck_assert_fails(weft_inspect_socket_open("/tmp/%"), -EINVAL);
    path[107] = 'a', path[108] = '\0';
    ck_assert_fails(weft_inspect_socket_open(path), -ENAMETOOLONG);
    ck_assert_fails(weft_inspect_socket_open("/nonexistent/socket"), -ENOENT);
}

/* Bind a plain socket to the path. */
static int bind_plain(bool listens)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, socket_path, strlen(socket_path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    if (listens)
        ck_assert_int_eq(listen(fd, 1), 0);
    return fd;
}

TEST(a_socket_is_replaced_only_if_no_process_listens_on_it)
{
    int fd = bind_plain(true);
    ck_assert_fails(weft_inspect_socket_open(socket_path), -EADDRINUSE);
    ck_assert(socket_exists());
    close(fd);
    ck_assert_int_eq(weft_inspect_socket_open(socket_path), 0);
    weft_close(connect_client());
}

TEST(other_files_and_links_are_never_replaced)
{
    int fd = open(socket_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_fails(weft_inspect_socket_open(socket_path), -EEXIST);
    ck_assert(socket_exists());
    ck_assert_int_eq(unlink(socket_path), 0);
    ck_assert_int_eq(symlink("target", socket_path), 0);
    ck_assert_fails(weft_inspect_socket_open(socket_path), -EEXIST);
    ck_assert(socket_exists());
    ck_assert_int_lt(access(format("%s/target", socket_folder), F_OK), 0);
}

TEST(close_removes_only_the_file_that_open_has_created)
{
    ck_assert_int_eq(weft_inspect_socket_open(socket_path), 0);
    ck_assert_int_eq(unlink(socket_path), 0);
    int fd = bind_plain(false);
    weft_inspect_socket_close();
    ck_assert(socket_exists());
    close(fd);
}

TEST(close_disconnects_clients_and_open_serves_again)
{
    ck_assert_int_eq(weft_inspect_socket_open(socket_path), 0);
    int fd = connect_client();
    request(fd, "stats");
    weft_inspect_socket_close();
    ck_assert_uint_eq(read_inspect_reply(fd), 0);
    weft_close(fd);
    ck_assert_int_eq(weft_inspect_socket_open(socket_path), 0);
    fd = connect_client();
    request(fd, "stats");
    ck_assert_reply_has("cord ");
    weft_close(fd);
}

/* Become nobody, and try to connect. Return 0 if the server closes the connection unserved. */
static int connect_as_nobody(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char byte;
    memcpy(address.sun_path, socket_path, strlen(socket_path));
    if (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0)
        return 2;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return 3;
    return read(fd, &byte, 1) == 0 ? 0 : 1;
}

TEST(a_process_of_another_user_is_not_served_even_if_the_file_is_open_to_it)
{
    int status;
    if (geteuid() != 0)
        return;
    ck_assert_int_eq(weft_inspect_socket_open(socket_path), 0);
    ck_assert_int_eq(chmod(socket_path, 0666), 0);
    ck_assert_int_eq(chmod(socket_folder, 0755), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(connect_as_nobody());
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    weft_close(connect_client());
}

TEST(a_child_of_fork_neither_serves_nor_removes_the_socket)
{
    int status;
    ck_assert_int_eq(weft_inspect_socket_open(socket_path), 0);
    int fd = connect_client();
    pid_t pid = fork();
    if (pid == 0)
        exit(0);
    ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
    ck_assert(socket_exists());
    pid = weft_fork();
    if (pid == 0)
        exit(0);
    ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
    ck_assert(socket_exists());
    request(fd, "stats");
    ck_assert_str_eq(word_of_line("process ", 1), format("%d", (int)getpid()));
    weft_close(fd);
}

#ifndef __SANITIZE_THREAD__ /* TSan forbids a new thread in the child of a process with threads */
TEST(a_child_of_weft_fork_can_open_its_own_socket)
{
    int status;
    ck_assert_int_eq(weft_inspect_socket_open(socket_path), 0);
    int fd = connect_client();
    request(fd, "view");
    request(fd, "profile start");
    pid_t pid = weft_fork();
    if (pid == 0) {
        weft_close(fd);
        snprintf(socket_path, sizeof socket_path, "%s/child", socket_folder);
        ck_assert_int_eq(weft_inspect_socket_open(socket_path), 0);
        fd = connect_client();
        request(fd, "view");
        ck_assert_str_eq(word_of_line("process ", 1), format("%d", (int)getpid()));
        request(fd, "profile start");
        ck_assert_reply_lacks("error");
        weft_close(fd);
        exit(0);
    }
    ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    weft_close(fd);
}

#endif

/* Ask for the fibers in a plain thread, with plain calls. Return whether the cord is stalled. */
static void *ask_while_stalled(void *stop)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, socket_path, strlen(socket_path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    static char text[4096];
    size_t bytes = 0;
    ssize_t got = -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        write(fd, "view\n", 5) == 5)
        while ((got = read(fd, text + bytes, sizeof text - 1 - bytes)) > 0) {
            bytes += (size_t)got;
            if (strstr(text, "\nprocess ") != NULL && strcmp(text + bytes - 3, "\n.\n") == 0)
                break;
        }
    close(fd);
    atomic_store((atomic_bool *)stop, true);
    return strstr(text, "'busy'") != NULL || strstr(text, " busy ") != NULL ? text : NULL;
}

TEST(a_cord_that_does_not_switch_does_not_stop_the_view)
{
    atomic_bool stop = false;
    ck_assert_int_eq(weft_inspect_socket_open(socket_path), 0);
    weft_set_name(weft_self(), "busy");
    pthread_t client = start_thread(ask_while_stalled, &stop);
    while (!atomic_load(&stop))
        continue;
    ck_assert_ptr_nonnull(join_thread(client));
}

TEST_PROGRAM_PRINTS(a_deadlock_is_detected_while_the_socket_is_open, 0, "")
{
    if (!HAS_ONLY_OWN_THREADS)
        return 0;
    weft_chan *chan = weft_chan_new(0);
    if (weft_inspect_socket_open(socket_path) < 0)
        return 2;
    int rc = (int)weft_chan_recv(chan);
    weft_chan_free(chan);
    return rc == -EDEADLK ? 0 : 1;
}

static void *end_after_main(void *main_thread)
{
    pthread_join(*(pthread_t *)main_thread, NULL);
    return NULL;
}

TEST_PROGRAM(the_thread_of_the_socket_does_not_keep_the_process_alive, 0, "")
{
    static pthread_t self, other;
    self = pthread_self();
    if (is_sanitized()) /* leak checkers report memory that only main's stack points to */
        return 0;
    if (weft_inspect_socket_open(socket_path) < 0 ||
        pthread_create(&other, NULL, end_after_main, &self) != 0)
        return 2;
    pthread_exit(NULL);
}

TEST_PROGRAM_PRINTS(the_variable_opens_the_socket_when_the_program_first_calls_weft, 0, "")
{
    setenv("WEFT_INSPECT", socket_path, 1);
    bool is_early = socket_exists();
    weft_snooze();
    return !is_early && socket_exists() ? 0 : 1;
}

TEST_PROGRAM_PRINTS(an_invalid_variable_is_reported_and_ignored, 0,
                    "WEFT_INSPECT is ignored: '/nonexistent/socket'")
{
    setenv("WEFT_INSPECT", "/nonexistent/socket", 1);
    return weft_snooze();
}

TEST(the_file_is_removed_when_the_process_exits)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        int rc = weft_inspect_socket_open(socket_path);
        exit(rc == 0 && socket_exists() ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert(!socket_exists());
}
