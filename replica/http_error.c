#include "replica/http_error.h"

#include <string.h>

struct http_error {
    int code;
    unsigned status;
};

/*
 * 4xx: the request itself is to be changed. 503: the same request may succeed later.
 * 504: what was asked may have happened or not.
 */
static const struct http_error errors[] = {
    {E_MESSAGE_TOO_LARGE, 413},
    {E_NOT_ENOUGH_REPLICAS, 503},
    {E_NO_LEADER, 503},
    {E_NOT_LEADER, 421},
    {E_COMMIT_TIMEOUT, 504},
    {E_TOPIC_DELETED, 410},
    {E_OFFSET_BELOW_START, 410},
    {E_RANGE_REWRITTEN, 409},
    {E_DAMAGED, 500},
    {E_OFFLINE, 503},
    {E_FENCED_EPOCH, 409},
    {E_OUT_OF_ORDER_SEQUENCE, 409},
    {E_INVALID_NAME, 400},
    {E_INVALID_CONFIG, 400},
    {E_INVALID_JSON, 400},
    {E_INVALID_PARTITION, 400},
    {E_CONFLICT, 409},
    {E_TOPIC_EXISTS, 409},
    {E_UNKNOWN_TOPIC, 404},
    {E_INVALID_REPLICATION_FACTOR, 400},
    {E_NEWER_FORMAT, 505},
    {E_IN_USE, 409},
    {E_CORRUPT, 500},
    {E_READ_ONLY, 403},
    {E_OUTCOME_UNKNOWN, 504},
    {E_STORE_UNREACHABLE, 503},
    {E_SESSION_LOST, 503},
    {E_STALE_BROKER_EPOCH, 409},
    {E_UNKNOWN_EPOCH, 409},
    {E_NODE_ID_TAKEN, 409},
    {E_NO_COORDINATOR, 503},
    {E_NOT_COORDINATOR, 421},
    {E_GROUP_MEMBER_UNKNOWN, 410},
    {E_GROUP_FENCED, 409},
    {E_GROUP_BUSY, 409},
    {-EACCES, 403},
    {-EPERM, 403},
    {-ENOENT, 404},
    {-EINVAL, 400},
    {-EMSGSIZE, 413},
    {-ERANGE, 416},
    {-ENOMEM, 503},
    {-EMFILE, 503},
    {-ENFILE, 503},
    {-ENOSPC, 507},
    {-EDQUOT, 507},
    {-ETIMEDOUT, 504},
    {-EBUSY, 409},
    {-EUSERS, 409},
};

unsigned http_error_status(int code)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].code == code)
            return errors[i].status;
    return 500;
}

const char *http_error_name(int code)
{
    const char *name = code > -1000 ? strerrorname_np(-code) : err_name(code);

    return name != NULL ? name : "UNKNOWN";
}

int http_error_render(struct buf *out, const char *name, int wire, const char *message)
{
    char text[1024];
    size_t length = strnlen(message, sizeof text);

    if (!json_utf8_valid(message, length)) {
        for (size_t i = 0; i < length; i++)
            text[i] = message[i] >= 0x20 && message[i] < 0x7F ? message[i] : '?';
        message = text;
    }
    buf_printf(out, "{\"error\":\"%s\",\"code\":%d,\"message\":", name, wire);
    json_quote(out, message, length);
    return buf_adds(out, "}\n");
}
