#!/usr/bin/env bats
# Consumer groups on three nodes: readers, nodes and the coordinator are killed; every line is
# worked on, and no more of them twice than were in hand.
# shellcheck disable=SC2016 # what is quoted is for other shells
load ../bats/helpers
load cluster
setup() {
    WORK_PY=$REPOSITORY/tests/fault/groups_work.py
    fresh_cluster 3
    cluster_topic t
    local p
    for p in 1 2 3; do mkdir "$C/n1/topics/t/$p"; done
    echo '{"group_session_timeout_ms": '$((3000 * TOPICFS_TEST_SLOW))'}' >"$C/n1/groups/g/config.json"
    DONE=()
    READERS=()
}
teardown() { end_cluster; }

# reader NODE [GROUP]: works in the background; its pid is $!.
reader() {
    local out=$C/done-${2:-g}-${#READERS[@]}
    background "$PYTHON" "$WORK_PY" work "$C/n$1/groups/${2:-g}/read/t" "$out" >>"$C/run/readers.log" 2>&1
    READERS+=("$!")
    [ "${2:-g}" != g ] || DONE+=("$out")
}

# owners NODE: "partitions owned, members with partitions, members"
owners() {
    jq -c '[([.members[].partitions[]] | unique | length),
        ([.members[] | select(.partitions | length > 0)] | length), (.members | length)]' \
        "$C/n$1/groups/g/members"
}
owners_are() { # NODE EXPECTED
    [ "$(owners "$1")" = "$2" ]
}
lag_is_0() { # NODE
    [ "$(jq .lag "$C/n$1/groups/g/lag")" = 0 ]
}
same_on_all() { # FILE
    [ "$(jq -cS . "$C/n1/groups/g/$1")" = "$(jq -cS . "$C/n2/groups/g/$1")" ] &&
        [ "$(jq -cS . "$C/n1/groups/g/$1")" = "$(jq -cS . "$C/n3/groups/g/$1")" ]
}

# The leader of the partition of the internal topic that the group's records are in.
coordinator() { # [NODE]: as that one sees it
    local p
    for p in "$C/n${1-1}"/topics/__consumer_offsets/[0-9]*; do
        if grep -q '^g	' "$p/log"; then
            jq .leader "$p/state"
            return
        fi
    done
    return 1
}

# The one of a group that was just made: its records come in a moment.
first_coordinator() {
    wait_for 20 coordinator && coordinator
}

coordinated_by_other() { # THAN NODE: as that one sees it
    local now
    now=$(coordinator "$2") && [ "$now" -gt 0 ] && [ "$now" != "$1" ]
}

all_owned() { # NODE
    [ "$(jq '[.members[].partitions[]] | unique | length' "$C/n$1/groups/g/members")" = 4 ]
}

fill() { # NAME COUNT [NODE...]
    within 120 "$PYTHON" "$WORK_PY" fill "$C" t 4 "$1" "$2" "$C/notes" "${@:3}"
}

check() { # TWICE
    "$PYTHON" "$WORK_PY" check "$C/notes" "$1" "${DONE[@]}"
}

everything_done() {
    check 1000000
}

@test "readers on three nodes share the partitions; members and lag are the same everywhere" {
    reader 1
    reader 2
    reader 3
    wait_for 20 owners_are 1 '[4,3,3]'
    fill a 600
    wait_for 30 lag_is_0 1
    wait_for 10 everything_done
    check 0
    wait_for 5 same_on_all lag
    wait_for 5 same_on_all members
    local path
    for path in "${DONE[@]}"; do [ -s "$path" ]; done
}

@test "a reader that is killed is replaced at once; only the line in hand is done again" {
    reader 1
    reader 2
    wait_for 20 owners_are 3 '[4,2,2]'
    background fill a 200
    local filling=$! start
    wait_for 20 lines_in "$C/done-g-0" 20
    kill -KILL "${READERS[0]}"
    start=$(now_ms)
    wait_for 20 owners_are 3 '[4,1,1]'
    echo "handed over after $(($(now_ms) - start)) ms" >&3
    end_of "$filling" 120
    wait_for 30 everything_done
    check 1
}

