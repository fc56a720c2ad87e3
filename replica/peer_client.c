#include "replica/peer_client.h"

#include "replica/peer_access.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECT_TIMEOUT_MS = 2000, REPLY_KEEP_BYTES = 256 * 1024, SPARE_MAX = 4 };

struct peer_client {
    const struct mount_config *config; /* [const] */
    CURLM *multi;                      /* [const] */
    struct curl_slist *headers;        /* [const] */
    CURL *spare[SPARE_MAX];            /* of calls that are gone: making one is dear */
    uint32_t spare_count;
};

static int add_header(struct peer_client *client, const char *line)
{
    struct curl_slist *longer = curl_slist_append(client->headers, line);
    client->headers = longer ? longer : client->headers;
    return longer ? 0 : -ENOMEM;
}

static int make_headers(struct peer_client *client)
{
    char key[PEER_KEY_MAX + 1];
    char line[sizeof key + sizeof PEER_KEY_HEADER + 2];
    int keyed = peer_access_key(client->config, key);
    (void)snprintf(line, sizeof line, PEER_KEY_HEADER ": %s", key);
    int rc = keyed < 0 ? keyed : 0;
    /* No "Expect: 100-continue": it would cost a round trip. */
    rc = rc ? rc : add_header(client, "Expect:");
    rc = rc ? rc : add_header(client, "Content-Type: application/octet-stream");
    return !rc && keyed > 0 ? add_header(client, line) : rc;
}

int peer_client_new(const struct mount_config *config, struct peer_client **out)
{
    struct peer_client *client = calloc(1, sizeof *client);
    *out = NULL;
    if (!client) {
        return -ENOMEM;
    }
    client->config = config;
    client->multi = curl_multi_init();
    int rc = client->multi ? make_headers(client) : -ENOMEM;
    if (rc) {
        peer_client_free(client);
        return rc;
    }
    *out = client;
    return 0;
}

void peer_client_free(struct peer_client *client)
{
    if (!client) {
        return;
    }
    while (client->spare_count > 0) {
        curl_easy_cleanup(client->spare[--client->spare_count]);
    }
    if (client->multi) {
        (void)curl_multi_cleanup(client->multi);
    }
    curl_slist_free_all(client->headers);
    free(client);
}

void peer_call_init(struct peer_call *call,
                    void (*done)(struct peer_call *call,
                                 const struct peer_reply *reply))
{
    *call = (struct peer_call){.done = done};
    buf_init(&call->reply, 0);
}

static void stop(struct peer_client *client, struct peer_call *call)
{
    if (call->running) {
        (void)curl_multi_remove_handle(client->multi, call->easy);
        call->running = false;
    }
    free(call->body);
    call->body = NULL;
}

void peer_call_free(struct peer_client *client, struct peer_call *call)
{
    stop(client, call);
    if (call->easy && client->spare_count < SPARE_MAX) {
        client->spare[client->spare_count++] = call->easy;
    } else if (call->easy) {
        curl_easy_cleanup(call->easy);
    }
    call->easy = NULL;
    buf_free(&call->reply);
}

/* ---- sending ------------------------------------------------------------------------
 */

static size_t on_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct peer_call *call = arg;
    size_t length = size * count;
    return buf_add(&call->reply, bytes, length) ? 0 : length;
}

/* The same certificate proves a node as a server and as a client. */
static bool set_tls(const struct mount_config *config, CURL *easy)
{
    return (!*config->tls_ca ||
            curl_easy_setopt(easy, CURLOPT_CAINFO, config->tls_ca) == CURLE_OK) &&
           curl_easy_setopt(easy, CURLOPT_SSLCERT, config->tls_cert) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SSLKEY, config->tls_key) == CURLE_OK;
}

static bool set_url(const struct peer_client *client, CURL *easy,
                    const struct peer_address *address, const char *path)
{
    char url[sizeof address->host + 96];
    bool tls = *client->config->tls_cert != '\0';
    bool bare = strchr(address->host, ':') && address->host[0] != '[';
    int length =
        snprintf(url, sizeof url, "%s://%s%s%s:%d%s", tls ? "https" : "http",
                 bare ? "[" : "", address->host, bare ? "]" : "", address->port, path);
    return length > 0 && (size_t)length < sizeof url &&
           curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           (!tls || set_tls(client->config, easy));
}

/* Where one of these can't be set, the call is only slower. */
static void set_habits(CURL *easy)
{
    (void)curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    (void)curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    (void)curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 2L * 1024 * 1024);
    (void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 512L * 1024);
}

