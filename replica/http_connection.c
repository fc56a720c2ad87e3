#include "replica/http_internal.h"
#include "replica/http_peer.h"

#include <stdlib.h>
#include <string.h>

/* From the connection's begin, and from one request's end to the next, until the
 * headers are there. */
enum { HEADERS_MS = 30000 };

static void connection_unref(struct http_connection *peer, unsigned count)
{
    if (atomic_fetch_sub_explicit(&peer->references, count, memory_order_acq_rel) !=
        count)
        return;
    http_user_put(peer->user);
    free(peer->certificate);
    (void)pthread_mutex_destroy(&peer->lock);
    free(peer);
}

/* A client that sends a byte now and then is never idle for libmicrohttpd. */
static void on_timer(struct http_timer *timer)
{
    struct http_connection *peer =
        (struct http_connection *)((char *)timer -
                                   offsetof(struct http_connection, timer));

    (void)pthread_mutex_lock(&peer->lock);
    if (!peer->closed)
        (void)shutdown(peer->fd, SHUT_RDWR);
    (void)pthread_mutex_unlock(&peer->lock);
    connection_unref(peer, 1);
}

void http_connection_expect(struct http_connection *peer, int64_t within_ms)
{
    struct http_server *server = peer->server;
    bool armed = http_timers_cancel(server->timers, &peer->timer);

    if (within_ms == 0) {
        if (armed)
            connection_unref(peer, 1);
        return;
    }
    if (!armed)
        (void)atomic_fetch_add_explicit(&peer->references, 1, memory_order_relaxed);
    http_timers_arm(server->timers, &peer->timer,
                    clock_mono_ms(server->clock) + within_ms);
}

/* Who owns the client's socket, if it is one of this machine. */
static void identify(struct http_connection *peer)
{
    struct sockaddr_storage from, to;
    socklen_t from_length = sizeof from, to_length = sizeof to;
    uid_t uid;

    if (getpeername(peer->fd, (struct sockaddr *)&from, &from_length) < 0 ||
        getsockname(peer->fd, (struct sockaddr *)&to, &to_length) < 0 ||
        !http_peer_is_loopback((struct sockaddr *)&from) ||
        !http_peer_is_loopback((struct sockaddr *)&to))
        return;
    peer->loopback = true;
    if (http_peer_uid((struct sockaddr *)&from, (struct sockaddr *)&to, &uid) == 0)
        (void)http_user_by_uid(uid, &peer->user);
}

static struct http_connection *connection_new(struct http_server *server,
                                              struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct http_connection *peer = calloc(1, sizeof *peer);

    if (peer == NULL || info == NULL) {
        free(peer);
        return NULL;
    }
    atomic_init(&peer->references, 1);
    peer->server = server;
    peer->fd = info->connect_fd;
    peer->timer.fire = on_timer;
    (void)pthread_mutex_init(&peer->lock, NULL);
    identify(peer);
    http_connection_expect(peer, HEADERS_MS);
    return peer;
}

void http_connection_notify(void *server, struct MHD_Connection *connection,
                            void **context, enum MHD_ConnectionNotificationCode code)
{
    struct http_connection *peer = *context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = connection_new(server, connection);
    } else if (peer != NULL) {
        bool armed = http_timers_cancel(peer->server->timers, &peer->timer);

        *context = NULL;
        (void)pthread_mutex_lock(&peer->lock);
        peer->closed = true;
        (void)pthread_mutex_unlock(&peer->lock);
        connection_unref(peer, armed ? 2 : 1);
    }
}

struct http_connection *http_connection_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info != NULL ? info->socket_context : NULL;
}

const char *http_connection_certificate(struct http_connection *peer,
                                        struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info;

    if (peer->server->tls.ca == NULL)
        return NULL;
    if (!peer->certificate_checked) {
        peer->certificate_checked = true;
        info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
        if (info != NULL && info->tls_session != NULL)
            peer->certificate = http_tls_client_name(info->tls_session);
    }
    return peer->certificate;
}
