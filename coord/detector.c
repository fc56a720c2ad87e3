#include "coord/detector.h"

#include <stddef.h>

static struct detector_node *find(struct detector *detector, int32_t id)
{
    for (uint32_t i = 0; i < detector->count; i++) {
        if (detector->nodes[i].id == id) {
            return &detector->nodes[i];
        }
    }
    return NULL;
}

void detector_registered(struct detector *detector, int32_t id, int64_t broker_epoch)
{
    struct detector_node *node = find(detector, id);
    if (!node) {
        if (detector->count == DETECTOR_NODES_MAX) {
            return; /* beyond that many nodes leases alone tell */
        }
        node = &detector->nodes[detector->count++];
        *node = (struct detector_node){.id = id, .first_refusal_ms = -1};
    }
    if (node->broker_epoch != broker_epoch) {
        node->broker_epoch = broker_epoch;
        node->first_refusal_ms = -1;
    }
}

bool detector_refused(struct detector *detector, int32_t id, int64_t now_ms,
                      int64_t *broker_epoch)
{
    struct detector_node *node = find(detector, id);
    if (!node || node->broker_epoch <= 0) {
        return false;
    }
    int64_t first = node->first_refusal_ms;
    if (first < 0 || now_ms - first > DETECTOR_WINDOW_MS) {
        node->first_refusal_ms = now_ms;
        return false;
    }
    if (now_ms - first < DETECTOR_APART_MS) {
        return false;
    }
    *broker_epoch = node->broker_epoch;
    return true;
}

bool detector_answered(struct detector *detector, int32_t id, int64_t answered_epoch,
                       int64_t *broker_epoch)
{
    struct detector_node *node = find(detector, id);
    if (!node) {
        return false;
    }
    node->first_refusal_ms = -1;
    if (node->broker_epoch <= 0 || answered_epoch <= node->broker_epoch) {
        return false;
    }
    *broker_epoch = node->broker_epoch;
    return true;
}

int64_t detector_pause_ms(enum detector_outcome outcome, int64_t asked_ms,
                          int64_t took_ms)
{
    switch (outcome) {
    case DETECTOR_ANSWERED:
        return took_ms < asked_ms ? DETECTOR_AGAIN_MS : 0;
    case DETECTOR_REFUSED:
        return DETECTOR_APART_MS;
    case DETECTOR_BROKEN:
        /* At once, but not for ever where connections are taken and dropped. */
        return took_ms < DETECTOR_AGAIN_MS ? DETECTOR_AGAIN_MS - took_ms : 0;
    case DETECTOR_CLOSED:
        return DETECTOR_CLOSED_MS;
    case DETECTOR_REPORTED:
    case DETECTOR_FAILED:
        break;
    }
    return DETECTOR_AGAIN_MS;
}
