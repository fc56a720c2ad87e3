#!/usr/bin/env bats
# A leader that is cut off from its peers, with and without the store: network namespaces, one a
# machine, and a fourth for etcd.
load ../bats/helpers
load cluster
load machines

ETCD=4

setup() {
    make_machines tc 10.213.78 1 2 3 "$ETCD"
    fresh_folder
    NODES=()
    mkdir "$C/run"
    echo 0123456789abcdef0123456789abcdef >"$C/key"
    chmod 600 "$C/key"
}

teardown() {
    [ -n "${C-}" ] || {
        remove_machines
        return 0
    }
    local k pid status=0
    for k in 1 2 3; do
        [ -n "${BATS_TEST_COMPLETED-}" ] || tail -n 20 "$C/run/n$k.log" || true
        pid=${NODES[k]-}
        [ -z "$pid" ] || kill -TERM "$pid" 2>/dev/null || true
    done
    for pid in "${NODES[@]}"; do
        end_of "$pid" 30 || {
            status=1
            kill -KILL "$pid" || true
        }
    done
    for pid in "${CHILDREN[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
    for k in 1 2 3 "$ETCD"; do
        chattr -i "$C/n$k" 2>/dev/null || true
        fusermount3 -q -u -z "$C/n$k" 2>/dev/null || true
    done
    remove_machines
    ! sanitizer_reported "$C"/run/n*.log || status=1
    rm -rf --one-file-system "$C"
    return "$status"
}

start_cluster() {
    local k url=http://$SUBNET.$ETCD
    start_on "$ETCD" etcd --name e --data-dir "$C/etcd" --listen-client-urls "$url:2379" \
        --advertise-client-urls "$url:2379" --listen-peer-urls "$url:2380" \
        --initial-advertise-peer-urls "$url:2380" --initial-cluster "e=$url:2380" \
        --logger=zap --log-level=warn >"$C/run/etcd.log" 2>&1
    for k in 1 2 3; do
        mkdir "$C/n$k"
        start_on "$k" "$TOPICFS_BIN" mount -f -o "coord=etcd://$SUBNET.$ETCD:2379,cluster=cut,node=$k" \
            -o "listen=$SUBNET.$k:9640,advertise=$SUBNET.$k:9640,cluster_key=$C/key" \
            -o "data=$C/d$k,session_timeout_ms=$((2 * TOPICFS_TEST_SLOW))s" "$C/n$k" \
            >"$C/run/n$k.log" 2>&1
        NODES[k]=$!
    done
    for k in 1 2 3; do wait_for 20 test -e "$C/n$k/topics"; done
}

# What a machine sends to its peers gets lost, so that no connection with them works; etcd
# it reaches.
cut_from_peers() { # MACHINE
    local k
    for k in 1 2 3; do
        [ "$k" = "$1" ] || ip -n "$TAG-$1" neigh replace "$SUBNET.$k" dev eth0 \
            lladdr 02:00:00:00:00:01 nud permanent
    done
}

heal() { # MACHINE
    local k
    for k in 1 2 3; do
        [ "$k" = "$1" ] || ip -n "$TAG-$1" neigh del "$SUBNET.$k" dev eth0
    done
}

noted() { # NODE WHAT COUNT
    [ "$(grep -c "^$2 " "$C/notes-$1")" -ge "$3" ]
}

isr_is() { # MOUNT ISR
    [ "$(state_of t isr "$1")" = "$2" ]
}

@test "a leader cut off from its peers refuses, with the store and without; healed, all is right" {
    start_cluster
    cluster_topic t '{"delivery_timeout_ms":1500,"replica_lag_time_max_ms":1500}'
    wait_for 10 all_in_sync t
    local cut other third acknowledged refused
    cut=$(state_of t leader)
    other=$((cut % 3 + 1))
    third=$((other % 3 + 1))
    wait_for 10 grep -q '"delivery_timeout_ms":.*1500' "$C/n$other/topics/t/config.json"
    start_writers "$cut" "$other"

    # Its session goes on, so it keeps the lead, alone.
    cut_from_peers "$cut"
    wait_for 20 isr_is "n$cut" "[$cut]"
    wait_for 20 noted "$cut" EROFS 1
    wait_for 20 isr_is "n$third" "[$cut]"
    acknowledged=$(cat "$C"/notes-* | grep -c '^ok')
    refused=$(grep -c '^EROFS' "$C/notes-$cut")
    wait_for 20 noted "$cut" EROFS "$((refused + 1))"
    [ "$(cat "$C"/notes-* | grep -c '^ok')" = "$acknowledged" ]
    run -0 within 5 grep -c . "$C/n$cut/topics/t/0/log"
    [ "$output" -ge "$acknowledged" ]
    run -0 within 5 head -n 1 "$C/n$other/topics/t/0/log"
    wait_for 20 grep -q 'kind=below-minimum' "$C/n$cut/cluster/problems"
    heal "$cut"
    wait_for 30 all_in_sync t
    progress "$cut"
    progress "$other"

    # Without the store, too: the others go on.
    ip link set "$TAG-$cut" down
    progress "$other"
    refused=$(grep -vc '^ok' "$C/notes-$cut")
    wait_for 20 eval '[ "$(grep -vc "^ok" "$C/notes-'"$cut"'")" -gt '"$refused"' ]'
    run -0 within 5 head -n 1 "$C/n$cut/topics/t/0/log"
    wait_for 20 grep -q kind=store "$C/n$cut/cluster/problems"
    [ "$(state_of t leader "n$other")" != "$cut" ]
    ip link set "$TAG-$cut" up
    progress "$cut"
    progress "$other"
    stop_writers
    settle_and_check t
    wait_for 20 no_problems
}
