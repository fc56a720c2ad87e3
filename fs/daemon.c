#include "fs/daemon.h"

#include "coord/coord.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

enum { READY_BYTE = '\6', LOG_TAIL_BYTES = 4096 };

static void notify_systemd(const char *state)
{
#ifdef HAVE_SYSTEMD
    int rc = sd_notify(0, state);

    if (rc < 0)
        diag(DIAG_WARNING, "can't notify systemd: %s", err_text(rc));
#else
    (void)state;
#endif
}

/* Files of ours must not land on descriptors that others take for standard ones. */
static int fill_standard_descriptors(void)
{
    int fd;

    do
        fd =
            open("/dev/null", O_RDWR); /* NOLINT(android-cloexec-open): meant to stay */
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd < 0)
        return -errno;
    (void)close(fd);
    return 0;
}

static bool stderr_is_journal(void)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment */
    const char *stream = getenv("JOURNAL_STREAM");
    char own[64];
    struct stat st;

    if (stream == NULL || fstat(STDERR_FILENO, &st) < 0)
        return false;
    (void)snprintf(own, sizeof own, "%ju:%ju", (uintmax_t)st.st_dev,
                   (uintmax_t)st.st_ino);
    return strcmp(stream, own) == 0;
}

void daemon_close_inherited(void)
{
    (void)close_range(STDERR_FILENO + 1, ~0U, 0);
}

static ssize_t read_again(int fd, void *bytes, size_t size)
{
    ssize_t n;

    do
        n = read(fd, bytes, size);
    while (n < 0 && errno == EINTR);
    return n;
}

/* Copies what the child says to standard error until it is ready or gone. */
static bool child_becomes_ready(int fd, bool *said)
{
    char bytes[1024];
    ssize_t n;

    while ((n = read_again(fd, bytes, sizeof bytes)) > 0) {
        if (bytes[n - 1] == READY_BYTE)
            return true;
        *said = true;
        (void)fwrite(bytes, 1, (size_t)n, stderr);
    }
    return false;
}

static int wait_until_ready(pid_t child, int fd)
{
    bool said = false;
    int status = 0;

    if (child_becomes_ready(fd, &said))
        return EXIT_SUCCESS;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            break;
    if (!said && WIFSIGNALED(status))
        (void)fprintf(stderr, "topicfs: the daemon was ended by signal %d (%s)\n",
                      WTERMSIG(status), sigdescr_np(WTERMSIG(status)));
    else if (!said)
        (void)fprintf(stderr, "topicfs: the daemon ended without a word\n");
    return EXIT_FAILURE;
}

int daemon_start(struct daemon *daemon, bool background, int *status)
{
    int ends[2];
    pid_t child;

    *daemon = (struct daemon){.background = background, .pipe = -1, .log = -1};
    *status = EXIT_FAILURE;
    if (fill_standard_descriptors() < 0)
        return -errno;
    /* Else our lines get the journal's prefixes. There is one thread yet. */
    if (!stderr_is_journal())
        (void)unsetenv("JOURNAL_STREAM"); /* NOLINT(concurrency-mt-unsafe) */
    if (!background)
        return DAEMON_CHILD;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    child = fork();
    if (child < 0) {
        int rc = -errno;

        (void)close(ends[0]);
        (void)close(ends[1]);
        return rc;
    }
    if (child > 0) {
        (void)close(ends[1]);
        *status = wait_until_ready(child, ends[0]);
        (void)close(ends[0]);
        return DAEMON_PARENT;
    }
    (void)close(ends[0]);
    daemon->pipe = ends[1];
    return DAEMON_CHILD;
}

int daemon_log(struct daemon *daemon, const char *data)
{
    char *path = NULL;
    int rc = 0;

    if (!daemon->background || stderr_is_journal())
        return 0;
    if (asprintf(&path, "%s/topicfs.log", data) < 0)
        return -ENOMEM;
    daemon->log = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (daemon->log < 0) {
        rc = -errno;
    } else {
        daemon->log_start = lseek(daemon->log, 0, SEEK_END);
        if (dup2(daemon->log, STDERR_FILENO) < 0)
            rc = -errno;
    }
    free(path);
    return rc;
}

/* false: there is nobody any more who would read it. */
static bool tell_parent(const struct daemon *daemon, const void *bytes, size_t length)
{
    ssize_t n;

    if (daemon->pipe < 0)
        return true;
    do
        n = write(daemon->pipe, bytes, length);
    while (n < 0 && errno == EINTR);
    return n >= 0;
}

/* Leaves the terminal and the directory of the caller, which may be unmounted one day.
 */
static void detach(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(null, STDOUT_FILENO);
        (void)close(null);
    }
    (void)setsid();
    if (chdir("/") < 0)
        diag(DIAG_WARNING, "can't leave the working directory: %s", err_text(-errno));
}

bool daemon_ready(struct daemon *daemon)
{
    const char ready = READY_BYTE;

    if (daemon->background)
        detach();
    if (!tell_parent(daemon, &ready, sizeof ready))
        return false;
    if (daemon->pipe >= 0)
        (void)close(daemon->pipe);
    daemon->pipe = -1;
    notify_systemd("READY=1\nSTATUS=Mounted");
    return true;
}

/* What libfuse and fusermount3 said went to the log: the caller needs it too. */
static void tell_log_tail(const struct daemon *daemon)
{
    char bytes[LOG_TAIL_BYTES];
    off_t end, from;
    ssize_t n;

    if (daemon->log < 0)
        return;
    end = lseek(daemon->log, 0, SEEK_END);
    from = end - daemon->log_start > LOG_TAIL_BYTES ? end - LOG_TAIL_BYTES
                                                    : daemon->log_start;
    n = pread(daemon->log, bytes, sizeof bytes, from);
    if (n > 0)
        (void)tell_parent(daemon, bytes, (size_t)n);
}

void daemon_failed(struct daemon *daemon, const char *why)
{
    char *line = NULL;

    if (daemon->pipe >= 0) {
        tell_log_tail(daemon);
        if (asprintf(&line, "topicfs: %s\n", why) >= 0) {
            (void)tell_parent(daemon, line, strlen(line));
            free(line);
        }
    }
    if (daemon->pipe < 0 || daemon->log >= 0) /* else the parent prints it */
        diag(DIAG_ERROR, "%s", why);
}

void daemon_stopping(const struct daemon *daemon)
{
    (void)daemon;
    notify_systemd("STOPPING=1\nSTATUS=Writing what is left");
}
