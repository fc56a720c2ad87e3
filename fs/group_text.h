/*
 * The text of a group's small files, from what its coordinator says
 * (groups_describe()).
 *
 *     members
 *         {"group","generation","members":[{"id","node","topic","partitions","joined"}]}
 *     lag
 *         {"group","lag":<of all>,"topics":{"<t>":{"lag":<of all>,"partitions":
 *             {"0":{"committed","log_start","end","lag","member"}}}}}
 *         null: nothing is committed, nobody has it, no leader says
 *     config.json
 *         the settings, "version" first
 *     offsets/<t>/<p>
 *         the committed offset, or "none"
 *
 * Pure; any thread.
 */
#ifndef TOPICFS_GROUP_TEXT_H
#define TOPICFS_GROUP_TEXT_H

#include "fs/tree.h"

/* 10,000 partitions of some topics, and what holds them. */
enum { GROUP_TEXT_MAX = 64 * 1024 * 1024 };

/* Whether the text needs to know where the logs end. */
bool group_text_needs_ends(enum tree_kind kind);

/* 0; -ENOMEM; -EIO: the answer is not what it should be. */
int group_text_render(const struct tree_place *place, const cJSON *group,
                      struct buf *out);

/* The committed offset of a partition; -1: none. */
int64_t group_text_committed(const cJSON *group, const struct topic_id *topic_id,
                             int32_t partition);

#endif
