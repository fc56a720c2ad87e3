#!/usr/bin/env bats
# Three nodes of one cluster on this machine, with a real etcd: forming, replication, and what
# the death of each part does to writers and readers.
load ../bats/helpers
load cluster
setup() { :; }
teardown() { end_cluster; }

@test "a cluster forms; each node reads what any of them wrote" {
    fresh_cluster 3
    wait_for 10 one_controller
    run -0 ls "$C/n2/cluster/brokers/ids"
    assert_output $'1\n2\n3'
    cluster_topic t
    local k
    for k in 1 2 3; do echo "from $k" >>"$C/n$k/topics/t/0/log"; done
    wait_for 10 same_everywhere t
    run -0 cat "$C/n3/topics/t/0/log"
    assert_output $'from 1\nfrom 2\nfrom 3'
    [ "$(state_of t 'replicas|sort')" = '[1,2,3]' ]
    wait_for 10 all_in_sync t
    wait_for 10 no_problems
    # Up again changes nothing.
    run -0 "$CLUSTER" status
    local before=$output
    run -0 within 60 "$CLUSTER" up 3
    run -0 "$CLUSTER" status
    assert_output "$before"
}

@test "tail -f and follow on one mount, append on another, while the third is killed" {
    fresh_cluster 3
    cluster_topic t
    background tail -f -s 0.1 -n +1 "$C/n2/topics/t/0/log" >"$C/tail"
    background cat "$C/n2/topics/t/0/follow/earliest" >"$C/follow"
    start_writers 1
    "$CLUSTER" kill 3
    progress 1
    "$CLUSTER" start 3
    progress 1
    stop_writers
    settle_and_check t
    wait_for 10 cmp "$C/n1/topics/t/0/log" "$C/follow"
    wait_for 10 cmp "$C/n1/topics/t/0/log" "$C/tail"
}

@test "kill -9 of leader, follower and controller under three writers" {
    fresh_cluster 3
    cluster_topic t
    background "$PYTHON" "$LINES" states "$C"
    local states=$! who victim other
    start_writers 1 2 3
    for who in leader follower controller; do
        case $who in
        leader) victim=$(state_of t leader) ;;
        follower) victim=$(state_of t "leader % 3 + 1") ;;
        controller) victim=$(controller_of n1) ;;
        esac
        other=$((victim % 3 + 1))
        "$CLUSTER" kill "$victim"
        progress "$other"
        "$CLUSTER" start "$victim"
        wait_for 30 all_in_sync t
        progress "$victim"
        progress "$other"
    done
    stop_writers
    settle_and_check t
    alive "$states"
    [ "$(cat "$C/run/states-read")" -gt 100 ]
    wait_for 20 no_problems
}

@test "a node that is stopped hands over: no write fails" {
    fresh_cluster 3
    cluster_topic t
    local victim other
    victim=$(state_of t leader)
    other=$((victim % 3 + 1))
    start_writers "$other"
    "$CLUSTER" stop "$victim"
    progress "$other"
    "$CLUSTER" start "$victim"
    progress "$other"
    stop_writers
    settle_and_check t
    run grep -v '^ok' "$C/notes-$other"
    assert_output ""
}

@test "all nodes killed at once: everything acknowledged is there after the start" {
    fresh_cluster 3
    cluster_topic t
    start_writers 1 2 3
    local k
    for k in 1 2 3; do kill -KILL "$(pid_of "$k")"; done
    stop_writers
    run -0 within 60 "$CLUSTER" up 3
    settle_and_check t
    echo "w9 1" >>"$C/n1/topics/t/0/log"
}

@test "a leader that was paused for three sessions, under load, does no harm" {
    fresh_cluster 3
    cluster_topic t
    local victim other epoch
    victim=$(state_of t leader)
    epoch=$(state_of t leader_epoch)
    other=$((victim % 3 + 1))
    watch_logs
    start_writers "$victim" "$other"
    kill -STOP "$(pid_of "$victim")"
    progress "$other"
    sleep "$((6 * TOPICFS_TEST_SLOW))" # three sessions: what is tested
    kill -CONT "$(pid_of "$victim")"
    wait_for 1 led_by_other t "$victim" "n$victim"
    [ "$(state_of t leader_epoch "n$victim")" -gt "$epoch" ]
    progress "$victim"
    progress "$other"
    stop_writers
    settle_and_check t
    all_seen_is_there
}

