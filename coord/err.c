#include "coord/err.h"

#include <stddef.h>
#include <string.h>

struct err_entry {
    int code;
    int err;
    int wire;
    const char *name;
    const char *text;
};

static const struct err_entry err_table[] = {
#define X(name, code, err, wire, text) {(code), (err), (wire), #name, (text)},
    TOPICFS_ERRORS(X)
#undef X
};

/* Every negative number above this is a plain errno. */
enum { ERR_FIRST_DOMAIN = -1000, ERR_WIRE_UNKNOWN = -1 };

static const struct err_entry *err_find(int code)
{
    for (size_t i = 0; i < sizeof err_table / sizeof err_table[0]; i++)
        if (err_table[i].code == code)
            return &err_table[i];
    return NULL;
}

int err_errno(int code)
{
    if (code >= 0)
        return 0;
    if (code > ERR_FIRST_DOMAIN)
        return -code;
    const struct err_entry *entry = err_find(code);
    return entry ? entry->err : EIO;
}

const char *err_text(int code)
{
    if (code >= 0)
        return "success";
    if (code > ERR_FIRST_DOMAIN) {
        /* Unlike strerror() this is thread-safe and never translated. */
        const char *text = strerrordesc_np(-code);
        return text ? text : "unknown error";
    }
    const struct err_entry *entry = err_find(code);
    return entry ? entry->text : "unknown error";
}

const char *err_name(int code)
{
    if (code >= 0)
        return "NONE";
    const struct err_entry *entry = err_find(code);
    return entry ? entry->name : "errno";
}

int err_wire(int code)
{
    if (code >= 0)
        return 0;
    const struct err_entry *entry = err_find(code);
    return entry ? entry->wire : ERR_WIRE_UNKNOWN;
}
