#!/usr/bin/env bats
# Signals while a write waits for the disk: a writer can be interrupted and killed, and no
# line is ever there twice.
load helpers
setup() {
    fresh_mount
    new_topic t
    LOG=$MNT/topics/t/0/log
    export LOG
}
teardown() {
    rm -f "$WORK/slow"
    end_mount
}

# slow_disk MS: from now on the daemon's flushes take that much longer.
slow_disk() {
    stop_daemon
    cc -shared -fPIC -D_GNU_SOURCE -o "$WORK/slow_flush.so" \
        "$REPOSITORY/tests/bats/slow_flush.c"
    local sanitizer=${ASAN_OPTIONS-}
    LD_PRELOAD=$WORK/slow_flush.so SLOW_FLUSH=$WORK/slow \
        ASAN_OPTIONS=${sanitizer:+$sanitizer:}verify_asan_link_order=0 start_daemon
    echo "$1" >"$WORK/slow"
}

# each_once FIRST LAST: those numbered lines, each exactly once, in order, nothing else.
each_once() {
    run -0 cmp <(seq "$1" "$2") "$LOG"
}

@test "bash: background jobs that end (SIGCHLD) during writes with the default flush" {
    bash -c 'for n in {1..150}; do
        sleep "0.00$((n % 10))" &
        echo "$n" >>"$LOG" || exit 1
    done; wait'
    each_once 1 150
}

@test "bash: SIGCHLD during a write that takes 80 ms: it completes, once" {
    # Text and index are flushed one after the other.
    slow_disk 40
    bash -c 'for n in {1..10}; do
        sleep "0.0$n" & sleep 0.02 &
        echo "$n" >>"$LOG" || exit 1
    done; wait'
    each_once 1 10
}

@test "bash: SIGCHLD during a write that takes longer: success or an error, never twice" {
    slow_disk 500
    bash -c 'for n in {1..8}; do
        sleep 0.05 & sleep 0.1 &
        echo "$n" >>"$LOG" && echo "$n" >>"$WORK/acknowledged"
    done; wait' 2>"$WORK/err" || true
    # The last one may still be waiting for the disk.
    rm "$WORK/slow"
    remount
    python 'lines = open(os.environ["LOG"]).read().split()
assert len(lines) == len(set(lines)), lines
assert set(lines) <= {str(n) for n in range(1, 9)}
path = os.environ["WORK"] + "/acknowledged"
done = open(path).read().split() if os.path.exists(path) else []
assert set(done) <= set(lines), (done, lines)'
}

@test "python: a handled signal during every write; it resends, each line is there once" {
    slow_disk 300
    python 'count = 0
def ring(*_):
    global count
    count += 1
signal.signal(signal.SIGALRM, ring)
signal.setitimer(signal.ITIMER_REAL, 0.03, 0.03)
fd = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
for n in range(1, 9):
    line = b"%d\n" % n
    assert os.write(fd, line) == len(line)
signal.setitimer(signal.ITIMER_REAL, 0)
assert count > 8, count'
    each_once 1 8
}

@test "python: the same with print, buffered files and several lines a write" {
    slow_disk 300
    python 'signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.03, 0.03)
with open(os.environ["LOG"], "a") as f:
    for n in range(1, 41):
        print(n, file=f)
        if n % 10 == 0:
            f.flush()
signal.setitimer(signal.ITIMER_REAL, 0)' # at its end python would die of another alarm
    each_once 1 40
}

@test "perl: print and syswrite under an alarm, each line once" {
    slow_disk 300
    run -0 perl -MTime::HiRes=setitimer,ITIMER_REAL -MErrno=EINTR -e '
        $SIG{ALRM} = sub { $rings++ };
        setitimer(ITIMER_REAL, 0.03, 0.03);
        open my $f, ">>", $ENV{LOG} or die $!;
        for (1..4) { print $f "$_\n" or die $!; $f->flush or die $!; }
        for my $n (5..8) {
            my $line = "$n\n";
            until (defined syswrite $f, $line) { die $! unless $! == EINTR }
        }
        setitimer(ITIMER_REAL, 0);
        close $f or die $!;
        die "no alarm" unless $rings > 8;'
    each_once 1 8
}

