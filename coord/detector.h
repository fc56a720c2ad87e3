/*
 * Fast detection of dead processes: when is what the network says enough for the
 * controller to end a node's registration? A refused connection is only a hint (a
 * firewall answers so too), so it takes two, some time apart, without an answer
 * between, or an answer from another incarnation; and a node is deposed so at most once
 * in a while: a fault of the detector's own path costs one move of the partitions, not
 * many. Ending the registration is a transaction that compares the broker epoch; safety
 * never rests on the detector.
 *
 *     detector_registered(&detector, id, broker_epoch, now_ms);  // from the snapshot
 *     if (detector_refused(&detector, id, now_ms)) end its registration
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
    DETECTOR_REST_MS = 10000,  /* a registration younger than this is left alone */
};

struct detector_node {
    int32_t id;
    int64_t broker_epoch;     /* 0: not registered */
    int64_t registered_ms;    /* when this registration was first seen */
    int64_t first_refusal_ms; /* -1: none */
};

struct detector {
    uint32_t count;
    struct detector_node nodes[DETECTOR_NODES_MAX];
};

/* What the store says of a node; broker_epoch 0: its registration is gone. */
void detector_registered(struct detector *detector, int32_t id, int64_t broker_epoch,
                         int64_t now_ms);
/* A connection was refused. true: the registration with the noted broker epoch is to be
 * ended, *broker_epoch tells which. */
bool detector_refused(struct detector *detector, int32_t id, int64_t now_ms,
                      int64_t *broker_epoch);
/* The node answered, as the incarnation with this broker epoch. true as above: it is a
 * newer one than the registration's. */
bool detector_answered(struct detector *detector, int32_t id, int64_t answered_epoch,
                       int64_t now_ms, int64_t *broker_epoch);

#endif
