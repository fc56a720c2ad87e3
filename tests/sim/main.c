/*
 * Runs seeds: run --seeds N --first SEED [--trace]
 *
 * Goes on after a violation; the last line has the counts; exits 1 if there was one.
 * With --stop it ends at the first, which is what the mutations need.
 */
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

int main(int argc, char **argv)
{
    struct options options = {.first = 1, .seeds = 1000};
    if (!parse(argc, argv, &options)) {
        (void)fprintf(stderr,
                      "usage: run [--seeds N] [--first SEED] [--trace] [--stop] "
                      "[--expect-violation]\n");
        return 2;
    }
    struct world *world = world_new();
    uint64_t run = 0;
    uint64_t violations = 0;
    double begin = seconds();
    for (uint64_t i = 0; i < options.seeds; i++) {
        bool good = world_run(world, options.first + i, options.trace);
        run++;
        if (!good) {
            violations++;
            (void)printf("seed %" PRIu64 ": %s\n", options.first + i, world->violation);
            (void)fflush(stdout);
            if (options.stop) {
                break;
            }
        }
    }
    double took = seconds() - begin;
    (void)printf("%" PRIu64 " seeds from %" PRIu64 ", %" PRIu64 " violations, %" PRIu64
                 " steps, %" PRIu64 " messages acknowledged, %.1f s, %.0f seeds/s\n",
                 run, options.first, violations, world->steps,
                 world->messages_acknowledged, took, (double)run / took);
    world_free(world);
    bool bad = options.expect ? violations == 0 : violations > 0;
    return bad ? 1 : 0;
}
