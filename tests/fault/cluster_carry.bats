#!/usr/bin/env bats
# A data directory that was used by a single node, mounted as a node of a cluster.
load ../bats/helpers
load cluster

setup() {
    fresh_folder
    mkdir "$C/alone"
}

teardown() {
    ! mountpoint -q "$C/alone" || "$TOPICFS_BIN" umount "$C/alone"
    chattr -i "$C/alone" 2>/dev/null || true
    rmdir "$C/alone"
    end_cluster
}

alone() { # DATA: mounted as the only node
    mkdir -p "$C/data"
    background "$TOPICFS_BIN" mount -f -o "data=$1" "$C/alone" >"$C/alone.log" 2>&1
    ALONE=$!
    wait_for 20 test -e "$C/alone/topics"
}

leave_alone() {
    kill -TERM "$ALONE"
    end_of "$ALONE" 20
}

properties() { # MOUNT
    local topic
    for topic in "$1"/topics/*/; do
        basename "$topic"
        stat -c '%u %g %a' "$topic"
        jq -cS 'del(.replication_factor,.min_insync_replicas)' "$topic/config.json"
        jq -r .id "$1/cluster/brokers/topics/$(basename "$topic")/assignment"
        cat "$topic"/*/log
    done
    stat -c '%u %g %a' "$1/topics"
}

as_before() { # MOUNT
    diff "$C/before" <(properties "$1")
}

min_insync_is() { # MOUNT COUNT
    [ "$(jq .min_insync_replicas "$1/topics/t/config.json")" = "$2" ]
}

owner() { # FILE OWNER: only root can
    [ "$(id -u)" -ne 0 ] || chown "$2" "$1"
}

@test "the topics of a single node go along to its cluster, as they are" {
    alone "$C/data/n2"
    mkdir "$C/alone/topics/t" "$C/alone/topics/plain" "$C/alone/topics/gone"
    echo '{"retention_ms":"30d","key_delimiter":";","flush":"os"}' \
        >"$C/alone/topics/t/config.json"
    mkdir "$C/alone/topics/t/1"
    echo '{"max_message_bytes":4096}' >"$C/alone/topics/t/config.json"
    seq 1000 >>"$C/alone/topics/t/0/log"
    echo 'a;b' >>"$C/alone/topics/t/1/log"
    echo one >>"$C/alone/topics/plain/0/log"
    owner "$C/alone/topics/t" 1234:2345
    chmod 2750 "$C/alone/topics/t"
    chmod 1777 "$C/alone/topics"
    rmdir "$C/alone/topics/gone"
    properties "$C/alone" >"$C/before"
    leave_alone

    # The other nodes may be there before it.
    bring_up 3
    local k
    for k in 1 2 3; do
        wait_for 10 test -e "$C/n$k/topics/t/1/log"
        wait_for 10 test -e "$C/n$k/topics/plain/0/log"
        wait_for 10 as_before "$C/n$k" || as_before "$C/n$k"
    done
    wait_for 10 no_problems
    [ ! -e "$C/data/n2/store" ]
    [ -e "$C/data/n2/carried/store/store.a" ]
    # From here on it is a topic as any other.
    reassign t n1 '[1,2,3]'
    wait_for 20 all_in_sync t
    wait_for 5 min_insync_is "$C/n2" 2
    echo more >>"$C/n3/topics/t/0/log"
    wait_for 10 same_everywhere t
    run -0 diff <(seq 1000; echo more) "$C/n1/topics/t/0/log"
    echo '{"retention_ms":"60d"}' >"$C/n1/topics/t/config.json"
    # The next mount of the node changes nothing.
    "$CLUSTER" stop 2
    "$CLUSTER" start 2
    wait_for 10 all_in_sync t
    wait_for 10 grep -q '"retention_ms":.*5184000000' "$C/n2/topics/t/config.json"
    wait_for 10 same_everywhere t
    run -0 diff <(seq 1000; echo more) "$C/n2/topics/t/0/log"
}

@test "a cluster's own topic of that name stays; the messages that came are kept" {
    bring_up 2
    mkdir "$C/n1/topics/t"
    echo theirs >>"$C/n1/topics/t/0/log"
    alone "$C/data/n3"
    mkdir "$C/alone/topics/t" "$C/alone/topics/u"
    echo mine >>"$C/alone/topics/t/0/log"
    echo '{"retention_ms":"30d"}' >"$C/alone/topics/u/config.json"
    echo too >>"$C/alone/topics/u/0/log"
    # Killed, not stopped: nothing in it depends on a clean end.
    kill -KILL "$ALONE"
    end_of "$ALONE" 10 || true
    fusermount3 -u -z "$C/alone" || umount -l "$C/alone"
    bring_up 3
    run -0 within 10 cat "$C/n3/topics/t/0/log"
    assert_output theirs
    wait_for 10 test -e "$C/n1/topics/u/0/log"
    run -0 within 10 cat "$C/n1/topics/u/0/log"
    assert_output too
    wait_for 10 grep -q 2592000000 "$C/n1/topics/u/config.json"
    run -0 cat "$C/data/n3/stray/t-0/00000000000000000000.log"
    assert_output mine
    wait_for 10 grep -q 'kind=stray t-0' "$C/n3/cluster/problems"
    run -0 grep 'kind=stray t-0' "$C/n3/cluster/problems"
    assert_output --partial "the cluster has another topic of this name"
}

@test "what can't be brought along keeps the node from mounting, and nothing is moved" {
    bring_up 1
    alone "$C/data/late"
    mkdir "$C/alone/topics/u"
    echo mine >>"$C/alone/topics/u/0/log"
    leave_alone
    local copy options
    options="coord=etcd://$(etcd_address),cluster=local,node=9,listen=127.0.0.1:$(free_port)"
    run within 60 "$TOPICFS_BIN" mount -o "$options,role=client,data=$C/data/late" "$C/alone"
    assert_failure 1
    assert_output --partial "role=client keeps none"
    for copy in a b; do
        cp "$C/data/late/store/store.$copy" "$C/$copy"
        printf '#########' | dd of="$C/data/late/store/store.$copy" bs=1 seek=40 conv=notrunc \
            status=none
    done
    run within 60 "$TOPICFS_BIN" mount -o "$options,data=$C/data/late" "$C/alone"
    assert_failure 1
    assert_output --partial "store.a"
    for copy in a b; do mv "$C/$copy" "$C/data/late/store/store.$copy"; done
    [ "$(cat "$C/data/late/u-0/00000000000000000000.log")" = mine ]
    run -0 within 60 "$TOPICFS_BIN" mount -o "$options,data=$C/data/late" "$C/alone"
    run -0 cat "$C/alone/topics/u/0/log"
    assert_output mine
}
