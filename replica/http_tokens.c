#include "replica/http_tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

struct token {
    const char *text; /* into the list's text */
    size_t length;
    const struct http_user *user;
};

struct http_token_list {
    char *text;
    struct token *tokens;
    size_t count;
};

struct http_tokens {
    char *path;                   /* [const] */
    const struct clock *clock;    /* [const] */
    struct problems *problems;    /* [const] */
    pthread_mutex_t lock;         /* not held while the file is read */
    struct http_token_list *list; /* [lock] */
    int64_t look_again_ms;        /* [lock] */
    struct stat seen;             /* [lock] of the file, when it was last read */
};

enum { FILE_BYTES_MAX = 1024 * 1024, LOOK_AGAIN_MS = 1000 };

static const char blank[] = " \t\r";

/* ---- the text -----------------------------------------------------------------------
 */

static int add_token(struct http_token_list *list, char *token, const char *name,
                     http_resolve_fn *resolve, const char **what)
{
    size_t length = strlen(token);
    struct token *larger;
    int rc;

    if (length < HTTP_TOKEN_BYTES_MIN || length > HTTP_TOKEN_BYTES_MAX) {
        *what = "a token has 16 to 256 characters";
        return -EINVAL;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->tokens[i].text, token) == 0) {
            *what = "the token stands there twice";
            return -EINVAL;
        }
    }
    larger = realloc(list->tokens, (list->count + 1) * sizeof *larger);
    if (larger == NULL)
        return -ENOMEM;
    list->tokens = larger;
    larger[list->count] = (struct token){.text = token, .length = length};
    rc = resolve(name, &larger[list->count].user);
    if (rc < 0)
        *what = rc == -ENOENT ? "there is no such user" : err_text(rc);
    else
        list->count++;
    return rc;
}

/* "token user", or nothing. */
static int parse_line(struct http_token_list *list, char *line,
                      http_resolve_fn *resolve, const char **what)
{
    char *rest = line + strspn(line, blank);
    char *token, *name;

    if (*rest == '\0' || *rest == '#')
        return 0;
    for (const char *c = rest; *c != '\0'; c++) {
        if ((*c < 0x21 && strchr(blank, *c) == NULL) || *c > 0x7E) {
            *what = "only printable ASCII may stand there";
            return -EINVAL;
        }
    }
    token = strsep(&rest, blank);
    if (rest != NULL)
        rest += strspn(rest, blank);
    name = strsep(&rest, blank);
    if (rest != NULL)
        rest += strspn(rest, blank);
    if (name == NULL || *name == '\0' || (rest != NULL && *rest != '\0')) {
        *what = "a line is a token and a user";
        return -EINVAL;
    }
    return add_token(list, token, name, resolve, what);
}

int http_token_list_parse(const char *text, size_t length, http_resolve_fn *resolve,
                          struct http_token_list **out, char *why, size_t why_size)
{
    struct http_token_list *list = calloc(1, sizeof *list);
    const char *what = "out of memory";
    size_t number = 0;
    int rc = -ENOMEM;

    if (list == NULL || (list->text = malloc(length + 1)) == NULL)
        goto out;
    memcpy(list->text, text, length);
    list->text[length] = '\0';
    rc = 0;
    if (strlen(list->text) != length) {
        what = "NUL bytes in the file";
        rc = -EINVAL;
    }
    for (char *rest = list->text, *line; rc == 0 && rest != NULL;) {
        line = strsep(&rest, "\n");
        number++;
        rc = parse_line(list, line, resolve, &what);
    }
out:
    if (rc < 0) {
        (void)snprintf(why, why_size, "line %zu: %s", number, what);
        http_token_list_free(list);
        return rc;
    }
    *out = list;
    return 0;
}

void http_token_list_free(struct http_token_list *list)
{
    if (list == NULL)
        return;
    for (size_t i = 0; i < list->count; i++)
        http_user_put(list->tokens[i].user);
    free(list->tokens);
    free(list->text);
    free(list);
}

/* Looks at every byte of the presented one, wherever they differ. */
static bool same(const struct token *token, const char *presented, size_t length)
{
    unsigned char difference = token->length != length;

    for (size_t i = 0; i < length; i++)
        difference |=
            (unsigned char)(presented[i] ^ token->text[i < token->length ? i : 0]);
    return difference == 0;
}

