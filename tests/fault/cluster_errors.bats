#!/usr/bin/env bats
# The error table in a cluster: each mistake and each fault gets the same errno on the leader's
# mount and on a follower's.
load ../bats/helpers
load cluster

setup() { :; }
teardown() { end_cluster; }

# fresh_topic [JSON]: a cluster with the topic t; $L leads, $F follows, $G too.
fresh_topic() {
    fresh_cluster 3
    chmod 755 "$C"
    export MNT=$C/n1 # errno_of wants to know one
    cluster_topic t "$@"
    roles t
}

roles() { # TOPIC
    L=$(state_of "$1" leader)
    F=$((L % 3 + 1))
    G=$((F % 3 + 1))
}

configure() { # JSON with one key: until both mounts show it
    local key mount
    echo "$1" >"$C/n$L/topics/t/config.json"
    key=$(jq -r 'keys[0]' <<<"$1")
    for mount in "$C/n$L" "$C/n$F"; do
        wait_for 10 shows "$mount/topics/t/config.json" "$key" "$(jq ".$key" <<<"$1")"
    done
}

has_mode() { # MODE FILE
    [ "$(stat -c %a "$2")" = "$1" ]
}

shows() { # FILE KEY VALUE
    [ "$(jq ".$2" "$1")" = "$3" ]
}

# fails ERRNO CODE: on both mounts.
fails() {
    local k
    for k in "$L" "$F"; do
        MNT=$C/n$k run -0 errno_of "$2"
        [ "$output" = "$1" ] || fail "n$k (n$L leads): $2: $output, not $1"
    done
}

# start_both CODE: it begins on both mounts; ended_with tells how it ended.
start_both() {
    local k
    STARTED=()
    for k in "$L" "$F"; do
        MNT=$C/n$k background errno_of "$1" >"$C/errno-$k"
        STARTED+=("$!")
    done
}

ended_with() { # ERRNO SECONDS
    local pid k
    for pid in "${STARTED[@]}"; do end_of "$pid" "$2"; done
    for k in "$L" "$F"; do
        [ "$(cat "$C/errno-$k")" = "$1" ] || fail "n$k (n$L leads): $(cat "$C/errno-$k"), not $1"
    done
}

OPEN='fd = os.open(MNT + "/topics/t/0/log", os.O_WRONLY | os.O_APPEND)
'

@test "mistakes: EMSGSIZE, EPERM, EINVAL, EACCES" {
    fresh_topic
    configure '{"max_message_bytes":100}'
    fails EMSGSIZE "$OPEN"'os.write(fd, b"y" * 101 + b"\n")'
    # What is before it in the same write is stored.
    fails OK "$OPEN"'assert os.write(fd, b"short\n" + b"y" * 101 + b"\n") == 6'
    wait_for 10 same_everywhere t
    run -0 cat "$C/n$G/topics/t/0/log"
    assert_output $'short\nshort'
    local code
    for code in 'os.open(MNT + "/topics/t/0/log", os.O_WRONLY | os.O_TRUNC)' \
        'os.open(MNT + "/topics/t/0/log", os.O_WRONLY)' \
        'os.truncate(MNT + "/topics/t/0/log", 0)' \
        'os.unlink(MNT + "/topics/t/0/log")' \
        'os.rename(MNT + "/topics/t/0/log", MNT + "/topics/t/0/old")' \
        "$OPEN"'fcntl.fcntl(fd, fcntl.F_SETFL, 0)
os.write(fd, b"x\n")'; do
        fails EPERM "$code"
    done
    for code in 'os.mkdir(MNT + "/topics/a b")' \
        'os.mkdir(MNT + "/topics/t/2")' \
        'os.mkdir(MNT + "/topics/t/x")' \
        'os.write(os.open(MNT + "/topics/t/config.json", os.O_WRONLY), b"{]")' \
        'os.write(os.open(MNT + "/topics/t/config.json", os.O_WRONLY), b"{\"acks\":7}")' \
        'os.write(os.open(MNT + "/cluster/admin/delete_topics", os.O_WRONLY | os.O_CREAT), b"[]")'; do
        fails EINVAL "$code"
    done
    needs_root "act as another user"
    chmod 700 "$C/n$G/topics/t"
    local k
    for k in "$L" "$F"; do wait_for 5 has_mode 700 "$C/n$k/topics/t"; done
    fails EACCES 'os.setgroups([])
os.setgid(65534)
os.setuid(65534)
os.open(MNT + "/topics/t/0/log", os.O_WRONLY | os.O_APPEND)'
    run -0 cat "$C/n$G/topics/t/0/log"
    assert_output $'short\nshort'
}