# Lines "alone<i> 1", appended on a leader whose followers don't answer.
unacknowledged() { # NODE COUNT
    background "$PYTHON" -c 'import os, sys, threading
def write(i):
    try:
        os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND), b"alone%d 1\n" % i)
    except OSError:
        pass
threads = [threading.Thread(target=write, args=(i,)) for i in range(int(sys.argv[2]))]
for t in threads: t.start()
for t in threads: t.join()' "$C/n$1/topics/t/0/log" "$2"
}

@test "a leader comes back with a hundred lines that nobody acknowledged: nothing seen disappears" {
    SESSION_S=4 fresh_cluster 3
    cluster_topic t
    local lost other third k end
    lost=$(state_of t leader)
    other=$((lost % 3 + 1))
    third=$((other % 3 + 1))
    for k in 1 2 3; do
        seq -f "before$k %.0f" 20 >>"$C/n$k/topics/t/0/log"
        seq -f "ok before$k %.0f" 20 >>"$C/notes-before"
    done
    wait_for 10 all_in_sync t
    wait_for 10 same_everywhere t
    watch_logs
    end=$(state_of t log_end_offset "n$lost")
    kill -STOP "$(pid_of "$other")" "$(pid_of "$third")"
    unacknowledged "$lost" 100
    wait_for 5 eval '[ "$(state_of t log_end_offset n'"$lost"')" = '"$((end + 100))"' ]'
    [ "$(state_of t high_watermark "n$lost")" = "$end" ]
    "$CLUSTER" kill "$lost"
    seq -f 'ENOTCONN alone%.0f 1' 0 99 >"$C/notes-alone"
    kill -CONT "$(pid_of "$other")" "$(pid_of "$third")"
    start_writers "$other"
    "$CLUSTER" start "$lost"
    progress "$other"
    wait_for 30 all_in_sync t
    progress "$other"
    stop_writers
    settle_and_check t
    all_seen_is_there
    # A follower's request that waited may have been answered; hardly with more.
    [ "$(grep -c alone "$C/n$lost/topics/t/0/log")" -lt 50 ]
}

@test "a second node with the same id is refused, and the first goes on" {
    SESSION_S=20 fresh_cluster 2
    mkdir "$C/second"
    run within 60 "$TOPICFS_BIN" mount -o \
        "coord=etcd://$(etcd_address),cluster=local,node=1,listen=127.0.0.1:9,data=$C/data/second" \
        "$C/second"
    assert_failure 1
    assert_output --partial "node=1: a node with this id is alive"
    run ! mountpoint -q "$C/second"
    mkdir "$C/n1/topics/t"
    echo hi >>"$C/n1/topics/t/0/log"
    # Killed, it is back at once: its own earlier registration does not keep it out.
    "$CLUSTER" kill 1
    local start
    start=$(now_ms)
    "$CLUSTER" start 1
    [ $(($(now_ms) - start)) -lt $((10000 * TOPICFS_TEST_SLOW)) ] # its session had longer to go
    # What it may show it learns from who leads.
    wait_for 10 grep -q hi "$C/n1/topics/t/0/log"
    run -0 cat "$C/n1/topics/t/0/log"
    assert_output hi
}

@test "a topic is deleted and made anew while a node is away: no old data there" {
    fresh_cluster 3
    cluster_topic t
    seq 1000 >>"$C/n1/topics/t/0/log"
    wait_for 10 same_everywhere t
    "$CLUSTER" kill 3
    run -0 within 20 rmdir "$C/n1/topics/t"
    run -0 within 20 mkdir "$C/n1/topics/t"
    wait_for 10 test ! -s "$C/n2/topics/t/0/log" # the new one is there, too
    run -0 within 60 bash -c "echo new >>'$C/n2/topics/t/0/log'"
    "$CLUSTER" start 3
    wait_for 20 test -e "$C/n3/topics/t/0/log"
    wait_for 20 same_everywhere t
    run -0 cat "$C/n3/topics/t/0/log"
    assert_output new
    [ "$(state_of t log_end_offset n3)" = 1 ]
}

