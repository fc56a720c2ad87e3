#!/usr/bin/env bats
# Many writers and readers on one partition, kills and unmounts among them: no line lost or
# mixed, nobody stuck. Also run with the thread checker.
load ../bats/helpers
setup() {
    fresh_mount
    new_topic t
    P=$MNT/topics/t/0
    export P
    # As many appends as a sanitizer build gets done in about the same time.
    if [ "$TOPICFS_TEST_SLOW" -gt 1 ]; then COUNT=150; else COUNT=2000; fi
    export COUNT
}
teardown() { end_mount; }

# writer NAME: COUNT lines by >>; notes each one that succeeded.
WRITER='for ((n = 0; n < COUNT; n++)); do
    echo "$0 $n" >>"$P/log" && echo "$0 $n"
done'

all_ended() { # SECONDS PID...
    local seconds=$1 pid
    shift
    for pid in "$@"; do
        end_of "$pid" "$seconds" || return 1
    done
}

@test "16 writers by >>, dd append, and > refused all along: no lost or mixed line" {
    local i writers=()
    for i in {1..16}; do
        background bash -c "$WRITER" "writer-$i" >"$WORK/done.$i"
        writers+=("$!")
    done
    background bash -c 'for ((n = 0; n < COUNT / 20; n++)); do
        for ((k = 0; k < 100; k++)); do echo "dd $n $k"; done >"$WORK/block"
        dd if="$WORK/block" of="$P/log" bs=64k oflag=append conv=notrunc status=none || exit 1
    done'
    writers+=("$!")
    background bash -c 'while [ ! -e "$WORK/stop" ]; do
        if (: >"$P/log") 2>/dev/null; then echo "> was accepted"; exit 1; fi
        sleep 0.01 # its pace
    done'
    local truncator=$!
    never_stuck "${writers[@]}"
    all_ended 150 "${writers[@]}"
    touch "$WORK/stop"
    end_of "$truncator" 10
    python 'log = open(os.environ["P"] + "/log").read().splitlines()
count = int(os.environ["COUNT"])
place = {}
for at, line in enumerate(log):
    assert line not in place, "twice: " + line
    place[line] = at
for i in range(1, 17):
    done = open(os.environ["WORK"] + "/done.%d" % i).read().splitlines()
    assert len(done) == count, (i, len(done))
    order = [place[line] for line in done]
    assert order == sorted(order), "writer %d: order" % i
for n in range(count // 20):
    first = place["dd %d 0" % n]
    assert log[first:first + 100] == ["dd %d %d" % (n, k) for k in range(100)], "a batch was mixed"
assert len(log) == 16 * count + count // 20 * 100, len(log)'
}

@test "readers of all kinds beside writers see the same, complete and in order" {
    local i writers=() readers=()
    local total=$((4 * COUNT))
    for i in 1 2 3; do
        background cat "$P/follow/0-$((total - 1))" >"$WORK/follow.$i"
        readers+=("$!")
    done
    background cat "$P/json/0-$((total - 1))" >"$WORK/json"
    readers+=("$!")
    background tail -n +1 -f -s 0.05 "$P/log" >"$WORK/tail"
    local tail=$!
    background "$PYTHON" -c 'import os, sys
P, size, seen = os.environ["P"], 0, b""
while not os.path.exists(os.environ["WORK"] + "/stop"):
    with open(P + "/log", "rb") as f:
        now = os.fstat(f.fileno()).st_size
        assert now >= size, "the size fell"
        size = now
        data = f.read()
        assert len(data) >= size, "fewer bytes than the size said"
        assert data.startswith(seen), "what was read before has changed"
        assert data.endswith(b"\n") or not data, "half a line"
        assert b"\0" not in data
        seen = data
    os.listdir(os.environ["MNT"] + "/topics/t")
    open(P + "/state").read()
    if seen:
        open(P + "/at/last3").read()'
    local checker=$!
    for i in 1 2 3 4; do
        background bash -c "$WRITER" "writer-$i" >"$WORK/done.$i"
        writers+=("$!")
    done
    all_ended 150 "${writers[@]}"
    all_ended 30 "${readers[@]}"
    wait_for 30 lines_in "$WORK/tail" "$total"
    touch "$WORK/stop"
    end_of "$checker" 30
    alive "$tail"
    run -0 cmp "$P/log" "$WORK/follow.1"
    run -0 cmp "$P/log" "$WORK/follow.2"
    run -0 cmp "$P/log" "$WORK/follow.3"
    run -0 cmp "$P/log" "$WORK/tail"
    run -0 cmp <(jq -r .value "$WORK/json") "$P/log"
    run -0 cmp <(sort "$WORK"/done.*) <(sort "$P/log")
}

@test "writers and readers that are killed: the others go on, no line is mixed" {
    local i round
    for i in 1 2 3; do
        background bash -c "$WRITER" "steady-$i" >"$WORK/done.$i"
    done
    local steady=("${CHILDREN[@]}")
    for round in {1..15}; do
        local victims=()
        for i in 1 2 3; do
            background bash -c "$WRITER" "victim-$round-$i" >>"$WORK/victims" 2>/dev/null
            victims+=("$!")
        done
        background cat "$P/follow/0" >/dev/null
        victims+=("$!")
        sleep "0.0$((round % 9 + 1))" # killed at one moment or another
        kill -KILL "${victims[@]}"
        for i in "${victims[@]}"; do
            wait_for 5 ended "$i"
            wait "$i" 2>/dev/null || true
        done
    done
    all_ended 150 "${steady[@]}"
    CHILDREN=()
    python 'log = open(os.environ["P"] + "/log").read().splitlines()
import re
assert len(log) == len(set(log)), "a line is there twice"
for line in log:
    assert re.fullmatch(r"(steady-\d|victim-\d+-\d) \d+", line), line
have = set(log)
for name in "done.1", "done.2", "done.3":
    for line in open(os.environ["WORK"] + "/" + name).read().splitlines():
        assert line in have, line'
}

@test "topics that come and go under readers and writers" {
    background bash -c 'for n in {1..40}; do
        mkdir "$MNT/topics/x" && echo "$n" >>"$MNT/topics/x/0/log"
        rmdir "$MNT/topics/x"
    done 2>/dev/null'
    local churn=$! pids=() i
    for i in 1 2 3; do
        background bash -c 'while [ ! -e "$WORK/stop" ]; do
            echo line >>"$MNT/topics/x/0/log"
            cat "$MNT/topics/x/0/log" "$MNT/topics/x/0/state" "$MNT/topics/x/config.json"
            timeout 0.2 cat "$MNT/topics/x/0/follow/earliest"
            ls -lR "$MNT/topics"
        done >/dev/null 2>&1; exit 0'
        pids+=("$!")
    done
    end_of "$churn" 100
    touch "$WORK/stop"
    all_ended 30 "${pids[@]}"
    never_stuck "$DAEMON"
    run -0 ls "$MNT/topics"
    assert_output t
    echo works >>"$P/log"
}

@test "kill -9 of the daemon while topics come and go: nobody is stuck, it starts again" {
    local round i pid
    for round in {1..12}; do
        local pids=()
        for i in 1 2; do
            background bash -c 'for ((n = 0; n < 1000; n++)); do
                mkdir "$MNT/topics/k$0-$n" && rmdir "$MNT/topics/k$0-$n" || exit 0
            done' "$i-$round" 2>/dev/null
            pids+=("$!")
        done
        background bash -c 'while ls -l "$MNT/topics" "$MNT/cluster/brokers/topics"; do :; done' \
            >/dev/null 2>&1
        pids+=("$!")
        background bash -c 'for ((n = 0; n < 1000; n++)); do
            stat "$MNT/topics/k1-$0-$n" "$MNT/topics/no-$n"
        done' "$round" >/dev/null 2>&1
        pids+=("$!")
        sleep "0.$((round % 3 + 1))" # killed at one moment or another
        kill -KILL "$DAEMON"
        # No thread of it may be left in the kernel: that would keep the data locked and every
        # client waiting.
        wait_for 5 ended "$DAEMON"
        for pid in "${pids[@]}"; do
            kill "$pid" 2>/dev/null || true # their loops are long
            wait_for 5 ended "$pid"
            wait "$pid" 2>/dev/null || true
        done
        wait "$DAEMON" 2>/dev/null || true
        start_daemon
    done
    run -0 ls "$MNT/topics"
    assert_line t
}

@test "a lazy unmount under load: everybody ends, what was acknowledged is there" {
    local i pids=()
    for i in {1..6}; do
        background bash -c "$WRITER" "writer-$i" >"$WORK/done.$i" 2>/dev/null
        pids+=("$!")
    done
    for i in 1 2; do
        background cat "$P/follow/0" >/dev/null 2>&1
        pids+=("$!")
    done
    wait_for 20 lines_in "$WORK/done.3" 20
    fusermount3 -u -z "$MNT"
    never_stuck "${pids[@]}"
    # Writers fail at their next open; readers hold the mount and are killed like any process.
    kill -KILL "${pids[@]}" 2>/dev/null || true
    for i in "${pids[@]}"; do
        wait_for 5 ended "$i"
        wait "$i" 2>/dev/null || true
    done
    CHILDREN=()
    local status=0
    end_of "$DAEMON" 20 || status=$?
    [ "$status" -eq 0 ]
    DAEMON=
    start_daemon
    python 'have = set(open(os.environ["P"] + "/log").read().splitlines())
for i in range(1, 7):
    for line in open(os.environ["WORK"] + "/done.%d" % i).read().splitlines():
        assert line in have, line'
}

@test "SIGTERM under load: a clean end, what was acknowledged is there" {
    local i pids=()
    for i in {1..6}; do
        background bash -c "$WRITER" "writer-$i" >"$WORK/done.$i" 2>/dev/null
        pids+=("$!")
    done
    background cat "$P/follow/0" >/dev/null 2>&1
    pids+=("$!")
    wait_for 20 lines_in "$WORK/done.3" 20
    stop_daemon
    never_stuck "${pids[@]}"
    kill -KILL "${pids[@]}" 2>/dev/null || true
    for i in "${pids[@]}"; do
        wait_for 5 ended "$i"
        wait "$i" 2>/dev/null || true
    done
    CHILDREN=()
    start_daemon
    python 'log = open(os.environ["P"] + "/log").read().splitlines()
assert len(log) == len(set(log)), "a line is there twice"
have = set(log)
for i in range(1, 7):
    for line in open(os.environ["WORK"] + "/done.%d" % i).read().splitlines():
        assert line in have, line'
}
