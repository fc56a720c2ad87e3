#include "replica/groups_ends.h"
#include "replica/groups_internal.h"
#include "replica/http_metrics.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    EVERY_MS = 1000,
    INTEREST_MS = 5 * 60 * 1000, /* so long after the last question it goes on */
    TEXT_MAX = 64 << 20,
    ENDS_MS = 1000,
};

/* The figures of the groups that this node coordinates, made anew each second while
 * somebody asks for them. */
struct groups_survey {
    struct coordinator_call call; /* first */
    struct groups *groups;        /* [const] */
    bool busy;                    /* [thread] */
    bool closed;                  /* [thread] */
    int64_t next_ms;              /* [thread] */
    cJSON *answer;                /* [thread] being completed */
    struct ends_query query;      /* [thread] */

    pthread_mutex_t lock;
    bool replied;     /* [lock] by the coordinator: */
    cJSON *answered;  /* [lock] NULL: it has no memory for it */
    int64_t asked_ms; /* [lock] when somebody asked last; -1: never */
    struct buf text;  /* [lock] */
};

static void on_surveyed(struct coordinator_call *call, cJSON *answer)
{
    struct groups_survey *survey = (struct groups_survey *)call;
    pthread_mutex_lock(&survey->lock);
    cJSON_Delete(survey->answered);
    survey->answered = answer;
    survey->replied = true;
    group_client_wake(survey->groups->client);
    pthread_mutex_unlock(&survey->lock);
}

static void on_ends(struct ends_query *query);

int groups_survey_new(struct groups *groups)
{
    struct groups_survey *survey = calloc(1, sizeof *survey);
    if (!survey) {
        return -ENOMEM;
    }
    survey->call.done = on_surveyed;
    survey->groups = groups;
    survey->asked_ms = -1;
    pthread_mutex_init(&survey->lock, NULL);
    buf_init(&survey->text, TEXT_MAX);
    ends_query_init(&survey->query, groups, on_ends);
    groups->survey = survey;
    return 0;
}

void groups_survey_close(struct groups *groups)
{
    ends_query_free(&groups->survey->query);
    groups->survey->closed = true;
}

void groups_survey_free(struct groups *groups)
{
    struct groups_survey *survey = groups->survey;
    if (survey) {
        cJSON_Delete(survey->answer);
        cJSON_Delete(survey->answered);
        buf_free(&survey->text);
        pthread_mutex_destroy(&survey->lock);
        free(survey);
    }
}

/* ---- text ---------------------------------------------------------------------------
 */

static const char *text_of(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static void add_label(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, "%s=\"", name);
    (void)http_metrics_escape(out, value);
    buf_adds(out, "\"");
}

static void add_head(struct buf *out, const char *name, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

static void add_group_line(struct buf *out, const char *name, const cJSON *group,
                           int64_t value)
{
    buf_printf(out, "%s{", name);
    add_label(out, "group", text_of(group, "group"));
    buf_printf(out, "} %" PRId64 "\n", value);
}

static void add_entry_line(struct buf *out, const char *name, const cJSON *group,
                           const cJSON *entry, int64_t value)
{
    int64_t partition = 0;
    (void)json_get_i64(entry, "partition", &partition);
    buf_printf(out, "%s{", name);
    add_label(out, "group", text_of(group, "group"));
    buf_adds(out, ",");
    add_label(out, "topic", text_of(entry, "topic"));
    buf_printf(out, ",partition=\"%" PRId64 "\"} %" PRId64 "\n", partition, value);
}

static int64_t members_of(const cJSON *group)
{
    return cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(group, "members"));
}

static bool committed_of(const cJSON *entry, int64_t *out)
{
    return json_get_i64(entry, "offset", out) == 0 && *out >= 0;
}

static bool lag_of(const cJSON *entry, int64_t *out)
{
    return json_get_i64(entry, "lag", out) == 0;
}

static void add_entries(struct buf *out, const char *name, const cJSON *groups,
                        bool (*value_of)(const cJSON *entry, int64_t *out))
{
    const cJSON *group = NULL;
    const cJSON *entry = NULL;
    cJSON_ArrayForEach(group, groups)
    {
        const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(group, "offsets");
        cJSON_ArrayForEach(entry, offsets)
        {
            int64_t value = 0;
            if (value_of(entry, &value)) {
                add_entry_line(out, name, group, entry, value);
            }
        }
    }
}

