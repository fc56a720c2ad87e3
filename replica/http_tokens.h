/*
 * The token file: who presents "Authorization: Bearer <token>" is which user.
 *
 *     # one a line; blank lines and those that begin with # don't count
 *     3xAmpl3T0kenTh4tIsL0ng alice
 *
 *     http_tokens_open(path, clock, problems, &tokens, why, sizeof why);
 *     user = http_tokens_find(tokens, "Bearer 3xAmpl3T0kenTh4tIsL0ng");
 *     http_user_put(user);
 *     http_tokens_close(tokens);
 *
 * A changed file is read again within a second; one that is wrong then leaves the
 * former tokens in force, with a line in the problems. Any thread.
 */
#ifndef TOPICFS_HTTP_TOKENS_H
#define TOPICFS_HTTP_TOKENS_H

#include "coord/coord.h"
#include "replica/http_user.h"

struct http_tokens;
struct http_token_list;

enum { HTTP_TOKEN_BYTES_MIN = 16, HTTP_TOKEN_BYTES_MAX = 256 };

/*
 * 0; -EPERM (others may read the file), -EINVAL (a malformed line, a token twice),
 * -ENOENT and what else opening it fails with; `why` says what and where.
 */
int http_tokens_open(const char *path, const struct clock *clock,
                     struct problems *problems, struct http_tokens **out, char *why,
                     size_t why_size);
void http_tokens_close(struct http_tokens *tokens); /* NULL is fine */

/* `authorization`: the header's value. A reference, or NULL. Takes as long for a wrong
 * token as for a right one. */
const struct http_user *http_tokens_find(struct http_tokens *tokens,
                                         const char *authorization);

/* The parts of it that are pure but for `resolve`. -EINVAL, -ENOMEM, or what resolve
 * says: the user's reference is then ours. */
typedef int http_resolve_fn(const char *name, const struct http_user **out);
int http_token_list_parse(const char *text, size_t length, http_resolve_fn *resolve,
                          struct http_token_list **out, char *why, size_t why_size);
const struct http_user *http_token_list_find(const struct http_token_list *list,
                                             const char *authorization);
void http_token_list_free(struct http_token_list *list); /* NULL is fine */

#endif
