#!/usr/bin/env bats
# Signals while a write waits for a leader on another node that does not answer: the writer
# is answered at once, and what it sends again stands once.
load ../bats/helpers
load cluster
setup() {
    fresh_cluster 3
    cluster_topic t
    LEADER=$(state_of t leader)
    WRITER=$((LEADER % 3 + 1))
    THIRD=$((WRITER % 3 + 1))
    export LOG=$C/n$WRITER/topics/t/0/log
    echo first >>"$LOG"
}
teardown() { end_cluster; }

start_waiting() { # LINE: in $WAITING
    background "$PYTHON" -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
fd = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
os.close(os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT))
os.write(fd, sys.argv[1].encode() + b"\n")' "$1" "$C/begun-$1"
    WAITING=$!
    wait_for 10 test -e "$C/begun-$1"
    wait_for 5 blocked "$WAITING"
}

ends_at_once() { # by Ctrl-C
    local start status=0
    start=$(now_ms)
    kill -INT "$WAITING"
    end_of "$WAITING" 5 || status=$?
    [ "$status" -eq 130 ]
    [ $(($(now_ms) - start)) -lt $((1000 * TOPICFS_TEST_SLOW)) ]
}

@test "Ctrl-C ends a writer within a second while leader and followers hang, and after" {
    kill -STOP "$(pid_of "$LEADER")" "$(pid_of "$THIRD")"
    start_waiting sent
    ends_at_once
    wait_for 20 session_over "$LEADER" "n$WRITER"
    wait_for 20 session_over "$THIRD" "n$WRITER"
    start_waiting parked
    never_stuck "$WAITING" "$(pid_of "$WRITER")"
    ends_at_once
    kill -CONT "$(pid_of "$LEADER")" "$(pid_of "$THIRD")"
    wait_for 30 all_in_sync t
    echo last >>"$LOG"
    wait_for 10 same_everywhere t
    run -0 sort "$LOG"
    [ -z "$(uniq -d <<<"$output")" ]
    assert_line first
    assert_line last
}

@test "python under an alarm, the leader hangs and is replaced: each line once" {
    background "$PYTHON" -c 'import os, signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
fd = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
for i in range(3000):
    line = b"line %d\n" % i
    assert os.write(fd, line) == len(line)
signal.setitimer(signal.ITIMER_REAL, 0)'
    local writer=$!
    wait_for 20 lines_in "$LOG" 100
    kill -STOP "$(pid_of "$LEADER")"
    wait_for 20 led_by_other t "$LEADER" "n$WRITER"
    kill -CONT "$(pid_of "$LEADER")"
    end_of "$writer" 60
    wait_for 30 all_in_sync t
    wait_for 10 same_everywhere t
    run -0 diff <(echo first; seq -f 'line %g' 0 2999) "$LOG"
}
