#!/usr/bin/env bats
# Recovery after a crash of many partitions, with files lost at the same time.
load ../bats/helpers
setup() { fresh_mount segment_bytes=1024; }
teardown() { end_mount; }

# 100 partitions of about 20 segments; line n of partition p is "p n ...".
many_partitions() {
    "$PYTHON" -c 'import os
T = os.environ["MNT"] + "/topics/t"
os.mkdir(T)
with open(T + "/config.json", "w") as f:
    f.write("{\"flush\": \"os\"}")
for p in range(1, 100):
    os.mkdir("%s/%d" % (T, p))
for p in range(100):
    fd = os.open("%s/%d/log" % (T, p), os.O_WRONLY | os.O_APPEND)
    for n in range(0, 200, 10):
        os.write(fd, b"".join(b"%d %d %s\n" % (p, k, b"x" * 90) for k in range(n, n + 10)))
    os.close(fd)'
}

@test "100 partitions of 20 segments, kill -9, one index deleted, one zeroed" {
    many_partitions
    [ "$(find "$DATA" -path '*t-7/*.log' | wc -l)" -ge 15 ]
    kill9
    local lost zeroed
    lost=$(find "$DATA" -path '*t-7/*.index' | sort | sed -n 5p)
    zeroed=$(find "$DATA" -path '*t-8/*.index' | sort | sed -n 6p)
    rm "$lost"
    head -c "$(stat -c %s "$zeroed")" /dev/zero >"$zeroed.new"
    mv "$zeroed.new" "$zeroed"

    local start
    start=$(now_ms)
    start_daemon segment_bytes=1024
    run -0 within 2 ls "$MNT/topics/t"
    [ $(($(now_ms) - start)) -lt $((8000 * TOPICFS_TEST_SLOW)) ]

    "$PYTHON" -c 'import errno, os
T = os.environ["MNT"] + "/topics/t"
lost = {}
for p in range(100):
    if p not in (7, 8):
        want = b"".join(b"%d %d %s\n" % (p, k, b"x" * 90) for k in range(200))
        assert open("%s/%d/log" % (T, p), "rb").read() == want, p
        continue
    for k in range(200):
        try:
            with open("%s/%d/at/%d-%d" % (T, p, k, k), "rb") as f:
                got = f.read()
            assert got == b"%d %d %s\n" % (p, k, b"x" * 90), (p, k, got)
        except OSError as e:
            assert e.errno in (errno.EIO, errno.ESTALE), e
            lost.setdefault(p, []).append(k)
for p, gone in lost.items():
    assert len(gone) <= 20 and gone == list(range(gone[0], gone[-1] + 1)), (p, gone)
print("not readable:", lost)
for p in range(100):
    with open("%s/%d/log" % (T, p), "ab") as f:
        f.write(b"after\n")
    with open("%s/%d/at/200" % (T, p), "rb") as f:
        assert f.read() == b"after\n", p'
    run -0 cat "$MNT/cluster/problems"
    assert_output --partial "t-7"
    assert_output --partial "$(basename "$lost" .index)"
    assert_output --partial "t-8"
    assert_output --partial "$(basename "$zeroed" .index)"
    run -0 grep -c "$(basename "$lost" .index)" "$DAEMON_LOG"

    # The text is whole, so the repair gives every line back, at its offset.
    stop_daemon
    run "$TOPICFS_BIN" check "$DATA"
    assert_failure 4
    run "$TOPICFS_BIN" check --repair "$DATA"
    assert_failure 1
    run -0 "$TOPICFS_BIN" check "$DATA"
    start_daemon segment_bytes=1024
    "$PYTHON" -c 'import os
T = os.environ["MNT"] + "/topics/t"
for p in range(100):
    want = b"".join(b"%d %d %s\n" % (p, k, b"x" * 90) for k in range(200)) + b"after\n"
    assert open("%s/%d/log" % (T, p), "rb").read() == want, p'
    run -0 cat "$MNT/cluster/problems"
    assert_output ""
}

