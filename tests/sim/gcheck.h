/*
 * What must hold of a group, whatever happens to its nodes:
 *
 *  - in the log: a commit is of the member that has the partition, under its grant; a
 *    partition passes to another only after it was released, or its member removed; no
 *    two grants of a partition have one generation; generations rise, and committed
 *    offsets do;
 *  - an offset is set, or goes with its topic, only while nobody has the partition;
 *    from then on the rest holds as if everything began there;
 *  - a commit that was acknowledged is in the log, and an offset that was set;
 *  - who begins to read a partition begins at what is committed, and nobody else reads
 *    it who could still commit;
 *  - no message is passed over; one is delivered twice only if whoever had it before
 *    went without having it committed;
 *  - in the end every partition has a reader within the session time-outs, and every
 *    message was delivered and committed.
 *
 * It reads the records with a reader of its own state: what the coordinators hold in
 * memory is not asked.
 */
#ifndef TOPICFS_SIM_GCHECK_H
#define TOPICFS_SIM_GCHECK_H

#include "tests/sim/gmember.h"
#include "tests/sim/gshard.h"

struct gcheck *gcheck_new(struct gworld *world);
void gcheck_reset(struct gcheck *check);
void gcheck_free(struct gcheck *check);

/* A batch was committed. */
void gcheck_committed(struct gcheck *check, const struct gbatch *batch);
/* The member begins to read a partition; stops, `clean`: everything that it handed out
 * is committed, and it gave the partition up. */
void gcheck_started(struct gcheck *check, const struct gmember *member,
                    int32_t partition);
void gcheck_stopped(struct gcheck *check, const struct gmember *member,
                    int32_t partition, bool clean);
/* Messages [from, to) were handed out. */
void gcheck_delivered(struct gcheck *check, const struct gmember *member,
                      int32_t partition, int64_t from, int64_t to);
/* A member was told that this is committed. */
void gcheck_acked(struct gcheck *check, const struct gmember *member,
                  const struct group_commit *commit);
/* A user was told that an offset is set, or why not. */
void gcheck_set_answered(struct gcheck *check, const struct ganswer *answer);

/* Whether every partition of a topic with members is read by one. */
bool gcheck_all_read(const struct gcheck *check, char *why, size_t size);
/* Whether everything was delivered and committed, and nothing is left of deleted
 * topics.
 */
bool gcheck_all_done(const struct gcheck *check, char *why, size_t size);

#endif