@test "what is no more: ESTALE for a deleted range, and for a deleted topic" {
    # What a write may still be repeated for is not deleted: not for long here.
    fresh_topic '{"segment_bytes":4096,"retention_bytes":8192,"delivery_timeout_ms":1000}'
    local k
    for k in 1 2 3 4 5 6 7 8; do seq "${k}00000" "${k}00999" >>"$C/n$F/topics/t/0/log"; done
    for k in "$L" "$F"; do
        wait_for 20 eval '[ "$(state_of t log_start_offset n'"$k"')" -gt 0 ]'
    done
    fails ESTALE 'os.read(os.open(MNT + "/topics/t/0/at/0", os.O_RDONLY), 10)'
    exec 5>>"$C/n$L/topics/t/0/log" 6>>"$C/n$F/topics/t/0/log"
    exec 7<"$C/n$L/topics/t/0/log" 8<"$C/n$F/topics/t/0/log"
    rmdir "$C/n$G/topics/t"
    for k in "$L" "$F"; do wait_for 10 test ! -e "$C/n$k/topics/t"; done
    run -0 errno_of 'os.write(5, b"x\n")'
    assert_output ESTALE
    run -0 errno_of 'os.write(6, b"x\n")'
    assert_output ESTALE
    run -0 errno_of 'os.read(7, 10)'
    assert_output ESTALE
    run -0 errno_of 'os.read(8, 10)'
    assert_output ESTALE
    exec 5>&- 6>&- 7<&- 8<&-
}

@test "a follower hangs: EINTR, ETIMEDOUT; too few in sync: EROFS; no leader: EHOSTUNREACH" {
    SESSION_S=5 fresh_topic
    wait_for 10 all_in_sync t
    mkdir "$C/n1/topics/alone"
    reassign alone n1 "[$G]"
    wait_for 20 eval '[ "$(state_of alone replicas n'"$F"')$(state_of alone leader n'"$F"')" = "['"$G]$G"'" ]'
    wait_for 10 known_everywhere alone
    echo '{"delivery_timeout_ms":1000}' >"$C/n$L/topics/alone/config.json"
    echo first >>"$C/n$F/topics/t/0/log"
    configure '{"delivery_timeout_ms":1500}'
    kill -STOP "$(pid_of "$G")"
    start_both 'import ctypes, signal
c = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, True)
'"$OPEN"'signal.setitimer(signal.ITIMER_REAL, 0.2)
if c.write(fd, b"interrupted\n", 12) < 0:
    raise OSError(ctypes.get_errno(), "write")'
    ended_with EINTR 5
    start_both "$OPEN"'os.write(fd, b"late\n")'
    ended_with ETIMEDOUT 10

    configure '{"replica_lag_time_max_ms":1000}'
    wait_for 10 eval '[ "$(state_of t "isr|length" n'"$F"')" = 2 ]'
    configure '{"min_insync_replicas":3}'
    local end
    wait_for 5 eval '[ "$(state_of t high_watermark n'"$L"')" = "$(state_of t log_end_offset n'"$L"')" ]'
    end=$(state_of t log_end_offset "n$L")
    # Many, so that one of them may be on its way to the leader when its time is over.
    start_both 'import threading, time
seen = set()
def write():
    try:
        os.write(os.open(MNT + "/topics/t/0/log", os.O_WRONLY | os.O_APPEND), b"refused\n")
    except OSError as e:
        seen.add(e.errno)
threads = [threading.Thread(target=write) for _ in range(25)]
for t in threads:
    t.start()
    time.sleep(0.007) # so that they come one after the other
for t in threads:
    t.join()
