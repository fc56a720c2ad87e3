/* The client's word on whether a request can have arrived: producers rely on it. */
#include "replica/peer_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { TIMEOUT_MS = 5000, REPLY_MAX = 1024 };

/* Answers one request, reads another on the same connection, and dies. */
struct server {
    const char *status;
    int fd;
    int port;
    pthread_t thread;
};

static void server_open(struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    server->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(server->fd >= 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &length), 0);
    assert_int_equal(listen(server->fd, 4), 0);
    server->port = ntohs(address.sin_port);
}

static void *serve_one_and_die(void *arg)
{
    const struct server *server = arg;
    char request[4096];
    char answer[128];
    int length = snprintf(answer, sizeof answer,
                          "HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\nok", server->status);
    int fd = accept(server->fd, NULL, NULL);
    if (recv(fd, request, sizeof request, 0) > 0 &&
        send(fd, answer, (size_t)length, MSG_NOSIGNAL) > 0) {
        (void)recv(fd, request, sizeof request, 0);
    }
    close(server->fd);
    close(fd);
    return NULL;
}

struct asked {
    struct peer_call call; /* first */
    bool done;
    int error;
};

static void on_done(struct peer_call *call, const struct peer_reply *reply)
{
    struct asked *asked = (struct asked *)call;
    asked->done = true;
    asked->error = reply->error;
}

static int ask(struct peer_client *client, struct asked *asked, int port)
{
    struct peer_address address = {.host = "127.0.0.1", .port = port};
    struct buf body;
    buf_init(&body, REPLY_MAX);
    assert_int_equal(buf_adds(&body, "hello"), 0);
    asked->done = false;
    assert_int_equal(peer_client_send(client, &asked->call, &address, "/x", &body,
                                      REPLY_MAX, TIMEOUT_MS),
                     0);
    for (int round = 0; !asked->done && round < 1000; round++) {
        peer_client_run(client, 10);
    }
    assert_true(asked->done);
    return asked->error;
}

struct fixture {
    struct mount_config config;
    struct peer_client *client;
    struct server server;
    struct asked asked;
};

static void open_fixture(struct fixture *f, const char *status)
{
    *f = (struct fixture){.server.status = status};
    assert_int_equal(mount_config_defaults(&f->config), 0);
    assert_int_equal(peer_client_new(&f->config, &f->client), 0);
    peer_call_init(&f->asked.call, on_done);
    server_open(&f->server);
    assert_int_equal(
        pthread_create(&f->server.thread, NULL, serve_one_and_die, &f->server), 0);
}

static void close_fixture(struct fixture *f)
{
    peer_call_free(f->client, &f->asked.call);
    peer_client_free(f->client);
    pthread_join(f->server.thread, NULL);
    mount_config_free(&f->config);
}

static void test_refused_after_it_was_read_may_have_arrived(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, "200 OK");
    assert_int_equal(ask(f.client, &f.asked, f.server.port), 0);
    assert_int_equal(ask(f.client, &f.asked, f.server.port), -EIO);
    /* Now nobody can have read it. */
    assert_int_equal(ask(f.client, &f.asked, f.server.port), -ECONNREFUSED);
    close_fixture(&f);
}

static void test_what_an_answer_says(void **state)
{
    static const struct {
        const char *status;
        int error;
    } cases[] = {
        {"401 Unauthorized", -EACCES},
        {"403 Forbidden", -EACCES},
        {"404 Not Found", -EPROTO},
        {"503 Service Unavailable", -EAGAIN}, /* a node that stops */
        {"505 HTTP Version Not Supported", E_NEWER_FORMAT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        open_fixture(&f, cases[i].status);
        assert_int_equal(ask(f.client, &f.asked, f.server.port), cases[i].error);
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_after_it_was_read_may_have_arrived),
        cmocka_unit_test(test_what_an_answer_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
