#!/usr/bin/env bats
# Partitions that a node keeps no replica of: read through a copy, written to by forwarding.
load ../bats/helpers
load cluster
setup() { :; }
teardown() { end_cluster; }

topic_on() { # TOPIC NODE: moved to this node alone
    cluster_topic "$1"
    reassign "$1" n1 "[$2]"
    wait_for 20 only_replica "$1" "$2"
}

# Who has not looked at the topic yet: state_of asks n1, and so begins a copy there.
never_asked() { # LEADER
    echo $((6 - ($1 == 1 ? 4 : $1 + 1)))
}

same_as_led() { # TOPIC LEADER
    local k
    for k in 1 2 3; do
        cmp -s "$C/n$2/topics/$1/0/log" "$C/n$k/topics/$1/0/log" || return 1
    done
}

only_replica() {
    [ "$(state_of "$1" replicas)" = "[$2]" ] && [ "$(state_of "$1" leader)" = "$2" ]
}

@test "a topic with one replica is read and written on every node" {
    OPTIONS=replication_factor=1 fresh_cluster 3
    cluster_topic t
    local k leader a b
    leader=$(state_of t leader)
    a=$(never_asked "$leader")
    b=$((6 - leader - a))
    # No copy is made for a write by key.
    echo 'by key' >>"$C/n$a/topics/t/append"
    run ! copied "n$a"
    run -0 cat "$C/n$leader/topics/t/0/log"
    assert_output 'by key'
    for k in 1 2 3; do echo "from $k" >>"$C/n$k/topics/t/0/log"; done
    wait_for 5 same_as_led t "$leader"
    for k in 1 2 3; do
        run -0 cat "$C/n$k/topics/t/0/log"
        assert_output $'by key\nfrom 1\nfrom 2\nfrom 3'
    done
    copied "n$a"
    run -0 state_of t role "n$a"
    assert_output '"observer"'
    [ "$(state_of t high_watermark "n$a")" = 4 ]
    run -0 cat "$C/n$a/topics/t/0/at/2-2"
    assert_output 'from 2'
    run -0 jq -r .value "$C/n$b/topics/t/0/json/1-1"
    assert_output 'from 1'
    # What was written there can be read there at once.
    for k in 5 6 7 8; do
        echo "line $k" >>"$C/n$a/topics/t/0/log"
        run -0 tail -n 1 "$C/n$a/topics/t/0/log"
        assert_output "line $k"
    done
    # Others are told of it.
    background cat "$C/n$b/topics/t/0/follow/earliest" >"$C/follow"
    echo last >>"$C/n$leader/topics/t/0/log"
    wait_for 5 cmp -s "$C/n$leader/topics/t/0/log" "$C/follow"
    [ "$(state_of t 'isr' "n$a")" = "[$leader]" ]
    wait_for 5 no_problems
}

@test "a node without a replica: durable writes, a leader that is killed, a topic that goes" {
    fresh_cluster 4
    cluster_topic t
    local away leader k
    for k in 1 2 3 4; do
        state_of t replicas | jq -e "index($k)" >/dev/null || away=$k
    done
    seq -f 'a line of some length, with the number %08.0f' 60000 >"$C/big"
    dd if="$C/big" of="$C/n$away/topics/t/0/log" oflag=append conv=notrunc,fsync bs=64k status=none
    run -0 within 20 cmp "$C/big" "$C/n$away/topics/t/0/log"
    start_writers "$away"
    leader=$(state_of t leader "n$away")
    "$CLUSTER" kill "$leader"
    progress "$away"
    "$CLUSTER" start "$leader"
    progress "$away"
    stop_writers
    wait_for 20 same_everywhere t
    # The node starts anew: so does its copy.
    "$CLUSTER" kill "$away"
    "$CLUSTER" start "$away"
    wait_for 20 same_everywhere t
    background cat "$C/n$away/topics/t/0/follow/latest" >"$C/follow"
    local reader=$!
    wait_for 5 has_open "$reader" follow/latest
    rmdir "$C/n$away/topics/t"
    run -1 end_of "$reader" 10 # ESTALE, as everywhere
    wait_for 10 no_problems
}

