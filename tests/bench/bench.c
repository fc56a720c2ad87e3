/* The client of tests/bench/run: does one piece of work on files, wherever they are
 * mounted from, and prints what it took as one JSON object.
 *
 *     bench_client append path=F n=N [size=100] [batch=655] [first=0]
 *                              N messages, `batch` a write
 *     bench_client echo   path=F n=N [size=100]
 *                              open, write, close for each message
 *     bench_client line   path=F n=N [size=100] [sync=0]
 *                              one message a write, each timed; sync=1: with fdatasync
 *     bench_client lines  path=F n=N [writers=8]
 *                              the same by several threads, each on its own open file
 *     bench_client follow path=F reader=R n=N
 *                              each message, from write to another reader
 *     bench_client fan    path=F reader=R n=N [batch=655] [readers=8]
 *                              all, to all readers
 *     bench_client lookup path=DIR n=N messages=M [seed=1]
 *                              first line at a random DIR/<offset>
 *
 * A message is its number in twelve digits, a space and text, `size` bytes with the
 * newline. Where messages are read, their numbers are checked; any failure ends the
 * program with 1.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NUMBER_DIGITS = 12, SIZE_MIN = NUMBER_DIGITS + 2, READ_BYTES = 1 << 20 };

struct options {
    const char *path;
    const char *reader;
    int64_t n;
    int64_t size;
    int64_t batch;
    int64_t first;
    int64_t sync;
    int64_t readers;
    int64_t writers;
    int64_t messages;
    int64_t seed;
};

static int64_t now_ns(void)
{
    struct timespec time;
    if (clock_gettime(CLOCK_MONOTONIC, &time) != 0)
        err(1, "clock_gettime");
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int64_t parse_number(const char *text)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < 0)
        errx(1, "not a number: %s", text);
    return value;
}

static void parse_option(struct options *options, const char *argument)
{
    const struct {
        const char *name;
        int64_t *value;
    } numbers[] = {
        {"n=", &options->n},
        {"size=", &options->size},
        {"batch=", &options->batch},
        {"first=", &options->first},
        {"sync=", &options->sync},
        {"readers=", &options->readers},
        {"seed=", &options->seed},
        {"messages=", &options->messages},
        {"writers=", &options->writers},
    };
    if (strncmp(argument, "path=", 5) == 0) {
        options->path = argument + 5;
        return;
    }
    if (strncmp(argument, "reader=", 7) == 0) {
        options->reader = argument + 7;
        return;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        size_t length = strlen(numbers[i].name);
        if (strncmp(argument, numbers[i].name, length) == 0) {
            *numbers[i].value = parse_number(argument + length);
            return;
        }
    }
    errx(1, "unknown option: %s", argument);
}

/* --- messages
 * -------------------------------------------------------------------------- */

/* `count` messages without their numbers; the caller frees. */
static char *message_buffer(int64_t count, int64_t size)
{
    static const char text[] = "level=info host=web-17 path=/api/v1/orders status=200 "
                               "took=13ms user=alice region=eu-north ";
    char *buffer = malloc((size_t)(count * size));
    if (buffer == NULL)
        err(1, "malloc");
    for (int64_t i = 0; i < count * size; i++) {
        int64_t place = i % size;
        if (place == NUMBER_DIGITS)
            buffer[i] = ' ';
        else
            buffer[i] =
                place == size - 1 ? '\n' : text[(size_t)place % (sizeof text - 1)];
    }
    return buffer;
}

static void message_number(char *message, int64_t number)
{
    for (int i = NUMBER_DIGITS - 1; i >= 0; i--) {
        message[i] = (char)('0' + number % 10);
        number /= 10;
    }
}

static void message_check(const char *message, int64_t number)
{
    int64_t found = 0;
    for (int i = 0; i < NUMBER_DIGITS; i++)
        found = found * 10 + (message[i] - '0');
    if (found != number)
        errx(1, "read message %" PRId64 " where %" PRId64 " was expected", found,
             number);
}

static int open_file(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0644);
    if (fd < 0)
        err(1, "%s", path);
    return fd;
}

static void close_file(int fd)
{
    if (close(fd) != 0)
        err(1, "close");
}

static void write_all(int fd, const char *bytes, int64_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, bytes, (size_t)length);
        if (written < 0)
            err(1, "write");
        bytes += written;
        length -= written;
    }
}

/* --- results
 * --------------------------------------------------------------------------- */

static int compare_times(const void *a, const void *b)
{
    const int64_t *left = a;
    const int64_t *right = b;
    return (*left > *right) - (*left < *right);
}

static void report_rate(const struct options *options, int64_t took_ns)
{
    printf("{\"n\":%" PRId64 ",\"seconds\":%.9f,\"per_second\":%.3f}\n", options->n,
           (double)took_ns / 1e9, (double)options->n * 1e9 / (double)took_ns);
}

