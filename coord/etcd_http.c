#include "coord/etcd_http.h"

#include "coord/etcd_endpoints.h"
#include "coord/etcd_json.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    HTTP_SILENCE_MS = 1000, /* a call without a byte for so long has failed */
    HTTP_CALL_MS = 30000,   /* however steadily the bytes drip */
    HTTP_CONNECT_MS = 1000,
    HTTP_IDLE_MAX = 8, /* connections that are kept */
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

/* One connection, driven by one thread at a time. Other threads only wake it. */
struct etcd_handle {
    CURL *easy;
    CURLM *multi;
    struct curl_slist *headers;
    struct buf *in;
    int64_t silence_ms;  /* how long it may be without a byte */
    int64_t progress_ns; /* when something last came */
    int requests;        /* how often the request was about to be sent */
    int64_t sent_ns;
    const struct clock *clock;
    char text[CURL_ERROR_SIZE];
    struct etcd_handle *next; /* [lock] of the idle or of the busy ones */
};

struct etcd_http {
    struct etcd_endpoints endpoints; /* [const] */
    char *ca_file, *cert_file, *key_file;
    const struct clock *clock; /* [const] */

    pthread_mutex_t lock;
    pthread_cond_t stop_cond;
    bool stopped;             /* [lock] */
    bool answered;            /* [lock] once, whatever it was */
    bool missed;              /* [lock] a server may have asked for a certificate */
    unsigned current;         /* [lock] endpoint */
    uint64_t generation;      /* [lock] streams of an older one end */
    struct etcd_handle *idle; /* [lock] */
    unsigned idle_count;      /* [lock] */
    struct etcd_handle *busy; /* [lock] */
};

struct etcd_stream {
    struct etcd_http *http;
    struct etcd_handle *handle;
    uint64_t generation;
    unsigned endpoint;
    struct buf in;
};

static void init_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct etcd_handle *handle = arg;

    handle->progress_ns = handle->clock->mono_ns(handle->clock);
    return buf_add(handle->in, bytes, size * count) == 0 ? size * count : 0;
}

