#include "tests/sim/simstore.h"

#include "tests/sim/check.h"
#include "tests/sim/world.h"

#include <stdlib.h>
#include <string.h>

void simstore_init(struct simstore *store, void *world)
{
    struct log_event *events = store->events;
    size_t allocated = store->event_allocated;
    memset(store, 0, sizeof *store);
    store->events = events;
    store->event_allocated = allocated;
    store->up = true;
    store->world = world;
}

void simstore_free(struct simstore *store)
{
    free(store->events);
}

static void record(struct simstore *store, int32_t key)
{
    if (store->event_count == store->event_allocated) {
        store->event_allocated =
            store->event_allocated ? 2 * store->event_allocated : 256;
        store->events =
            realloc(store->events, store->event_allocated * sizeof store->events[0]);
        if (!store->events) {
            abort();
        }
    }
    store->events[store->event_count++] = (struct log_event){
        .revision = store->revision, .key = key, .entry = store->entries[key]};
}

static void apply(struct simstore *store, const struct change *change)
{
    struct entry *entry = &store->entries[change->key];
    if (change->remove) {
        if (!entry->present) {
            return;
        }
        entry->present = false;
        entry->create_revision = 0;
        entry->mod_revision = store->revision;
    } else {
        if (!entry->present) {
            entry->create_revision = store->revision;
        }
        entry->present = true;
        entry->mod_revision = store->revision;
        entry->lease = change->lease;
        entry->value = change->value;
    }
    record(store, change->key);
}

bool simstore_commit(struct simstore *store, const struct transaction *transaction)
{
    for (uint32_t i = 0; i < transaction->compare_count; i++) {
        const struct compare *compare = &transaction->compares[i];
        const struct entry *entry = &store->entries[compare->key];
        int64_t revision = !entry->present   ? 0
                           : compare->create ? entry->create_revision
                                             : entry->mod_revision;
        if (revision != compare->revision) {
            return false;
        }
    }
    for (uint32_t i = 0; i < transaction->change_count; i++) {
        uint32_t lease = transaction->changes[i].lease;
        if (lease && (lease >= LEASES_MAX || !store->lease_deadline_ms[lease])) {
            return false;
        }
    }
    struct leadership before[SLOTS_MAX];
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        before[i] = store->entries[KEY_STATE + i].value.state;
    }
    store->revision++;
    for (uint32_t i = 0; i < transaction->change_count; i++) {
        apply(store, &transaction->changes[i]);
    }
    check_commit(store->world, transaction, before);
    world_store_changed(store->world);
    return true;
}

uint32_t simstore_lease_grant(struct simstore *store, int64_t deadline_ms)
{
    if (store->lease_count + 1 >= LEASES_MAX) {
        return 0;
    }
    store->lease_deadline_ms[++store->lease_count] = deadline_ms;
    return store->lease_count;
}

bool simstore_lease_renew(struct simstore *store, uint32_t lease, int64_t deadline_ms)
{
    if (!store->lease_deadline_ms[lease]) {
        return false;
    }
    store->lease_deadline_ms[lease] = deadline_ms;
    return true;
}

void simstore_lease_revoke(struct simstore *store, uint32_t lease)
{
    bool changed = false;
    store->lease_deadline_ms[lease] = 0;
    for (int32_t key = 0; key < KEY_COUNT; key++) {
        struct entry *entry = &store->entries[key];
        if (entry->present && entry->lease == lease) {
            store->revision += !changed;
            changed = true;
            apply(store, &(struct change){.key = key, .remove = true});
        }
    }
    if (changed) {
        world_store_changed(store->world);
    }
}

void simstore_expire(struct simstore *store, int64_t now_ms)
{
    for (uint32_t lease = 1; lease <= store->lease_count; lease++) {
        int64_t deadline = store->lease_deadline_ms[lease];
        if (deadline && deadline <= now_ms) {
            simstore_lease_revoke(store, lease);
        }
    }
}

void simstore_renew_all(struct simstore *store, int64_t deadline_ms)
{
    for (uint32_t lease = 1; lease <= store->lease_count; lease++) {
        if (store->lease_deadline_ms[lease]) {
            store->lease_deadline_ms[lease] = deadline_ms;
        }
    }
}

void transaction_compare(struct transaction *transaction, int32_t key, bool create,
                         int64_t revision)
{
    if (transaction->compare_count == COMPARES_MAX) {
        abort();
    }
    transaction->compares[transaction->compare_count++] =
        (struct compare){key, create, revision};
}

static struct change *add_change(struct transaction *transaction)
{
    if (transaction->change_count == CHANGES_MAX) {
        abort();
    }
    struct change *change = &transaction->changes[transaction->change_count++];
    memset(change, 0, sizeof *change);
    return change;
}

union value *transaction_put(struct transaction *transaction, int32_t key,
                             uint32_t lease)
{
    struct change *change = add_change(transaction);
    change->key = key;
    change->lease = lease;
    return &change->value;
}

void transaction_remove(struct transaction *transaction, int32_t key)
{
    struct change *change = add_change(transaction);
    change->key = key;
    change->remove = true;
}
