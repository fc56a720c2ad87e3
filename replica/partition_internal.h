/*
 * Inside of a partition, for partition*.c and broker*.c only.
 *
 * Locks, in the order in which they may be taken:
 *   dir_lock      held while producer snapshots are written, and while the directory of
 * a deleted log is moved away.
 *   append_lock   one appender at a time; held while the bytes go to the page cache,
 * never during a flush. Guards the sequence and the producer state. lock short; never
 * held during I/O or a callback. Guards the core, the places and the lists of waiters.
 *
 * A change that may release waiters follows one pattern: under `lock`, change the state
 * and move the waiters that it frees to a private list (partition_collect); after
 * unlocking everything, call them (partition_release).
 */
#ifndef TOPICFS_PARTITION_INTERNAL_H
#define TOPICFS_PARTITION_INTERNAL_H

#include "replica/epochs.h"
#include "replica/flusher.h"
#include "replica/partition.h"
#include "replica/partition_core.h"
#include "replica/producer_state.h"

#include <pthread.h>
#include <stdatomic.h>

/* Relaxed: nothing is decided by them. */
struct partition_statistics {
    _Atomic uint64_t messages_in;
    _Atomic uint64_t bytes_in;
    _Atomic uint64_t bytes_out;
    _Atomic uint64_t produce_errors;
    _Atomic uint64_t flushes;
};

