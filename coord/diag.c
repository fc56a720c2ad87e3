#include "coord/diag.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DIAG_LINE_BYTES = 1024 };

static const char *diag_level_name(enum diag_level level)
{
    switch (level) {
    case DIAG_ERROR:
        return "error";
    case DIAG_WARNING:
        return "warning";
    case DIAG_INFO:
        return "info";
    case DIAG_DEBUG:
        return "debug";
    }
    return "error";
}

/* Returns the length of what stands before the text. */
static size_t diag_prefix(char *line, size_t size, enum diag_level level)
{
    int n;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment */
    if (getenv("JOURNAL_STREAM")) {
        n = snprintf(line, size, "<%d>", (int)level);
    } else {
        struct timespec now;
        struct tm utc;
        char when[32];

        clock_gettime(CLOCK_REALTIME, &now);
        if (!gmtime_r(&now.tv_sec, &utc) ||
            strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc) == 0)
            when[0] = '\0';
        n = snprintf(line, size, "%s.%03ldZ topicfs %s: ", when, now.tv_nsec / 1000000,
                     diag_level_name(level));
    }
    return n > 0 ? (size_t)n : 0;
}

void diag(enum diag_level level, const char *format, ...)
{
    int saved = errno;
    char line[DIAG_LINE_BYTES + 1];
    size_t start = diag_prefix(line, sizeof line, level);
    size_t length = start;
    va_list args;

    va_start(args, format);
    int n = vsnprintf(line + start, sizeof line - start, format, args);
    va_end(args);
    if (n > 0)
        length += (size_t)n;
    if (length > DIAG_LINE_BYTES - 1)
        length = DIAG_LINE_BYTES - 1;

    /* One event is one line, whatever a name or a peer's text carries. */
    for (size_t i = start; i < length; i++)
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' ';
    line[length++] = '\n';

    ssize_t written;
    do
        written = write(STDERR_FILENO, line, length);
    while (written < 0 && errno == EINTR);
    errno = saved;
}
