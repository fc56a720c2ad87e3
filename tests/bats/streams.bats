#!/usr/bin/env bats
# follow/<where> and json/<where>: reads that block, wake, end, and can be interrupted.
load helpers
setup() {
    fresh_mount
    new_topic t
    P=$MNT/topics/t/0
    export P
}
teardown() { end_mount; }

@test "follow blocks until a message comes, then delivers it" {
    background cat "$P/follow/latest" >"$WORK/out"
    local reader=$!
    wait_for 5 waits_at "$reader" follow/latest
    [ ! -s "$WORK/out" ]
    echo one >>"$P/log"
    wait_for 5 lines_in "$WORK/out" 1
    echo two >>"$P/log"
    wait_for 5 lines_in "$WORK/out" 2
    run -0 cat "$WORK/out"
    assert_output $'one\ntwo'
    alive "$reader"
}

@test "follow delivers what is there first, then what comes" {
    seq 0 99 >>"$P/log"
    background cat "$P/follow/last5" >"$WORK/out"
    wait_for 5 lines_in "$WORK/out" 5
    seq 100 199 >>"$P/log"
    wait_for 5 lines_in "$WORK/out" 105
    run -0 cmp <(seq 95 199) "$WORK/out"
}

@test "a range ends by itself, also when its end comes later" {
    seq 0 4 >>"$P/log"
    run -0 within 5 cat "$P/follow/1-3"
    assert_output $'1\n2\n3'
    background cat "$P/follow/3-6" >"$WORK/out"
    local reader=$!
    wait_for 5 lines_in "$WORK/out" 2
    alive "$reader"
    seq 5 9 >>"$P/log"
    end_of "$reader" 5
    run -0 cat "$WORK/out"
    assert_output $'3\n4\n5\n6'
}

@test "follow from an offset above the end waits for it" {
    seq 0 4 >>"$P/log"
    background cat "$P/follow/8" >"$WORK/out"
    wait_for 5 waits_at "$!" follow/8
    seq 5 7 >>"$P/log"
    seq 8 9 >>"$P/log"
    wait_for 5 lines_in "$WORK/out" 2
    run -0 cat "$WORK/out"
    assert_output $'8\n9'
}

@test "poll, select and epoll wake up" {
    python 'import threading
P = os.environ["P"]
def append():
    time.sleep(0.3) # nothing shows that the wait has begun: it is given time
    with open(P + "/log", "a") as f:
        f.write("x\n")
def check(wait):
    fd = os.open(P + "/follow/latest", os.O_RDONLY)
    assert not wait(fd, 0), "readable before there is anything"
    thread = threading.Thread(target=append)
    thread.start()
    start = time.time()
    assert wait(fd, 10), "never woke"
    assert time.time() - start > 0.15, "woke before the message"
    thread.join()
    assert os.read(fd, 100) == b"x\n"
    assert not wait(fd, 0), "still readable after reading everything"
    os.close(fd)
def by_select(fd, seconds):
    return select.select([fd], [], [], seconds)[0]
def by_poll(fd, seconds):
    p = select.poll()
    p.register(fd, select.POLLIN)
    return p.poll(seconds * 1000)
def by_epoll(fd, seconds):
    e = select.epoll()
    e.register(fd, select.EPOLLIN)
    return e.poll(seconds)
for wait in by_select, by_poll, by_epoll:
    check(wait)
    check(wait)
for name in "follow", "json":
    fd = os.open(P + "/" + name + "/latest", os.O_RDONLY | os.O_NONBLOCK)
    edges = select.epoll()
    edges.register(fd, select.EPOLLIN | select.EPOLLET)
    for i in range(5):
        with open(P + "/log", "a") as f:
            f.write("edge\n")
        assert edges.poll(10), "%s: no edge for message %d" % (name, i)
        assert os.read(fd, 1000).count(b"edge") == 1
        try:
            os.read(fd, 1000)
            assert False
        except BlockingIOError:
            pass
fd = os.open(P + "/follow/0-1", os.O_RDONLY)
assert by_poll(fd, 0) and os.read(fd, 100) == b"x\nx\n"
assert by_poll(fd, 0) and os.read(fd, 100) == b"", "the end of a range is readable"'
}

