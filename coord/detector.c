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

void detector_registered(struct detector *detector, int32_t id, int64_t broker_epoch,
                         int64_t now_ms)
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
        node->registered_ms = now_ms;
        node->first_refusal_ms = -1;
    }
}

static bool may_depose(const struct detector_node *node, int64_t now_ms)
{
    return node && node->broker_epoch > 0 &&
           now_ms - node->registered_ms >= DETECTOR_REST_MS;
}

bool detector_refused(struct detector *detector, int32_t id, int64_t now_ms,
                      int64_t *broker_epoch)
{
    struct detector_node *node = find(detector, id);
    if (!may_depose(node, now_ms)) {
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
                       int64_t now_ms, int64_t *broker_epoch)
{
    struct detector_node *node = find(detector, id);
    if (!node) {
        return false;
    }
    node->first_refusal_ms = -1;
    if (answered_epoch <= node->broker_epoch || !may_depose(node, now_ms)) {
        return false;
    }
    *broker_epoch = node->broker_epoch;
    return true;
}
