/* Numbers in names: keys of the store, directories of the mount. Pure; any thread. */
#ifndef TOPICFS_NUMBER_H
#define TOPICFS_NUMBER_H

#include <stdint.h>

/* Decimal digits without sign or leading zeros, 0 to maximum. 0 or -EINVAL. */
int number_parse(const char *text, int64_t maximum, int64_t *out);

#endif
