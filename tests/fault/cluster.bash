# A cluster of its own for each test: load it behind ../bats/helpers.
#
#     setup() { fresh_cluster 3; }      # $C is the folder, $C/n1 ... the mounts; sessions
#                                       # are of $SESSION_S seconds, 2 without it; $OPTIONS:
#                                       # more mount options
#     teardown() { end_cluster; }     # fails if a node does not end, or a sanitizer reported

CLUSTER=$REPOSITORY/mountscripts/cluster
LINES=$REPOSITORY/tests/fault/cluster_lines.py

fresh_cluster() { # NODES [ARGUMENT of up...]
    fresh_folder
    bring_up "$@"
}

# Likewise; the data of some nodes is on disks of their own, which fill_disk fills.
fresh_cluster_on_small_disks() { # NODES SIZE NODE...
    local k
    needs_root "mount small disks"
    fresh_folder
    for k in "${@:3}"; do
        mkdir -p "$C/data/n$k"
        mount -t tmpfs -o "size=$2,mode=700" topicfs-test "$C/data/n$k"
        DISKS+=("$C/data/n$k")
    done
    bring_up "$1"
}

# The folder of a cluster that bring_up makes later, in parts perhaps.
fresh_folder() {
    CHILDREN=()
    DISKS=()
    C=$(mktemp -d /tmp/topicfs-test.XXXXXX)
    export TOPICFS_CLUSTER_DIR=$C
}

bring_up() { # NODES [ARGUMENT of up...]
    # Sessions that end soon, so that no test waits long for what is not refused.
    within 60 "$CLUSTER" up "$@" \
        -o "session_timeout_ms=$((${SESSION_S:-2} * TOPICFS_TEST_SLOW))s${OPTIONS:+,$OPTIONS}" >/dev/null
}

end_cluster() {
    local pid log disk said status=0
    [ -n "${C-}" ] || return 0
    for pid in "${CHILDREN[@]}"; do
        kill -CONT "$pid" 2>/dev/null || true
        kill -KILL "$pid" 2>/dev/null || true
    done
    # A process that is stopped would keep whoever looks at its mount.
    cat "$C"/run/*.pid 2>/dev/null | while read -r pid _; do
        kill -CONT "$pid" 2>/dev/null || true
    done || true
    if [ -z "${BATS_TEST_COMPLETED-}" ]; then
        within 60 "$CLUSTER" status || true
        for log in "$C"/run/n*.log; do
            [ -e "$log" ] || continue
            echo "--- $log"
            tail -n 40 "$log"
        done
    fi
    for disk in "${DISKS[@]}"; do rm -f "$disk/ballast"; done
    said=$(within 90 "$CLUSTER" down 2>&1 >/dev/null) || status=1
    # It says something only of a node that does not end on SIGTERM.
    [ -z "$said" ] || {
        echo "$said"
        status=1
    }
    # The disks are under the data of nodes: they go when these have gone.
    for disk in "${DISKS[@]}"; do umount "$disk" || umount -l "$disk" || status=1; done
    ! sanitizer_reported "$C"/run/n*.log || status=1
    within 90 "$CLUSTER" down --delete >/dev/null || status=1
    # What the test itself made.
    chattr -i "$C"/*/ 2>/dev/null || true
    rm -rf --one-file-system "$C" || status=1
    return "$status"
}

# Fills a node's small disk but for a little, until empty_disk.
fill_disk() { # NODE KIB_LEFT
    local free
    free=$(df --output=avail "$C/data/n$1" | tail -n 1)
    head -c $(((free - $2) * 1024)) /dev/zero >"$C/data/n$1/ballast"
}

empty_disk() { # NODE
    rm "$C/data/n$1/ballast"
}

cluster_topic() { # NAME [JSON]: three replicas, and every node has it, with these settings
    mkdir "$C/n1/topics/$1"
    [ -z "${2-}" ] || printf '%s' "$2" >"$C/n1/topics/$1/config.json"
    wait_for 10 known_everywhere "$1"
}

# known_everywhere TOPIC: every node has it, with n1's settings, and somebody leads. Whoever looks
# at a log that is not kept there begins a copy, so that is not done.
known_everywhere() {
    local mount
    for mount in "$C"/n[0-9]*; do
        [ -d "$mount/topics/$1/0" ] || return 1
        cmp -s "$C/n1/topics/$1/config.json" "$mount/topics/$1/config.json" || return 1
    done
    led "$1"
}

pid_of() { # NODE or member of etcd
    case $1 in
    etcd*) cut -d' ' -f1 "$C/run/$1.pid" ;;
    *) cut -d' ' -f1 "$C/run/n$1.pid" ;;
    esac
}

free_port() {
    "$PYTHON" -c 'import socket
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    print(s.getsockname()[1])'
}

etcd_address() {
    local client
    read -r client _ <"$C/run/etcd1.port"
    echo "127.0.0.1:$client"
}

