/*
 * The writing side of one open file that takes JSON (config.json, cluster/admin files):
 * bytes gather until they are one complete value. Where they were written, and how many
 * writes they took, does not matter.
 *
 *     rc = jsonfile_write(file, bytes, length, owner, &value);
 *     if (value != NULL) ... carry it out, answer the write with what came of it ...
 *     rc = jsonfile_flush(file, owner);
 *
 * Knows nothing of what the value means. Thread-safe (one short mutex inside).
 */
#ifndef TOPICFS_JSONFILE_H
#define TOPICFS_JSONFILE_H

#include "coord/coord.h"

#include <stddef.h>
#include <stdint.h>

struct jsonfile;

/* `what` (static) and `name` (copied) stand in front of a refusal in the log, which the
 * errno alone does not explain. NULL: no memory. */
struct jsonfile *jsonfile_new(const char *what, const char *name);
void jsonfile_free(struct jsonfile *file); /* accepts NULL */

/*
 * Takes more bytes from the process `owner`. When they complete a value, *value is it
 * (the caller frees it with cJSON_Delete) and gathering starts again; NULL while it is
 * incomplete. E_INVALID_JSON (the bytes so far can never become a value) or another
 * error drops what was gathered. White space between values is passed over.
 */
int jsonfile_write(struct jsonfile *file, const char *bytes, size_t length,
                   uint64_t owner, cJSON **value);

/*
 * The process `owner` closes a descriptor. If it wrote last and its value is
 * incomplete, that is dropped: E_INVALID_JSON. Another process's close means nothing:
 * each child that inherited the descriptor closes it when it exits.
 */
int jsonfile_flush(struct jsonfile *file, uint64_t owner);

#endif
