#!/usr/bin/env bash
# What cluster and cluster-node share: processes known by pid files, an etcd member, a mount.
# To be sourced, with $program, the name for messages, and $run, the directory of the pid files
# and logs, set. Each process has a name; $run/NAME.pid has its pid and the time of its start,
# by which a number that was given to another process is told apart.
set -euo pipefail
: "${program:?}" "${run:?}"

repository=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)

fail() {
    echo "$program: $*" >&2
    exit 1
}

wrong_usage() {
    echo "$program: $*; see $program --help" >&2
    exit 16
}

# Prints 64 characters that nobody can guess.
random_word() {
    head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n'
}

# --- processes -------------------------------------------------------------------------

# The 22nd field of stat; the second, a name in parentheses, may have spaces in it. A process
# whose first thread has ended has its ports and files until the last one has.
started_at() { # PID
    local text tasks
    text=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    text=${text##*) }
    if [ "${text%% *}" = Z ]; then
        tasks=("/proc/$1/task"/*)
        [ "${#tasks[@]}" -gt 1 ] || return 1
    fi
    # shellcheck disable=SC2086 # the fields are words
    set -- $text
    echo "${20}"
}

# Prints the pid of the named process; 1 if it does not run.
pid_of() { # NAME
    local pid started
    read -r pid started 2>/dev/null <"$run/$1.pid" || return 1
    [ "$(started_at "$pid")" = "$started" ] || return 1
    echo "$pid"
}

# Starts it apart from this terminal, with its output in $run/NAME.log.
launch() { # NAME COMMAND...
    local name=$1 pid
    shift
    # A process that inherits this script's other files would keep pipes of callers open.
    setsid "$@" </dev/null >>"$run/$name.log" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
    pid=$!
    disown "$pid"
    echo "$pid $(started_at "$pid" || echo gone)" >"$run/$name.pid"
}

# Waits until the named process is gone; 1 if it is not after that many seconds.
wait_gone() { # NAME SECONDS
    local deadline=$((SECONDS + $2))
    while pid_of "$1" >/dev/null; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.05
    done
    rm -f "$run/$1.pid"
}

# Sends a signal and waits for the end. Fine if it does not run.
end_process() { # NAME SIGNAL SECONDS
    local pid
    if pid=$(pid_of "$1"); then
        kill "-$2" "$pid" 2>/dev/null || true
        wait_gone "$1" "$3" || fail "$1 (process $pid) has not ended $3 s after SIG$2"
    fi
    rm -f "$run/$1.pid"
}

show_log() { # NAME
    echo "--- the end of $run/$1.log" >&2
    tail -n 5 "$run/$1.log" >&2 || true
}

# --- etcd ------------------------------------------------------------------------------

# launch_etcd NAME DATA MEMBER CLIENT_URL PEER_URL CLUSTER [ARGUMENT...]
launch_etcd() {
    local name=$1 data=$2 member=$3 client=$4 peer=$5 members=$6
    shift 6
    # Votes within half a second, so that nodes hardly notice a member's end. etcd keeps all
    # revisions unless it is told to compact.
    launch "$name" env -u ETCDCTL_API etcd --name "$member" --data-dir "$data" \
        --listen-client-urls "$client" --advertise-client-urls "$client" \
        --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" \
        --initial-cluster "$members" --initial-cluster-state new \
        --heartbeat-interval=50 --election-timeout=500 --pre-vote=true \
        --auto-compaction-mode=revision --auto-compaction-retention=10000 \
        --logger=zap --log-level=warn "$@"
}

# A member that has lost the majority may wait without end for somebody to lead in its place.
# Killing it costs nothing: what it acknowledged is on disk.
end_etcd() { # NAME
    local pid
    ! pid=$(pid_of "$1") || kill -TERM "$pid" 2>/dev/null || true
    wait_gone "$1" 5 || end_process "$1" KILL 10
}

# A read that needs the majority of the members.
etcd_answers() { # CLIENT_URL
    ETCDCTL_API=3 etcdctl --endpoints "$1" --dial-timeout=1s --command-timeout=2s \
        get /topicfs/is-there >/dev/null 2>&1
}

# --- mounts ----------------------------------------------------------------------------

# Sets $topicfs; builds it where a checkout has no binary yet.
find_topicfs() {
    local log
    topicfs=${TOPICFS_BIN:-$repository/build/release/topicfs}
    [ ! -x "$topicfs" ] || return 0
    [ -z "${TOPICFS_BIN-}" ] || fail "TOPICFS_BIN: there is no program $topicfs"
    if [ ! -e "$repository/CMakeLists.txt" ]; then
        topicfs=$(command -v topicfs) || fail "no topicfs in PATH"
        return 0
    fi
    echo "$program: building topicfs"
    log=$(mktemp)
    (cd "$repository" && cmake --preset release -DBUILD_TESTING=OFF &&
        cmake --build --preset release) >"$log" 2>&1 || {
        cat "$log" >&2
        rm -f "$log"
        fail "the build failed"
    }
    rm -f "$log"
}

# statfs is asked of the daemon each time; anything else may come from the kernel's cache.
mount_answers() { # MOUNTPOINT
    mountpoint -q "$1" 2>/dev/null && timeout -s KILL 5 stat -f "$1" >/dev/null 2>&1 &&
        [ -d "$1/topics" ]
}

# Waits until the named daemon's mount answers; fails as soon as the daemon has ended.
wait_mounted() { # NAME MOUNTPOINT SECONDS
    local deadline=$((SECONDS + $3))
    until mount_answers "$2"; do
        pid_of "$1" >/dev/null || {
            rm -f "$run/$1.pid"
            show_log "$1"
            fail "$1 could not be mounted at $2"
        }
        [ "$SECONDS" -lt "$deadline" ] || {
            show_log "$1"
            fail "$1: no mount at $2 after $3 s"
        }
        sleep 0.05
    done
}

# After a kill: wakes whoever waits for an answer, then takes the dead mount away.
clear_mount() { # MOUNTPOINT
    # mountpoint(1) can't look at a dead mount.
    while grep -qF " ${1// /\\040} " /proc/self/mountinfo; do
        if [ "$(id -u)" -eq 0 ]; then
            umount -f "$1" 2>/dev/null || umount -l "$1"
        else
            fusermount3 -u -z "$1"
        fi
    done
}
