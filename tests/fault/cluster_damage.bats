#!/usr/bin/env bats
# Three nodes, one of them with bad or lost files, a full disk or a dying one: nothing wrong is
# served, nothing is lost, and the replica is there again without anybody's help.
load ../bats/helpers
load cluster

setup() { :; }

teardown() {
    local dir
    [ -n "${C-}" ] || return 0
    for dir in "$C"/data/n*/t-0; do chattr -R -i "$dir" 2>/dev/null || true; done
    end_cluster
}

in_sync() { # TOPIC NODE
    [ "$(state_of "$1" "isr|index($2)!=null" "n${3-$(($2 % 3 + 1))}")" = true ]
}

out_of_sync() { # TOPIC NODE
    [ "$(state_of "$1" "isr|index($2)!=null" "n$(($2 % 3 + 1))")" = false ]
}

leads() { # TOPIC NODE
    [ "$(state_of "$1" leader "n$(($2 % 3 + 1))")" = "$2" ]
}

# Messages in several segments, the same everywhere.
fill_topic() {
    cluster_topic t '{"segment_bytes": 1048576}'
    wait_for 10 all_in_sync t
    seq -f '%0200.0f' 20000 >"$C/wanted"
    cat "$C/wanted" >>"$C/n1/topics/t/0/log"
    wait_for 20 whole_everywhere
}

whole_everywhere() {
    local k
    for k in 1 2 3; do cmp "$C/wanted" "$C/n$k/topics/t/0/log" || return 1; done
}