# restart_preloaded NODE LIBRARY [VARIABLE=VALUE...]: with a library from tests/fault/LIBRARY.c
restart_preloaded() {
    [ -e "$C/run/$2.so" ] ||
        cc -shared -fPIC -D_GNU_SOURCE -o "$C/run/$2.so" "$REPOSITORY/tests/fault/$2.c"
    "$CLUSTER" stop "$1"
    env "LD_PRELOAD=$C/run/$2.so" "${@:3}" "$CLUSTER" start "$1"
}

# State changes of partition 0, as the store counts them.
state_writes() { # TOPIC
    ETCDCTL_API=3 etcdctl --endpoints "$(etcd_address)" -w json get \
        "/topicfs/local/brokers/topics/$1/partitions/0/state" | jq -e '.kvs[0].version'
}

# What an operator writes to the files of cluster/admin, for partition 0 of a topic.
reassign() { # TOPIC MOUNT REPLICAS: a list as in JSON
    printf '{"version":1,"partitions":[{"topic":"%s","partition":0,"replicas":%s}]}\n' "$1" "$3" \
        >"$C/$2/cluster/admin/reassign_partitions"
}

elect_preferred() { # TOPIC MOUNT
    printf '{"version":1,"partitions":[{"topic":"%s","partition":0}]}\n' "$1" \
        >"$C/$2/cluster/admin/preferred_replica_election"
}

state_of() { # TOPIC KEY [MOUNT]
    jq -c ".$2" "$C/${3:-n1}/topics/$1/0/state"
}

led_by_other() { # TOPIC NODE MOUNT: another node than that leads
    local now
    now=$(state_of "$1" leader "$3") && [ "$now" -gt 0 ] && [ "$now" != "$2" ]
}

# For what is not to happen meanwhile.
seconds_later() {
    local until=$(($(now_ms) + $1 * 1000))
    until [ "$(now_ms)" -ge "$until" ]; do sleep 0.1; done # the time itself is what is asked for
}

session_over() { # NODE MOUNT
    [ -e "$C/$2/cluster/brokers/ids" ] && [ ! -e "$C/$2/cluster/brokers/ids/$1" ]
}

led() { # TOPIC
    [ "$(state_of "$1" leader)" -gt 0 ]
}

all_in_sync() { # TOPIC: on every mount, three
    local mount
    for mount in "$C"/n[0-9]*; do
        [ "$(state_of "$1" 'isr|length' "${mount##*/}")" = 3 ] || return 1
    done
}

same_everywhere() { # TOPIC
    local mount
    for mount in "$C"/n[0-9]*; do
        cmp -s "$C/n1/topics/$1/0/log" "$mount/topics/$1/0/log" || return 1
    done
}

# copied MOUNT: something was, of partitions that the node keeps no replica of.
copied() {
    [ -n "$(find "$C/data/$1/observers" -name '*.log' -size +0)" ]
}

controller_of() { # MOUNT
    jq .brokerid "$C/$1/cluster/controller"
}

one_controller() {
    local mount first
    first=$(controller_of n1) && [ "$first" -gt 0 ] || return 1
    for mount in "$C"/n[0-9]*; do
        [ "$(controller_of "${mount##*/}")" = "$first" ] || return 1
    done
}

no_problems() {
    local mount text
    for mount in "$C"/n[0-9]*; do
        text=$(cat "$mount/cluster/problems") && [ -z "$text" ] || return 1
    done
}

# Writers on the mounts of these nodes; their notes in $C/notes-K.
start_writers() { # NODE...
    local k
    WRITERS=()
    for k in "$@"; do
        background "$PYTHON" "$LINES" write "$C/n$k/topics/t/0/log" "w$k" "$C/notes-$k"
        WRITERS+=("$!")
    done
    for k in "$@"; do wait_for 20 lines_in "$C/notes-$k" 20; done
}

# progress NODE: twenty more acknowledged lines of that node's writer.
progress() {
    local before
    before=$(grep -c '^ok' "$C/notes-$1")
    wait_for 20 more_acknowledged "$1" "$((before + 20))"
}

more_acknowledged() {
    [ "$(grep -c '^ok' "$C/notes-$1")" -ge "$2" ]
}

stop_writers() {
    local pid
    for pid in "${WRITERS[@]}"; do
        kill -TERM "$pid"
        end_of "$pid" 40
    done
}

# Looks at the log of t on all mounts, all the time; in $C/seen-K what was seen.
watch_logs() {
    local mount
    WATCHERS=()
    for mount in "$C"/n[0-9]*; do
        background "$PYTHON" "$LINES" grows "$mount/topics/t/0/log" "$C/seen-${mount##*/n}"
        WATCHERS+=("$!")
    done
}

# Nothing that was seen anywhere has disappeared.
all_seen_is_there() {
    local pid seen
    for pid in "${WATCHERS[@]}"; do alive "$pid" || return 1; done
    for seen in "$C"/seen-*; do
        head -c "$(stat -c %s "$seen")" "$C/n1/topics/t/0/log" | cmp - "$seen" || return 1
    done
}

# Everything is in sync again, and what the writers noted is true on all mounts.
settle_and_check() { # TOPIC
    wait_for 30 all_in_sync "$1"
    wait_for 10 same_everywhere "$1"
    "$PYTHON" "$LINES" check "$C" "$1" "$C"/notes-*
}
