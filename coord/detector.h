/*
 * Fast detection of dead processes: when is what the network says enough to end a
 * node's registration? A refused connection is only a hint (a firewall answers so too),
 * so it takes two, some time apart, without an answer between, or an answer from a
 * later incarnation. Ending the registration is a transaction that compares the broker
 * epoch, and coord/deposals.h limits how often; safety never rests on the detector.
 *
 *     detector_registered(&detector, id, broker_epoch);  // from the snapshot
 *     if (detector_refused(&detector, id, now_ms, &epoch)) end that registration
 *     ... ask again after detector_pause_ms(...) ...
 *
 * Pure; one owner.
 */
#ifndef TOPICFS_DETECTOR_H
#define TOPICFS_DETECTOR_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DETECTOR_NODES_MAX = 64,
    DETECTOR_APART_MS = 50,    /* between the two refusals */
    DETECTOR_WINDOW_MS = 2000, /* a first refusal older than this is forgotten */
    DETECTOR_AGAIN_MS = 250,   /* after a report, and where the network fails */
    DETECTOR_CLOSED_MS = 1000, /* where a node does not let this one in */
};

struct detector_node {
    int32_t id;
    int64_t broker_epoch;     /* 0: not registered */
    int64_t first_refusal_ms; /* -1: none */
};

struct detector {
    uint32_t count;
    struct detector_node nodes[DETECTOR_NODES_MAX];
};

/* What the store says of a node; broker_epoch 0: its registration is gone. */
void detector_registered(struct detector *detector, int32_t id, int64_t broker_epoch);
/* A connection was refused. true: the registration with the noted broker epoch is to be
 * ended, *broker_epoch tells which. */
bool detector_refused(struct detector *detector, int32_t id, int64_t now_ms,
                      int64_t *broker_epoch);
/* The node answered, as the incarnation with this broker epoch. true as above: it is a
 * newer one than the registration's. */
bool detector_answered(struct detector *detector, int32_t id, int64_t answered_epoch,
                       int64_t *broker_epoch);

/* How a node that was asked has answered. */
enum detector_outcome {
    DETECTOR_ANSWERED,
    DETECTOR_REFUSED,  /* twice or not: nobody listens */
    DETECTOR_REPORTED, /* and its registration is to be ended for it */
    DETECTOR_BROKEN,   /* a connection that stood has ended without an answer */
    DETECTOR_FAILED,   /* no connection came about, or no answer in time */
    DETECTOR_CLOSED,   /* it answers, but not this node */
};
/* How long to wait before the node is asked again, after a call that took so long and
 * was to be answered after asked_ms. */
int64_t detector_pause_ms(enum detector_outcome outcome, int64_t asked_ms,
                          int64_t took_ms);

#endif