@test "after an interrupt other bytes may be written: the earlier at most once, before them" {
    slow_disk 500
    python 'class Alarm(Exception): pass
def ring(*_): raise Alarm
signal.signal(signal.SIGALRM, ring)
fd = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
for n in range(4):
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        os.write(fd, b"first %d\n" % n)
    except Alarm:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert os.write(fd, b"second %d\n" % n) == 9
lines = open(os.environ["LOG"]).read().splitlines()
assert len(lines) == len(set(lines)), lines
seconds = [l for l in lines if l.startswith("second")]
assert seconds == ["second %d" % n for n in range(4)], lines
for n in range(4):
    if "first %d" % n in lines:
        assert lines.index("first %d" % n) < lines.index("second %d" % n), lines'
}

@test "the keyed append under an alarm: each line once in its partition" {
    mkdir "$MNT/topics/t/1" "$MNT/topics/t/2"
    slow_disk 300
    python 'signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.03, 0.03)
fd = os.open(MNT + "/topics/t/append", os.O_WRONLY | os.O_APPEND)
want = set()
for n in range(5):
    block = b"".join(b"key%d\tvalue %d\n" % (k, n) for k in range(10))
    want |= set(block.splitlines())
    assert os.write(fd, block) == len(block)
signal.setitimer(signal.ITIMER_REAL, 0)
lines = []
for p in range(3):
    lines += open(MNT + "/topics/t/%d/log" % p, "rb").read().splitlines()
assert len(lines) == 50 and set(lines) == want, lines'
}

@test "Ctrl-C ends a writer that waits for the disk within a second" {
    slow_disk 3000
    background "$PYTHON" -c 'import os, signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.write(os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND), b"waits\n")'
    local writer=$! start
    wait_for 5 waits_at "$writer" topics/t/0/log
    start=$(now_ms)
    kill -INT "$writer"
    local status=0
    end_of "$writer" 5 || status=$?
    [ "$status" -eq 130 ]
    [ $(($(now_ms) - start)) -lt $((1000 * TOPICFS_TEST_SLOW)) ]
}

@test "kill -9 ends waiting writers at once, several on one log, none is ever stuck" {
    slow_disk 3000
    local i writers=()
    for i in 1 2 3 4; do
        background bash -c "echo $i >>'$LOG'"
        writers+=("$!")
    done
    local pid
    for pid in "${writers[@]}"; do wait_for 5 waits_at "$pid" topics/t/0/log; done
    never_stuck "${writers[@]}" "$DAEMON"
    kill -KILL "${writers[@]}"
    for pid in "${writers[@]}"; do
        wait_for 1 ended "$pid"
    done
    # Others are served meanwhile.
    run -0 within 1 cat "$LOG"
    run -0 within 1 ls "$MNT/topics"
}

@test "an interrupted fsync: EINTR, the mount goes on" {
    slow_disk 1000
    echo '{"flush": "os"}' >"$MNT/topics/t/config.json"
    python 'class Alarm(Exception): pass
def ring(*_): raise Alarm
signal.signal(signal.SIGALRM, ring)
fd = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
os.write(fd, b"1\n")
signal.setitimer(signal.ITIMER_REAL, 0.1)
start = time.time()
try:
    os.fsync(fd)
    signal.setitimer(signal.ITIMER_REAL, 0)
except Alarm:
    assert time.time() - start < 0.8 * int(os.environ["TOPICFS_TEST_SLOW"]), time.time() - start
os.write(fd, b"2\n")
os.fsync(fd)'
    each_once 1 2
}

@test "flush=os and flush=interval do not wait for a slow disk; ack does" {
    slow_disk 600
    local mode start
    for mode in os interval ack; do
        echo "{\"flush\": \"$mode\"}" >"$MNT/topics/t/config.json"
        start=$(now_ms)
        echo "$mode" >>"$LOG"
        if [ "$mode" = ack ]; then
            [ $(($(now_ms) - start)) -ge 600 ]
        else
            [ $(($(now_ms) - start)) -lt 500 ]
        fi
    done
    run -0 cat "$LOG"
    assert_output $'os\ninterval\nack'
}

@test "one flush serves all writers that wait (group commit)" {
    slow_disk 200
    local i start
    start=$(now_ms)
    for i in {1..10}; do
        background bash -c "echo $i >>'$LOG'"
    done
    local pid
    for pid in "${CHILDREN[@]}"; do
        end_of "$pid" 20
    done
    # One after the other would be 4 s.
    [ $(($(now_ms) - start)) -lt $((2500 * TOPICFS_TEST_SLOW)) ]
    run -0 cmp <(seq 1 10) <(sort -n "$LOG")
}
