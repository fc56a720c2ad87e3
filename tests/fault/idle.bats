#!/usr/bin/env bats
# What three nodes do while nobody uses them: hardly anything.
load ../bats/helpers
load cluster
setup() { :; }
teardown() { end_cluster; }

# wakes PID: how often each of its threads went to sleep so far, a line "thread count" each.
wakes() {
    local task
    for task in /proc/"$1"/task/*; do
        echo "${task##*/} $(awk '/^voluntary/ {print $2}' "$task/status")"
    done | sort
}

# Over three seconds no thread woke more than seven times a second, all of them together no more than
# 30 times. A follower asks its leader twice a second, which is also its sign of life, and each time
# wakes two threads there; all else is looked at once or twice a second.
is_quiet() { # NODE
    local pid before
    pid=$(pid_of "$1")
    before=$(wakes "$pid")
    sleep 3 # the time that is measured
    join <(echo "$before") <(wakes "$pid") |
        awk '{n = ($3 - $2) / 3; sum += n; if (n > most) most = n}
            END {print "node: " sum "/s, one thread " most "/s"; exit !(most <= 7 && sum <= 30)}'
}

@test "nodes that nobody uses sleep" {
    SESSION_S=6 fresh_cluster 3
    cluster_topic t
    seq 10 >>"$C/n1/topics/t/0/log"
    local node
    for node in 1 2 3; do wait_for 60 is_quiet "$node"; done
    # And wake when there is something.
    seq 10 >>"$C/n2/topics/t/0/log"
    wait_for 5 same_everywhere t
}
