/*
 * The table behind settings.h: one entry per setting. Private to coord/settings*.c.
 *
 * Every numeric setting is an int64_t and every string a char *, at `at` in its struct,
 * so that an entry describes a field completely and the readers, writers and docs are
 * loops.
 *
 * All of it is const; any thread.
 */
#ifndef TOPICFS_SETTINGS_TABLE_H
#define TOPICFS_SETTINGS_TABLE_H

#include "coord/settings.h"

#define KIB       INT64_C(1024)
#define MIB       (1024 * KIB)
#define GIB       (1024 * MIB)
#define SECOND_MS INT64_C(1000)
#define HOUR_MS   (3600 * SECOND_MS)
#define DAY_MS    (24 * HOUR_MS)

enum setting_type {
    SETTING_INTEGER,
    SETTING_SIZE,      /* bytes; k, m, g */
    SETTING_TIME,      /* ms; ms, s, m, h, d */
    SETTING_CHOICE,    /* one of `names` */
    SETTING_CLEANUP,   /* a set of `names`, whose values are bits */
    SETTING_DELIMITER, /* one byte, or one of `names` */
    SETTING_STRING,
};

/* A word that stands for a value. */
struct setting_name {
    const char *name; /* NULL ends the list */
    int64_t value;
    bool alias; /* accepted, neither shown nor documented */
};

struct setting {
    const char *name;
    enum setting_type type;
    bool read_only; /* of a topic: fixed once it is made */
    size_t at;      /* offset of the field in its scope's struct */
    int64_t minimum;
    int64_t maximum; /* of numbers; below 2^53, so that a double holds each exactly */
    int64_t initial;
    const char *initial_text;         /* of a SETTING_STRING */
    const struct setting_name *names; /* may be NULL */
    bool (*valid)(const char *value); /* of a SETTING_STRING */
    const char *allowed;              /* of a SETTING_STRING: what `valid` takes */
    const char *default_note;         /* instead of `initial` in texts; may be NULL */
    const char *help;                 /* one sentence, no full stop */
};

/* The entries of a scope, in the order in which they are shown. */
const struct setting *settings_table(enum setting_scope scope, size_t *count);

/* The entry called `name` in the scope, or NULL. */
const struct setting *settings_find(enum setting_scope scope, const char *name);

/* The field of `config`, a struct of the entry's scope. */
static inline int64_t *setting_number(const struct setting *setting, void *config)
{
    return (int64_t *)(void *)((char *)config + setting->at);
}

static inline char **setting_string(const struct setting *setting, void *config)
{
    return (char **)(void *)((char *)config + setting->at);
}

#endif
