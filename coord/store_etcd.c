#include "coord/store_etcd.h"

#include "coord/err.h"
#include "coord/etcd_call.h"
#include "coord/etcd_json.h"
#include "coord/etcd_session.h"
#include "coord/etcd_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct store_etcd {
    struct store store;
    char *prefix;
    struct etcd_http *http;
    struct etcd_call *call;
    struct etcd_session *session;
    struct etcd_watch *watch;
};

static struct store_etcd *from(struct store *store)
{
    return (struct store_etcd *)store;
}

static int store_etcd_list(struct store *base, const char *prefix,
                           struct store_list *out)
{
    struct store_etcd *store = from(base);
    struct etcd_answer answer;
    struct buf body;

    *out = (struct store_list){0};
    buf_init(&body, 64 * 1024);
    etcd_json_range(&body, prefix, &(struct etcd_range){.prefix = true});
    int rc = etcd_call_run(store->call, ETCD_READ, "/v3/kv/range", &body, &answer);
    if (rc == 0)
        rc = etcd_json_list(answer.body.data, answer.body.length, out);
    if (rc == 0 && strcmp(prefix, store->prefix) == 0)
        rc = etcd_watch_remember(store->watch, out);
    if (rc != 0)
        store_list_free(out);
    etcd_answer_free(&answer);
    buf_free(&body);
    return rc;
}

static bool is_leased(const struct store_txn *txn)
{
    for (size_t i = 0; i < txn->op_count; i++) {
        if (txn->ops[i].verb == STORE_PUT && txn->ops[i].leased)
            return true;
    }
    return false;
}

static int read_outcome(struct store_etcd *store, const struct etcd_answer *answer,
                        int64_t *revision)
{
    struct etcd_txn_reply reply;
    int rc = etcd_json_txn_reply(answer->body.data, answer->body.length, &reply);

    if (rc != 0)
        return E_OUTCOME_UNKNOWN;
    if (!reply.succeeded)
        return E_CONFLICT;
    *revision = reply.changed ? reply.revision : etcd_watch_revision(store->watch);
    return 0;
}

static int store_etcd_commit(struct store *base, const struct store_txn *txn,
                             int64_t *revision)
{
    struct store_etcd *store = from(base);
    struct etcd_answer answer;
    int64_t lease = 0;
    struct buf body;

    if (txn->op_count > STORE_TXN_MAX || txn->compare_count > STORE_TXN_MAX)
        return -E2BIG;
    int rc = is_leased(txn) ? etcd_session_lease(store->session, &lease) : 0;
    if (rc != 0)
        return rc;
    buf_init(&body, ETCD_BODY_MAX);
    etcd_json_txn(&body, txn, lease);
    rc = etcd_call_run(store->call, ETCD_CHANGE, "/v3/kv/txn", &body, &answer);
    if (rc == 0)
        rc = read_outcome(store, &answer, revision);
    else if (rc == E_SESSION_LOST)
        etcd_session_lost(store->session, lease);
    etcd_answer_free(&answer);
    buf_free(&body);
    return rc;
}

static int store_etcd_watch(struct store *base, int64_t revision, store_watch_fn *fn,
                            void *arg)
{
    return etcd_watch_start(from(base)->watch, revision, fn, arg);
}

static int store_etcd_session_open(struct store *base, int64_t ttl_ms)
{
    return etcd_session_open(from(base)->session, ttl_ms);
}

static void store_etcd_session_close(struct store *base)
{
    etcd_session_close(from(base)->session);
}

static void store_etcd_status(struct store *base, struct store_status *out)
{
    etcd_session_status(from(base)->session, out);
}

static void store_etcd_on_status(struct store *base, store_status_fn *fn, void *arg)
{
    etcd_session_listen(from(base)->session, fn, arg);
}

static void store_etcd_close(struct store *base)
{
    struct store_etcd *store = from(base);

    if (store->http)
        etcd_http_stop(store->http);
    etcd_session_stop(store->session);
    etcd_watch_stop(store->watch);
    etcd_call_free(store->call);
    etcd_http_close(store->http);
    free(store->prefix);
    free(store);
}

