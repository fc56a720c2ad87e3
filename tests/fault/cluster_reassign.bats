#!/usr/bin/env bats
# Moving a partition to a node that dies, and taking that back.
load ../bats/helpers
load cluster
setup() { :; }
teardown() { end_cluster; }

replicas_are() { # MOUNT REPLICAS
    [ "$(state_of t replicas "$1")" = "$2" ] && [ ! -e "$C/$1/cluster/admin/reassign_partitions" ]
}

@test "a move to a node that dies is named; taken back within ten seconds, though the controller dies" {
    OPTIONS=replication_factor=2 fresh_cluster 4
    mkdir "$C/n1/topics/t"
    reassign t n1 '[1,2]'
    wait_for 20 replicas_are n1 '[1,2]'
    wait_for 10 known_everywhere t
    seq 1000 >>"$C/n3/topics/t/0/log"

    # It can't take anything any more, but is not known to be dead.
    kill -STOP "$(pid_of 4)"
    reassign t n3 '[2,4]'
    "$CLUSTER" kill 4
    wait_for 10 grep -q 'reassign.*node 4' "$C/n3/cluster/problems"
    local controller mount start
    wait_for 10 eval '[ "$(controller_of n3)" -gt 0 ] && [ "$(controller_of n3)" != 4 ]'
    controller=$(controller_of n3)
    mount=n$((controller % 3 + 1))
    start=$(now_ms)
    "$CLUSTER" kill "$controller"
    reassign t "$mount" '[1,2]'
    wait_for 10 replicas_are "$mount" '[1,2]'
    [ $(($(now_ms) - start)) -lt $((10000 * TOPICFS_TEST_SLOW)) ]

    "$CLUSTER" start "$controller"
    "$CLUSTER" start 4
    wait_for 20 eval '[ "$(state_of t "isr|length" n3)" = 2 ]'
    echo more >>"$C/n4/topics/t/0/log"
    wait_for 20 same_everywhere t
    run -0 diff <(seq 1000; echo more) "$C/n1/topics/t/0/log"
    [ ! -e "$C/data/n4/t-0" ]
    [ ! -e "$C/data/n4/stray" ]
    wait_for 20 no_problems
}

without_replica() { # TOPIC
    local k
    for k in 1 2 3 4; do
        jq -e --argjson k "$k" '.replicas | index($k) | not' "$C/n1/topics/$1/0/state" >/dev/null &&
            echo "$k"
    done
}

@test "who writes and reads on a node goes on when that gets a replica" {
    OPTIONS=replication_factor=2 fresh_cluster 4
    local round to log
    for round in 1 2 3; do
        cluster_topic "t$round"
        to=$(without_replica "t$round" | head -n 1)
        log=$C/n$to/topics/t$round/0/log
        echo 0 >>"$log"
        # Somebody has the copy open, and never reads.
        exec 5<"$log"
        background cat "$C/n$to/groups/g/read/t$round" >"$C/group"
        wait_for 20 lines_in "$C/group" 1
        # One keeps the file open for all that it writes, one opens it for each line.
        background bash -c 'for i in {1..300}; do echo "$i"; sleep 0.001; done >>"$1"' - "$log"
        WRITER=$!
        reassign "t$round" n1 "[$to,$(state_of "t$round" leader)]"
        local i
        for i in {301..400}; do
            echo "$i" >>"$log"
            [ "$(grep -cx "$i" "$log")" = 1 ]
        done
        end_of "$WRITER" 20
        run -0 diff <(seq 0 400) <(sort -n "$log")
        wait_for 20 eval '[ "$(state_of t'"$round"' role n'"$to"')" != "\"observer\"" ]'
        run -0 diff <(seq 0 400) <(sort -n "$log")
        wait_for 20 lines_in "$C/group" 401
        run -0 diff <(seq 0 400) <(sort -n "$C/group")
        exec 5<&-
    done
}

@test "writers on all nodes notice nothing of a partition that is moved about" {
    fresh_cluster 4
    cluster_topic t
    local k round to writers=()
    for k in 1 2 3 4; do
        background "$PYTHON" "$LINES" write "$C/n$k/topics/t/0/log" "w$k" "$C/notes.$k"
        writers+=("$!")
    done
    for round in {1..12}; do
        # One to three of the nodes, each time others, and another first one.
        to=$(jq -nc --argjson r "$round" '[range($r % 3 + 1)] | map((. + $r * 3) % 4 + 1)')
        reassign t "n$((round % 4 + 1))" "$to"
        wait_for 20 replicas_are "n$((round % 4 + 1))" "$to"
    done
    for k in 0 1 2 3; do
        kill -TERM "${writers[k]}"
        end_of "${writers[k]}" 40
    done
    run ! grep -hv '^ok' "$C"/notes.*
    wait_for 20 same_everywhere t
    run -0 "$PYTHON" "$LINES" check "$C" t "$C"/notes.*
}

few_replicas() { # of internal topics, as node 1 tells
    grep 'kind=few-replicas __consumer_offsets' "$C/n1/cluster/problems"
}

offsets_replicas_are() { # COUNT in each partition
    local p
    for p in {0..15}; do
        [ "$(jq '.isr | length' "$C/n1/topics/__consumer_offsets/$p/state")" = "$1" ] || return 1
    done
}

@test "what groups have read is kept once while one node is alone; problems tells how to keep it thrice" {
    fresh_cluster 1
    mkdir "$C/n1/topics/t"
    seq 100 >>"$C/n1/topics/t/0/log"
    wait_for 20 eval 'echo 40 >"$C/n1/groups/g/offsets/t/0"'
    wait_for 10 offsets_replicas_are 1
    wait_for 10 no_problems
    bring_up 3
    wait_for 20 few_replicas
    local command
    command=$(few_replicas | sed 's/.*run in bash, in the mount: //')
    (cd "$C/n1" && within 30 bash -c "$command")
    reassign t n1 '[1,2,3]'
    wait_for 60 offsets_replicas_are 3
    wait_for 20 replicas_are n1 '[1,2,3]'
    wait_for 20 no_problems
    # The node that was alone is not needed any more.
    "$CLUSTER" kill 1
    wait_for 30 eval '[ "$(cat "$C/n2/groups/g/offsets/t/0" 2>/dev/null)" = 40 ]'
    wait_for 20 eval 'echo 41 >"$C/n3/groups/g/offsets/t/0"'
    "$CLUSTER" start 1
    wait_for 20 no_problems
}