@test "a partition that moves: a replica becomes an observer, and an observer the replica" {
    fresh_cluster 3
    topic_on t 2
    local k
    for k in 1 2 3 4 5; do echo "line $k" >>"$C/n3/topics/t/0/log"; done
    run -0 tail -n 1 "$C/n3/topics/t/0/log"
    assert_output 'line 5'
    reassign t n1 '[3]'
    wait_for 20 only_replica t 3
    wait_for 10 eval '[ "$(state_of t role n3)" = "\"leader\"" ]'
    run -0 cat "$C/n3/topics/t/0/log"
    assert_output $'line 1\nline 2\nline 3\nline 4\nline 5'
    echo 'line 6' >>"$C/n1/topics/t/0/log"
    run -0 tail -n 1 "$C/n1/topics/t/0/log"
    assert_output 'line 6'
}

@test "role=client: writes by key copy nothing, nor does fsync; what is read is copied" {
    fresh_cluster 3
    cluster_topic t
    mkdir "$C/client"
    run -0 within 60 "$TOPICFS_BIN" mount -o \
        "coord=etcd://$(etcd_address),cluster=local,node=9,role=client,listen=127.0.0.1:0,data=$C/data/client" \
        "$C/client"
    echo one | dd of="$C/client/topics/t/append" oflag=append conv=notrunc,fsync status=none
    run ! copied client
    echo two >>"$C/n1/topics/t/0/log"
    run -0 cat "$C/client/topics/t/0/log"
    assert_output $'one\ntwo'
    copied client
    echo three >>"$C/client/topics/t/0/log"
    run -0 tail -n 1 "$C/client/topics/t/0/log"
    assert_output three
    wait_for 5 eval '[ "$(state_of t "isr|length" client)" = 3 ]'
    run -0 within 30 "$TOPICFS_BIN" umount "$C/client"
    run -0 "$TOPICFS_BIN" check "$C/data/client"
}

http_of() { # NODE PATH [ARGUMENT of curl...]: status, then the body
    local port path=$2
    read -r port <"$C/run/n$1.port"
    shift 2
    curl -s --max-time $((30 * TOPICFS_TEST_SLOW)) -w '\n%{http_code}' "$@" "http://127.0.0.1:$port/$path"
}

@test "over HTTP every node has every partition" {
    OPTIONS=replication_factor=1 fresh_cluster 3
    cluster_topic t
    local leader a b
    leader=$(state_of t leader)
    a=$(never_asked "$leader")
    b=$((6 - leader - a))
    # A write is sent to the leader, and needs no copy; nor does a request that is refused.
    run -0 http_of "$a" topics/t/0 --data-binary $'one\ntwo\n'
    assert_output $'{"base_offset":0,"next_offset":2,"count":2}\n\n200'
    run -0 http_of "$a" topics/t --data-binary $'by key\n'
    assert_line 200
    run -0 http_of "$a" 'topics/t/0?from=x'
    assert_line 400
    run ! copied "n$a"
    run -0 http_of "$leader" topics/t/0
    assert_output $'one\ntwo\nby key\n\n200'
    # A read fetches one.
    run -0 http_of "$a" 'topics/t/0?from=1'
    assert_output $'two\nby key\n\n200'
    copied "n$a"
    run -0 http_of "$a" 'topics/t/0?from=9'
    assert_line 416
    run -0 http_of "$b" topics/t/0/state
    assert_output --partial '"role":"observer"'
    assert_output --partial '"high_watermark":3'
    # What was written through a node can be read there at once; others are told of it.
    background http_of "$b" 'topics/t/0?from=3&wait_ms=20000' >"$C/waited"
    run -0 http_of "$a" topics/t/0 --data-binary four
    run -0 http_of "$a" 'topics/t/0?from=3'
    assert_output $'four\n\n200'
    wait_for 10 grep -q '^200' "$C/waited"
    grep -q '^four' "$C/waited"
    # Nobody to copy it from.
    cluster_topic u
    leader=$(state_of u leader)
    a=$(never_asked "$leader")
    echo '{"delivery_timeout_ms":500}' >"$C/n$a/topics/u/config.json"
    "$CLUSTER" kill "$leader"
    run -0 http_of "$a" topics/u/0
    assert_line 503
    assert_output --partial 'a copy of it was not complete in time'
    "$CLUSTER" start "$leader"
    wait_for 20 no_problems
}