/* Called each time a connection is there and the request is about to be sent. */
static int on_request(void *arg, char *remote_ip, char *local_ip, int remote_port,
                      int local_port)
{
    struct etcd_handle *handle = arg;

    (void)remote_ip;
    (void)local_ip;
    (void)remote_port;
    (void)local_port;
    handle->progress_ns = handle->clock->mono_ns(handle->clock);
    return handle->requests++ == 0 ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

static void handle_free(struct etcd_handle *handle)
{
    if (!handle)
        return;
    if (handle->easy)
        curl_easy_cleanup(handle->easy);
    if (handle->multi)
        curl_multi_cleanup(handle->multi);
    curl_slist_free_all(handle->headers);
    free(handle);
}

static struct etcd_handle *handle_new(struct etcd_http *http)
{
    struct etcd_handle *handle = calloc(1, sizeof(*handle));

    if (!handle)
        return NULL;
    handle->clock = http->clock;
    handle->easy = curl_easy_init();
    handle->multi = curl_multi_init();
    if (handle->easy && handle->multi)
        return handle;
    handle_free(handle);
    return NULL;
}

/* A connection for one request; -ECANCELED once stopped. */
static int handle_take(struct etcd_http *http, struct etcd_handle **out,
                       unsigned *endpoint, uint64_t *generation)
{
    struct etcd_handle *handle;

    pthread_mutex_lock(&http->lock);
    handle = http->idle;
    if (handle) {
        http->idle = handle->next;
        http->idle_count--;
    } else {
        handle = handle_new(http);
    }
    int rc = http->stopped ? -ECANCELED : handle ? 0 : -ENOMEM;
    if (rc == 0) {
        handle->next = http->busy;
        http->busy = handle;
    }
    *endpoint = http->current;
    *generation = http->generation;
    pthread_mutex_unlock(&http->lock);
    if (rc != 0)
        handle_free(handle);
    *out = rc == 0 ? handle : NULL;
    return rc;
}

/* Only a connection whose request was answered to the end is used again. */
static void handle_give(struct etcd_http *http, struct etcd_handle *handle, bool good)
{
    struct etcd_handle **at = &http->busy;

    curl_multi_remove_handle(handle->multi, handle->easy);
    curl_slist_free_all(handle->headers);
    handle->headers = NULL;
    handle->in = NULL;
    pthread_mutex_lock(&http->lock);
    while (*at != handle)
        at = &(*at)->next;
    *at = handle->next;
    http->answered = http->answered || good;
    good = good && http->idle_count < HTTP_IDLE_MAX;
    if (good) {
        handle->next = http->idle;
        http->idle = handle;
        http->idle_count++;
    }
    pthread_mutex_unlock(&http->lock);
    if (!good)
        handle_free(handle);
}

static bool add_header(struct etcd_handle *handle, const char *name, const char *value)
{
    char *line = NULL;

    if (asprintf(&line, "%s: %s", name, value) < 0)
        return false;
    struct curl_slist *more = curl_slist_append(handle->headers, line);
    free(line);
    if (more)
        handle->headers = more;
    return more != NULL;
}

static CURLcode set_tls(CURL *easy, const struct etcd_http *http)
{
    CURLcode rc = CURLE_OK;

    if (http->ca_file)
        rc = curl_easy_setopt(easy, CURLOPT_CAINFO, http->ca_file);
    if (rc == CURLE_OK && http->cert_file)
        rc = curl_easy_setopt(easy, CURLOPT_SSLCERT, http->cert_file);
    if (rc == CURLE_OK && http->key_file)
        rc = curl_easy_setopt(easy, CURLOPT_SSLKEY, http->key_file);
    return rc;
}

static bool set_headers(struct etcd_handle *handle, const char *token)
{
    /* A server without its leader then says so at once, instead of after 7 s. */
    return add_header(handle, "Grpc-Metadata-hasleader", "true") &&
           add_header(handle, "Content-Type", "application/json") &&
           add_header(handle, "Expect", "") &&
           (!token || add_header(handle, "Authorization", token));
}

/* What every request has. The results are or-ed: only 0 is good. */
static unsigned set_common(struct etcd_handle *handle)
{
    CURL *easy = handle->easy;
    unsigned rc = 0;

    rc |= curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    rc |= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    rc |= curl_easy_setopt(easy, CURLOPT_PROXY, "");
    rc |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    /* No waiting for a name server at close. */
    rc |= curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    rc |= curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)HTTP_CONNECT_MS);
    rc |= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    rc |= curl_easy_setopt(easy, CURLOPT_WRITEDATA, handle);
    rc |= curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_request);
    rc |= curl_easy_setopt(easy, CURLOPT_PREREQDATA, handle);
    rc |= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, handle->text);
    return rc;
}

/* Everything that a request needs; the body is borrowed. */
static int set_request(struct etcd_http *http, struct etcd_handle *handle,
                       const char *url, const struct buf *body, const char *token)
{
    CURL *easy = handle->easy;

    curl_easy_reset(easy); /* keeps connections */
    handle->text[0] = '\0';
    if (!set_headers(handle, token))
        return -ENOMEM;
    unsigned rc = set_common(handle);
    rc |= curl_easy_setopt(easy, CURLOPT_URL, url);
    rc |= curl_easy_setopt(easy, CURLOPT_HTTPHEADER, handle->headers);
    rc |= curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->length);
    rc |= curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body->data);
    rc |= set_tls(easy, http);
    return rc == 0 ? 0 : -ENOMEM;
}