@test "a node that is killed: its readers' partitions go to the others" {
    local coordinates victim other
    coordinates=$(first_coordinator)
    victim=$((coordinates % 3 + 1))
    other=$((victim % 3 + 1))
    reader 1
    reader 2
    reader 3
    wait_for 20 owners_are "$other" '[4,3,3]'
    background fill a 400 "$other"
    local filling=$!
    wait_for 20 lines_in "$C/done-g-$((victim - 1))" 10
    "$CLUSTER" kill "$victim"
    wait_for 20 owners_are "$other" '[4,2,2]'
    end_of "$filling" 120
    "$CLUSTER" start "$victim"
    # Its reader comes back by itself.
    wait_for 30 owners_are "$other" '[4,3,3]'
    fill b 100
    wait_for 30 everything_done
    check 2
}

@test "the coordinator is killed: nothing committed is lost, nobody begins anew" {
    local coordinates other
    coordinates=$(first_coordinator)
    other=$((coordinates % 3 + 1))
    reader "$other"
    reader "$other"
    wait_for 20 owners_are "$other" '[4,2,2]'
    background fill a 200 "$other"
    local filling=$!
    wait_for 20 lines_in "$C/done-g-0" 20
    "$CLUSTER" kill "$coordinates"
    end_of "$filling" 120
    wait_for 30 everything_done
    wait_for 10 coordinated_by_other "$coordinates" "$other"
    wait_for 10 owners_are "$other" '[4,2,2]'
    wait_for 20 lag_is_0 "$other"
    check 0
}

@test "readers, nodes and the coordinator killed in turn, under load" {
    local k victim round
    for k in 1 2 3; do reader "$k"; done
    wait_for 20 owners_are 1 '[4,3,3]'
    background fill a 3000
    local filling=$!
    for round in 1 2 3; do
        victim=$(coordinator || echo "$round")
        "$CLUSTER" kill "$victim"
        reader $((victim % 3 + 1))
        wait_for 10 lines_in "$C/done-g-$((${#READERS[@]} - 1))" 1 || true
        "$CLUSTER" start "$victim"
        wait_for 30 all_in_sync t
        kill -KILL "${READERS[round - 1]}"
        wait_for 20 owners_are $((victim % 3 + 1)) '[4,3,3]'
    done
    end_of "$filling" 200
    wait_for 60 everything_done
    # Six kills, and of each at most one line for each reader that it hit.
    check 12
}

@test "a paused node's members are replaced, and do no harm when it wakes up" {
    local coordinates victim other pid
    coordinates=$(first_coordinator)
    victim=$((coordinates % 3 + 1))
    other=$((victim % 3 + 1))
    reader "$victim"
    reader "$other"
    wait_for 20 owners_are "$other" '[4,2,2]'
    fill a 100 "$other"
    wait_for 20 lag_is_0 "$other"
    pid=$(cut -d' ' -f1 "$C/run/n$victim.pid")
    kill -STOP "$pid"
    wait_for 30 owners_are "$other" '[4,1,1]'
    fill b 100 "$other"
    wait_for 30 lag_is_0 "$other"
    kill -CONT "$pid"
    wait_for 30 owners_are "$other" '[4,2,2]'
    fill c 100 "$other"
    wait_for 30 everything_done
    check 2
}

@test "join and leave without end: no partition is without an owner for long" {
    local stop=$C/run/stop-churn
    reader 1
    churn() {
        local n=0
        while [ ! -e "$stop" ]; do
            n=$((n % 3 + 1))
            timeout -k 1 1 cat "$C/n$n/groups/g/read/t" >/dev/null || true
        done
    }
    background churn
    local churning=$! orphans=0 round
    wait_for 20 owners_are 1 '[4,2,2]' || true
    for ((round = 0; round < 40; round++)); do
        all_owned 2 || {
            orphans=$((orphans + 1))
            wait_for 3 all_owned 2
        }
        sleep 0.1 # the pace of looking
    done
    : >"$stop"
    wait "$churning" || true
    echo "$orphans of 40 looks saw a partition on its way" >&3
    wait_for 10 owners_are 3 '[4,1,1]'
}
