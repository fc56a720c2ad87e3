#!/usr/bin/env bats
# The store and all other nodes hang, or are killed. On the node that is left everything ends:
# with what it knows, with an errno in time, or by Ctrl-C at once.
load ../bats/helpers
load cluster
setup() {
    fresh_cluster 3
    cluster_topic t '{"delivery_timeout_ms":2000}'
    LEADER=$(state_of t leader)
    FOLLOWER=$((LEADER % 3 + 1))
}
teardown() { end_cluster; }

# leave_alone NODE: all processes but its own stop; come_back wakes them.
leave_alone() {
    local part
    ME=$1
    M=$C/n$1
    HUNG=()
    for part in 1 2 3 etcd1; do
        [ "$part" = "$ME" ] || HUNG+=("$(pid_of "$part")")
    done
    kill -STOP "${HUNG[@]}"
}

come_back() {
    kill -CONT "${HUNG[@]}"
}

# kill_others NODE: all processes but its own are killed; "up" starts them again.
kill_others() {
    local part
    ME=$1
    M=$C/n$1
    for part in 1 2 3 etcd1; do
        [ "$part" = "$ME" ] || kill -KILL "$(pid_of "$part")"
    done
    for part in 1 2 3 etcd1; do
        [ "$part" = "$ME" ] || "$CLUSTER" kill "$part"
    done
}

# ends_by_interrupt COMMAND...: Ctrl-C, once it waits, ends it within a second.
ends_by_interrupt() {
    local pid start status=0
    # The shell's background processes ignore SIGINT.
    background "$PYTHON" -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' "$@" >/dev/null 2>&1
    pid=$!
    wait_for 5 waits_itself "$pid" || {
        echo "does not wait: $*"
        return 1
    }
    start=$(now_ms)
    kill -INT "$pid"
    end_of "$pid" 5 || status=$?
    [ "$status" -eq 130 ] || {
        echo "status $status: $*"
        return 1
    }
    [ $(($(now_ms) - start)) -lt $((1000 * TOPICFS_TEST_SLOW)) ] || {
        echo "took $(($(now_ms) - start)) ms: $*"
        return 1
    }
}

# waits_itself PID: blocked in the command, not in what starts it.
waits_itself() {
    blocked "$1" && ! grep -qa 'os.execvp' "/proc/$1/cmdline" && [ "$(cat "/proc/$1/comm")" != bash ]
}

refused_in_time() { # SECONDS ERRNO|ERRNO... CODE
    local result start
    start=$(now_ms)
    result=$(MNT=$M within "$1" "$PYTHON" -c "import errno, os
MNT = os.environ['MNT']
try:
    $3
    print('OK')
except OSError as e:
    print(errno.errorcode[e.errno])") || true
    echo "$3: $result after $(($(now_ms) - start)) ms"
    [[ $result =~ ^($2)$ ]]
}

everything_ends() {
    run -0 within 5 ls -lR "$M/topics" "$M/cluster"
    run -0 within 5 df "$M"
    run -0 within 5 cat "$M/cluster/controller_epoch" "$M/cluster/problems" \
        "$M/topics/t/0/state" "$M/topics/t/config.json"
    # Where the controller was killed before etcd, this node may have heard that there is none.
    run within 5 cat "$M/cluster/controller"
    [ "$status" -eq 0 ] || assert_output --partial "No such file or directory"
    run -0 within 5 cat "$M/topics/t/0/log"
    assert_output "$1"
    # Streams and poll wait as they would for any new message.
    background cat "$M/topics/t/0/follow/latest" >"$C/follow"
    FOLLOW=$!
    run -0 within 5 "$PYTHON" -c 'import os, select, sys
fd = os.open(sys.argv[1] + "/topics/t/0/follow/latest", os.O_RDONLY)
poll = select.poll()
poll.register(fd, select.POLLIN)
assert poll.poll(200) == []' "$M"
    ends_by_interrupt cat "$M/topics/t/0/follow/latest"
    ends_by_interrupt "$PYTHON" -c "import os
os.write(os.open('$M/topics/t/0/log', os.O_WRONLY | os.O_APPEND), b'interrupted\n')"
    # EROFS where the leader could still take the others out of the in-sync replicas.
    refused_in_time 10 'ETIMEDOUT|EHOSTUNREACH|EROFS' \
        'os.write(os.open(MNT + "/topics/t/0/log", os.O_WRONLY | os.O_APPEND), b"late\n")'
    # Before etcd is known to be away, a question to it takes its time, too.
    refused_in_time 10 'EIO|ETIMEDOUT|EHOSTUNREACH|EAGAIN' 'os.mkdir(MNT + "/topics/u")'
    refused_in_time 10 'EIO|ETIMEDOUT|EHOSTUNREACH|EAGAIN' 'os.chmod(MNT + "/topics/t", 0o700)'
    wait_for 10 grep -q kind=store "$M/cluster/problems"
    wait_for 5 blocked "$FOLLOW"
    never_stuck "$FOLLOW" "$(pid_of "$ME")"
}

nothing_hangs_on() { # NODE
    echo first >>"$C/n$FOLLOWER/topics/t/0/log"
    wait_for 10 same_everywhere t
    leave_alone "$1"
    everything_ends first
    come_back
    wait_for 30 all_in_sync t
    echo last >>"$M/topics/t/0/log"
    wait_for 10 grep -q last "$C/follow"
    wait_for 10 same_everywhere t
}

@test "all others hang: on the leader, nothing does" {
    nothing_hangs_on "$LEADER"
}

@test "all others hang: on a follower, nothing does" {
    nothing_hangs_on "$FOLLOWER"
}

others_are_killed() { # all but NODE
    echo first >>"$C/n$FOLLOWER/topics/t/0/log"
    wait_for 10 same_everywhere t
    kill_others "$1"
    everything_ends first
    run -0 within 60 "$CLUSTER" up 3
    wait_for 30 all_in_sync t
    echo last >>"$M/topics/t/0/log"
    wait_for 10 grep -q last "$C/follow"
    wait_for 10 same_everywhere t
}

@test "all others are killed: on the leader, nothing hangs" {
    others_are_killed "$LEADER"
}

@test "all others are killed: on a follower, nothing hangs" {
    others_are_killed "$FOLLOWER"
}

@test "a change that waits for the store ends by Ctrl-C" {
    leave_alone "$FOLLOWER"
    ends_by_interrupt mkdir "$M/topics/u"
    come_back
    wait_for 30 all_in_sync t
    run -0 within 20 mkdir "$M/topics/u2"
}
