#include "coord/problems.h"

#include "coord/diag.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

/* Without memory for its bucket a fault is not added; the default would end the
 * process. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

enum {
    PROBLEMS_SHOWN = 1000,
    PROBLEMS_TEXT_BYTES = 512,
};

/*
 * A list, as faults are few and shown in their order; comparing the hashes of the names
 * keeps a search cheap when, with a dead disk, they are thousands.
 */
struct problem {
    struct problem *next;
    uint64_t hash; /* of name */
    char *name;    /* "<kind> <subject>", a kind being one word */
    char *text;    /* "<what>; <what to do>" */
    int64_t since_ms;
};

struct problems {
    pthread_mutex_t lock;
    const struct clock *clock; /* [const] */
    struct problem *first;     /* [lock] oldest first */
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
    if (!problems)
        return;
    while (problems->first) {
        struct problem *problem = problems->first;

        problems->first = problem->next;
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

/* Where the fault hangs in the list, or where a new one would: the end. */
static struct problem **problems_find(struct problems *problems, const char *name,
                                      uint64_t hash)
{
    struct problem **link = &problems->first;

    while (*link && ((*link)->hash != hash || strcmp((*link)->name, name) != 0))
        link = &(*link)->next;
    return link;
}

/*
 * Puts *text under *name. What is left over comes back in *name and *text for the
 * caller to free. True if something changed.
 */
static bool problems_put(struct problems *problems, char **name, char **text,
                         int64_t now_ms)
{
    uint64_t hash = XXH3_64bits(*name, strlen(*name));
    struct problem **link = problems_find(problems, *name, hash);
    struct problem *problem = *link;

    if (problem) {
        char *old = problem->text;

        problem->text = *text;
        *text = old;
        return strcmp(old, problem->text) != 0;
    }
    problem = calloc(1, sizeof *problem);
    if (!problem)
        return true;
    problem->hash = hash;
    problem->name = *name;
    problem->text = *text;
    problem->since_ms = now_ms;
    *name = NULL;
    *text = NULL;
    *link = problem;
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
    struct problem *problem;

    if (!name)
        return;
    pthread_mutex_lock(&problems->lock);
    struct problem **link =
        problems_find(problems, name, XXH3_64bits(name, strlen(name)));
    problem = *link;
    if (problem)
        *link = problem->next;
    pthread_mutex_unlock(&problems->lock);
    if (problem)
        diag(DIAG_INFO, "solved: %s", name);
    problem_free(problem);
    free(name);
}

void problems_clear_below(struct problems *problems, const char *kind,
                          const char *directory)
{
    struct problem *solved = NULL;
    struct buf name;

    buf_init(&name, SIZE_MAX);
    if (buf_printf(&name, "%s %s/", kind, directory))
        return;
    pthread_mutex_lock(&problems->lock);
    for (struct problem **link = &problems->first; *link;) {
        struct problem *problem = *link;

        if (strncmp(problem->name, name.data, name.length) == 0) {
            *link = problem->next;
            problem->next = solved;
            solved = problem;
        } else {
            link = &problem->next;
        }
    }
    pthread_mutex_unlock(&problems->lock);
    while (solved) {
        struct problem *next = solved->next;

        diag(DIAG_INFO, "solved: %s", solved->name);
        problem_free(solved);
        solved = next;
    }
    buf_free(&name);
}

static void problems_render_one(const struct problem *problem, struct buf *out)
{
    time_t seconds = (time_t)(problem->since_ms / 1000);
    struct tm utc;
    char since[40];

    if (!gmtime_r(&seconds, &utc) ||
        strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        since[0] = '\0';
    buf_printf(out, "since=%s kind=%s: %s\n", since, problem->name, problem->text);
}

int problems_render(struct problems *problems, struct buf *out)
{
    unsigned count = 0;

    pthread_mutex_lock(&problems->lock);
    for (const struct problem *problem = problems->first; problem;
         problem = problem->next) {
        if (count < PROBLEMS_SHOWN)
            problems_render_one(problem, out);
        count++;
    }
    if (count > PROBLEMS_SHOWN)
        buf_printf(out, "and %u more\n", count - PROBLEMS_SHOWN);
    pthread_mutex_unlock(&problems->lock);
    return buf_error(out);
}