/* Sorts the times. */
static void report_times(const struct options *options, int64_t *times, int64_t took_ns)
{
    int64_t last = options->n - 1;
    qsort(times, (size_t)options->n, sizeof *times, compare_times);
    printf("{\"n\":%" PRId64 ",\"seconds\":%.9f,\"per_second\":%.3f,\"p50_us\":%.3f,"
           "\"p99_us\":%.3f,\"max_us\":%.3f}\n",
           options->n, (double)took_ns / 1e9,
           (double)options->n * 1e9 / (double)took_ns, (double)times[last / 2] / 1e3,
           (double)times[last * 99 / 100] / 1e3, (double)times[last] / 1e3);
}

static int64_t *time_table(int64_t n)
{
    int64_t *times = calloc((size_t)n, sizeof *times);
    if (times == NULL)
        err(1, "calloc");
    return times;
}

/* --- appending
 * ------------------------------------------------------------------------- */

static void append_messages(const struct options *options, int fd)
{
    char *buffer = message_buffer(options->batch, options->size);
    for (int64_t done = 0; done < options->n;) {
        int64_t left = options->n - done;
        int64_t count = left < options->batch ? left : options->batch;
        for (int64_t i = 0; i < count; i++)
            message_number(buffer + i * options->size, options->first + done + i);
        write_all(fd, buffer, count * options->size);
        done += count;
    }
    free(buffer);
}

static void run_append(const struct options *options)
{
    int64_t begin = now_ns();
    int fd = open_file(options->path, O_WRONLY | O_APPEND | O_CREAT);
    append_messages(options, fd);
    close_file(fd);
    report_rate(options, now_ns() - begin);
}

static void run_echo(const struct options *options)
{
    char *message = message_buffer(1, options->size);
    int64_t begin = now_ns();
    for (int64_t i = 0; i < options->n; i++) {
        message_number(message, options->first + i);
        int fd = open_file(options->path, O_WRONLY | O_APPEND | O_CREAT);
        write_all(fd, message, options->size);
        close_file(fd);
    }
    report_rate(options, now_ns() - begin);
    free(message);
}

static void run_line(const struct options *options)
{
    char *message = message_buffer(1, options->size);
    int64_t *times = time_table(options->n);
    int fd = open_file(options->path, O_WRONLY | O_APPEND | O_CREAT);
    int64_t begin = now_ns();
    for (int64_t i = 0; i < options->n; i++) {
        int64_t before = now_ns();
        message_number(message, options->first + i);
        write_all(fd, message, options->size);
        if (options->sync != 0 && fdatasync(fd) != 0)
            err(1, "fdatasync");
        times[i] = now_ns() - before;
    }
    int64_t took_ns = now_ns() - begin;
    close_file(fd);
    report_times(options, times, took_ns);
    free(times);
    free(message);
}

struct writer {
    const struct options *options; /* [const] */
    int fd;                        /* [const] */
    int64_t first;                 /* [const] its messages */
    int64_t n;                     /* [const] */
};

static void *writer_main(void *argument)
{
    const struct writer *writer = argument;
    char *message = message_buffer(1, writer->options->size);
    for (int64_t i = 0; i < writer->n; i++) {
        message_number(message, writer->first + i);
        write_all(writer->fd, message, writer->options->size);
    }
    free(message);
    return NULL;
}

static void run_lines(const struct options *options)
{
    int64_t count = options->writers;
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    struct writer *writers = calloc((size_t)count, sizeof *writers);
    if (threads == NULL || writers == NULL)
        err(1, "calloc");
    for (int64_t i = 0; i < count; i++) {
        int64_t first = options->n * i / count;
        writers[i] = (struct writer){
            .options = options,
            .fd = open_file(options->path, O_WRONLY | O_APPEND | O_CREAT),
            .first = options->first + first,
            .n = options->n * (i + 1) / count - first};
    }
    int64_t begin = now_ns();
    for (int64_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, writer_main, &writers[i]) != 0)
            errx(1, "no thread");
    for (int64_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    int64_t took_ns = now_ns() - begin;
    for (int64_t i = 0; i < count; i++)
        close_file(writers[i].fd);
    report_rate(options, took_ns);
    free(writers);
    free(threads);
}

/* --- reading what is being appended
 * ---------------------------------------------------- */

struct follower {
    const struct options *options; /* [const] */
    int fd;                        /* [const] */
    int64_t *arrived;              /* [follower] NULL: not wanted */
    sem_t *got;                    /* posted for each message; NULL: not wanted */
};

/* Reads until all messages have come, checking the first of each read and the count. */
static void *follower_main(void *argument)
{
    struct follower *follower = argument;
    const struct options *options = follower->options;
    char *buffer = malloc(READ_BYTES);
    if (buffer == NULL)
        err(1, "malloc");
    int64_t kept = 0;
    for (int64_t done = 0; done < options->n;) {
        ssize_t got = read(follower->fd, buffer + kept, (size_t)(READ_BYTES - kept));
        int64_t now = now_ns();
        if (got < 0)
            err(1, "read");
        if (got == 0)
            errx(1, "the stream ended after %" PRId64 " messages", done);
        kept += got;
        const char *line = buffer;
        const char *end = NULL;
        if (kept >= options->size)
            message_check(buffer, options->first + done);
        while ((end = memchr(line, '\n', (size_t)(buffer + kept - line))) != NULL) {
            if (follower->arrived != NULL)
                follower->arrived[done] = now;
            if (follower->got != NULL)
                sem_post(follower->got);
            line = end + 1;
            done++;
        }
        kept -= line - buffer;
        memmove(buffer, line, (size_t)kept);
    }
    free(buffer);
    return NULL;
}

