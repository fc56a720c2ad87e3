/*
 * Public header of the coord layer: who is alive, who leads, what is set; and the small
 * base (errors, buffers, JSON, clock, diagnostics, problems) that all layers share.
 *
 * Other layers include this file and nothing else of coord/.
 */
#ifndef TOPICFS_COORD_H
#define TOPICFS_COORD_H

#include "coord/base64.h"
#include "coord/buf.h"
#include "coord/carry_over.h"
#include "coord/clock.h"
#include "coord/cluster.h"
#include "coord/detector.h"
#include "coord/diag.h"
#include "coord/err.h"
#include "coord/hex.h"
#include "coord/json.h"
#include "coord/leadership.h"
#include "coord/mutation.h"
#include "coord/number.h"
#include "coord/problems.h"
#include "coord/settings.h"
#include "coord/sorted.h"
#include "coord/store_check.h"

#endif
