#include "coord/settings.h"
#include "coord/settings_table.h"
#include "coord/settings_text.h"

#include <string.h>

/* What is written after "=" in the help. */
static int settings_doc_form(struct buf *out, const struct setting *setting)
{
    switch (setting->type) {
    case SETTING_INTEGER:
        return buf_adds(out, "N");
    case SETTING_SIZE:
        return buf_adds(out, "SIZE");
    case SETTING_TIME:
        return buf_adds(out, "TIME");
    case SETTING_DELIMITER:
        return buf_adds(out, "BYTE");
    case SETTING_STRING:
        return buf_adds(out, "TEXT");
    case SETTING_CHOICE:
    case SETTING_CLEANUP:
        break;
    }
    for (const struct setting_name *name = setting->names; name->name; name++)
        if (!name->alias)
            buf_printf(out, "%s%s", name == setting->names ? "" : "|", name->name);
    return buf_error(out);
}

/* The texts of the table are Markdown; a terminal gets them without the code marks. */
static int settings_doc_plain(struct buf *out, const char *text)
{
    while (*text) {
        size_t length = strcspn(text, "`");

        buf_add(out, text, length);
        text += length;
        if (*text)
            text++;
    }
    return buf_error(out);
}

static int settings_doc_default(struct buf *out, const struct setting *setting,
                                const char *quote)
{
    if (setting->default_note)
        return *quote ? buf_adds(out, setting->default_note)
                      : settings_doc_plain(out, setting->default_note);
    if (setting->type == SETTING_STRING && !*setting->initial_text)
        return buf_adds(out, "nothing");
    buf_adds(out, quote);
    if (setting->type == SETTING_STRING)
        buf_adds(out, setting->initial_text);
    else
        setting_add_value(out, setting, setting->initial);
    return buf_adds(out, quote);
}

int settings_help(struct buf *out, enum setting_scope scope)
{
    enum { COLUMN = 44 };
    size_t count;
    const struct setting *table = settings_table(scope, &count);

    for (size_t i = 0; i < count; i++) {
        struct buf line;

        buf_init(&line, out->maximum);
        buf_printf(&line, "  -o %s=", table[i].name);
        settings_doc_form(&line, &table[i]);
        buf_adds(&line, "  ");
        while (!buf_error(&line) && line.length < COLUMN)
            buf_adds(&line, " ");
        settings_doc_plain(&line, table[i].help);
        buf_adds(&line, " (default: ");
        settings_doc_default(&line, &table[i], "");
        buf_adds(&line, ")\n");
        if (buf_error(&line))
            return buf_error(&line);
        buf_add(out, line.data, line.length);
        buf_free(&line);
    }
    return buf_error(out);
}

static int settings_doc_type(struct buf *out, const struct setting *setting)
{
    switch (setting->type) {
    case SETTING_INTEGER:
        return buf_adds(out, "integer");
    case SETTING_SIZE:
        return buf_adds(out, "size");
    case SETTING_TIME:
        return buf_adds(out, "time");
    case SETTING_DELIMITER:
        return buf_adds(out, "one byte");
    case SETTING_CHOICE:
        return buf_adds(out, "word");
    case SETTING_CLEANUP:
        return buf_adds(out, "one or more words");
    case SETTING_STRING:
        break;
    }
    return buf_adds(out, "text");
}

static int settings_doc_range(struct buf *out, const struct setting *setting)
{
    if (setting->type == SETTING_STRING)
        return buf_adds(out, setting->allowed);
    setting_add_names(out, setting, "`");
    if (setting->type == SETTING_CHOICE)
        return buf_error(out);
    if (setting->type == SETTING_CLEANUP)
        return buf_adds(out, ", or both");
    if (setting->type == SETTING_DELIMITER)
        return buf_adds(out, "or one byte of ASCII but newline");
    buf_adds(out, "`");
    setting_add_number(out, setting, setting->minimum);
    buf_adds(out, "` to `");
    setting_add_number(out, setting, setting->maximum);
    return buf_adds(out, "`");
}