static inline void statistics_add(_Atomic uint64_t *counter, uint64_t n)
{
    (void)atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

enum partition_news {
    PARTITION_CHANGED, /* anything of struct partition_seen, or more */
    PARTITION_WRITES,  /* a write waits for the leader, and nothing else changed */
};

/* What the observer of a partition is told of: any change of these. Only the fields of
 * the role that this node has. */
struct partition_seen {
    enum core_role role;
    int32_t leader;
    int32_t leader_epoch;
    int64_t revision;
    int64_t own_end;   /* follower */
    int64_t synced_to; /* follower: what it has flushed of what it was asked to */
};

/* A log that was begun anew, or whose high watermark may be an old one after a crash,
 * as far as its readers are concerned. */
enum partition_filling {
    FILLED = 0,
    FILLING,     /* it lacks what was committed: they wait; until filling_until_ms */
    FILLED_NEWS, /* not any more: they are to be told */
};

/* Writes with acks=0 that this node has accepted, and that have to be sent: numbered.
 */
struct partition_queued {
    uint64_t last;    /* the newest */
    uint64_t sending; /* the oldest of those in the batch that is under way; 0: none */
    uint64_t failed;  /* the newest that was given up; 0: none */
    int error;        /* of that */
    int64_t end_offset; /* behind all that were appended */
};

struct partition {
    atomic_uint references;
    struct partition_statistics statistics;
    char name[TOPIC_NAME_MAX + 16]; /* "orders-0" [const] */
    struct topic_id topic_id;       /* [const] */
    int32_t index;                  /* [const] */
    const struct clock *clock;      /* [const] */
    struct problems *problems;      /* [const] */
    const struct disk *disk;        /* [const] */
    struct flusher *flusher;        /* [const] */
    struct log *log;                /* [const] */
    atomic_bool copy;   /* the log is a copy for readers, from the beginning on; until
                         * partition_promote() */
    atomic_bool remote; /* no replica of this node: see partition_remote.c; changes
                         * under `lock` */
    atomic_bool shown;  /* remote: holds what was committed when it was asked for */
    atomic_uint holds;  /* remote: open files */
    _Atomic int64_t used_ms; /* remote: when it was last asked for */
    void (*on_last_unref)(void *arg, struct partition *partition); /* [const] */
    void *on_last_unref_arg;                                       /* [const] */
    /* Told of changes that other nodes have to do with; NULL: there are none. [const]
     */
    void (*observer)(void *arg, struct partition *partition, enum partition_news news);
    void *observer_arg;            /* [const] */
    _Atomic int64_t *outbox_bytes; /* [const] of all partitions of the node */

    struct partition *next_dead; /* [broker->table_lock] */

    pthread_mutex_t dir_lock;
    char *dir;  /* [dir_lock] */
    bool moved; /* [dir_lock] a deleted log is out of the way of its name */
    bool kept;  /* [dir_lock] nobody deleted its topic: it is never removed */
    int64_t taken_out_revision; /* [the keeper's thread] the store knows from then on
                                 * that it can't be used; 0: it doesn't */
    bool repairing;             /* likewise: what it was before lies in replaced/ */
    int64_t refill_delay_ms; /* likewise, as the next: between attempts to begin anew */
    int64_t refill_after_ms; /* none before */
    /* Something that was committed or acknowledged can't be read; set by whoever finds
     * it. */
    atomic_bool damaged;
    atomic_bool unfit;  /* of no use here, but others have it; set under `lock` */
    atomic_int filling; /* enum partition_filling; set under `lock` */
    atomic_llong filling_until_ms; /* likewise; then they go on with what there is */
    /* What a crash would find in the checkpoint: nothing below is cut then. Never too
     * low. */
    _Atomic int64_t on_disk;
    int (*persist)(void *arg); /* [append_lock] writes the checkpoint; NULL: none */

    pthread_mutex_t append_lock;
    int64_t producer_id;              /* [append_lock] of what is written here */
    int32_t next_sequence;            /* [append_lock] */
    struct producer_state *producers; /* [append_lock] */
    bool disk_full;                   /* [append_lock] the last append found no space */
    struct log_place snapshot;        /* [append_lock] of the last producer snapshot */

    pthread_mutex_t lock;
    struct partition_core core;      /* [lock] */
    struct topic_config config;      /* [lock] */
    struct log_place end;            /* [lock] */
    struct log_place flushed;        /* [lock] */
    struct log_place high_watermark; /* [lock] */
    struct epoch_list epochs;        /* [lock] */
    int64_t last_append_ms;          /* [lock] */
    int64_t appended_ms; /* [lock] when the last append here was, monotonic */
    bool streams;        /* [lock] and it came soon after the one before */
    int64_t watched_ms;  /* [lock] when somebody last waited for the high watermark */
    uint64_t unclean;    /* [lock] */
    struct partition_loss loss; /* [lock] what an election gave up; epoch -1: nothing */
    bool loss_due;              /* [lock] it is to be put on record */
    bool deleted;               /* [lock] */
    bool offline;               /* [lock] */
    bool failed;          /* [lock] its disk did, and others have what was committed */
    bool listed;          /* [lock] as failed or damaged by an earlier process */
    bool stopping;        /* [lock] */
    bool flush_queued;    /* [lock] the job is queued or runs */
    bool flush_again;     /* [lock] */
    bool outbox_busy;     /* [lock] a batch is under way */
    bool flush_failed;    /* [lock] the last one: due again by time alone */
    int64_t flushing_to;  /* [lock] flush_queued: what it will cover */
    int64_t flush_due_ms; /* [lock] flush=interval: 0 = nothing is dirty */
    struct produce_waiter *produces; /* [lock] by await_offset, oldest first */
    struct read_waiter *reads;       /* [lock] */
    struct fetch_waiter *fetches;    /* [lock] */
    struct partition_seen seen;      /* [lock] */
    struct outbox_write
        *outbox_writes;             /* [lock] see partition_outbox.h; oldest first */
    struct partition_queued queued; /* [lock] */
    struct outbox_ticket *tickets;  /* [lock] of writes given up; oldest first */
    uint32_t ticket_count;          /* [lock] */
    uint64_t last_ticket;           /* [lock] */

    struct flusher_job flush_job;
};

struct partition_params {
    const char *dir;
    bool may_create;
    bool copy; /* for readers; else this node is a replica */
    const struct cluster_snapshot *snapshot; /* borrowed, as the next */
    const struct topic *topic;
    int32_t index;
    int32_t self;
    uint64_t unclean; /* above that of every earlier handle of it in this process */
    const struct clock *clock;
    struct problems *problems;
    const struct disk *disk;
    struct file_cache *files;
    struct flusher *flusher;
    enum log_recovery recovery;
    /* From the checkpoint, -1 unknown. */
    int64_t log_start_offset;
    int64_t flushed_offset;
    int64_t high_watermark;
    int64_t log_end_offset;
    int32_t start_epoch;       /* of what lies before log_start_offset; -1: unknown */
    bool unusable;             /* an earlier process noted that it can't be used */
    bool replaced;             /* what it was before lies in replaced/ */
    int (*persist)(void *arg); /* writes the checkpoint; arg as on_last_unref's */
    void (*on_last_unref)(void *arg, struct partition *partition);
    void *on_last_unref_arg;
    void (*observer)(void *arg, struct partition *partition, enum partition_news news);
    void *observer_arg;
    _Atomic int64_t *outbox_bytes;
};

/* Opens the log and recovers; the partition leads or follows as the topic says. */
int partition_open(const struct partition_params *params, struct partition **out);
/* Closes the log and frees; nobody may hold a reference. */
void partition_free(struct partition *partition);

/* The topic's settings or leadership changed. */
void partition_update(struct partition *partition,
                      const struct cluster_snapshot *snapshot,
                      const struct topic *topic);
/* Ends every wait; later calls answer E_TOPIC_DELETED or (stop) E_OFFLINE. */
void partition_mark_deleted(struct partition *partition);
void partition_interrupt(struct partition *partition);

/* Waiters that a change freed, to be called once no lock is held. */
struct released {
    struct produce_waiter *produces;
    struct read_waiter *reads;
    struct fetch_waiter *fetches;
    bool tell; /* the observer */
    bool post; /* likewise, of writes in the outbox */
};
/* Tells who replicates it, if anybody does; with no lock held. */
void partition_tell(struct partition *partition, enum partition_news news);
/* [partition->lock] After any change of what is flushed, appended or leading: advances
 * the high watermark and collects. */
void partition_collect(struct partition *partition, struct released *released);
/* [partition->lock] partition_fetch.c: the part of it for parked fetches. */
void partition_collect_fetches(struct partition *partition, struct released *released);
/* [partition->lock] partition_loss.c: offsets that were visible here are to be cut. */
void partition_loss_cut(struct partition *partition, int64_t from, int64_t to);
/* [no lock] */
void partition_release(struct partition *partition, struct released *released);
/* [partition->lock] What this node appended as a leader at or behind `end_offset` was
 * cut: whoever waits for it learns that nothing was appended. Ends with
 * partition_collect(). */
void partition_fail_produces(struct partition *partition, int64_t end_offset);
/* [partition->lock] Somebody waits for the high watermark, or for what rises with it.
 */
void partition_watch(struct partition *partition);
/* [partition->lock] */
void partition_park_produce(struct partition *partition, struct produce_waiter *waiter,
                            int64_t await_offset);

/*
 * [append_lock, released here] Appends a batch that was admitted (refusal 0) and waits
 * for the waiter's acks; results as partition_produce().
 */
int partition_append(struct partition *partition, int refusal, struct batch *batch,
                     const void *bytes, struct produce_waiter *waiter,
                     struct produce_result *result);
/* [append_lock] Keeps the problem of a full disk, by the outcome of an append. */
void partition_note_space(struct partition *partition, int append_result);
/* [partition->lock] What the flush policy asks for after an append. */
void partition_flush_by_policy(struct partition *partition, int64_t now_ms);

/* [partition->lock] Sees to it that a flush of everything appended up to now will run.
 */
void partition_flush_soon(struct partition *partition);
/* [partition->lock] Sees to it that what a leader asked for, this node or another, gets
 * to the disk. */
void partition_flush_asked(struct partition *partition);
/* The flush job; see flusher.h. */
void partition_flush_run(struct flusher_job *job);
/* [no lock] Flushes on this thread; for the stop of the node. 0 or an error. */
int partition_flush_now(struct partition *partition);
/* [no lock] Called by maintenance: queues a flush that is due by flush=interval. */
void partition_flush_due(struct partition *partition, int64_t now_ms);

/* [partition->lock] 0, or why no call can be served. */
int partition_refusal(const struct partition *partition);
/* After an error of its disk: where others have what was committed, the replica is
 * unfit from now on (true). */
bool partition_leave(struct partition *partition, int error);
/* The same; else it turns offline, which ends every wait. */
void partition_fail(struct partition *partition, int error);
/* Does an error of the log mean that its disk failed? */
bool partition_is_disk_error(int error);
/* [append_lock] Before an append: the checkpoint must not speak of more than the log
 * has. 0 or an error. */
int partition_persist(struct partition *partition);

/* partition_state.c. For the checkpoint: a crash may find that from now on. */
void partition_status_checkpoint(struct partition *partition,
                                 struct partition_status *out);

/* partition_refill.c. [partition->lock] Do other nodes keep replicas of it, too? */
bool partition_is_shared(const struct partition *partition);
/* [partition->lock] Sees whether the replica is unfit, and ends its role if so. */
bool partition_note_unfit(struct partition *partition);
/* The same, [no lock]. */
bool partition_unfit(struct partition *partition);
/* Is it out since that revision, and leads somebody else? */
bool partition_may_refill(struct partition *partition, int64_t taken_out_revision);
bool partition_is_in_sync(struct partition *partition);
/* A copy becomes a replica (partition_promote.c): its log begins anew in `dir`, which
 * is made, and is filled from the leader; until then readers wait. Whoever has the
 * handle goes on with it, also what is being written; what showed the copy is out of
 * date. The caller calls partition_update() next, and removes *former, where the copy's
 * files are (owned). -EEXIST: `dir` is there; E_TOPIC_DELETED, E_OFFLINE; another
 * negative errno: all is as it was. */
int partition_promote(struct partition *partition, const struct topic *topic,
                      const char *dir, int (*persist)(void *arg), char **former);
/* [append_lock, dir_lock; append_lock is released here] The log began anew, and nobody
 * has seen anything of it. `promoted`: as the replica of that topic; NULL: it was one.
 */
void partition_begin_filling(struct partition *partition, const struct topic *promoted);
/* Begins the log anew, in an empty directory; as log_renew(). */
int partition_refill(struct partition *partition, int (*move)(void *arg), void *arg);
/* [partition->lock] Behind an answer of the leader: true once all is there that was
 * committed. */
bool partition_filled(struct partition *partition, int64_t high_watermark);
/* Before it is shared: it was opened after a crash, so that the high watermark which
 * was written down may be an old one. Readers wait until the leader tells, or this node
 * leads and has committed what there was; not longer than a moment. */
void partition_begin_start(struct partition *partition);
/* [partition->lock] true once: the latter has come about. */
bool partition_led_anew(struct partition *partition);
/* Do readers wait? Any thread. */
bool partition_is_filling(const struct partition *partition);
/* Can nothing of it be shown here, for the replica is of no use or being filled? Any
 * thread. */
bool partition_hides(const struct partition *partition);
/* [append_lock] The log is about to be begun anew: keeps what waiting writers appended.
 */
void partition_keep_waiting(struct partition *partition);
/* [partition->lock] The log was begun anew: whether what is waited for is in it shows
 * when as much of it is here again as was committed then. */
void partition_doubt_produces(struct partition *partition);

enum doubt_outcome {
    DOUBT_LASTS,
    DOUBT_ENDED, /* the result says how */
    DOUBT_GONE,  /* it is in no log, nor will be */
};
/* [partition->lock] */
enum doubt_outcome partition_doubt(struct partition *partition,
                                   struct produce_waiter *waiter);

/* partition_sync.c. [partition->lock] The part of partition_collect() for one that
 * waits by partition_sync(): true once it ended. */
bool partition_sync_is_done(struct partition *partition, struct produce_waiter *waiter);
/* [no lock] A write with acks=0 may have got to the leader: who waits for it by
 * partition_sync() goes on. */
void partition_sync_look(struct partition *partition);

/* partition_outbox.c. [append_lock, partition->lock] Whether a write waits to be sent,
 * by what core_admit() says of it. */
bool partition_outbox_wants(const struct partition *partition, int refusal);
/* As partition_produce(); the observer is to be told. [append_lock, partition->lock] */
int partition_outbox_add(struct partition *partition, const void *bytes, size_t length,
                         uint32_t message_count, struct produce_waiter *waiter,
                         struct produce_result *result);
/* [partition->lock] The part of partition_produce_cancel() for what is not here: what
 * was not sent is withdrawn, what was goes on under a ticket. */
bool partition_outbox_cancel(struct partition *partition, struct produce_waiter *waiter,
                             struct produce_result *result);
/* [partition->lock] Whether it is left to the forwarder, partition_outbox_expire(). */
bool partition_outbox_is_sent(const struct produce_waiter *waiter);
/* [partition->lock] The part of partition_resume() for tickets. */
int partition_outbox_resume(struct partition *partition, uint64_t ticket,
                            struct produce_waiter *waiter,
                            struct produce_result *result);
/* [partition->lock] What is being cut from the log (`tail`, which begins at `from`) and
 * has its writer waiting on this node goes to the new leader instead. */
void partition_outbox_rescue(struct partition *partition, const char *tail,
                             const struct log_place *from);
/* [partition->lock] Is there any at or behind `offset`? The first of all there are, or
 * -1. */
bool partition_outbox_rescues(const struct partition *partition, int64_t offset);
int64_t partition_outbox_first(const struct partition *partition);
/* [partition->lock] The same where it is not known yet whether others have it: the
 * bytes are kept with the waiter, until it is posted to the leader, dropped with the
 * answer, or taken back. post: false if nothing was kept; else the waiter is in the
 * outbox, and the observer is to be told. */
void partition_outbox_keep(struct partition *partition, const char *tail,
                           const struct log_place *from);
bool partition_outbox_post(struct partition *partition, struct produce_waiter *waiter);
/* [partition->lock] Posts all that was kept, as what it was: the leader finds out
 * whether it has them. false: it could not (more than it remembers of a producer, or
 * bytes are missing); they stay. */
bool partition_outbox_ask(struct partition *partition);
void partition_outbox_drop(struct partition *partition, struct produce_waiter *waiter);
/* [append_lock] What stands behind `offset`, if writers of this node still wait for any
 * of it; NULL: there are none, or it can't be had. The caller frees it. */
char *partition_read_tail(struct partition *partition, int64_t offset,
                          struct log_place *from);
/* [partition->lock] The part of it for what was appended. */
int partition_resume_appended(struct partition *partition,
                              const struct produce_result *left,
                              struct produce_waiter *waiter,
                              struct produce_result *result);
/* [partition->lock] Waits one of these writes with acks=0 to be sent, or for its fate?
 */
bool partition_outbox_queues(const struct partition *partition, uint64_t first,
                             uint64_t last);
/* partition_tickets.c. Nobody has the partition any more. */
void partition_tickets_free(struct partition *partition);
/* [partition->lock] The part of partition_collect() for what is out of time. */
void partition_outbox_collect(struct partition *partition, struct released *released);

/* partition_remote.c. [partition->lock] What was a replica may be none any more, and
 * the reverse. */
void partition_remote_update(struct partition *partition, const struct topic *topic);
/* [partition->lock] Behind an answer of the leader: true once the
 * copy holds all that was committed. */
bool partition_remote_caught_up(struct partition *partition, int64_t high_watermark);
/* Nothing is to be waited for: the copy is complete, or will never be. Of a replica
 * that was filled anew: once, when it is complete. */
bool partition_observe_ended(struct partition *partition);
/* Does it lack what was committed when it was asked for, or begun anew? */
bool partition_must_catch_up(struct partition *partition);
/* Gives the copy up if nobody has used it for so long, or it is damaged. true: it did.
 */
bool partition_remote_rest(struct partition *partition, int64_t idle_ms);
/* partition_follow.c. [append_lock] Empties the log, to begin anew at `offset`. */
int partition_begin_anew(struct partition *partition, int64_t offset, int32_t epoch);

/* [append_lock, or not yet shared] What is written here from now on is of a producer
 * that nobody has seen. */
void partition_producer_begin(struct partition *partition);

/* Producer snapshots (partition_producers.c). */
int partition_producers_load(struct partition *partition);
/* Writes one if enough was appended since the last, or `always`. */
void partition_producers_save(struct partition *partition, bool always);

#endif
