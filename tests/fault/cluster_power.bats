#!/usr/bin/env bats
# Machines lose their power: what was not flushed is gone from their disks.
load ../bats/helpers
load cluster
setup() { :; }
teardown() { end_cluster; }

POWER=$REPOSITORY/tests/fault/power.py

fresh_cluster_with_power() { # SETTINGS of t
    local k
    fresh_cluster 3
    for k in 1 2 3; do
        restart_preloaded "$k" power POWER_PATH=/t-0/ "POWER_LOG=$C/run/power-$k"
    done
    cluster_topic t "$1"
    wait_for 10 all_in_sync t
}

cut_power() { # NODE...: all at once
    local k pids=()
    for k in "$@"; do pids+=("$(pid_of "$k")"); done
    kill -KILL "${pids[@]}"
    for k in "$@"; do
        wait_for 10 ended "$(pid_of "$k")"
        "$PYTHON" "$POWER" "$C/data/n$k" t-0 "$C/run/power-$k"
        "$CLUSTER" kill "$k"
    done
}

@test "all machines lose power under full load: with the default settings nothing is lost" {
    fresh_cluster_with_power '{"segment_bytes":1048576}'
    start_writers 1 2 3
    progress 1
    cut_power 1 2 3
    stop_writers
    run -0 within 60 "$CLUSTER" up 3
    settle_and_check t
    wait_for 20 no_problems
    run -1 grep -h kind=loss "$C"/n[123]/cluster/problems
    echo "w9 1" >>"$C/n1/topics/t/0/log"
}

# Of the lines that were acknowledged each writer has lost no more than the last ones, and none
# of those in the earlier notes.
lost_is_a_tail() { # EARLY NOTES of one writer
    "$PYTHON" -c 'import sys
log, early, notes = sys.argv[1:4]
stored = open(log).read().splitlines()
assert len(set(stored)) == len(stored), "a line is stored twice"
stored = set(stored)
def acknowledged(path):
    return [line[3:] for line in open(path).read().splitlines() if line.startswith("ok ")]
gone = [line for line in acknowledged(early) if line not in stored]
assert not gone, ("acknowledged long before and lost", len(gone), gone[:5])
lines = acknowledged(notes)
there = [line in stored for line in lines]
kept = there.index(False) if False in there else len(there)
assert not any(there[kept:]), ("lost in the middle", lines[kept])
print("%d of %d acknowledged lines are lost" % (len(lines) - kept, len(lines)))' \
        "$C/n1/topics/t/0/log" "$1" "$2"
}

some_lost() {
    local k line
    for k in 1 2 3; do
        line=$(grep '^ok' "$C/notes-$k" | tail -n 1)
        ! grep -qxF "${line#ok }" "$C/n1/topics/t/0/log" || return 1
    done
}

@test "all machines lose power: with flush=interval a bounded tail is lost, and that is said" {
    fresh_cluster_with_power '{"flush":"interval","flush_ms":300}'
    start_writers 1 2 3
    progress 1
    local k
    for k in 1 2 3; do cp "$C/notes-$k" "$C/early-$k"; done
    # Several times as long as it may take until it is flushed.
    seconds_later "$((2 * TOPICFS_TEST_SLOW))"
    cut_power 1 2 3
    stop_writers
    run -0 within 60 "$CLUSTER" up 3
    wait_for 30 all_in_sync t
    wait_for 10 same_everywhere t
    for k in 1 2 3; do lost_is_a_tail "$C/early-$k" "$C/notes-$k"; done
    some_lost
    for k in 1 2 3; do wait_for 10 grep -q 'kind=loss t-0' "$C/n$k/cluster/problems"; done
    echo "w9 1" >>"$C/n1/topics/t/0/log"
    wait_for 10 same_everywhere t
}

@test "the last in-sync replica loses its tail with its power, and starts first: it does not lead" {
    fresh_cluster_with_power '{"flush":"os","delivery_timeout_ms":1500}'
    local last second first k
    last=$(state_of t leader)
    first=$((last % 3 + 1))
    second=$((first % 3 + 1))
    start_writers "$last"
    "$CLUSTER" stop "$first"
    progress "$last"
    "$CLUSTER" stop "$second"
    wait_for 20 eval '[ "$(state_of t isr "n'"$last"'")" = "['"$last"']" ]'
    stop_writers
    cut_power "$last"
    # What is on its disk is less than what was acknowledged, and it knows that.
    "$CLUSTER" start "$last"
    wait_for 10 eval '[ "$(state_of t leader "n'"$last"'")" = -1 ]'
    run within 20 bash -c "echo 'w9 1' >>'$C/n$last/topics/t/0/log'"
    assert_failure
    [ "$status" -ne 124 ]
    wait_for 10 grep -q 'kind=leaderless t-0' "$C/n$last/cluster/problems"
    run -0 grep 'kind=leaderless t-0' "$C/n$last/cluster/problems"
    assert_output --partial "(node $second)"
    [ "$(state_of t leader "n$last")" = -1 ]
    # Who has all of it is back.
    "$CLUSTER" start "$second"
    wait_for 20 led_by_other t "$last" "n$last"
    "$CLUSTER" start "$first"
    settle_and_check t
    wait_for 20 no_problems
}
