/*
 * One HTTP request, as a handler sees it.
 *
 * A handler runs on a thread of the server, when the whole body is there. Before it
 * returns it either replies, or begins to wait:
 *
 *     static void on_ready(struct read_waiter *waiter)      // any thread
 *     {
 *         http_request_continue(fetch->request, fetch_read);
 *     }
 *     static void on_expired(struct http_request *request)  // deadline, or server
 * stops
 *     {
 *         if (partition_wait_cancel(fetch->partition, &fetch->waiter))
 *             http_request_continue(request, fetch_read);
 *     }
 *     ...
 *     http_request_wait(request, wait_ms, on_expired);      // first
 *     rc = partition_wait(partition, position, &fetch->waiter);
 *     if (rc != 0)                                          // it is not parked
 *         http_request_continue(request, fetch_read);
 *
 * Rules. Each wait is ended by exactly one http_request_continue(), whoever is first;
 * its function then runs on a thread of the server, as the handler did, and it too
 * replies or waits. Between wait and continue the request stays valid, also when the
 * client goes away: what the waiters point into belongs into the context, which is
 * freed when the last of them is through. The connection is suspended meanwhile and
 * costs no thread; a suspended one does not notice that its client is gone, hence the
 * deadline.
 */
#ifndef TOPICFS_HTTP_REQUEST_H
#define TOPICFS_HTTP_REQUEST_H

#include "coord/coord.h"
#include "replica/http_target.h"
#include "replica/http_user.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_request;
struct MHD_Response;

typedef void http_request_fn(struct http_request *request);

/* ---- what was asked: threads of the server alone -----------------------------------
 */

const struct http_target *http_request_target(const struct http_request *request);
/* The argument that the route was registered with. */
void *http_request_argument(const struct http_request *request);
/* NULL if absent; borrowed until the reply. */
const char *http_request_header(const struct http_request *request, const char *name);
/* The body; the handler may change it. Empty without one. */
struct buf *http_request_body(struct http_request *request);
/* The user whom the request acts for; NULL only where the route lets anyone in. */
const struct http_user *http_request_user(const struct http_request *request);
/* The common name of the client's certificate that tls_ca vouches for, or NULL. */
const char *http_request_certificate(const struct http_request *request);
bool http_request_is_encrypted(const struct http_request *request);
/* Whether sockets of this machine alone can have sent it. */
bool http_request_is_loopback(const struct http_request *request);

/* What the handler keeps over its waits; `free_context` runs once, at the very end. */
void http_request_set_context(struct http_request *request, void *context,
                              void (*free_context)(void *context));
void *http_request_context(const struct http_request *request);

/* From within free_context: whether all of the answer was sent. Whether it arrived
 * nobody knows. */
bool http_request_was_delivered(const struct http_request *request);
/* Whether the client has closed the connection by now. Server thread. */
bool http_request_is_gone(const struct http_request *request);

/* ---- waiting -----------------------------------------------------------------------
 */

/* Server thread. After `timeout_ms`, or at once when the server stops, `expired` is
 * called on the timers' thread, if the wait has not ended: it sees to it that
 * http_request_continue() is called, if that isn't about to be anyway. */
void http_request_wait(struct http_request *request, int64_t timeout_ms,
                       http_request_fn *expired);
/* Within `expired`: its time is over. If not, the server stops. */
bool http_request_is_due(const struct http_request *request);
/* Any thread, any lock but those that `next` takes; does not run it itself. */
void http_request_continue(struct http_request *request, http_request_fn *next);

/* ---- replying: threads of the server alone, once -----------------------------------
 */

/* Takes the response; NULL closes the connection. */
void http_reply(struct http_request *request, unsigned status,
                struct MHD_Response *response);
/* Takes the buffer's bytes; a failed buffer becomes a 500. `type` is static. */
void http_reply_text(struct http_request *request, unsigned status, const char *type,
                     struct buf *text);
/* Takes the object. */
void http_reply_json(struct http_request *request, unsigned status, cJSON *object);
/* The JSON of http_error.h, with the status that fits. `why` NULL: err_text(). */
void http_reply_error(struct http_request *request, int code, const char *why);
void http_reply_refusal(struct http_request *request, unsigned status, const char *name,
                        const char *why);

/* Adds a header to the reply just given, before the handler returns. */
void http_reply_number(struct http_request *request, const char *name, int64_t value);

/* A response that takes the buffer's bytes; NULL if the buffer failed or there is no
 * memory. */
struct MHD_Response *http_response_of(struct buf *text, const char *type);

#endif