@test "O_NONBLOCK: EAGAIN instead of waiting" {
    run -0 errno_of 'os.read(os.open(A[0], os.O_RDONLY | os.O_NONBLOCK), 10)' "$P/follow/latest"
    assert_output EAGAIN
    run -0 errno_of 'os.read(os.open(A[0], os.O_RDONLY | os.O_NONBLOCK), 10)' "$P/json/latest"
    assert_output EAGAIN
    echo x >>"$P/log"
    python 'fd = os.open(os.environ["P"] + "/follow/0", os.O_RDONLY | os.O_NONBLOCK)
assert os.read(fd, 10) == b"x\n"'
}

@test "SIGINT ends a blocked read within a second" {
    local i kind
    for kind in follow json; do
        for i in 1 2 3; do
            # A background job of a script ignores SIGINT; python makes it deadly again.
            background "$PYTHON" -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.read(os.open(sys.argv[1], os.O_RDONLY), 10)' "$P/$kind/latest"
            local reader=$! start
            wait_for 5 waits_at "$reader" "$kind/latest"
            start=$(now_ms)
            kill -INT "$reader"
            local status=0
            end_of "$reader" 5 || status=$?
            [ "$status" -eq 130 ]
            [ $(($(now_ms) - start)) -lt $((1000 * TOPICFS_TEST_SLOW)) ]
        done
    done
}

@test "a handled signal: EINTR, and the stream loses nothing" {
    python 'P = os.environ["P"]
class Alarm(Exception): pass
def ring(*_): raise Alarm
signal.signal(signal.SIGALRM, ring)
fd = os.open(P + "/follow/earliest", os.O_RDONLY)
for n in range(5):
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    start = time.time()
    try:
        os.read(fd, 100)
        raise AssertionError("read something")
    except Alarm:
        assert time.time() - start < 1.2 * int(os.environ["TOPICFS_TEST_SLOW"])
    with open(P + "/log", "a") as f:
        f.write("%d\n" % n)
    assert os.read(fd, 100) == b"%d\n" % n'
}

@test "json: one object per line with offset, timestamp, key, value" {
    local before after
    before=$(date +%s%3N)
    printf 'k1\tv1\nplain\n\tempty key\nq"\\\t\x01\n' >>"$P/log"
    after=$(date +%s%3N)
    run -0 within 5 jq -c '[.offset, .key, .value]' "$P/json/0-3"
    assert_line --index 0 '[0,"k1","v1"]' || assert_line --index 0 $'[0,"k1","k1\\tv1"]'
    assert_line --index 1 '[1,null,"plain"]'
    assert_line --index 2 --partial '[2,"",'
    assert_line --index 3 --partial '[3,"q\"\\",'
    run -0 within 5 jq -e --argjson a "$((before - 5))" --argjson b "$((after + 5))" \
        'keys == ["key","offset","timestamp","value"] and .timestamp >= $a and .timestamp <= $b' \
        "$P/json/0-3"
    run -0 within 5 wc -l "$P/json/0-3"
    assert_output --partial "4 "
}

@test "json of invalid UTF-8, NULs and controls is valid JSON" {
    python 'P = os.environ["P"]
with open(P + "/log", "ab") as f:
    f.write(bytes(b for b in range(256) if b != 10) + b"\n" + b"\xc3\n\xed\xa0\x80\tx\n" + "ü\t€😀\n".encode())
rows = open(P + "/json/0-3", "rb").read().decode("utf-8", "strict").splitlines()
rows = [r for r in rows if r]
assert len(rows) == 4, rows
objects = [json.loads(r) for r in rows]
assert [o["offset"] for o in objects] == [0, 1, 2, 3]
assert objects[3]["key"] == "ü" and objects[3]["value"].endswith("€😀"), objects[3]'
}

@test "json blocks and follows like follow" {
    background cat "$P/json/latest" >"$WORK/out"
    wait_for 5 waits_at "$!" json/latest
    seq 0 2 >>"$P/log"
    wait_for 5 lines_in "$WORK/out" 3
    run -0 jq -c .offset "$WORK/out"
    assert_output $'0\n1\n2'
}

