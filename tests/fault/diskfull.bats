#!/usr/bin/env bats
# The data directory's disk is full: ENOSPC to writers, reads go on, and appends too, by
# themselves, once there is space.
load ../bats/helpers

# A disk of 16 MiB for the data; teardown of the mount comes first.
prepare_data() {
    mkdir "$DATA"
    mount -t tmpfs -o size=16m,mode=700 topicfs-test "$DATA"
}

setup() {
    needs_root "mount a small disk"
    fresh_mount
    new_topic t '{"segment_bytes": 1048576}'
    LOG=$MNT/topics/t/0/log
    export LOG
}

teardown() {
    end_mount
}

# Fills the disk but for a little with a file that can be removed again.
ballast() { # KIB LEFT
    local free
    free=$(df --output=avail "$DATA" | tail -n 1)
    head -c $(((free - $1) * 1024)) /dev/zero >"$DATA/ballast"
}

# Appends numbered lines until a write fails; prints the errno and how many were stored.
append_until_error() { # FIRST
    "$PYTHON" -c 'import errno, os, sys
n, fd = int(sys.argv[1]), os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
try:
    while True:
        block = b"".join(b"%d %s\n" % (k, b"x" * 200) for k in range(n, n + 50))
        got = os.write(fd, block)
        if got != len(block):
            assert block[got - 1:got] == b"\n", "a short write ends within a line"
            n += block[:got].count(b"\n")
            continue
        n += 50
except OSError as e:
    print(errno.errorcode[e.errno], n)' "$1"
}

numbered() { # COUNT
    awk -v n="$1" 'BEGIN { x = sprintf("%200s", ""); gsub(/ /, "x", x); for (i = 0; i < n; i++) print i, x }'
}

@test "ENOSPC to the writer, reads go on, appends go on after space came" {
    ballast 2000
    run -0 append_until_error 0
    local stored=${output#* }
    [ "${output% *}" = ENOSPC ]
    [ "$stored" -gt 1000 ]
    # Everything that was acknowledged is readable, nothing else.
    run -0 cmp <(numbered "$stored") "$LOG"
    run -0 head -n 1 "$MNT/topics/t/0/at/500"
    assert_output --regexp '^500 '
    run -1 bash -c "head -c 100000 /dev/zero | tr '\0' y | cat >>'$LOG'"
    assert_output --partial "No space left"
    wait_for 5 grep -q . "$MNT/cluster/problems"

    rm "$DATA/ballast"
    echo "after" >>"$LOG"
    run -0 tail -n 1 "$LOG"
    assert_output after
    run -0 cmp <(numbered "$stored"; echo after) "$LOG"
    # The fault is over, and so is its line in problems.
    wait_for 15 test ! -s "$MNT/cluster/problems"
}

@test "a crash and a clean restart on a full disk: everything stored is there" {
    ballast 1500
    run -0 append_until_error 0
    local stored=${output#* } how
    [ "${output% *}" = ENOSPC ]
    for how in kill9 stop_daemon; do
        "$how"
        start_daemon
        run -0 cmp <(numbered "$stored") "$LOG"
        run bash -c "head -c 500000 /dev/zero | tr '\0' y | cat >>'$LOG'"
        assert_failure
    done
    rm "$DATA/ballast"
    echo "after" >>"$LOG"
    run -0 cmp <(numbered "$stored"; echo after) "$LOG"
}

@test "topics and settings on a full disk: an errno, nothing half done, later it works" {
    ballast 0
    head -c 1m /dev/zero >>"$DATA/ballast" 2>/dev/null || true
    local made=OK
    while [ "$made" = OK ]; do
        made=$(errno_of 'os.mkdir(MNT + "/topics/x%d" % len(os.listdir(MNT + "/topics")))')
    done
    [ "$made" = ENOSPC ]
    local before
    before=$(ls "$MNT/topics")
    kill9
    start_daemon
    run -0 ls "$MNT/topics"
    assert_output "$before"
    rm "$DATA/ballast"
    mkdir "$MNT/topics/later"
    echo x >>"$MNT/topics/later/0/log"
    echo '{"flush": "os"}' >"$MNT/topics/later/config.json"
    [ "$(setting later flush)" = os ]
}

@test "many writers on a full disk: none hangs, each line whole, once" {
    ballast 1500
    local i
    for i in 1 2 3 4; do
        background bash -c "for n in {1..4000}; do
            echo $i-\$n-$(printf 'z%.0s' {1..300}) >>'$LOG' || exit 0
            echo $i-\$n >>'$WORK/done.$i'
        done" 2>/dev/null
    done
    local pid
    for pid in "${CHILDREN[@]}"; do
        end_of "$pid" 60
    done
    CHILDREN=()
    run -0 cmp <(cat "$WORK"/done.* | sort) <(cut -d- -f1,2 "$LOG" | sort)
    run grep -vE '^[1-4]-[0-9]+-z{300}$' "$LOG"
    assert_output ""
}