same_files_everywhere() { # the text on the disks, segment by segment
    local k
    for k in 1 2 3; do
        cmp "$C/wanted" <(cat "$C/data/n$k"/t-0/*.log) || return 1
    done
}

nothing_left() { # NODE: in its data directory
    local what
    for what in "$C/data/n$1"/{replaced,unusable,stray}/*; do
        [ ! -e "$what" ] || {
            echo "left: $what"
            return 1
        }
    done
}

flip() { # FILE AT
    "$PYTHON" -c 'import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
at = int(sys.argv[2])
byte = os.pread(fd, 1, at)
os.pwrite(fd, bytes([byte[0] ^ 1]), at)' "$1" "$2"
}

@test "a flipped byte on one replica stays there, and is repaired from the others" {
    fresh_cluster 3
    fill_topic
    # The preferred replica, so that it leads again once it is back.
    local victim other
    victim=$(state_of t 'replicas[0]')
    other=$((victim % 3 + 1))
    # Known to be on disk: what is newer recovery cuts, if it is bad.
    wait_for 20 grep -q ' 0 20000 20000 20000 t' "$C/data/n$victim/checkpoint"
    "$CLUSTER" kill "$victim"
    wait_for 20 led_by_other t "$victim" "n$other"
    flip "$C/data/n$victim/t-0/00000000000000000000.log" 300000
    "$CLUSTER" start "$victim"
    # It is asked to lead; nobody has to read there for the damage to be found.
    wait_for 30 elect_preferred t "n$other"
    wait_for 20 grep -q 'problem: damaged t-0/' "$C/run/n$victim.log"
    # Whoever reads it there meets an error or the truth.
    local k
    for k in 1 2 3 4 5; do
        cat "$C/n$victim/topics/t/0/log" >"$C/read" 2>/dev/null || true
        cmp -n "$(stat -c %s "$C/read")" "$C/read" "$C/wanted"
    done
    wait_for 30 whole_everywhere
    wait_for 30 all_in_sync t
    wait_for 30 no_problems
    wait_for 10 same_files_everywhere
    wait_for 10 nothing_left "$victim"
    # It can lead again, and serve.
    wait_for 20 preferred_leads "$victim" "$other"
    echo 'one more' | tee -a "$C/wanted" >>"$C/n$victim/topics/t/0/log"
    wait_for 10 whole_everywhere
}

preferred_leads() { # NODE ASKED
    leads t "$1" && return 0
    elect_preferred t "n$2"
    return 1
}

@test "lost metadata: it starts first, alone; leads nothing, deletes nothing, refills" {
    fresh_cluster 3
    fill_topic
    local how k
    for how in emptied garbled wiped; do
        wait_for 30 all_in_sync t
        for k in 1 2 3; do kill -KILL "$(pid_of "$k")"; done
        for k in 1 2 3; do wait_for 10 ended "$(pid_of "$k")"; done
        local before
        before=$(find "$C/data/n2/t-0" -name '*.log' | wc -l)
        lose_metadata "$how"
        # Its new identity is let in when the session of the old one is over.
        wait_for 30 "$CLUSTER" start 2
        wait_for 10 test -e "$C/n2/topics/t/0/log"
        run ! leads_by_own_word 2
        [ "$how" = wiped ] ||
            [ "$(find "$C/data/n2" -name '*.log' -path '*t-0*' | wc -l)" -ge "$before" ]
        "$CLUSTER" start 1
        "$CLUSTER" start 3
        wait_for 30 whole_everywhere
        wait_for 30 all_in_sync t
    done
    # What the others had is what it was.
    wait_for 10 same_files_everywhere
}

lose_metadata() { # HOW: of node 2
    local file
    if [ "$1" = wiped ]; then
        find "$C/data/n2" -mindepth 1 -delete
        return
    fi
    for file in meta.json checkpoint running.json; do
        : >"$C/data/n2/$file"
        [ "$1" = emptied ] || head -c 100 /dev/urandom >"$C/data/n2/$file"
    done
}

leads_by_own_word() {
    [ "$(state_of t leader "n$1")" = "$1" ]
}

@test "an index deleted, another emptied, after a crash: refetched, and reads go on meanwhile" {
    fresh_cluster 3
    fill_topic
    local leader victim
    leader=$(state_of t leader)
    victim=$((leader % 3 + 1))
    "$CLUSTER" kill "$victim"
    local indexes=("$C/data/n$victim"/t-0/*.index)
    [ "${#indexes[@]}" -ge 3 ]
    rm "${indexes[0]}"
    : >"${indexes[1]}"
    "$CLUSTER" start "$victim"
    run -0 within 5 ls "$C/n$victim/topics/t/0"
    run -0 within 5 cmp "$C/wanted" "$C/n$leader/topics/t/0/log"
    wait_for 30 whole_everywhere
    wait_for 30 all_in_sync t
    wait_for 30 no_problems
    wait_for 10 same_files_everywhere
    wait_for 10 nothing_left "$victim"
}

@test "a follower's disk is full, also over a restart: the others go on; with space it is back" {
    fresh_cluster_on_small_disks 3 16m 2
    cluster_topic t '{"segment_bytes": 1048576, "replica_lag_time_max_ms": 1500}'
    cluster_topic u
    wait_for 10 all_in_sync t
    echo gone >>"$C/n1/topics/u/0/log"
    lead_by 1 1
    start_writers 1
    fill_disk 2 300
    head -c 900000 /dev/zero | tr '\0' x | fold -w 999 | sed 's/$/ 1/' >"$C/bulk"
    wait_for 30 fill_until_out
    # It says so, reads and deletes; nobody else is in trouble.
    wait_for 10 grep -q kind=disk-full "$C/n2/cluster/problems"
    progress 1
    run -0 within 5 head -n 1 "$C/n2/topics/t/0/log"
    run -0 within 10 rmdir "$C/n2/topics/u"
    "$CLUSTER" kill 2
    "$CLUSTER" start 2
    run -0 within 5 head -n 1 "$C/n2/topics/t/0/log"
    progress 1
    empty_disk 2
    wait_for 30 all_in_sync t
    stop_writers
    wait_for 20 same_everywhere t
    wait_for 20 no_problems
    run -1 grep -v '^ok' "$C/notes-1"
}

@test "the leader's disk is full: ENOSPC at once on every mount, and not for longer" {
    fresh_cluster_on_small_disks 3 16m 2
    cluster_topic t '{"segment_bytes": 1048576}'
    wait_for 10 all_in_sync t
    lead_by 2 1
    echo first >>"$C/n1/topics/t/0/log"
    fill_disk 2 100
    local k
    for k in 1 2 3; do
        run within 20 bash -c "head -c 3000000 /dev/zero | tr '\0' y | fold -w 999 >>'$C/n$k/topics/t/0/log'"
        assert_failure
        [ "$status" -ne 124 ]
        assert_output --partial "No space left"
        run -0 within 5 head -n 1 "$C/n$k/topics/t/0/log"
        assert_output first
    done
    empty_disk 2
    echo last >>"$C/n3/topics/t/0/log"
    wait_for 20 same_everywhere t
    run -0 tail -n 1 "$C/n2/topics/t/0/log"
    assert_output last
    wait_for 20 no_problems
}

fill_until_out() {
    cat "$C/bulk" >>"$C/n1/topics/u/0/log" || true
    grep -q kind=disk-full "$C/n2/cluster/problems" && out_of_sync t 2
}

# lead_by NODE ASKED: makes the node the preferred replica, and the leader.
lead_by() {
    local rest
    rest=$(seq -s, 3 | tr ',' '\n' | grep -v "$1" | paste -sd,)
    reassign t "n$2" "[$1,$rest]"
    wait_for 20 is_preferred "$1" "$2"
    wait_for 20 preferred_leads "$1" "$2"
}

is_preferred() { # NODE ASKED
    [ "$(state_of t 'replicas[0]' "n$2")" = "$1" ]
}

nobody_noticed() { # WRITER WRITER
    wait_for 30 all_in_sync t
    stop_writers
    wait_for 10 same_everywhere t
    wait_for 20 no_problems
    run grep -hv '^ok' "$C/notes-$1" "$C/notes-$2"
    assert_output ""
}

@test "the leader's directory can't be written: leadership moves, the others stay in sync" {
    fresh_cluster 3
    fill_topic
    local victim other third start
    victim=$(state_of t leader)
    other=$((victim % 3 + 1))
    third=$((other % 3 + 1))
    chattr -R +i "$C/data/n$victim/t-0" 2>/dev/null || lacking "immutable files"
    start_writers "$other" "$victim"
    start=$(now_ms)
    wait_for 10 led_by_other t "$victim" "n$other"
    [ $(($(now_ms) - start)) -lt $((10000 * TOPICFS_TEST_SLOW)) ]
    progress "$other"
    progress "$victim"
    wait_for 10 grep -q kind=offline "$C/n$victim/cluster/problems"
    in_sync t "$other" "$other"
    in_sync t "$third" "$other"
    # Mended, it comes back by itself.
    chattr -R -i "$C/data/n$victim/t-0"
    nobody_noticed "$other" "$victim"
    wait_for 10 nothing_left "$victim"
}

# What was acknowledged is there, and nothing twice.
notes_are_true() { # LOG NOTES...
    local log=$1
    shift
    [ -z "$(comm -23 <(grep -h '^ok ' "$@" | cut -d' ' -f2- | sort) <(sort "$log"))" ] &&
        [ -z "$(grep -h '^w' "$log" | sort | uniq -d)" ]
}

@test "a flush fails on the leader: leadership moves, no write fails, the replica is fetched anew" {
    fresh_cluster 3
    fill_topic
    local victim other
    victim=$(state_of t leader)
    other=$((victim % 3 + 1))
    cc -shared -fPIC -D_GNU_SOURCE -o "$C/run/failing_flush.so" \
        "$REPOSITORY/tests/fault/failing_flush.c"
    "$CLUSTER" stop "$victim"
    LD_PRELOAD=$C/run/failing_flush.so FAILING_FLUSH_PATH=/t-0/ \
        FAILING_FLUSH_WHEN="$C/run/fail-now" "$CLUSTER" start "$victim"
    wait_for 30 all_in_sync t
    lead_by "$victim" "$other"
    start_writers "$other" "$victim"
    touch "$C/run/fail-now"
    wait_for 10 led_by_other t "$victim" "n$other"
    progress "$other"
    progress "$victim"
    in_sync t "$other" "$other"
    rm "$C/run/fail-now"
    nobody_noticed "$other" "$victim"
    notes_are_true "$C/n$other/topics/t/0/log" "$C/notes-$other" "$C/notes-$victim"
}