assert len(seen) == 1, [errno.errorcode[e] for e in seen]
raise OSError(seen.pop(), "write")'
    ended_with EROFS 10
    configure '{"on_below_min":"fail"}'
    # Before the delivery timeout could end it.
    fails EROFS "$OPEN"'import time
begin = time.monotonic()
try:
    os.write(fd, b"refused at once\n")
finally:
    assert time.monotonic() - begin < 1'
    [ "$(state_of t log_end_offset "n$L")" = "$end" ]

    # The one replica of that topic is on the node that hangs, and its session is over.
    local k
    for k in "$L" "$F"; do wait_for 10 eval '[ "$(state_of alone leader n'"$k"')" = -1 ]'; done
    start_both 'os.write(os.open(MNT + "/topics/alone/0/log", os.O_WRONLY | os.O_APPEND), b"x\n")'
    ended_with EHOSTUNREACH 10
    kill -CONT "$(pid_of "$G")"
    wait_for 20 all_in_sync t
    fails OK "$OPEN"'os.write(fd, b"again\n")'
    wait_for 10 same_everywhere t
    run -1 grep refused "$C/n$F/topics/t/0/log"
    run -0 grep -c '^again$' "$C/n$L/topics/t/0/log"
    assert_output 2
}

@test "an unclean election: what is given up by it was seen, and is ESTALE from then on" {
    fresh_topic '{"unclean_leader_election":true,"min_insync_replicas":1,"replica_lag_time_max_ms":500}'
    echo kept >>"$C/n$F/topics/t/0/log"
    wait_for 10 same_everywhere t
    wait_for 10 all_in_sync t
    kill -STOP "$(pid_of "$F")" "$(pid_of "$G")"
    wait_for 20 eval '[ "$(state_of t isr n'"$L"')" = "['"$L"']" ]'
    echo lost >>"$C/n$L/topics/t/0/log"
    exec 7<"$C/n$L/topics/t/0/at/0" 8<"$C/n$L/topics/t/0/at/1"
    run -0 head -n 1 <&8
    assert_output lost
    kill -STOP "$(pid_of "$L")"
    kill -CONT "$(pid_of "$F")" "$(pid_of "$G")"
    wait_for 30 eval 'k=$(state_of t leader n'"$F"') && [ "$k" -gt 0 ] && [ "$k" != '"$L"' ]'
    run -0 within 20 bash -c "echo new >>'$C/n$G/topics/t/0/log'"
    # Who leads knows where its log ended; how much others had, these tell when they come.
    wait_for 10 grep -q 'kind=loss t-0.*lost messages from offset 1 on' "$C/n$G/cluster/problems"
    kill -CONT "$(pid_of "$L")"
    wait_for 30 all_in_sync t
    wait_for 10 same_everywhere t
    run -0 errno_of 'os.pread(7, 10, 0)'
    assert_output ESTALE
    run -0 errno_of 'os.fstat(7)'
    assert_output ESTALE
    run -0 errno_of 'os.read(8, 10)'
    assert_output ESTALE
    exec 7<&- 8<&-
    for k in "$L" "$F" "$G"; do
        run -0 cat "$C/n$k/topics/t/0/log"
        assert_output $'kept\nnew'
        wait_for 10 grep -q 'kind=loss t-0.*lost messages 1 to 1' "$C/n$k/cluster/problems"
        run -0 jq -c '.loss | [.from, .to]' "$C/n$k/cluster/brokers/topics/t/partitions/0/state"
        assert_output '[1,2]'
    done
}

@test "the leader's disk is full: ENOSPC on every mount; with space again, it works" {
    fresh_cluster_on_small_disks 3 24m 1 2 3
    cluster_topic t '{"segment_bytes":1048576}'
    roles t
    echo first >>"$C/n$F/topics/t/0/log"
    wait_for 10 all_in_sync t
    fill_disk "$L" 1500
    fails ENOSPC "$OPEN"'while True:
    os.write(fd, b"x" * 65535 + b"\n")'
    run -0 within 5 head -n 1 "$C/n$F/topics/t/0/log"
    assert_output first
    empty_disk "$L"
    fails OK "$OPEN"'os.write(fd, b"again\n")'
    wait_for 20 same_everywhere t
    wait_for 20 all_in_sync t
}
