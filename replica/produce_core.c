#include "replica/produce_core.h"

void produce_decide(const struct partition_core *core,
                    const struct producer_state *producers, const struct batch *batch,
                    int64_t acks, struct produce_decision *out)
{
    *out = (struct produce_decision){.error = core_admit(core, acks)};
    if (out->error && out->error != E_NOT_ENOUGH_REPLICAS) {
        return;
    }
    switch (producer_state_check(producers, batch, &out->base_offset)) {
    case PRODUCER_DUPLICATE:
        /* It is in the log already, whatever the ISR's size is now. */
        out->error = 0;
        out->duplicate = true;
        out->end_offset = out->base_offset + batch->message_count;
        out->acknowledged = MUTATION(MUTATE_ACK_DUPLICATE);
        break;
    case PRODUCER_OUT_OF_ORDER:
        out->error = E_OUT_OF_ORDER_SEQUENCE;
        break;
    default:
        /* A producer that nothing is known of begins at 0: a later sequence means that
         * an earlier batch is on its way or was lost, and must not be overtaken. */
        if (!out->error && batch->producer_id >= 0 && batch->base_sequence != 0 &&
            !producer_state_knows(producers, batch->producer_id)) {
            out->error = E_OUT_OF_ORDER_SEQUENCE;
        }
        break;
    }
}