@test "etcd is away: reads and writes go on, problems says so; then it is back" {
    fresh_cluster 3
    cluster_topic t
    start_writers 1
    "$CLUSTER" kill etcd1
    wait_for 10 grep -q kind=store "$C/n1/cluster/problems"
    run -0 within 5 ls "$C/n2/topics/t" "$C/n2/cluster"
    run -0 within 5 head -n 1 "$C/n2/topics/t/0/log"
    progress 1
    # Nothing can be made meanwhile; that it can't is said in time.
    run within 60 mkdir "$C/n1/topics/u"
    assert_failure
    [ "$status" -ne 124 ]
    "$CLUSTER" start etcd1
    wait_for 20 no_problems
    progress 1
    stop_writers
    settle_and_check t
    run -0 within 20 mkdir "$C/n1/topics/u2"
}

@test "one of three members of etcd is killed: nobody notices" {
    fresh_cluster 3 --etcd 3
    cluster_topic t
    start_writers 1 2
    local member
    for member in etcd1 etcd2 etcd3; do
        "$CLUSTER" kill "$member"
        progress 1
        "$CLUSTER" start "$member"
        progress 2
    done
    stop_writers
    settle_and_check t
    run grep -hv '^ok' "$C/notes-1" "$C/notes-2"
    assert_output ""
    wait_for 20 one_controller
}

@test "the longest line that is accepted is replicated, from any mount; a longer one is refused" {
    fresh_cluster 3
    cluster_topic t
    echo '{"max_message_bytes":67108864}' >"$C/n1/topics/t/config.json"
    local k
    wait_for 10 grep -q '"max_message_bytes":.*67108864' "$C/n1/topics/t/config.json"
    wait_for 10 known_everywhere t # whoever leads judges the lines of all mounts
    for k in 1 2 3; do
        run -0 within 60 "$PYTHON" -c 'import sys
line = b"x" * (64 << 20) + b"\n"
log = open(sys.argv[1], "ab", 0)
at = 0
while at < len(line):
    at += log.write(line[at:at + (1 << 20)])
try:
    long = b"y" * ((64 << 20) + 1) + b"\n"
    at = 0
    while at < len(long):
        at += log.write(long[at:at + (1 << 20)])
    sys.exit("a line above the limit was accepted")
except OSError as e:
    assert e.errno == 90, e' "$C/n$k/topics/t/0/log"
    done
    echo short >>"$C/n2/topics/t/0/log"
    wait_for 20 same_everywhere t
    [ "$(stat -c %s "$C/n3/topics/t/0/log")" = $((3 * 67108865 + 6)) ]
    wait_for 20 all_in_sync t
}

@test "cluster says what it can't do; down leaves nothing running" {
    C=
    TOPICFS_CLUSTER_DIR=$(mktemp -u /tmp/topicfs-test.XXXXXX)
    export TOPICFS_CLUSTER_DIR
    run -1 "$CLUSTER" status
    assert_output --partial "there is no cluster in $TOPICFS_CLUSTER_DIR"
    run -16 "$CLUSTER" up 0
    run -16 "$CLUSTER" up 3 --etcd 2
    run -16 "$CLUSTER" restart
    run -0 "$CLUSTER" down
    fresh_cluster 1
    local pids
    pids=$(cut -d' ' -f1 "$C"/run/*.pid)
    run -1 "$CLUSTER" kill 7
    assert_output --partial "it has: n1 etcd1"
    run -0 "$CLUSTER" stop 1
    run -0 "$CLUSTER" stop 1
    assert_output "n1 does not run"
    run -0 "$CLUSTER" start 1
    run -0 "$CLUSTER" start 1
    echo hi >"$C/mine"
    run -0 "$CLUSTER" down --delete
    local pid
    for pid in $pids; do wait_for 5 ended "$pid"; done
    # What it did not make, it leaves.
    run -0 ls "$C"
    assert_output mine
    rm "$C/mine"
    rmdir "$C"
    C=
}