static int settings_doc_table(struct buf *out, enum setting_scope scope)
{
    size_t count;
    const struct setting *table = settings_table(scope, &count);

    buf_adds(out, "| name | type | allowed | default | meaning |\n"
                  "| --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < count; i++) {
        buf_printf(out, "| `%s` | ", table[i].name);
        settings_doc_type(out, &table[i]);
        buf_adds(out, " | ");
        settings_doc_range(out, &table[i]);
        buf_adds(out, " | ");
        settings_doc_default(out, &table[i], "`");
        buf_printf(out, " | %s%s |\n", table[i].help,
                   table[i].read_only ? ". Fixed once the topic is made" : "");
    }
    return buf_error(out);
}

static const char doc_head[] =
    "# Settings\n"
    "\n"
    "This file is made from the table in the program that also makes "
    "`--help`\n"
    "and reads the settings; `topicfs help config` prints it.\n"
    "\n"
    "A setting that is unknown, malformed or out of range is refused, with "
    "a\n"
    "text that says what is allowed. None is ignored. Of a `config.json` the\n"
    "write fails, and the text is in the daemon's log (`topicfs.log`, or the\n"
    "journal) of the machine where it was written.\n"
    "\n"
    "## Values\n"
    "\n"
    "| type | in text (mount options) | in JSON (config.json) |\n"
    "| --- | --- | --- |\n"
    "| integer | `3` | `3` or `\"3\"` |\n"
    "| size | bytes, or a number with `k`, `m`, `g` (powers of 1024): "
    "`256m` | the bytes as a number, or the text: `268435456` or "
    "`\"256m\"` |\n"
    "| time | milliseconds, or a number with `ms`, `s`, `m`, `h`, `d`: "
    "`7d` | the milliseconds as a number, or the text: `604800000` or "
    "`\"7d\"` |\n"
    "| word | `ack`, `true` | `\"ack\"`; `true`, `false` and numbers also "
    "without quotes |\n"
    "| one or more words | `delete+compact` (a comma ends a mount option) "
    "| `\"delete,compact\"` or `[\"delete\",\"compact\"]` |\n"
    "| one byte | `;`, `tab`, `none` | `\";\"`, `\"\\t\"`, `\"\"` for none "
    "|\n"
    "\n"
    "config.json shows sizes in bytes and times in milliseconds.\n"
    "\n"
    "## Mount\n"
    "\n"
    "Given as mount options: `-o data=/srv/log,node=2`. They hold until the\n"
    "unmount.\n"
    "\n";

static const char doc_topic[] =
    "\n"
    "## Topic\n"
    "\n"
    "Each topic has its own, in `topics/<topic>/config.json`. Given as "
    "mount\n"
    "options they are the defaults for topics made on that mount.\n"
    "\n"
    "    cat topics/t/config.json\n"
    "    echo '{\"retention_ms\":\"30d\"}' > topics/t/config.json\n"
    "\n"
    "Writing changes the keys named and leaves the others: all of them or, "
    "on\n"
    "an error, none. `null` restores the default. Keys that are fixed are\n"
    "accepted when unchanged, so that what was read can be edited and "
    "written\n"
    "back. With the `version` that was read among the keys, the write is\n"
    "refused with EAGAIN if somebody else changed the topic meanwhile.\n"
    "\n";

static const char doc_combinations[] =
    "\n"
    "Combinations that are refused: `min_insync_replicas` above\n"
    "`replication_factor`; `cleanup_policy` with `compact` where\n"
    "`key_delimiter` is none, as there are no keys to compact by.\n";

static const char doc_group[] =
    "\n"
    "## Group\n"
    "\n"
    "Each consumer group has its own, in `groups/<group>/config.json`, which is\n"
    "read and written as that of a topic. Given as mount options they are the\n"
    "defaults for groups that this node is the first to coordinate.\n"
    "\n"
    "    echo '{\"commit\":\"manual\"}' > groups/g/config.json\n"
    "\n";

int settings_markdown(struct buf *out)
{
    buf_adds(out, doc_head);
    settings_doc_table(out, SETTING_MOUNT);
    buf_adds(out, doc_topic);
    settings_doc_table(out, SETTING_TOPIC);
    buf_adds(out, doc_combinations);
    buf_adds(out, doc_group);
    return settings_doc_table(out, SETTING_GROUP);
}