const struct http_user *http_token_list_find(const struct http_token_list *list,
                                             const char *authorization)
{
    static const char scheme[] = "Bearer ";
    const struct http_user *found = NULL;
    const char *presented;
    size_t length;

    if (strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
        return NULL;
    presented = authorization + sizeof scheme - 1;
    presented += strspn(presented, " ");
    length = strlen(presented);
    if (length < HTTP_TOKEN_BYTES_MIN || length > HTTP_TOKEN_BYTES_MAX)
        return NULL;
    for (size_t i = 0; i < list->count; i++)
        if (same(&list->tokens[i], presented, length))
            found = list->tokens[i].user;
    return http_user_get(found);
}

/* ---- the file -----------------------------------------------------------------------
 */

static int read_file(const char *path, struct buf *out, struct stat *seen, char *why,
                     size_t why_size)
{
    char block[4096];
    ssize_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int rc = 0;

    if (fd < 0 || fstat(fd, seen) < 0) {
        rc = -errno;
        (void)snprintf(why, why_size, "can't read it: %s", err_text(rc));
    } else if ((seen->st_mode & 07) != 0) {
        rc = -EPERM;
        (void)snprintf(why, why_size,
                       "other users may read or write it: take that away with "
                       "chmod o= %s",
                       path);
    }
    while (rc == 0 && (n = read(fd, block, sizeof block)) > 0)
        rc = buf_add(out, block, (size_t)n);
    if (rc == 0 && n < 0)
        rc = -errno;
    if (rc < 0 && *why == '\0')
        (void)snprintf(why, why_size, "can't read it: %s", err_text(rc));
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

static int load(const char *path, struct http_token_list **out, struct stat *seen,
                char *why, size_t why_size)
{
    char what[256] = "";
    struct buf text;
    int rc;

    buf_init(&text, FILE_BYTES_MAX);
    rc = read_file(path, &text, seen, what, sizeof what);
    if (rc == 0)
        rc = http_token_list_parse(text.data != NULL ? text.data : "", text.length,
                                   http_user_by_name, out, what, sizeof what);
    if (rc < 0)
        (void)snprintf(why, why_size, "token_file %s: %s", path, what);
    buf_free(&text);
    return rc;
}

int http_tokens_open(const char *path, const struct clock *clock,
                     struct problems *problems, struct http_tokens **out, char *why,
                     size_t why_size)
{
    struct http_tokens *tokens = calloc(1, sizeof *tokens);
    int rc = -ENOMEM;

    if (tokens != NULL && (tokens->path = strdup(path)) != NULL)
        rc = load(path, &tokens->list, &tokens->seen, why, why_size);
    if (rc < 0) {
        if (tokens != NULL)
            free(tokens->path);
        free(tokens);
        return rc;
    }
    tokens->clock = clock;
    tokens->problems = problems;
    tokens->look_again_ms = clock_mono_ms(clock) + LOOK_AGAIN_MS;
    (void)pthread_mutex_init(&tokens->lock, NULL);
    *out = tokens;
    return 0;
}

void http_tokens_close(struct http_tokens *tokens)
{
    if (tokens == NULL)
        return;
    http_token_list_free(tokens->list);
    (void)pthread_mutex_destroy(&tokens->lock);
    free(tokens->path);
    free(tokens);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev &&
           a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* [no lock] Only the thread that found the time come gets here. */
static void reload(struct http_tokens *tokens)
{
    struct http_token_list *list = NULL;
    struct stat seen = {0};
    char why[512] = "";

    if (load(tokens->path, &list, &seen, why, sizeof why) < 0) {
        problems_set(tokens->problems, "token_file", "http", why,
                     "the former tokens stay in force until the file is mended");
        return;
    }
    problems_clear(tokens->problems, "token_file", "http");
    (void)pthread_mutex_lock(&tokens->lock);
    struct http_token_list *former = tokens->list;
    tokens->list = list;
    tokens->seen = seen;
    (void)pthread_mutex_unlock(&tokens->lock);
    http_token_list_free(former);
}

static void look_at_file(struct http_tokens *tokens)
{
    int64_t now_ms = clock_mono_ms(tokens->clock);
    struct stat now;
    bool due, changed;

    (void)pthread_mutex_lock(&tokens->lock);
    due = now_ms >= tokens->look_again_ms;
    if (due)
        tokens->look_again_ms = now_ms + LOOK_AGAIN_MS;
    (void)pthread_mutex_unlock(&tokens->lock);
    if (!due)
        return;
    changed = stat(tokens->path, &now) < 0;
    (void)pthread_mutex_lock(&tokens->lock);
    changed = changed || !same_file(&now, &tokens->seen);
    (void)pthread_mutex_unlock(&tokens->lock);
    if (changed)
        reload(tokens);
}

const struct http_user *http_tokens_find(struct http_tokens *tokens,
                                         const char *authorization)
{
    const struct http_user *user;

    look_at_file(tokens);
    (void)pthread_mutex_lock(&tokens->lock);
    user = http_token_list_find(tokens->list, authorization);
    (void)pthread_mutex_unlock(&tokens->lock);
    return user;
}