static const struct store_ops store_etcd_ops = {
    .list = store_etcd_list,
    .commit = store_etcd_commit,
    .watch = store_etcd_watch,
    .session_open = store_etcd_session_open,
    .session_close = store_etcd_session_close,
    .status = store_etcd_status,
    .on_status = store_etcd_on_status,
    .close = store_etcd_close,
};

static void on_changed(void *arg)
{
    struct store_etcd *store = arg;

    if (store->session) /* not yet while open asks for the first time */
        etcd_session_wake(store->session);
}

static void on_heard(void *arg, int64_t revision)
{
    struct store_etcd *store = arg;

    etcd_watch_check(store->watch, revision);
}

/* The first line of a file; the caller frees. 0 or a negative errno. */
static int read_password(const char *path, char **out, char *why, size_t why_size)
{
    char text[1024];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    int rc = n < 0 ? -errno : 0;

    if (fd >= 0)
        close(fd);
    if (rc != 0) {
        snprintf(why, why_size, "%s: %s", path, err_text(rc));
        return rc;
    }
    text[n] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    *out = strdup(text);
    explicit_bzero(text, sizeof(text));
    return *out ? 0 : -ENOMEM;
}

static int make_call(struct store_etcd *store, const struct store_etcd_params *params,
                     char *why, size_t why_size)
{
    const char *user = params->user ? params->user : etcd_http_user(store->http);
    char *password = NULL;
    int rc = 0;

    if (params->password_file)
        rc = read_password(params->password_file, &password, why, why_size);
    if (rc != 0)
        return rc;
    store->call = etcd_call_new(&(struct etcd_call_params){
        .http = store->http,
        .user = user,
        .password = password ? password : etcd_http_password(store->http),
        .clock = params->clock,
        .changed = on_changed,
        .arg = store,
    });
    if (password)
        explicit_bzero(password, strlen(password));
    free(password);
    return store->call ? 0 : -ENOMEM;
}

static int first_question(struct store_etcd *store, char *why, size_t why_size)
{
    struct etcd_answer answer;
    struct store_list list;
    struct buf body;

    buf_init(&body, 64 * 1024);
    etcd_json_range(&body, store->prefix, &(struct etcd_range){.keys_only = true});
    int rc = etcd_call_run(store->call, ETCD_READ, "/v3/kv/range", &body, &answer);
    if (rc == 0) {
        rc = etcd_json_list(answer.body.data, answer.body.length, &list);
        if (rc == 0)
            store_list_free(&list);
        else
            snprintf(why, why_size, "this is not etcd: the answer is malformed");
    } else {
        snprintf(why, why_size, "%s", answer.text[0] ? answer.text : err_text(rc));
    }
    etcd_answer_free(&answer);
    buf_free(&body);
    return rc;
}

static int start_parts(struct store_etcd *store, const struct store_etcd_params *params)
{
    store->watch = etcd_watch_new(&(struct etcd_watch_params){
        .http = store->http,
        .call = store->call,
        .prefix = store->prefix,
        .problems = params->problems,
    });
    if (!store->watch)
        return -ENOMEM;
    return etcd_session_start(
        &(struct etcd_session_params){
            .http = store->http,
            .call = store->call,
            .probe_key = store->prefix,
            .clock = params->clock,
            .problems = params->problems,
            .heard = on_heard,
            .arg = store,
        },
        &store->session);
}

int store_etcd_open(const struct store_etcd_params *params, struct store **out,
                    char *why, size_t why_size)
{
    struct store_etcd *store = calloc(1, sizeof(*store));

    *out = NULL;
    snprintf(why, why_size, "no memory");
    if (!store)
        return -ENOMEM;
    store->store.ops = &store_etcd_ops;
    store->prefix = strdup(params->prefix);
    int rc = store->prefix ? etcd_http_open(
                                 &(struct etcd_http_params){
                                     .endpoints = params->endpoints,
                                     .ca_file = params->ca_file,
                                     .cert_file = params->cert_file,
                                     .key_file = params->key_file,
                                     .clock = params->clock,
                                 },
                                 &store->http, why, why_size)
                           : -ENOMEM;
    if (rc == 0)
        rc = make_call(store, params, why, why_size);
    if (rc == 0)
        rc = first_question(store, why, why_size);
    if (rc == 0)
        rc = start_parts(store, params);
    if (rc == 0)
        *out = &store->store;
    else
        store_etcd_close(&store->store);
    return rc;
}