static void start_follower(pthread_t *thread, struct follower *follower)
{
    if (pthread_create(thread, NULL, follower_main, follower) != 0)
        errx(1, "no thread");
}

static void run_follow(const struct options *options)
{
    char *message = message_buffer(1, options->size);
    int64_t *times = time_table(options->n);
    int64_t *arrived = time_table(options->n);
    sem_t got;
    if (sem_init(&got, 0, 0) != 0)
        err(1, "sem_init");
    struct follower follower = {.options = options,
                                .fd = open_file(options->reader, O_RDONLY),
                                .arrived = arrived,
                                .got = &got};
    int fd = open_file(options->path, O_WRONLY | O_APPEND);
    pthread_t thread;
    start_follower(&thread, &follower);
    int64_t begin = now_ns();
    for (int64_t i = 0; i < options->n; i++) {
        message_number(message, options->first + i);
        times[i] = now_ns();
        write_all(fd, message, options->size);
        while (sem_wait(&got) != 0)
            if (errno != EINTR)
                err(1, "sem_wait");
    }
    int64_t took_ns = now_ns() - begin;
    pthread_join(thread, NULL);
    for (int64_t i = 0; i < options->n; i++)
        times[i] = arrived[i] - times[i];
    close_file(fd);
    close_file(follower.fd);
    report_times(options, times, took_ns);
    sem_destroy(&got);
    free(arrived);
    free(times);
    free(message);
}

static void run_fan(const struct options *options)
{
    pthread_t *threads = calloc((size_t)options->readers, sizeof *threads);
    struct follower *followers = calloc((size_t)options->readers, sizeof *followers);
    if (threads == NULL || followers == NULL)
        err(1, "calloc");
    for (int64_t i = 0; i < options->readers; i++) {
        followers[i] = (struct follower){.options = options,
                                         .fd = open_file(options->reader, O_RDONLY)};
        start_follower(&threads[i], &followers[i]);
    }
    int64_t begin = now_ns();
    int fd = open_file(options->path, O_WRONLY | O_APPEND);
    append_messages(options, fd);
    close_file(fd);
    for (int64_t i = 0; i < options->readers; i++) {
        pthread_join(threads[i], NULL);
        close_file(followers[i].fd);
    }
    report_rate(options, now_ns() - begin);
    free(followers);
    free(threads);
}

/* --- reading from a random place
 * ------------------------------------------------------- */

/* xorshift64*: the same places in each run with the same seed. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static void run_lookup(const struct options *options)
{
    if (options->messages == 0)
        errx(1, "messages= is needed");
    uint64_t state = (uint64_t)options->seed + 1;
    char line[4096];
    int64_t *times = time_table(options->n);
    int directory = open_file(options->path, O_RDONLY | O_DIRECTORY);
    int64_t begin = now_ns();
    for (int64_t i = 0; i < options->n; i++) {
        int64_t offset = (int64_t)(next_random(&state) % (uint64_t)options->messages);
        char name[24];
        snprintf(name, sizeof name, "%" PRId64, offset);
        int64_t before = now_ns();
        int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            err(1, "%s/%s", options->path, name);
        ssize_t got = read(fd, line, sizeof line);
        if (got < options->size || memchr(line, '\n', (size_t)got) == NULL)
            errx(1, "no line at offset %" PRId64, offset);
        close_file(fd);
        times[i] = now_ns() - before;
        message_check(line, offset);
    }
    int64_t took_ns = now_ns() - begin;
    close_file(directory);
    report_times(options, times, took_ns);
    free(times);
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        void (*run)(const struct options *options);
        bool reads; /* reader= is needed */
    } modes[] = {
        {"append", run_append, false}, {"echo", run_echo, false},
        {"line", run_line, false},     {"lines", run_lines, false},
        {"follow", run_follow, true},  {"fan", run_fan, true},
        {"lookup", run_lookup, false},
    };
    struct options options = {
        .size = 100, .batch = 655, .readers = 8, .writers = 8, .seed = 1};
    for (int i = 2; i < argc; i++)
        parse_option(&options, argv[i]);
    if (argc < 2 || options.path == NULL || options.n < 1)
        errx(1, "usage: bench_client MODE path=... n=... [OPTION=VALUE]...");
    if (options.size < SIZE_MIN || options.size > 4096 || options.batch < 1 ||
        options.writers < 1)
        errx(1, "size= is %d to 4096, batch= and writers= at least 1", SIZE_MIN);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(argv[1], modes[i].name) != 0)
            continue;
        if (modes[i].reads && options.reader == NULL)
            errx(1, "reader= is needed");
        modes[i].run(&options);
        return 0;
    }
    errx(1, "unknown mode: %s", argv[1]);
}
