/*
 * A disk in memory that keeps only what was flushed when its power is cut.
 *
 *     struct fake_disk *fake = fake_disk_new(seed);
 *     ... use &fake->disk ...
 *     fake_disk_stop_after(fake, 17);      // the 18th change and all later ones fail
 *     ...
 *     fake_disk_power_cut(fake);           // by the seed: lost, kept or torn
 *
 * What a power cut does. Each 512-byte sector that differs from its flushed state is
 * the old or the new one; a size is the old, the new or one between (zeros where no
 * sector came through). Names (creation, rename, removal) are kept up to some point in
 * their order, as journalling filesystems do. A third of all cuts lose everything
 * unflushed, a third keep everything, a third tear.
 *
 * Directories in a path are not checked but for the last one. One thread at a time.
 */
#ifndef TOPICFS_TEST_FAKE_DISK_H
#define TOPICFS_TEST_FAKE_DISK_H

#include "replica/disk.h"

struct fake_disk {
    struct disk disk; /* first: handed out as such */
    struct fake_disk_state *state;
};

struct fake_disk *fake_disk_new(uint64_t seed); /* aborts without memory */
void fake_disk_free(struct fake_disk *fake);

/* Changes (writes, truncations, flushes, names) so far. */
int64_t fake_disk_changes(const struct fake_disk *fake);

/* After n more changes, one (or with `sticky` each) fails with -error; a write then has
 * written half of its bytes. error 0 ends it. */
void fake_disk_fail_after(struct fake_disk *fake, int64_t n, int error, bool sticky);
/* After n more changes, nothing works any more until the next cut or crash. */
void fake_disk_stop_after(struct fake_disk *fake, int64_t n);

/* All open files are gone; unflushed data is lost, kept or torn (see above), or kept.
 */
void fake_disk_power_cut(struct fake_disk *fake);
void fake_disk_process_crash(struct fake_disk *fake);

/* Flips a bit of a file, flushed or not. false: no such file or bit. */
bool fake_disk_flip(struct fake_disk *fake, const char *path, int64_t bit);

/* Bytes of the files that have neither a name nor an open handle any more. */
int64_t fake_disk_freed(const struct fake_disk *fake);

/* A number below n, from the seed. */
uint64_t fake_disk_random(struct fake_disk *fake, uint64_t n);

#endif
