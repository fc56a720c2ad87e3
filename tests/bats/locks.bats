#!/usr/bin/env bats
# flock(2) keeps those apart that have the same file open, whichever inode each of them has.
load helpers
setup() {
    fresh_mount
    new_topic t
    LOG=$MNT/topics/t/0/log
    export LOG
}
teardown() { end_mount; }

@test "two writers of a log exclude each other" {
    exec 5>>"$LOG" 6>>"$LOG"
    flock -x 5
    run -1 flock -n -x 6
    run -1 flock -n -s 6
    run -1 flock -n "$LOG" true
    flock -u 5
    flock -n -x 6
    run -1 flock -n -x 5
    # Closing ends it.
    exec 6>&-
    wait_for 5 flock -n -x 5
    exec 5>&-
}

@test "shared locks go together, and with readers; files of other kinds have their own" {
    exec 5>>"$LOG" 6<"$LOG" 7>>"$MNT/topics/t/append" 8<"$MNT/topics/t/config.json"
    flock -n -s 5
    flock -n -s 6
    run -1 flock -n -x 6
    flock -n -x 7
    flock -n -x 8
    flock -n "$MNT/topics/t" true
    exec 5>&- 6>&- 7>&- 8>&-
}

@test "groups of lines under flock are not mixed" {
    local i
    for i in 1 2 3 4; do
        # The ' is bash's of the child.
        # shellcheck disable=SC2016
        background bash -c 'for n in $(seq 20); do
            (flock 9; echo "$1 begin $n"; echo "$1 end $n") 9>>"$LOG" >&9
        done' - "$i"
    done
    for i in "${CHILDREN[@]}"; do
        end_of "$i" 60
    done
    run -0 wc -l <"$LOG"
    assert_output 160
    run -0 awk '{ key = $1 " " $3 }
        NR % 2 { if ($2 != "begin") bad = 1; last = key; next }
        $2 != "end" || key != last { bad = 1 }
        END { exit bad }' "$LOG"
}

@test "a wait for a lock can be interrupted, and ends with the mount" {
    exec 5>>"$LOG"
    flock -x 5
    background python '
def alarm(*_): raise InterruptedError
signal.signal(signal.SIGALRM, alarm)
f = open(os.environ["LOG"], "ab")
signal.setitimer(signal.ITIMER_REAL, 0.3)
began = time.time()
try:
    fcntl.flock(f, fcntl.LOCK_EX)
    sys.exit(3)
except InterruptedError:
    sys.exit(0 if time.time() - began < 1.3 * int(os.environ["TOPICFS_TEST_SLOW"]) else 4)'
    end_of $! 20
    background flock -x "$LOG" true
    local waiting=$!
    wait_for 5 waits_at "$waiting" topics/t/0/log
    kill -KILL "$waiting"
    wait_for 5 ended "$waiting"
    # Nothing is left of those who have given up.
    exec 6>>"$LOG"
    flock -u 5
    flock -n -x 6
    background flock -x "$LOG" true
    waiting=$!
    wait_for 5 waits_at "$waiting" topics/t/0/log
    stop_daemon
    wait_for 5 ended "$waiting"
    exec 5>&- 6>&- || true
}

@test "fcntl's locks are refused: ENOLCK" {
    python '
for path, flags in ((os.environ["LOG"], os.O_WRONLY | os.O_APPEND),
                    (os.environ["MNT"] + "/topics/t/config.json", os.O_RDWR)):
    fd = os.open(path, flags)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        sys.exit("locked " + path)
    except OSError as e:
        assert e.errno == errno.ENOLCK, e
    os.write(fd, b"{}\n")
    os.close(fd)'
}
