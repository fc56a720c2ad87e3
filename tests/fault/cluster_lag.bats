#!/usr/bin/env bats
# Who is in sync, and how often that changes: after a silence, beside a follower that is too slow,
# and while followers and leaders come and go.
load ../bats/helpers
load cluster
setup() { :; }
teardown() { end_cluster; }

@test "the first writes after a long silence: nobody leaves the in-sync replicas" {
    fresh_cluster 3
    cluster_topic t '{"replica_lag_time_max_ms":1000}'
    wait_for 10 all_in_sync t
    local before k
    before=$(state_writes t)
    for k in 1 2 3; do
        # Several times as long as a replica may be behind.
        seconds_later 4
        seq -f "$k %.0f" 5000 >>"$C/n$k/topics/t/0/log"
        wait_for 10 same_everywhere t
        seconds_later 2
        [ "$(state_writes t)" = "$before" ]
    done
    [ "$(state_of t 'isr|length')" = 3 ]
}

# feed LOG RATE UNTIL: blocks of 16 KiB at so many bytes a second, until the file exists.
feed() {
    "$PYTHON" -c 'import os, sys, time
log, rate, until = sys.argv[1], float(sys.argv[2]), sys.argv[3]
fd = os.open(log, os.O_WRONLY | os.O_APPEND)
block = (b"x" * 63 + b"\n") * 256
begin, sent = time.monotonic(), 0
while not os.path.exists(until):
    assert os.write(fd, block) == len(block)
    sent += len(block)
    time.sleep(max(0, begin + sent / rate - time.monotonic()))' "$@"
}

isr_size() { # TOPIC MOUNT SIZE
    [ "$(state_of "$1" 'isr|length' "$2")" = "$3" ]
}

@test "a follower at nine tenths of the leader's rate leaves the in-sync replicas once, and not again" {
    fresh_cluster 3
    cluster_topic t '{"acks":1,"flush":"os","replica_lag_time_max_ms":1000}'
    local leader slow before
    leader=$(state_of t leader)
    slow=$((leader % 3 + 1))
    restart_preloaded "$slow" slow_disk SLOW_DISK_PATH=/t-0/ "SLOW_DISK=$C/run/slow"
    wait_for 20 all_in_sync t
    leader=$(state_of t leader)
    [ "$leader" != "$slow" ]
    before=$(state_writes t)
    echo 900000 >"$C/run/slow"
    background feed "$C/n$leader/topics/t/0/log" 1000000 "$C/run/enough"
    local feeder=$!
    wait_for 30 isr_size t "n$leader" 2
    # It goes on as it was: it must not come and go.
    seconds_later 15
    alive "$feeder"
    [ "$(state_writes t)" = "$((before + 1))" ]
    isr_size t "n$leader" 2
    touch "$C/run/enough"
    end_of "$feeder" 10
    rm "$C/run/slow"
    wait_for 20 all_in_sync t
    [ "$(state_writes t)" = "$((before + 2))" ]
    wait_for 10 same_everywhere t
}

listens() { # NODE
    (: <"/dev/tcp/127.0.0.1/$(cat "$C/run/n$1.port")") 2>/dev/null
}

# Some moment of its start, another one each time.
starting() { # NODE ROUND
    case $(($2 % 3)) in
    0) wait_for 20 listens "$1" ;;
    1) wait_for 20 test -e "$C/n$1/topics/t/0/log" ;;
    *) wait_for 20 grep -q . "$C/n$1/topics/t/0/state" ;;
    esac
}

@test "a follower is back, and within its first fetch the leader is killed, again and again" {
    fresh_cluster 3
    cluster_topic t
    wait_for 10 all_in_sync t
    start_writers 1 2 3
    local round leader follower third start
    for round in 1 2 3 4 5; do
        leader=$(state_of t leader)
        follower=$((leader % 3 + 1))
        third=$((follower % 3 + 1))
        "$CLUSTER" kill "$follower"
        background "$CLUSTER" start "$follower"
        start=$!
        starting "$follower" "$round"
        kill -KILL "$(pid_of "$leader")"
        "$CLUSTER" kill "$leader"
        end_of "$start" 30
        progress "$third"
        "$CLUSTER" start "$leader"
        wait_for 30 all_in_sync t
    done
    progress 1
    stop_writers
    settle_and_check t
    wait_for 20 no_problems
}
