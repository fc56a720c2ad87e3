/*
 * Mutations: faults that the tests build into the decision code on purpose, to prove
 * that the simulator finds them. A product build defines none, and every
 * MUTATION(...) is the constant 0 there.
 *
 *     if (!MUTATION(MUTATE_NO_EPOCH_CHECK) && request->leader_epoch < epoch) ...
 */
#ifndef TOPICFS_MUTATION_H
#define TOPICFS_MUTATION_H

enum mutation {
    MUTATE_CUT_TO_HW = 1,         /* a follower cuts to its HW, not to the divergence */
    MUTATE_COUNT_OUT_OF_SYNC = 2, /* a replica joins the ISR without having caught up */
    MUTATE_NO_EPOCH_CHECK = 3,    /* requests and replies of another epoch are taken */
    MUTATE_NO_BROKER_EPOCH = 4,   /* an expansion does not compare the registration */
    MUTATE_ACK_BEFORE_FLUSH = 5,  /* a replica counts what it has not flushed */
    MUTATE_NO_CONTROLLER_FENCE = 6, /* a controller does not compare its key */
    MUTATE_HW_BELOW_MINIMUM = 7,    /* the HW rises with too few in-sync replicas */
    MUTATE_RESUME_EPOCH = 8,        /* a restarted node goes on leading its old epoch */
    MUTATE_ACK_DUPLICATE = 9,       /* a duplicate is acknowledged at once */
    MUTATE_KEEP_PRODUCERS = 10,     /* producer state survives a cut */
    MUTATE_COUNT_DIVERGING = 11,    /* a diverging fetch acknowledges its offset */
    MUTATE_FORGET_UNKNOWN = 12,     /* an ISR change of unknown outcome is forgotten */
    MUTATE_COMMIT_UNFENCED = 13,    /* a commit counts whoever has the partition */
    MUTATE_GRANT_UNRELEASED = 14,   /* a partition goes on before it was released */
    MUTATE_ANSWER_UNCOMMITTED = 15, /* a coordinator answers before its records hold */
    MUTATE_FORGET_GENERATION = 16,  /* a new coordinator begins generations anew */
    MUTATE_NO_REST = 17,            /* fast detection moves a partition again at once */
    MUTATE_SYNC_UNFLUSHED = 18,     /* fsync counts what a follower has in memory */
    MUTATE_SYNC_AS_STORED = 19,     /* fsync does not count who is about to join */
    MUTATE_SET_WHILE_READ = 20,     /* a user sets the offset of what members read */
    MUTATE_KEEP_OFFSETS = 21,       /* committed offsets outlive their topic */
    MUTATE_COMPACT_UNCOMMITTED = 22,  /* compaction goes beyond the high watermark */
    MUTATE_TOMBSTONE_AT_ONCE = 23,    /* a tombstone goes when it is compacted first */
    MUTATE_TOMBSTONE_BEFORE_KEY = 24, /* it goes before what it deleted */
    MUTATE_FORGET_PRODUCERS = 25,     /* a producer's last message is compacted away */
    MUTATE_FORGET_EPOCHS = 26,        /* so is the message that begins an epoch */
    MUTATE_HOLES_ARE_CLEAN = 27,      /* a log with holes is taken to be compacted */
    MUTATE_FETCH_WHOLE = 28, /* a fetch from inside of a batch gets all of it */
    MUTATE_TIME_FALLS = 29,  /* a batch may be older than the one before it */
    MUTATE_LAST = MUTATE_TIME_FALLS
};

#ifdef TOPICFS_MUTATION
#define MUTATION(number) (TOPICFS_MUTATION == (number))
#else
#define MUTATION(number) 0
#endif

#endif
