/*
 * Consumer groups over HTTP, so that curl can be a member:
 *
 *     GET    /groups                         the names of those in use
 *     GET    /groups/<g>                     members, offsets with their lag, config
 *     DELETE /groups/<g>                     forgets a group without members
 *     POST   /groups/<g>/config              changes settings
 *     POST   /groups/<g>/offsets/<t>/<p>     sets an offset: a number, earliest, latest
 *     POST   /groups/<g>/members?topic=<t>   joins
 *     GET    /groups/<g>/members/<id>?max_bytes=&wait_ms=
 *                                            polls: messages, as JSON lines
 *     POST   /groups/<g>/members/<id>        commits {"<partition>":<next offset>, ...}
 *     DELETE /groups/<g>/members/<id>        leaves
 *
 * docs/http.md has the arguments and the answers. A poll finishes what the polls before
 * it handed out, as the next read(2) does on the mount. Who joined is the user whom the
 * request acted for, and nobody else may use the member.
 *
 *     http_groups_new(&params, &http_groups);
 *     http_groups_add(http_groups, server);
 *     http_groups_end(http_groups);           // before groups_stop()
 *     http_groups_free(http_groups);          // after the server has stopped
 */
#ifndef TOPICFS_HTTP_GROUPS_H
#define TOPICFS_HTTP_GROUPS_H

#include "replica/groups.h"
#include "replica/http_server.h"

struct http_groups;

struct http_groups_params {
    struct cluster *cluster; /* borrowed, as all of these */
    struct groups *groups;
    const struct clock *clock;
};

int http_groups_new(const struct http_groups_params *params, struct http_groups **out);
int http_groups_add(struct http_groups *groups, struct http_server *server);
/* Its members leave, and the groups are not called any more when it returns; requests
 * that wait are answered. NULL is fine. */
void http_groups_end(struct http_groups *groups);
/* NULL is fine. */
void http_groups_free(struct http_groups *groups);

#endif
