/*
 * The last offset of each key, in a fixed amount of memory: compaction asks it which
 * messages are superseded. Keys are known by their XXH3-128, as Kafka's cleaner knows
 * them by MD5.
 *
 *     struct key_map *map = key_map_new(KEY_MAP_BYTES);
 *     if (key_map_room(map) >= keys) key_map_put(map, key, length, offset);
 *     last = key_map_get(map, key, length);
 *
 * One owner.
 */
#ifndef TOPICFS_KEY_MAP_H
#define TOPICFS_KEY_MAP_H

#include <stddef.h>
#include <stdint.h>

/* 600,000 keys at a time; a log with more is compacted in several rounds. (Kafka's
 * log.cleaner.dedupe.buffer.size is 128 MiB for the whole broker.) */
enum { KEY_MAP_BYTES = 16 * 1024 * 1024 };

struct key_map;

struct key_map *key_map_new(size_t bytes); /* NULL: no memory */
void key_map_free(struct key_map *map);
/* How many more keys may be put. */
size_t key_map_room(const struct key_map *map);
/* Offsets rise. There must be room. */
void key_map_put(struct key_map *map, const void *key, size_t length, int64_t offset);
/* -1: not in it. */
int64_t key_map_get(const struct key_map *map, const void *key, size_t length);

#endif