@test "while read: each line once" {
    seq 0 999 >>"$P/log"
    run -0 within 20 bash -c "while read -r line; do echo \"\$line\"; done <'$P/follow/0-999'"
    [ "$output" = "$(seq 0 999)" ]
    run -0 within 5 bash -c "{ read -r a; read -r b; head -n 1; } <'$P/follow/10'; echo \$a \$b"
    assert_output $'12\n10 11'
}

@test "small reads at any size give the same bytes" {
    seq 0 499 >>"$P/log"
    python 'P = os.environ["P"]
want = "".join("%d\n" % n for n in range(500)).encode()
rows = None
for kind in "follow", "json":
    whole = open(P + "/%s/0-499" % kind, "rb").read()
    if kind == "follow":
        assert whole == want
    for size in 1, 7, 100, 4096:
        fd = os.open(P + "/%s/0-499" % kind, os.O_RDONLY)
        got = b""
        while True:
            part = os.read(fd, size)
            if not part:
                break
            got += part
        os.close(fd)
        assert got == whole, (kind, size)'
}

@test "two hundred blocked readers all wake, and the mount stays quick meanwhile" {
    python 'P = os.environ["P"]
pids = []
for n in range(200):
    pid = os.fork()
    if pid == 0:
        fd = os.open(P + "/follow/latest", os.O_RDONLY)
        with open(os.environ["WORK"] + "/ready", "a") as f: f.write("x")
        os._exit(0 if os.read(fd, 100) == b"wake\n" else 1)
    pids.append(pid)
slow = int(os.environ["TOPICFS_TEST_SLOW"])
deadline = time.time() + 20 * slow
while not os.path.exists(os.environ["WORK"] + "/ready") or os.path.getsize(os.environ["WORK"] + "/ready") < 200:
    assert time.time() < deadline
    time.sleep(0.02) # the pace of looking
start = time.time()
for n in range(50):
    os.stat(P + "/log")
    os.listdir(MNT + "/topics")
assert time.time() - start < 2 * slow
with open(P + "/log", "a") as f:
    f.write("wake\n")
deadline = time.time() + 10 * slow
for pid in pids:
    while True:
        got, status = os.waitpid(pid, os.WNOHANG)
        if got: break
        assert time.time() < deadline, "a reader did not wake"
        time.sleep(0.01) # the pace of looking
    assert status == 0, status'
}

@test "deleting the topic ends its readers with an error" {
    background cat "$P/follow/latest" 2>"$WORK/err"
    local reader=$!
    wait_for 5 waits_at "$reader" follow/latest
    rmdir "$MNT/topics/t"
    local status=0
    end_of "$reader" 5 || status=$?
    [ "$status" -eq 1 ]
    run -0 cat "$WORK/err"
    assert_output --partial "Stale file handle"
}

@test "SIGTERM of the daemon ends blocked readers and unmounts" {
    background cat "$P/follow/latest" 2>"$WORK/err"
    local reader=$!
    wait_for 5 waits_at "$reader" follow/latest
    background cat "$P/json/latest" 2>"$WORK/err2"
    wait_for 5 waits_at "$!" json/latest
    stop_daemon
    wait_for 5 ended "$reader"
    wait_for 5 ended "$!"
}

@test "a lazy unmount with blocked readers: they live on, and end with the daemon" {
    background cat "$P/follow/latest" >"$WORK/out" 2>"$WORK/err"
    local reader=$!
    wait_for 5 waits_at "$reader" follow/latest
    fusermount3 -u -z "$MNT"
    never_stuck "$reader" "$DAEMON"
    kill -KILL "$reader"
    wait_for 5 ended "$reader"
    # With its last user gone the mount is gone, and the daemon ends by itself.
    local status=0
    end_of "$DAEMON" 10 || status=$?
    [ "$status" -eq 0 ]
    DAEMON=
}

@test "a killed reader is gone at once" {
    background cat "$P/follow/latest"
    local reader=$!
    wait_for 5 waits_at "$reader" follow/latest
    kill -KILL "$reader"
    wait_for 1 ended "$reader"
}
