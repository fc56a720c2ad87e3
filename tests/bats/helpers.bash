# What every bats file shares: a mount of the built binary on directories of its own, waiting
# for conditions with a bound, and a teardown that leaves nothing behind.
#
#     load helpers
#     setup() { fresh_mount; }          # $MNT, $DATA, $DAEMON_LOG; options may be given
#     teardown() { end_mount; }
#     @test "..." { new_topic t; echo hi >>"$MNT/topics/t/0/log"; }
#
# $TOPICFS_BIN is the binary (default build/dev/topicfs). $TOPICFS_TEST_SLOW stretches all
# time bounds, for sanitizer builds. A sanitizer's report in the daemon's log, or a daemon
# that does not end cleanly on SIGTERM, fails the test.
bats_require_minimum_version 1.5.0
bats_load_library bats-support
bats_load_library bats-assert

export LC_ALL=C.UTF-8
REPOSITORY=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
TOPICFS_BIN=${TOPICFS_BIN:-$REPOSITORY/build/dev/topicfs}
TOPICFS_TEST_SLOW=${TOPICFS_TEST_SLOW:-1}
# Not whatever shim stands first in PATH: tests start it hundreds of times.
PYTHON=/usr/bin/python3
export TOPICFS_BIN TOPICFS_TEST_SLOW

# --- what a test needs -----------------------------------------------------------------

# lacking WHAT: skips the test for want of it. In CI, where $CI is set, nothing may be missing.
lacking() {
    if [ -n "${CI-}" ]; then
        fail "missing: $1"
    else
        skip "missing: $1"
    fi
}

needs_root() { # TO DO WHAT
    [ "$(id -u)" -eq 0 ] || lacking "root, to $1"
}

# sanitizer_reported LOG...: and says where.
sanitizer_reported() {
    grep -HE 'ERROR: (Address|Leak|Thread)Sanitizer|WARNING: ThreadSanitizer|runtime error:' "$@"
}

# --- waiting ---------------------------------------------------------------------------

now_ms() {
    local now=$EPOCHREALTIME
    echo $((${now/[.,]/} / 1000))
}

# wait_for SECONDS COMMAND...: until the command succeeds; 1 if it does not in time.
wait_for() {
    local deadline=$(($(now_ms) + $1 * 1000 * TOPICFS_TEST_SLOW))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(now_ms)" -lt "$deadline" ] || {
            echo "not in time: $*"
            return 1
        }
        sleep 0.02 # the pace of looking
    done
}

# within SECONDS COMMAND...: runs it; 124 if it takes longer (it is killed then).
within() {
    local seconds=$(($1 * TOPICFS_TEST_SLOW))
    shift
    timeout -k 2 "$seconds" "$@"
}

# Starts a command in the background; $! is its pid; teardown ends it. Redirect at the call.
background() {
    "$@" 3>&- 4>&- &
    CHILDREN+=("$!")
}

