#!/usr/bin/env bats
# How soon the death of a process is noticed, and what it costs where a live one is taken for
# dead.
load ../bats/helpers
load cluster
setup() { :; }
teardown() { end_cluster; }

# Whoever leads, it is not the controller.
lead_elsewhere() { # TOPIC
    local controller replicas
    controller=$(controller_of n1)
    [ "$(state_of "$1" leader)" = "$controller" ] || return 0
    replicas=$(jq -c --argjson c "$controller" '.replicas - [$c] + [$c]' "$C/n1/topics/$1/0/state")
    reassign "$1" n1 "$replicas"
    wait_for 10 has_replicas "$1" "$replicas"
    elect_preferred "$1" n1
    wait_for 10 all_led_by_other "$1" "$controller"
}

has_replicas() { # TOPIC LIST
    local mount
    for mount in "$C"/n[0-9]*; do
        [ "$(state_of "$1" replicas "${mount##*/}")" = "$2" ] || return 1
    done
}

all_led_by_other() { # TOPIC NODE
    local mount
    for mount in "$C"/n[0-9]*; do
        led_by_other "$1" "$2" "${mount##*/}" || return 1
    done
}

# goes_on_without NODE: after kill -9 of it, a line from another's mount is acknowledged, long
# before the session of the dead one ends.
goes_on_without() {
    local other=$(($1 % 3 + 1)) start
    kill -KILL "$(pid_of "$1")"
    start=$(now_ms)
    run -0 within 20 bash -c "echo 'without $1' >>'$C/n$other/topics/t/0/log'"
    echo "# without node $1: $(($(now_ms) - start)) ms" >&3
    [ $(($(now_ms) - start)) -lt $((5000 * TOPICFS_TEST_SLOW)) ]
    "$CLUSTER" kill "$1"
    "$CLUSTER" start "$1"
    wait_for 20 all_in_sync t
}

@test "kill -9 of any node: writes go on long before its session ends" {
    SESSION_S=30 fresh_cluster 3
    cluster_topic t
    wait_for 10 one_controller
    wait_for 10 all_in_sync t
    lead_elsewhere t
    local controller leader
    controller=$(controller_of n1)
    leader=$(state_of t leader)
    goes_on_without $((6 - controller - leader))
    goes_on_without "$controller"
    goes_on_without "$leader"
    wait_for 10 same_everywhere t
    run -0 wc -l <"$C/n1/topics/t/0/log"
    assert_output 3
}

# There is no topic: nobody misses what it would have led or kept.
@test "kill -9 of a node with nothing to do: it is gone from the brokers long before that" {
    SESSION_S=30 fresh_cluster 4
    wait_for 10 one_controller
    local victim=$(($(controller_of n1) % 4 + 1))
    local other=$((victim % 4 + 1))
    kill -KILL "$(pid_of "$victim")"
    wait_for 5 test ! -e "$C/n$other/cluster/brokers/ids/$victim"
    "$CLUSTER" kill "$victim"
    "$CLUSTER" start "$victim"
}

# ---- a live node is taken for dead ----------------------------------------------------

# Nodes whose connections can be refused, each by a file; leadership moves for nothing else.
fresh_refusing_cluster() {
    SESSION_S=30 OPTIONS=auto_leader_rebalance=false fresh_cluster 3
    mkdir "$C/run/refused"
    cc -shared -fPIC -D_GNU_SOURCE -o "$C/run/refused.so" "$REPOSITORY/tests/fault/refused.c"
    local k
    for k in 1 2 3; do
        "$CLUSTER" stop "$k"
        LD_PRELOAD=$C/run/refused.so REFUSED_DIR=$C/run/refused "$CLUSTER" start "$k"
    done
    cluster_topic t
    wait_for 10 one_controller
    wait_for 10 all_in_sync t
}

# refuse NODE BY...: by these nodes' lights nobody listens there any more.
refuse() {
    local k
    for k in "${@:2}"; do
        cat "$C/run/n$1.port" >>"$C/run/refused/$(pid_of "$k")"
    done
}

# watch_moves MOUNT: in the background; when each new epoch began, in milliseconds.
watch_moves() {
    background watch_epochs "$1" >"$C/run/moves"
    wait_for 5 test -s "$C/run/moves"
}

watch_epochs() {
    local last='' epoch
    while [ ! -e "$C/run/watched" ]; do
        epoch=$(state_of t leader_epoch "$1") || continue
        [ "$epoch" = "$last" ] || echo "$(now_ms) $epoch"
        last=$epoch
        sleep 0.02 # the pace of looking
    done
}

# Behind the line for what was there: one or more, but ten seconds apart (less what a loaded
# machine adds to one and not to the other).
moves_are_rare() {
    touch "$C/run/watched"
    cat "$C/run/moves"
    [ "$(wc -l <"$C/run/moves")" -gt 1 ]
    awk 'NR > 2 && $1 - last < 9000 { exit 1 } { last = $1 }' "$C/run/moves"
}

@test "a firewall between controller and leader: the leader moves once, not again soon" {
    fresh_refusing_cluster
    lead_elsewhere t
    local controller leader third
    controller=$(controller_of n1)
    leader=$(state_of t leader)
    third=$((6 - controller - leader))
    start_writers "$controller" "$leader" "$third"
    watch_moves "n$third"
    refuse "$leader" "$controller"
    wait_for 20 led_by_other t "$leader" "n$third"
    seconds_later 9
    moves_are_rare
    # Those that reach each other went on.
    progress "$third"
    rm "$C"/run/refused/*
    stop_writers
    settle_and_check t
}

@test "no node reaches another, and all reach the store: the partition moves now and then" {
    fresh_refusing_cluster
    start_writers 1 2 3
    watch_moves n1
    refuse 1 2 3
    refuse 2 1 3
    refuse 3 1 2
    # Calls that stand end after ten seconds; from then on everybody refuses all the time.
    seconds_later 22
    moves_are_rare
    rm "$C"/run/refused/*
    stop_writers
    settle_and_check t
}
