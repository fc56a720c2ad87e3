#!/usr/bin/env bats
# fsync: the disks of all in-sync replicas, whatever the topic's policy. One of them is slow.
load ../bats/helpers
load cluster

SLOW_MS=$((2500 * TOPICFS_TEST_SLOW)) # the slow disk
TIMEOUT_MS=$((800 * TOPICFS_TEST_SLOW))

setup() {
    fresh_cluster 4
    cluster_topic t '{"flush":"os"}'
    local k
    export MNT=$C
    LEADER=$(state_of t leader)
    SLOW='' OTHER='' AWAY=''
    for k in 1 2 3 4; do
        if ! state_of t replicas | jq -e "index($k)" >/dev/null; then
            AWAY=$k
        elif [ "$k" -ne "$LEADER" ]; then
            OTHER=$SLOW
            SLOW=$k
        fi
    done
    "$CLUSTER" kill "$SLOW"
    cc -shared -fPIC -D_GNU_SOURCE -o "$C/slow_flush.so" "$REPOSITORY/tests/bats/slow_flush.c"
    LD_PRELOAD=$C/slow_flush.so SLOW_FLUSH=$C/slow "$CLUSTER" start "$SLOW"
    wait_for 20 all_in_sync t
    [ "$(state_of t leader)" = "$LEADER" ]
}
teardown() {
    # It is slow no more: the end need not wait for it.
    [ -z "${C-}" ] || rm -f "$C/slow"
    end_cluster
}

flushed() { # NODE
    state_of t flushed_offset "n$1"
}

# Appends two lines, the second of which has to get through while an fsync of the first waits.
# Prints what fsync and the second write took.
sync_on() { # NODE
    LOG=$C/n$1/topics/t/0/log run -0 python 'import threading
def opened(): return os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
one, two = opened(), opened()
took = {}
def timed(name, call):
    start = time.time()
    call()
    took[name] = int(1000 * (time.time() - start))
timed("first", lambda: os.write(one, b"first\n"))
thread = threading.Thread(target=timed, args=("fsync", lambda: os.fsync(one)))
thread.start()
while open("/proc/self/task/%d/stat" % thread.native_id).read().split()[2] != "S":
    time.sleep(0.005) # until it waits; when it has ended, that file is no more
timed("second", lambda: os.write(two, b"second\n"))
assert "fsync" not in took
thread.join()
print(took["first"], took["fsync"], took["second"])'
}

@test "fsync waits for the slowest disk, from every node; writes do not" {
    local node end=0 first fsync second
    echo "$SLOW_MS" >"$C/slow"
    for node in "$LEADER" "$OTHER" "$SLOW" "$AWAY"; do
        sync_on "$node"
        read -r first fsync second <<<"$output"
        [ "$first" -lt "$SLOW_MS" ]
        [ "$second" -lt "$SLOW_MS" ]
        [ "$fsync" -ge "$SLOW_MS" ]
        end=$((end + 2))
        [ "$(flushed "$LEADER")" -ge $((end - 1)) ]
        [ "$(flushed "$OTHER")" -ge $((end - 1)) ]
        [ "$(flushed "$SLOW")" -ge $((end - 1)) ]
    done
    echo 'by key' >>"$C/n$AWAY/topics/t/append"
    wait_for 10 same_everywhere t
    wait_for 5 no_problems
}

@test "an fsync that takes too long: ETIMEDOUT, and it can be asked again; a signal ends it" {
    echo "{\"delivery_timeout_ms\":$TIMEOUT_MS}" >"$C/n1/topics/t/config.json"
    for node in "$LEADER" "$OTHER"; do
        wait_for 5 timeout_is_set "$node"
        echo "$SLOW_MS" >"$C/slow"
        LOG=$C/n$node/topics/t/0/log run -0 python 'class Alarm(Exception): pass
def ring(*_): raise Alarm
signal.signal(signal.SIGALRM, ring)
fd = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
os.write(fd, b"line\n")
try:
    os.fsync(fd)
    assert False, "it came back"
except OSError as e:
    assert e.errno == errno.ETIMEDOUT, e
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    os.fsync(fd)
    assert False, "it came back"
except Alarm:
    pass
deadline = time.time() + 20
while True:
    try:
        os.fsync(fd)
        break
    except OSError as e:
        assert e.errno == errno.ETIMEDOUT and time.time() < deadline, e'
        [ "$(flushed "$SLOW")" = "$(state_of t log_end_offset "n$SLOW")" ]
    done
}

timeout_is_set() { # NODE
    [ "$(jq .delivery_timeout_ms "$C/n$1/topics/t/config.json")" = "$TIMEOUT_MS" ]
}

acks_are_0() { # NODE
    [ "$(jq .acks "$C/n$1/topics/t/config.json")" = 0 ]
}

@test "acks=0: what was only accepted is sent, and on all disks after fsync" {
    local node end=0
    echo '{"acks":0}' >"$C/n1/topics/t/config.json"
    for node in "$LEADER" "$OTHER" "$AWAY"; do
        wait_for 5 acks_are_0 "$node"
        printf 'one\ntwo\n' |
            dd of="$C/n$node/topics/t/0/log" oflag=append conv=notrunc,fsync status=none
        end=$((end + 2))
        [ "$(flushed "$LEADER")" -ge "$end" ]
        [ "$(flushed "$OTHER")" -ge "$end" ]
        [ "$(flushed "$SLOW")" -ge "$end" ]
        echo three >>"$C/n$node/topics/t/0/log"
        wait_for 5 has_lines "$((end += 1))"
    done
}

has_lines() { # COUNT
    [ "$(state_of t high_watermark "n$LEADER")" = "$1" ]
}

@test "fsync goes on when the slow replica is lost, and when the leader is" {
    echo 60000 >"$C/slow"
    LOG=$C/n$OTHER/topics/t/0/log background "$PYTHON" -c 'import os
fd = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
os.write(fd, b"line\n")
os.fsync(fd)'
    local waiting=$!
    wait_for 10 has_lines 1
    wait_for 5 blocked "$waiting"
    "$CLUSTER" kill "$LEADER"
    wait_for 20 led_by_other t "$LEADER" "n$OTHER"
    alive "$waiting"
    "$CLUSTER" start "$LEADER"
    echo 0 >"$C/slow"
    "$CLUSTER" kill "$SLOW"
    end_of "$waiting" 20
    "$CLUSTER" start "$SLOW"
    wait_for 20 same_everywhere t
}