# ended PID: it is gone, or a zombie that nobody has waited for. A zombie with threads that the
# kernel does not let go has not ended: it keeps its files and locks, and can't be waited for.
ended() {
    local state tasks
    state=$(awk '{print $3}' "/proc/$1/stat" 2>/dev/null) || return 0
    [ -n "$state" ] || return 0
    [ "$state" = Z ] || return 1
    tasks=("/proc/$1/task"/*)
    [ "${#tasks[@]}" -le 1 ]
}

alive() {
    ! ended "$1"
}

# end_of PID SECONDS: waits for the end of a child and returns its exit status.
end_of() {
    wait_for "$2" ended "$1" || return 124
    wait "$1"
}

# blocked PID: it sleeps interruptibly (as a parked read or write does).
blocked() {
    local state
    state=$(awk '{print $3}' "/proc/$1/stat") && [ "$state" = S ]
}

has_open() { # PID PATH: a file whose name ends so; the kernel may have forgotten the name
    readlink "/proc/$1/fd"/* | grep -qE "/$2( \(deleted\))?\$"
}

# waits_at PID PATH: blocked in that file, which it has opened. What is opened at its end ends
# there, whatever comes then.
waits_at() {
    has_open "$1" "$2" && blocked "$1"
}

lines_in() { # FILE NUMBER: has at least that many lines
    [ "$(wc -l <"$1")" -ge "$2" ]
}

# never_stuck PID...: none of them stays in uninterruptible sleep for five seconds.
never_stuck() {
    local pid state round
    for pid in "$@"; do
        for ((round = 0; round < 50; round++)); do
            state=$(awk '{print $3}' "/proc/$pid/stat" 2>/dev/null) || break
            [ "$state" = D ] || break
            sleep 0.1
        done
        [ "$round" -lt 50 ] || {
            echo "pid $pid ($(cat "/proc/$pid/comm")) is in D for 5 s"
            return 1
        }
    done
}

# --- the mount -------------------------------------------------------------------------

# fresh_mount [OPTIONS]: an empty data directory, mounted. A file may define prepare_data, which
# is called before, to make $DATA something else than a new directory.
fresh_mount() {
    CHILDREN=()
    DAEMON=
    WORK=$(mktemp -d /tmp/topicfs-test.XXXXXX)
    # Others have to get to the mount in tests of permissions.
    chmod 755 "$WORK"
    DATA=$WORK/data
    MNT=$WORK/mnt
    DAEMON_LOG=$WORK/daemon.log
    mkdir "$MNT"
    : >"$DAEMON_LOG"
    # For scripts in other languages.
    export WORK DATA MNT
    if declare -F prepare_data >/dev/null; then
        prepare_data
    fi
    start_daemon "$@"
}

# start_daemon [OPTIONS]: mounts $DATA on $MNT; returns when it answers.
start_daemon() {
    "$TOPICFS_BIN" mount -f -o "data=$DATA${1:+,$1}" "$MNT" \
        </dev/null >>"$DAEMON_LOG" 2>&1 3>&- 4>&- &
    DAEMON=$!
    local deadline=$(($(now_ms) + 30000 * TOPICFS_TEST_SLOW))
    # Attributes of a mount that died may still be cached: only an open goes to the daemon.
    until mountpoint -q "$MNT" && { : <"$MNT/cluster/controller"; } 2>/dev/null; do
        if ended "$DAEMON"; then
            echo "the daemon ended while starting:"
            tail -n 20 "$DAEMON_LOG"
            DAEMON=
            return 1
        fi
        [ "$(now_ms)" -lt "$deadline" ] || {
            echo "no mount after 30 s"
            return 1
        }
        sleep 0.02
    done
}

daemon_pid() {
    echo "$DAEMON"
}

# Ends the daemon with SIGTERM; fails unless it ends in time with status 0.
stop_daemon() {
    kill -TERM "$DAEMON"
    local status=0
    end_of "$DAEMON" 20 || status=$?
    [ "$status" -eq 0 ] || {
        echo "the daemon answered SIGTERM with status $status"
        return 1
    }
    DAEMON=
    ! mountpoint -q "$MNT" || {
        echo "still mounted after SIGTERM"
        return 1
    }
}

# Kills the daemon as a crash would, and clears the dead mount.
kill9() {
    kill -KILL "$DAEMON"
    end_of "$DAEMON" 10 || true
    DAEMON=
    fusermount3 -u -z "$MNT" || umount -l "$MNT"
}

# remount [OPTIONS]: a clean stop and a new start, with other options perhaps.
remount() {
    stop_daemon
    start_daemon "$@"
}

end_mount() {
    local status=0 pid
    [ -n "${WORK-}" ] || return 0
    for pid in "${CHILDREN[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
    done
    if [ -n "$DAEMON" ]; then
        stop_daemon || {
            status=1
            kill -KILL "$DAEMON" 2>/dev/null || true
            # By force: something may hang, and that ends it.
            umount -f "$MNT" 2>/dev/null || true
            fusermount3 -u -z "$MNT" 2>/dev/null || true
        }
    fi
    ! mountpoint -q "$MNT" 2>/dev/null || fusermount3 -u -z "$MNT" || true
    ! sanitizer_reported "$DAEMON_LOG" || status=1
    if [ "$status" -ne 0 ] || [ -z "${BATS_TEST_COMPLETED-}" ]; then
        echo "--- the daemon's log"
        tail -n 100 "$DAEMON_LOG"
        echo "---"
    fi
    chattr -i "$MNT" 2>/dev/null || true
    ! mountpoint -q "$DATA" || umount -l "$DATA"
    rm -rf --one-file-system "$WORK"
    return "$status"
}

# --- topics ----------------------------------------------------------------------------

# new_topic NAME [JSON [PARTITIONS]]: makes it, with settings and further partitions.
new_topic() {
    mkdir "$MNT/topics/$1"
    [ -z "${2-}" ] || printf '%s' "$2" >"$MNT/topics/$1/config.json"
    local p
    for ((p = 1; p < ${3:-1}; p++)); do
        mkdir "$MNT/topics/$1/$p"
    done
}

setting() { # TOPIC KEY: its present value
    jq -r ".$2" "$MNT/topics/$1/config.json"
}

# --- other languages -------------------------------------------------------------------

# python CODE [ARGUMENT...]: with what most snippets need imported; A is sys.argv[1:].
python() {
    "$PYTHON" -c "import errno, fcntl, json, os, select, signal, subprocess, sys, time
A = sys.argv[1:]
MNT = os.environ['MNT']
$1" "${@:2}"
}

# errno_of CODE [ARGUMENT...]: runs Python code and prints the name of the errno that it
# failed with, or "OK".
errno_of() {
    "$PYTHON" -c "import errno, fcntl, os, sys
A = sys.argv[2:]
MNT = os.environ['MNT']
try:
    exec(sys.argv[1])
    print('OK')
except OSError as e:
    print(errno.errorcode[e.errno])" "$@"
}

# errno_append FILE BYTES: one write(2) with O_APPEND; prints the count or the errno.
# BYTES is a Python bytes expression.
errno_append() {
    "$PYTHON" -c "import errno, os, sys
try:
    fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
    print(os.write(fd, eval(sys.argv[2])))
    os.close(fd)
except OSError as e:
    print(errno.errorcode[e.errno])" "$1" "$2"
}

# same FILE FILE: equal byte for byte; says where they differ.
same() {
    cmp "$1" "$2"
}