static int start(struct etcd_http *http, struct etcd_handle *handle, unsigned endpoint,
                 const char *path, const struct buf *body, const char *token)
{
    char *url = NULL;
    int rc = -ENOMEM;

    if (asprintf(&url, "%s%s", http->endpoints.urls[endpoint], path) < 0)
        return -ENOMEM;
    rc =
        buf_error(body) ? buf_error(body) : set_request(http, handle, url, body, token);
    handle->requests = 0;
    handle->sent_ns = handle->progress_ns = http->clock->mono_ns(http->clock);
    if (rc == 0 && curl_multi_add_handle(handle->multi, handle->easy) != CURLM_OK)
        rc = -ENOMEM;
    free(url);
    return rc;
}

static int curl_to_errno(CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
        return -ECONNREFUSED;
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_WRITE_ERROR:
        return -EMSGSIZE;
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CONNECT_ERROR:
        return -EPROTO;
    default:
        return -ECONNRESET;
    }
}

/* Moves bytes. 1: the transfer ended, *code says how; 0: it goes on; negative: error.
 */
static int drive(struct etcd_handle *handle, CURLcode *code)
{
    int running, left;
    CURLMsg *message;

    if (curl_multi_perform(handle->multi, &running) != CURLM_OK)
        return -EIO;
    while ((message = curl_multi_info_read(handle->multi, &left)) != NULL) {
        if (message->msg == CURLMSG_DONE) {
            *code = message->data.result;
            return 1;
        }
    }
    return 0;
}

/* Bytes that went out count as well as those that come in. */
static void note_upload(struct etcd_handle *handle, int64_t now, curl_off_t *uploaded)
{
    curl_off_t bytes = 0;

    if (curl_easy_getinfo(handle->easy, CURLINFO_SIZE_UPLOAD_T, &bytes) != CURLE_OK ||
        bytes == *uploaded)
        return;
    *uploaded = bytes;
    handle->progress_ns = now;
}

static int run_call(struct etcd_http *http, struct etcd_handle *handle)
{
    curl_off_t uploaded = 0;

    for (;;) {
        CURLcode code = CURLE_OK;
        int rc = drive(handle, &code);
        if (rc != 0)
            return rc < 0 ? rc : code == CURLE_OK ? 0 : curl_to_errno(code);
        if (etcd_http_stopped(http))
            return -ECANCELED;
        int64_t now = http->clock->mono_ns(http->clock);
        note_upload(handle, now, &uploaded);
        int64_t left = handle->silence_ms - (now - handle->progress_ns) / 1000000;
        if (left <= 0 || now - handle->sent_ns > HTTP_CALL_MS * INT64_C(1000000))
            return -ETIMEDOUT;
        if (curl_multi_poll(handle->multi, NULL, 0, (int)left, NULL) != CURLM_OK)
            return -EIO;
    }
}

/* A server that misses a certificate ends the connection; what is seen of that depends
 * on the moment, and never says so. Once seen it counts until one answers: later
 * attempts of a slow handshake may only run out of time. */
static bool may_miss_certificate(struct etcd_http *http, int result)
{
    pthread_mutex_lock(&http->lock);
    if (result == -ECONNRESET && http->endpoints.tls && !http->cert_file)
        http->missed = true;
    bool missed = http->missed && !http->answered;
    pthread_mutex_unlock(&http->lock);
    return missed;
}

static void explain(struct etcd_http *http, const struct etcd_handle *handle,
                    struct etcd_http_reply *reply)
{
    const char *text = handle && handle->text[0]     ? handle->text
                       : reply->result == -ETIMEDOUT ? "no answer"
                                                     : strerrordesc_np(-reply->result);
    bool missed = may_miss_certificate(http, reply->result);

    snprintf(reply->text, sizeof(reply->text), "%.60s: %.120s%s",
             http->endpoints.urls[reply->endpoint], text ? text : "failed",
             missed ? " (it may ask for a certificate: coord_cert, coord_key)" : "");
}

