#include "replica/groups_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { NOTE_MS = 60 * 60 * 1000 };

#define NOTE_KIND "group"

struct groups_note {
    char *subject;
    int64_t until_ms;
    struct groups_note *prev, *next;
};

static struct groups_note *find(struct groups *groups, const char *subject)
{
    struct groups_note *note;
    DL_FOREACH(groups->notes, note)
    {
        if (strcmp(note->subject, subject) == 0) {
            return note;
        }
    }
    return NULL;
}

static void remember(struct groups *groups, const char *subject)
{
    pthread_mutex_lock(&groups->lock);
    struct groups_note *note = find(groups, subject);
    if (!note) {
        note = calloc(1, sizeof *note);
        char *copy = strdup(subject);
        if (note && copy) {
            note->subject = copy;
            DL_APPEND(groups->notes, note);
        } else {
            free(note);
            free(copy);
            note = NULL;
        }
    }
    if (note) {
        note->until_ms = groups_now(groups) + NOTE_MS;
    }
    pthread_mutex_unlock(&groups->lock);
}

void groups_note(struct groups *groups, const struct group_member *member,
                 int32_t partition, const char *what, const char *what_to_do)
{
    char subject[GROUP_NAME_MAX + TOPIC_NAME_MAX + 32];
    (void)snprintf(subject, sizeof subject, "%s/%s/%d", member->params.group,
                   member->params.topic, partition);
    problems_set(groups->params.problems, NOTE_KIND, subject, what, what_to_do);
    remember(groups, subject);
}

void groups_notes_tend(struct groups *groups, bool all)
{
    int64_t now_ms = groups_now(groups);
    struct groups_note *over = NULL;
    struct groups_note *note;
    struct groups_note *next;
    pthread_mutex_lock(&groups->lock);
    DL_FOREACH_SAFE(groups->notes, note, next)
    {
        if (all || note->until_ms <= now_ms) {
            DL_DELETE(groups->notes, note);
            DL_APPEND(over, note);
        }
    }
    pthread_mutex_unlock(&groups->lock);
    DL_FOREACH_SAFE(over, note, next)
    {
        problems_clear(groups->params.problems, NOTE_KIND, note->subject);
        free(note->subject);
        free(note);
    }
}
