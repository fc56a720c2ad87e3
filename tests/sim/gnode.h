/*
 * A simulated node: its view of the cluster, which is late, and the coordinator that it
 * is while it takes itself for the leader. The coordinator does what the real one does:
 * loads, decides, appends, and answers what was decided once everything before it is
 * committed; what can't be committed makes it throw the group away and load again.
 */
#ifndef TOPICFS_SIM_GNODE_H
#define TOPICFS_SIM_GNODE_H

#include "tests/sim/gworld.h"

enum { GNODE_QUEUE_MAX = 256, GNODE_TICK_MS = 100 };

struct gwaiting { /* an answer, until the log's part before `at` is committed */
    size_t at;
    int32_t to;
    struct ganswer answer;
};

struct gparked { /* a beat, until there is news or `until_ms` */
    int64_t came_ms;
    int64_t until_ms;
    int32_t from;
    struct grequest request;
};

struct gnode {
    struct gworld *world;
    int32_t index; /* its broker id is one more */
    bool up;
    uint32_t life; /* of the process */
    int64_t paused_until_ms;
    int64_t deaf_until_ms; /* does not hear of the store */
    int64_t
        session_end_ms; /* its session is over then, unless the silence ends before */
    int64_t wall_offset_ms;
    struct broker_incarnation registration; /* as it knows it */
    int32_t view;                           /* a revision */

    int32_t led_epoch; /* as leader of the shard; -1: it does not lead */
    int64_t load_at_ms;
    struct group_core *core; /* NULL: not loaded */
    size_t appended;         /* the position behind its last append */
    size_t committed;
    size_t waiting_count;
    struct gwaiting waiting[GNODE_QUEUE_MAX];
    size_t parked_count;
    struct gparked parked[GNODE_QUEUE_MAX];
};

struct gnode *gnode_new(struct gworld *world, int32_t index);
void gnode_reset(struct gnode *node); /* down, knows nothing */
void gnode_free(struct gnode *node);

void gnode_start(struct gnode *node);
void gnode_kill(struct gnode *node);
/* The node sees a revision of the cluster's state. */
void gnode_see(struct gnode *node, int32_t revision);
void gnode_tick(struct gnode *node);
void gnode_receive(struct gnode *node, const struct gmessage *message);
void gnode_committed(struct gnode *node, int32_t epoch, size_t count);
/* Whether it knows by its own clock that its session is over, and has not registered
 * again. */
bool gnode_session_over(const struct gnode *node);
/* The end of its present silence. */
int64_t gnode_silent_until(const struct gnode *node);
/* Whether the topic is there, as far as it knows. */
bool gnode_knows(const struct gnode *node, int32_t topic);
/* Whom it takes for the coordinator; -1: nobody. */
int32_t gnode_coordinator(const struct gnode *node);

#endif