static void render(const cJSON *groups, struct buf *out)
{
    const cJSON *group = NULL;
    add_head(out, "topicfs_group_members", "Members of the consumer group.");
    cJSON_ArrayForEach(group, groups)
    {
        add_group_line(out, "topicfs_group_members", group, members_of(group));
    }
    add_head(out, "topicfs_group_generation",
             "Rises with every change of members or partitions.");
    cJSON_ArrayForEach(group, groups)
    {
        int64_t generation = 0;
        (void)json_get_i64(group, "generation", &generation);
        add_group_line(out, "topicfs_group_generation", group, generation);
    }
    add_head(out, "topicfs_group_committed_offset",
             "Offset of the next message for the group.");
    add_entries(out, "topicfs_group_committed_offset", groups, committed_of);
    add_head(out, "topicfs_group_lag", "Messages that the group has still to finish.");
    add_entries(out, "topicfs_group_lag", groups, lag_of);
}

/* ---- running ------------------------------------------------------------------------
 */

static void publish(struct groups_survey *survey)
{
    struct buf text;
    buf_init(&text, TEXT_MAX);
    const cJSON *groups = cJSON_GetObjectItemCaseSensitive(survey->answer, "groups");
    if (cJSON_GetArraySize(groups) > 0) {
        render(groups, &text);
    }
    pthread_mutex_lock(&survey->lock);
    buf_free(&survey->text);
    survey->text = text;
    pthread_mutex_unlock(&survey->lock);
    cJSON_Delete(survey->answer);
    survey->answer = NULL;
    survey->busy = false;
}

static void on_ends(struct ends_query *query)
{
    struct groups_survey *survey =
        (struct groups_survey *)((char *)query - offsetof(struct groups_survey, query));
    publish(survey);
}

static void take_answer(struct groups_survey *survey)
{
    struct groups *groups = survey->groups;
    pthread_mutex_lock(&survey->lock);
    bool replied = survey->replied;
    survey->answer = survey->answered;
    survey->answered = NULL;
    survey->replied = false;
    pthread_mutex_unlock(&survey->lock);
    if (!survey->answer) {
        survey->busy = !replied;
        return;
    }
    cJSON *list = cJSON_GetObjectItemCaseSensitive(survey->answer, "groups");
    cJSON *group = NULL;
    int rc = 0;
    ends_query_free(&survey->query);
    ends_query_init(&survey->query, groups, on_ends);
    cJSON_ArrayForEach(group, list)
    {
        rc = rc ? rc : ends_query_add(&survey->query, group);
    }
    if (rc || !ends_query_run(&survey->query, groups_now(groups) + ENDS_MS)) {
        publish(survey);
    }
}

static bool is_wanted(struct groups_survey *survey, int64_t now_ms)
{
    pthread_mutex_lock(&survey->lock);
    bool wanted = survey->asked_ms >= 0 && now_ms - survey->asked_ms < INTEREST_MS;
    pthread_mutex_unlock(&survey->lock);
    return wanted;
}

int64_t groups_survey_step(struct groups *groups)
{
    struct groups_survey *survey = groups->survey;
    int64_t now_ms = groups_now(groups);
    if (survey->busy) {
        if (!survey->answer) {
            take_answer(survey);
        }
        return survey->busy ? INT64_MAX : survey->next_ms;
    }
    if (survey->closed || !is_wanted(survey, now_ms)) {
        return INT64_MAX;
    }
    if (now_ms >= survey->next_ms) {
        survey->busy = true;
        survey->next_ms = now_ms + EVERY_MS;
        group_coordinator_survey(groups->coordinator, &survey->call);
    }
    return survey->next_ms;
}

int groups_metrics(struct groups *groups, struct buf *out)
{
    struct groups_survey *survey = groups->survey;
    pthread_mutex_lock(&survey->lock);
    bool first = survey->asked_ms < 0;
    survey->asked_ms = groups_now(groups);
    if (survey->text.length > 0) {
        (void)buf_add(out, survey->text.data, survey->text.length);
    }
    pthread_mutex_unlock(&survey->lock);
    if (first) {
        group_client_wake(groups->client);
    }
    return buf_error(out);
}
