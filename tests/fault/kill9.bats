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
    mkdir "$MNT" "$DATA"
    : >"$DAEMON_LOG"
}
teardown() { end_mount; }

kills() { # ROUNDS
    "$PYTHON" "$REPOSITORY/tests/fault/kill9.py" "$TOPICFS_BIN" "$WORK" "$1"
    # What it left is sound, by the daemon's own check.
    run -0 "$TOPICFS_BIN" check "$DATA"
}

@test "${KILL_ROUNDS:-100} random kills under parallel load, in memory" {
    # A kill leaves the page cache as it is: the fastest disk meets the most states.
    [ "$(id -u)" -ne 0 ] || mount -t tmpfs -o size=1g,mode=700 topicfs-test "$DATA"
    kills "${KILL_ROUNDS:-100}"
}

@test "15 random kills on the disk" {
    kills 15
}
