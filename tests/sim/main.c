/*
 * Runs seeds: run --seeds N --first SEED [--compact | --groups | --soak] [--trace]
 *
 * Of the replication, with --compact of topics that are compacted, with --groups of a
 * consumer group, with --soak of a group whose members come and go all the time on
 * nodes that stay up.
 *
 * Goes on after a violation; the last line has the counts; exits 1 if there was one.
 * With --stop it ends at the first, which is what the mutations need.
 */
#include "tests/sim/gworld.h"
#include "tests/sim/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct options {
    uint64_t first;
    uint64_t seeds;
    bool trace;
    bool stop;
    bool compact;
    bool groups;
    bool soak;
    bool expect; /* a violation is what is wanted: exits 0 with one, 1 without */
};

static bool take_number(const char *text, uint64_t *out)
{
    char *end = NULL;
    *out = text ? strtoull(text, &end, 10) : 0;
    return text && end != text && *end == '\0';
}

static bool parse(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--seeds") == 0 && take_number(next, &options->seeds)) {
            i++;
        } else if (strcmp(argv[i], "--first") == 0 &&
                   take_number(next, &options->first)) {
            i++;
        } else if (strcmp(argv[i], "--trace") == 0) {
            options->trace = true;
        } else if (strcmp(argv[i], "--compact") == 0) {
            options->compact = true;
        } else if (strcmp(argv[i], "--groups") == 0) {
            options->groups = true;
        } else if (strcmp(argv[i], "--soak") == 0) {
            options->groups = options->soak = true;
        } else if (strcmp(argv[i], "--stop") == 0) {
            options->stop = true;
        } else if (strcmp(argv[i], "--expect-violation") == 0) {
            options->expect = true;
            options->stop = true;
        } else {
            return false;
        }
    }
    return true;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

struct counts {
    uint64_t run;
    uint64_t violations;
    double begin;
};

/* false: that is enough. */
static bool count(const struct options *options, struct counts *counts, bool good,
                  uint64_t seed, const char *violation)
{
    counts->run++;
    if (good) {
        return true;
    }
    counts->violations++;
    (void)printf("seed %" PRIu64 ": %s\n", seed, violation);
    (void)fflush(stdout);
    return !options->stop;
}

static void print_counts(const struct options *options, const struct counts *counts)
{
    double took = seconds() - counts->begin;

    (void)printf("%" PRIu64 " seeds from %" PRIu64 ", %" PRIu64
                 " violations, %.1f s, %.0f seeds/s, ",
                 counts->run, options->first, counts->violations, took,
                 (double)counts->run / took);
}

static void run_replication(const struct options *options, struct counts *counts)
{
    struct world *world = world_new();

    world->compacts = options->compact;
    for (uint64_t i = 0; i < options->seeds; i++) {
        uint64_t seed = options->first + i;
        bool good = world_run(world, seed, options->trace);

        if (!count(options, counts, good, seed, world->violation)) {
            break;
        }
    }
    print_counts(options, counts);
    (void)printf("%" PRIu64 " steps, %" PRIu64 " messages acknowledged", world->steps,
                 world->messages_acknowledged);
    if (options->compact) {
        (void)printf(", %" PRIu64 " compacted away", world->messages_compacted);
    }
    (void)printf("\n");
    world_free(world);
}

static void run_groups(const struct options *options, struct counts *counts)
{
    const struct goptions how = {.trace = options->trace, .soak = options->soak};
    struct gworld *world = gworld_new();

    for (uint64_t i = 0; i < options->seeds; i++) {
        uint64_t seed = options->first + i;
        bool good = gworld_run(world, seed, &how);

        if (!count(options, counts, good, seed, world->violation)) {
            break;
        }
    }
    print_counts(options, counts);
    (void)printf("%" PRIu64 " steps, %" PRIu64 " failovers, %" PRIu64
                 " messages delivered, %" PRIu64 " more than once, %" PRIu64
                 " commits, %" PRIu64 " offsets set, %" PRIu64 " topics deleted",
                 world->steps, world->failovers, world->delivered, world->duplicates,
                 world->commits, world->resets, world->deletions);
    if (options->soak) {
        (void)printf(", %" PRId64 " ms the longest without a reader",
                     world->longest_gap_ms);
    }
    (void)printf("\n");
    gworld_free(world);
}

int main(int argc, char **argv)
{
    struct options options = {.first = 1, .seeds = 1000};
    struct counts counts = {0};

    if (!parse(argc, argv, &options)) {
        (void)fprintf(stderr,
                      "usage: run [--seeds N] [--first SEED] [--compact | --groups | "
                      "--soak] [--trace] [--stop] [--expect-violation]\n");
        return 2;
    }
    counts.begin = seconds();
    if (options.groups) {
        run_groups(&options, &counts);
    } else {
        run_replication(&options, &counts);
    }
    bool bad = options.expect ? counts.violations == 0 : counts.violations > 0;
    return bad ? 1 : 0;
}