void etcd_http_post(struct etcd_http *http, const char *path, const struct buf *body,
                    const char *token, int64_t silence_ms,
                    struct etcd_http_reply *reply)
{
    struct etcd_handle *handle;
    uint64_t generation;

    *reply = (struct etcd_http_reply){0};
    buf_init(&reply->body, ETCD_BODY_MAX);
    reply->result = handle_take(http, &handle, &reply->endpoint, &generation);
    if (reply->result == 0) {
        handle->in = &reply->body;
        handle->silence_ms = silence_ms > 0 ? silence_ms : HTTP_SILENCE_MS;
        reply->result = start(http, handle, reply->endpoint, path, body, token);
        if (reply->result == 0)
            reply->result = run_call(http, handle);
        reply->sent = handle->requests > 0;
        reply->sent_ns = handle->sent_ns;
        curl_easy_getinfo(handle->easy, CURLINFO_RESPONSE_CODE, &reply->status);
    }
    if (reply->result != 0)
        explain(http, handle, reply);
    if (handle)
        handle_give(http, handle, reply->result == 0);
}

void etcd_http_reply_free(struct etcd_http_reply *reply)
{
    buf_free(&reply->body);
}

int etcd_http_stream_open(struct etcd_http *http, const char *path,
                          const struct buf *body, const char *token,
                          struct etcd_stream **out)
{
    struct etcd_stream *stream = calloc(1, sizeof(*stream));

    *out = NULL;
    if (!stream)
        return -ENOMEM;
    stream->http = http;
    buf_init(&stream->in, ETCD_BODY_MAX);
    int rc = handle_take(http, &stream->handle, &stream->endpoint, &stream->generation);
    if (rc == 0) {
        stream->handle->in = &stream->in;
        rc = start(http, stream->handle, stream->endpoint, path, body, token);
    }
    if (rc == 0)
        *out = stream;
    else
        etcd_http_stream_close(stream);
    return rc;
}

static bool stream_is_over(const struct etcd_stream *stream)
{
    struct etcd_http *http = stream->http;

    pthread_mutex_lock(&http->lock);
    bool over = http->stopped || http->generation != stream->generation;
    pthread_mutex_unlock(&http->lock);
    return over;
}

int etcd_http_stream_wait(struct etcd_stream *stream, int timeout_ms, struct buf *in)
{
    struct etcd_handle *handle = stream->handle;
    CURLcode code = CURLE_OK;

    if (stream_is_over(stream))
        return -ECANCELED;
    if (curl_multi_poll(handle->multi, NULL, 0, timeout_ms, NULL) != CURLM_OK)
        return -EIO;
    int rc = drive(handle, &code);
    if (stream->in.length > 0) {
        int added = buf_add(in, stream->in.data, stream->in.length);
        buf_clear(&stream->in);
        if (added != 0)
            return added;
        if (rc >= 0)
            return 0; /* that it ended is said the next time */
    }
    if (stream_is_over(stream))
        return -ECANCELED;
    return rc <= 0 ? rc : code == CURLE_OK ? -ECONNRESET : curl_to_errno(code);
}

unsigned etcd_http_stream_endpoint(const struct etcd_stream *stream)
{
    return stream->endpoint;
}

void etcd_http_stream_close(struct etcd_stream *stream)
{
    if (!stream)
        return;
    if (stream->handle)
        handle_give(stream->http, stream->handle, false);
    buf_free(&stream->in);
    free(stream);
}

/* [lock] */
static void wake_all(struct etcd_http *http)
{
    for (struct etcd_handle *handle = http->busy; handle; handle = handle->next)
        curl_multi_wakeup(handle->multi);
}

void etcd_http_move(struct etcd_http *http, unsigned from)
{
    pthread_mutex_lock(&http->lock);
    if (http->current == from) {
        http->current = (from + 1) % http->endpoints.count;
        http->generation++;
        wake_all(http);
    }
    pthread_mutex_unlock(&http->lock);
}