static CURL *take_handle(struct peer_client *client, struct peer_call *call)
{
    if (!call->easy && client->spare_count > 0) {
        call->easy = client->spare[--client->spare_count];
    } else if (!call->easy) {
        call->easy = curl_easy_init();
    }
    return call->easy;
}

static int prepare(struct peer_client *client, struct peer_call *call,
                   const struct peer_address *address, const char *path, size_t length,
                   int64_t timeout_ms)
{
    CURL *easy = take_handle(client, call);
    if (!easy) {
        return -ENOMEM;
    }
    curl_easy_reset(easy);
    set_habits(easy);
    bool good =
        set_url(client, easy, address, path) &&
        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, client->headers) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_POST, 1L) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)length) ==
            CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, call) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_PRIVATE, call) == CURLE_OK;
    return good ? 0 : -EINVAL;
}

int peer_client_send(struct peer_client *client, struct peer_call *call,
                     const struct peer_address *address, const char *path,
                     struct buf *body, size_t reply_max, int64_t timeout_ms)
{
    size_t length = 0;
    int rc = buf_error(body);
    call->body = rc ? NULL : buf_take(body, &length);
    buf_free(body);
    if (!call->body) {
        return rc ? rc : -ENOMEM;
    }
    if (buf_error(&call->reply) || call->reply.maximum != reply_max ||
        call->reply.allocated > REPLY_KEEP_BYTES) {
        buf_free(&call->reply);
        buf_init(&call->reply, reply_max);
    }
    buf_clear(&call->reply);
    rc = prepare(client, call, address, path, length, timeout_ms);
    if (!rc && curl_multi_add_handle(client->multi, call->easy) != CURLM_OK) {
        rc = -ENOMEM;
    }
    call->running = rc == 0;
    if (rc) {
        stop(client, call);
    }
    return rc;
}

/* ---- outcomes -----------------------------------------------------------------------
 */

static int status_error(CURL *easy)
{
    long status = 0;
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    switch (status) {
    case 200:
        return 0;
    case 401:
    case 403:
        return -EACCES;
    case 503:
        return -EAGAIN;
    case 505:
        return E_NEWER_FORMAT;
    default:
        return -EPROTO;
    }
}

static int connect_error(CURL *easy)
{
    long number = 0;
    (void)curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
    return number == ECONNREFUSED ? -ECONNREFUSED : -EHOSTUNREACH;
}

/* curl tries again by itself where a connection that it had kept turns out to be dead:
 * the request may have been read by who then died, and only the new connection was
 * refused. */
static bool was_sent(CURL *easy)
{
    long bytes = 0;
    (void)curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &bytes);
    return bytes > 0;
}

static int outcome(CURL *easy, CURLcode code)
{
    curl_off_t begun = 0;
    if (code != CURLE_OK && was_sent(easy)) {
        return code == CURLE_OPERATION_TIMEDOUT ? -ETIMEDOUT : -EIO;
    }
    switch (code) {
    case CURLE_OK:
        return status_error(easy);
    case CURLE_COULDNT_CONNECT:
        return connect_error(easy);
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
        return -EHOSTUNREACH;
    case CURLE_OPERATION_TIMEDOUT:
        (void)curl_easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &begun);
        return begun ? -ETIMEDOUT : -EHOSTUNREACH;
    default:
        return -EIO;
    }
}

static void finish(struct peer_client *client, CURL *easy, CURLcode code)
{
    char *owner = NULL;
    if (curl_easy_getinfo(easy, CURLINFO_PRIVATE, &owner) != CURLE_OK) {
        return;
    }
    struct peer_call *call = (struct peer_call *)(void *)owner;
    int error = outcome(easy, code);
    error = error ? error : buf_error(&call->reply);
    stop(client, call);
    const struct peer_reply reply = {.error = error,
                                     .bytes = (const uint8_t *)call->reply.data,
                                     .length = error ? 0 : call->reply.length};
    call->done(call, &reply);
}

void peer_client_run(struct peer_client *client, int64_t timeout_ms)
{
    int running = 0;
    int left = 0;
    bool finished = false;
    const CURLMsg *message;
    (void)curl_multi_perform(client->multi, &running);
    while ((message = curl_multi_info_read(client->multi, &left))) {
        if (message->msg == CURLMSG_DONE) {
            finish(client, message->easy_handle, message->data.result);
            finished = true;
        }
    }
    if (!finished) {
        (void)curl_multi_poll(client->multi, NULL, 0, (int)timeout_ms, NULL);
    }
}

void peer_client_wake(struct peer_client *client)
{
    (void)curl_multi_wakeup(client->multi);
}
