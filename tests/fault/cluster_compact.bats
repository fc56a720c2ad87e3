#!/usr/bin/env bats
# A topic that is compacted, on three nodes, each of which compacts by itself: replicas that were
# away, or are new, get along with the holes of the others' logs.
load ../bats/helpers
load cluster
setup() { :; }
teardown() { end_cluster; }

# versions FROM TO: of a few keys, in one write each.
versions() {
    local i
    for ((i = $1; i <= $2; i++)); do
        printf 'a\tversion %d\nb\tversion %d\nc\tversion %d\n' "$i" "$i" "$i"
    done
}

first_is_gone() { # MOUNT: compacted, a line in the middle is
    local status=0
    grep -q "version 5\$" "$C/$1/topics/t/0/log" || status=$?
    [ "$status" -eq 1 ] # read to its end, and not found
}

# What each key says last, on this mount.
says() { # MOUNT VERSION
    local key
    for key in a b c; do
        [ "$(grep "^$key	" "$C/$1/topics/t/0/log" | tail -n 1)" = "$key	version $2" ] || return 1
    done
}

say_everywhere() { # VERSION
    local k
    for k in 1 2 3; do says "n$k" "$1" || return 1; done
}

same_end() {
    local k
    for k in 2 3; do
        [ "$(state_of t log_end_offset "n$k")" = "$(state_of t log_end_offset n1)" ] || return 1
    done
}

@test "a compacted log: who was away catches up, leads, and is caught up with" {
    fresh_cluster 3
    cluster_topic t '{"cleanup_policy":"delete,compact","segment_bytes":1024,"flush":"os"}'
    wait_for 10 all_in_sync t
    local leader away third
    leader=$(state_of t leader)
    away=$((leader % 3 + 1))
    third=$((away % 3 + 1))
    versions 1 10 >>"$C/n$leader/topics/t/0/log"
    wait_for 10 same_end
    "$CLUSTER" kill "$away"
    versions 11 200 | while IFS= read -r line; do echo "$line"; done >>"$C/n$third/topics/t/0/log"
    versions 201 210 >>"$C/n$leader/topics/t/0/log"
    wait_for 20 first_is_gone "n$leader"
    # It has messages that are gone there, and gets what is left.
    "$CLUSTER" start "$away"
    wait_for 30 all_in_sync t
    wait_for 10 say_everywhere 210
    wait_for 10 same_end
    # One that has nothing: all its copy comes from a compacted log.
    "$CLUSTER" kill "$third"
    find "$C/data/n$third" -mindepth 1 -delete
    wait_for 30 "$CLUSTER" start "$third"
    wait_for 30 all_in_sync t
    wait_for 10 say_everywhere 210
    # Epochs as they are read from a log anew tell who has what.
    local round
    for round in 1 2 3; do
        leader=$(state_of t leader)
        "$CLUSTER" kill "$leader"
        wait_for 20 led_by_other t "$leader" "n$((leader % 3 + 1))"
        versions "2${round}1" "2${round}9" >>"$C/n$((leader % 3 + 1))/topics/t/0/log"
        "$CLUSTER" start "$leader"
        wait_for 30 all_in_sync t
        wait_for 10 say_everywhere "2${round}9"
        wait_for 10 same_end
    done
    wait_for 20 no_problems
}

@test "a log that was compacted and is not any more: who has nothing of it gets it" {
    fresh_cluster 3
    cluster_topic t '{"cleanup_policy":"compact","segment_bytes":1024,"flush":"os"}'
    wait_for 10 all_in_sync t
    local leader away
    leader=$(state_of t leader)
    away=$((leader % 3 + 1))
    versions 1 200 | while IFS= read -r line; do echo "$line"; done >>"$C/n$leader/topics/t/0/log"
    wait_for 20 first_is_gone "n$leader"
    echo '{"cleanup_policy":"delete"}' >"$C/n$leader/topics/t/config.json"
    "$CLUSTER" kill "$away"
    find "$C/data/n$away" -mindepth 1 -delete
    wait_for 30 "$CLUSTER" start "$away"
    wait_for 30 all_in_sync t
    wait_for 10 say_everywhere 200
    wait_for 10 same_end
}