void etcd_http_kick(struct etcd_http *http)
{
    pthread_mutex_lock(&http->lock);
    http->generation++;
    wake_all(http);
    pthread_mutex_unlock(&http->lock);
}

void etcd_http_pause(struct etcd_http *http, int64_t ms)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&http->lock);
    while (!http->stopped &&
           pthread_cond_timedwait(&http->stop_cond, &http->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&http->lock);
}

static int copy_file_name(char **to, const char *from)
{
    *to = from ? strdup(from) : NULL;
    return from && !*to ? -ENOMEM : 0;
}

/* What libcurl says of a file that can't be read does not name it. */
static int check_readable(const char *setting, const char *path, char *why,
                          size_t why_size)
{
    if (!path || access(path, R_OK) == 0)
        return 0;
    int rc = -errno;
    snprintf(why, why_size, "%s=%s: %s", setting, path, strerrordesc_np(-rc));
    return rc;
}

static int check_files(const struct etcd_http_params *params, char *why,
                       size_t why_size)
{
    int rc = check_readable("coord_ca", params->ca_file, why, why_size);

    if (rc == 0)
        rc = check_readable("coord_cert", params->cert_file, why, why_size);
    if (rc == 0)
        rc = check_readable("coord_key", params->key_file, why, why_size);
    if (rc == 0 && !params->cert_file != !params->key_file) {
        snprintf(why, why_size,
                 "a client certificate needs its key, and a key its "
                 "certificate");
        rc = -EINVAL;
    }
    return rc;
}

int etcd_http_open(const struct etcd_http_params *params, struct etcd_http **out,
                   char *why, size_t why_size)
{
    struct etcd_http *http;
    pthread_condattr_t attr;
    int rc;

    *out = NULL;
    pthread_once(&curl_once, init_curl);
    http = calloc(1, sizeof(*http));
    if (!http)
        return -ENOMEM;
    http->clock = params->clock;
    pthread_mutex_init(&http->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&http->stop_cond, &attr);
    pthread_condattr_destroy(&attr);
    rc = etcd_endpoints_parse(params->endpoints, &http->endpoints, why, why_size);
    if (rc == 0 && copy_file_name(&http->ca_file, params->ca_file) +
                           copy_file_name(&http->cert_file, params->cert_file) +
                           copy_file_name(&http->key_file, params->key_file) !=
                       0)
        rc = -ENOMEM;
    if (rc == 0)
        rc = check_files(params, why, why_size);
    if (rc == 0)
        *out = http;
    else
        etcd_http_close(http);
    return rc;
}

void etcd_http_stop(struct etcd_http *http)
{
    pthread_mutex_lock(&http->lock);
    http->stopped = true;
    pthread_cond_broadcast(&http->stop_cond);
    wake_all(http);
    pthread_mutex_unlock(&http->lock);
}

bool etcd_http_stopped(struct etcd_http *http)
{
    pthread_mutex_lock(&http->lock);
    bool stopped = http->stopped;
    pthread_mutex_unlock(&http->lock);
    return stopped;
}

void etcd_http_close(struct etcd_http *http)
{
    if (!http)
        return;
    while (http->idle) {
        struct etcd_handle *handle = http->idle;
        http->idle = handle->next;
        handle_free(handle);
    }
    etcd_endpoints_free(&http->endpoints);
    free(http->ca_file);
    free(http->cert_file);
    free(http->key_file);
    pthread_cond_destroy(&http->stop_cond);
    pthread_mutex_destroy(&http->lock);
    free(http);
}

unsigned etcd_http_count(const struct etcd_http *http)
{
    return http->endpoints.count;
}

const char *etcd_http_user(const struct etcd_http *http)
{
    return http->endpoints.user;
}

const char *etcd_http_password(const struct etcd_http *http)
{
    return http->endpoints.password;
}

const char *etcd_http_name(const struct etcd_http *http, unsigned endpoint)
{
    return http->endpoints.urls[endpoint];
}
