#!/usr/bin/env bats
# kill -9 at any moment under load: every acknowledged line is there, none torn, none twice.
load ../bats/helpers
setup() {
    WORK=$(mktemp -d /tmp/topicfs-test.XXXXXX)
    DATA=$WORK/data
    MNT=$WORK/mnt
    DAEMON_LOG=$WORK/daemon.log
    CHILDREN=()
    DAEMON=
    mkdir "$MNT"
    : >"$DAEMON_LOG"
}
teardown() { end_mount; }

@test "${KILL_ROUNDS:-120} random kills under parallel load" {
    "$PYTHON" "$REPOSITORY/tests/fault/kill9.py" "$TOPICFS_BIN" "$WORK" "${KILL_ROUNDS:-120}"
    # What it left is sound, by the daemon's own check.
    run -0 "$TOPICFS_BIN" check "$DATA"
}