@test "a torn tail: what was never acknowledged is cut, the rest is there" {
    new_topic t '{"segment_bytes": 1048576, "flush": "os"}'
    seq 1 500 >>"$MNT/topics/t/0/log"
    kill9
    local text index
    text=$(find "$DATA" -path '*t-0/*.log' | sort | tail -n 1)
    index=${text%.log}.index
    # As a crash within an append leaves it: bytes of a batch without its entry, and half an
    # entry behind them.
    printf 'half a li' >>"$text"
    head -c 17 /dev/urandom >>"$index"
    start_daemon
    run -0 cmp <(seq 1 500) "$MNT/topics/t/0/log"
    echo next >>"$MNT/topics/t/0/log"
    run -0 cmp <(seq 1 500; echo next) "$MNT/topics/t/0/log"
    run -0 cat "$MNT/cluster/problems"
    assert_output ""
    stop_daemon
    run -0 "$TOPICFS_BIN" check "$DATA"
    start_daemon
}

@test "check --repair cuts a torn tail itself" {
    new_topic t '{"segment_bytes": 1048576, "flush": "os"}'
    seq 1 500 >>"$MNT/topics/t/0/log"
    kill9
    local text
    text=$(find "$DATA" -path '*t-0/*.log' | sort | tail -n 1)
    printf 'half a li' >>"$text"
    run "$TOPICFS_BIN" check --repair "$DATA"
    [ "$status" -le 1 ]
    run -0 "$TOPICFS_BIN" check "$DATA"
    start_daemon
    run -0 cmp <(seq 1 500) "$MNT/topics/t/0/log"
}

@test "a restart of a big unflushed log is quick" {
    new_topic t '{"segment_bytes": 268435456, "flush": "os"}'
    head -c 200m /dev/zero | tr '\0' 'x' | fold -w 999 >"$WORK/big"
    cat "$WORK/big" >>"$MNT/topics/t/0/log"
    local size start
    size=$(stat -c %s "$MNT/topics/t/0/log")
    [ "$size" -ge 209715200 ]
    kill9
    start=$(now_ms)
    start_daemon
    # 2 s per 800 MiB is the aim on an idle machine; this bound only tells seconds from minutes.
    [ $(($(now_ms) - start)) -lt $((10000 * TOPICFS_TEST_SLOW)) ]
    [ "$(stat -c %s "$MNT/topics/t/0/log")" -eq "$size" ]
    run -0 cmp <(tail -c 1000000 "$WORK/big"; echo) <(tail -c 1000001 "$MNT/topics/t/0/log")
}

@test "a failed flush takes the partition offline; a restart brings it back" {
    new_topic t
    new_topic u
    echo one >>"$MNT/topics/t/0/log"
    stop_daemon
    cc -shared -fPIC -D_GNU_SOURCE -o "$WORK/failing_flush.so" \
        "$REPOSITORY/tests/fault/failing_flush.c"
    LD_PRELOAD=$WORK/failing_flush.so FAILING_FLUSH_PATH=/t-0/ \
        FAILING_FLUSH_WHEN="$WORK/fail-now" start_daemon
    echo two >>"$MNT/topics/t/0/log"
    touch "$WORK/fail-now"
    run bash -c "echo three >>'$MNT/topics/t/0/log'"
    assert_failure
    rm "$WORK/fail-now"
    # Never tried again: the kernel may have dropped the pages.
    run bash -c "echo four >>'$MNT/topics/t/0/log'"
    assert_failure
    wait_for 5 grep -q t-0 "$MNT/cluster/problems"
    # Others go on.
    echo fine >>"$MNT/topics/u/0/log"
    run -0 cat "$MNT/topics/u/0/log"
    assert_output fine
    kill9
    start_daemon
    run -0 head -n 2 "$MNT/topics/t/0/log"
    assert_output $'one\ntwo'
    echo five >>"$MNT/topics/t/0/log"
    run -0 tail -n 1 "$MNT/topics/t/0/log"
    assert_output five
}
