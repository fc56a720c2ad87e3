/*
 * The few things that every JSON reader and writer here needs, over cJSON.
 *
 * cJSON keeps numbers as double: integers beyond 2^53 would change. Every 64-bit value
 * goes through json_get_i64() and json_add_i64(): read, a number counts if it is
 * integral and below +-2^53, a decimal string within int64; written, it is a number,
 * exact.
 *
 * Pure; any thread.
 */
#ifndef TOPICFS_JSON_H
#define TOPICFS_JSON_H

#include "coord/buf.h"

#include <cjson/cJSON.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Parses exactly one JSON value (white space around it is allowed) of at most 1 MiB and
 * 32 levels. 0 and *out (caller frees with cJSON_Delete); E_INVALID_JSON; or -EAGAIN if
 * the bytes are a prefix of a value, that is, if more bytes could make them complete.
 * NUL bytes and duplicate keys in one object are E_INVALID_JSON.
 */
int json_parse(const char *bytes, size_t length, cJSON **out);
/* The same with another limit than 1 MiB. */
int json_parse_long(const char *bytes, size_t length, size_t max_bytes, cJSON **out);

/* 0, -ENOENT (absent), or E_INVALID_JSON (another type, fraction, out of range). */
int json_get_i64(const cJSON *object, const char *key, int64_t *out);
int json_i64(const cJSON *item, int64_t *out);

/* 0 or -ENOMEM. */
int json_add_i64(cJSON *object, const char *key, int64_t value);

/* Appends `bytes` as a JSON string with its quotes. The bytes must be UTF-8. */
int json_quote(struct buf *buf, const char *bytes, size_t length);

/* 1 if the bytes are well-formed UTF-8 (RFC 3629), else 0. */
int json_utf8_valid(const char *bytes, size_t length);

#endif
