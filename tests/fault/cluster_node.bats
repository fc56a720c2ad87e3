#!/usr/bin/env bats
# cluster-node on three machines: network namespaces of this one, joined by a bridge, with links
# that can be cut.
load ../bats/helpers
load machines

NODE=$REPOSITORY/mountscripts/cluster-node

setup() {
    make_machines tf 10.213.77 1 2 3
    PEERS=$SUBNET.1,$SUBNET.2,$SUBNET.3
    CHILDREN=()
    C=$(mktemp -d /tmp/topicfs-test.XXXXXX)
}

teardown() {
    [ -n "${C-}" ] || {
        remove_machines
        return 0
    }
    local k pid
    for pid in "${CHILDREN[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
    CHILDREN=()
    all_nodes --stop || true
    for k in 1 2 3; do
        [ -n "${BATS_TEST_COMPLETED-}" ] || tail -n 20 "$C/d$k/run/node.log" || true
        chattr -i "$C/m$k" 2>/dev/null || true
    done
    remove_machines
    rm -rf --one-file-system "$C"
}

node() { # MACHINE [ARGUMENT...]
    within 100 nsenter "--net=/run/netns/$TAG-$1" "$NODE" --id "$1" --peers "$PEERS" \
        --mount "$C/m$1" --data "$C/d$1" -o "session_timeout_ms=$((2 * TOPICFS_TEST_SLOW))s" \
        "${@:2}"
}

all_nodes() { # [ARGUMENT...]: the same command everywhere, at once
    local k
    STARTS=()
    for k in 1 2 3; do
        background node "$k" "$@" >"$C/start-$k" 2>&1
        STARTS+=("$!")
    done
    for k in 1 2 3; do
        end_of "${STARTS[k - 1]}" 60 || {
            cat "$C/start-$k"
            return 1
        }
    done
}

leader() {
    jq .leader "$C/m1/topics/t/0/state"
}

same_on_all() {
    cmp -s "$C/m1/topics/t/0/log" "$C/m2/topics/t/0/log" &&
        cmp -s "$C/m1/topics/t/0/log" "$C/m3/topics/t/0/log"
}

other_leads() { # THAN MACHINE: as that machine sees it
    local now
    now=$(jq .leader "$C/m$2/topics/t/0/state") && [ "$now" -gt 0 ] && [ "$now" != "$1" ]
}

three_in_sync() { # MACHINE
    [ "$(jq '.isr|length' "$C/m$1/topics/t/0/state")" = 3 ]
}

with_topic() {
    mkdir "$C/m1/topics/t"
    local k
    for k in 1 2 3; do
        wait_for 10 test -e "$C/m$k/topics/t/0/log"
        echo "from $k" >>"$C/m$k/topics/t/0/log"
    done
    wait_for 10 same_on_all
}

@test "the same command on three machines forms a cluster; again, it changes nothing" {
    all_nodes
    wait_for 10 test -s "$C/m1/cluster/controller"
    local k
    for k in 2 3; do wait_for 10 cmp "$C/m1/cluster/controller" "$C/m$k/cluster/controller"; done
    with_topic
    run -0 cat "$C/m3/topics/t/0/log"
    assert_output $'from 1\nfrom 2\nfrom 3'
    local before
    before=$(cat "$C"/d?/run/*.pid)
    all_nodes
    [ "$(cat "$C"/d?/run/*.pid)" = "$before" ]
    # Who does not know the secret is told nothing.
    local port=9640
    run -0 on 1 curl -s -o /dev/null -w '%{http_code}' -X POST --data-binary x \
        "http://$SUBNET.2:$port/replica/fetch"
    assert_output 403
    run -0 on 1 curl -s -o /dev/null -w '%{http_code}' "http://$SUBNET.2:$port/topics/t/0?from=0"
    assert_output 401
    # A stop and a start: the messages are still there.
    all_nodes --stop
    local mount
    for mount in "$C"/m?; do run ! mountpoint -q "$mount"; done
    all_nodes
    wait_for 20 lines_in "$C/m1/topics/t/0/log" 3
    wait_for 20 same_on_all
    run -0 wc -l <"$C/m2/topics/t/0/log"
    assert_output 3
}

@test "the leader is cut off: the others go on, it refuses; healed, all agree" {
    all_nodes
    with_topic
    wait_for 10 three_in_sync 1
    echo '{"delivery_timeout_ms": 8000}' >"$C/m1/topics/t/config.json"
    local lost f g writer
    lost=$(leader)
    f=$((lost % 3 + 1))
    g=$((f % 3 + 1))
    wait_for 10 grep -q 8000 "$C/m$lost/topics/t/config.json"
    ip link set "$TAG-$lost" down
    background bash -c "echo lost >>'$C/m$lost/topics/t/0/log'" 2>/dev/null
    writer=$!
    # Both began before anybody knew.
    run -0 within 20 bash -c "echo one >>'$C/m$f/topics/t/0/log'"
    run -0 within 20 bash -c "echo two >>'$C/m$g/topics/t/0/log'"
    wait_for 10 other_leads "$lost" "$f"
    # Nothing is acknowledged there; reading goes on, and problems tells why.
    run end_of "$writer" 20
    [ "$status" -ne 0 ]
    [ "$status" -ne 124 ]
    run -0 within 5 grep -c from "$C/m$lost/topics/t/0/log"
    assert_output 3
    wait_for 10 grep -q kind=store "$C/m$lost/cluster/problems"
    ip link set "$TAG-$lost" up
    wait_for 30 three_in_sync "$lost"
    wait_for 10 same_on_all
    run -0 tail -n +4 "$C/m$lost/topics/t/0/log"
    assert_output $'one\ntwo'
    echo three >>"$C/m$lost/topics/t/0/log"
}

@test "wrong calls are told apart" {
    run "$NODE" --id 4 --peers "$PEERS"
    assert_failure 16
    assert_output --partial "--id is from 1 to 3"
    run "$NODE" --id 1 --peers a,b,a
    assert_failure 16
    run "$NODE" --id 1
    assert_failure 16
    run "$NODE" --id 1 --peers 'a;reboot'
    assert_failure 16
    # A minority waits, and says for what.
    run node 1 --wait 5
    assert_failure 1
    assert_output --partial "waiting for the majority"
}
