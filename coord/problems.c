#include "coord/problems.h"

#include "coord/diag.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Without memory for its bucket a fault is not added; the default would end the
 * process. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

enum {
    PROBLEMS_SHOWN = 1000,
    PROBLEMS_TEXT_BYTES = 512,
};

struct problem {
    char *name; /* "<kind> <subject>": the key; a kind is one word */
    char *text; /* "<what>; <what to do>" */
    int64_t since_ms;
    UT_hash_handle hh;
};

struct problems {
    pthread_mutex_t lock;
    const struct clock *clock; /* [const] */
    struct problem *table; /* [lock] iterates in the order of insertion: oldest first */
};

struct problems *problems_new(const struct clock *clock)
{
    struct problems *problems = calloc(1, sizeof *problems);

    if (!problems)
        return NULL;
    problems->clock = clock;
    if (pthread_mutex_init(&problems->lock, NULL)) {
        free(problems);
        return NULL;
    }
    return problems;
}

static void problem_free(struct problem *problem)
{
    if (!problem)
        return;
    free(problem->name);
    free(problem->text);
    free(problem);
}

void problems_free(struct problems *problems)
{
    struct problem *problem;
    struct problem *next;

    if (!problems)
        return;
    HASH_ITER(hh, problems->table, problem, next)
    {
        HASH_DEL(problems->table, problem);
        problem_free(problem);
    }
    pthread_mutex_destroy(&problems->lock);
    free(problems);
}

/* Texts carry peers' messages and file names: whatever is in them, one fault is one
 * line. */
static void problems_one_line(char *text)
{
    size_t length = strlen(text);

    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            *c = ' ';
    while (length > 0 && text[length - 1] == ' ')
        text[--length] = '\0';
}

/* `first` SEPARATOR `second` on one line; the caller frees it; NULL: no memory. */
static char *problems_join(const char *first, const char *separator, const char *second,
                           size_t maximum)
{
    struct buf buf;
    char *text;

    buf_init(&buf, SIZE_MAX);
    buf_add(&buf, first, strnlen(first, maximum));
    if (second && *second) {
        buf_adds(&buf, separator);
        buf_add(&buf, second, strnlen(second, maximum));
    }
    buf_add(&buf, "", 1);
    text = buf_take(&buf, NULL);
    if (text)
        problems_one_line(text);
    return text;
}

/*
 * Puts `text` (taken) under `name` (taken). What is left over comes back in *name and
 * *text for the caller to free. True if something changed.
 */
static bool problems_put(struct problems *problems, char **name, char **text,
                         int64_t now_ms)
{
    struct problem *problem;

    HASH_FIND_STR(problems->table, *name, problem);
    if (problem) {
        char *old = problem->text;

        problem->text = *text;
        *text = old;
        return strcmp(old, problem->text) != 0;
    }
    problem = calloc(1, sizeof *problem);
    if (!problem)
        return true;
    problem->name = *name;
    problem->since_ms = now_ms;
    HASH_ADD_KEYPTR(hh, problems->table, problem->name, strlen(problem->name), problem);
    if (!problem->hh.tbl) {
        free(problem);
        return true;
    }
    problem->text = *text;
    *name = NULL;
    *text = NULL;
    return true;
}

void problems_set(struct problems *problems, const char *kind, const char *subject,
                  const char *what, const char *what_to_do)
{
    char *name = problems_join(kind, " ", subject, SIZE_MAX);
    char *text = problems_join(what, "; ", what_to_do, PROBLEMS_TEXT_BYTES);
    int64_t now_ms = problems->clock->wall_ms(problems->clock);
    bool changed = true;

    if (name && text) {
        pthread_mutex_lock(&problems->lock);
        changed = problems_put(problems, &name, &text, now_ms);
        pthread_mutex_unlock(&problems->lock);
    }
    if (changed)
        diag(DIAG_WARNING, "problem: %s %s: %s; %s", kind, subject, what,
             what_to_do ? what_to_do : "");
    free(name);
    free(text);
}

void problems_clear(struct problems *problems, const char *kind, const char *subject)
{
    char *name = problems_join(kind, " ", subject, SIZE_MAX);
    struct problem *problem = NULL;

    if (!name)
        return;
    pthread_mutex_lock(&problems->lock);
    HASH_FIND_STR(problems->table, name, problem);
    if (problem)
        HASH_DEL(problems->table, problem);
    pthread_mutex_unlock(&problems->lock);
    if (problem)
        diag(DIAG_INFO, "solved: %s", name);
    problem_free(problem);
    free(name);
}

static void problems_render_one(const struct problem *problem, struct buf *out)
{
    time_t seconds = (time_t)(problem->since_ms / 1000);
    struct tm utc;
    char since[40] = "unknown";

    if (gmtime_r(&seconds, &utc))
        strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", &utc);
    buf_printf(out, "since=%s kind=%s: %s\n", since, problem->name, problem->text);
}

int problems_render(struct problems *problems, struct buf *out)
{
    struct problem *problem;
    struct problem *next;
    unsigned shown = 0;

    pthread_mutex_lock(&problems->lock);
    HASH_ITER(hh, problems->table, problem, next)
    {
        if (shown == PROBLEMS_SHOWN)
            break;
        problems_render_one(problem, out);
        shown++;
    }
    if (HASH_COUNT(problems->table) > shown)
        buf_printf(out, "and %u more\n", HASH_COUNT(problems->table) - shown);
    pthread_mutex_unlock(&problems->lock);
    return buf_error(out);
}
