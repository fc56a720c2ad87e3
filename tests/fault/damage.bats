#!/usr/bin/env bats
# Any single file of the data directory removed, emptied, truncated or bit-flipped: found,
# named, repaired where it can be; never a crash, never wrong bytes.
load ../bats/helpers
setup() {
    WORK=$(mktemp -d /tmp/topicfs-test.XXXXXX)
    DATA=$WORK/prepared
    MNT=$WORK/mnt
    DAEMON_LOG=$WORK/daemon.log
    CHILDREN=()
    DAEMON=
    mkdir "$MNT"
    : >"$DAEMON_LOG"
}
teardown() { end_mount; }

@test "every file, one damage at a time" {
    "$PYTHON" "$REPOSITORY/tests/fault/damage.py" "$TOPICFS_BIN" "$WORK"
}
