#!/usr/bin/env bats
# at/<where> and log: where they begin, that they stay anchored, that sizes never fall.
load helpers
setup() {
    fresh_mount
    new_topic t
    P=$MNT/topics/t/0
    export P
}
teardown() { end_mount; }

# Message n is the line "n", for n from 0 on.
fill() { # FIRST LAST
    seq "$1" "$2" >>"$P/log"
}

# Small segments, kept only up to about the newest.
retain() {
    echo '{"segment_bytes": 4096, "retention_bytes": 8192}' >"$MNT/topics/t/config.json"
}

log_start() {
    jq .log_start_offset "$P/state"
}

started_above() {
    [ "$(log_start)" -gt "$1" ]
}

# Appends until retention has moved the log start above N.
age_out() { # N
    local next
    next=$(jq .log_end_offset "$P/state")
    fill "$next" "$((next + 4999))"
    wait_for 30 started_above "$1"
}

@test "an offset: from there on" {
    fill 0 999
    run -0 cmp <(seq 42 999) "$P/at/42"
    run -0 cmp <(seq 0 999) "$P/at/0"
    run -0 cmp <(seq 999 999) "$P/at/999"
    run -0 cat "$P/at/1000"
    assert_output ""
}

@test "offsets of several batches of uneven size" {
    local n
    for n in 0 1 2; do
        fill $((n * 70)) $((n * 70 + 69))
    done
    for n in 0 1 69 70 71 139 140 209; do
        run -0 head -n 1 "$P/at/$n"
        assert_output "$n"
    done
}

@test "a range: both ends included, never more" {
    fill 0 999
    run -0 cmp <(seq 42 99) "$P/at/42-99"
    run -0 cat "$P/at/5-5"
    assert_output 5
    exec 7<"$P/at/998-1001"
    run -0 cat <&7
    assert_output $'998\n999'
    fill 1000 1010
    run -0 cat <&7
    assert_output $'1000\n1001'
    exec 7<&-
    run -0 cat "$P/at/998-1001"
    assert_output $'998\n999\n1000\n1001'
}

@test "the last n messages, then what follows" {
    fill 0 99
    run -0 cmp <(seq 90 99) "$P/at/last10"
    run -0 cmp <(seq 90 99) "$P/at/-10"
    run -0 cmp <(seq 0 99) "$P/at/last1000"
    exec 7<"$P/at/last1"
    fill 100 101
    run -0 cat <&7
    assert_output $'99\n100\n101'
    exec 7<&-
}

@test "ages and times: the first message at or after" {
    fill 0 9
    local first between
    first=$(date +%s) # ages are in seconds: until this one is over
    second_is_over() { [ "$(date +%s)" -gt "$first" ]; }
    wait_for 3 second_is_over
    between=$(date +%s)
    fill 10 19
    run -0 cmp <(seq 10 19) "$P/at/@$between"
    run -0 cmp <(seq 10 19) "$P/at/$(date -u -d "@$between" +%Y-%m-%dT%H:%M:%SZ)"
    run -0 cmp <(seq 10 19) "$P/at/$(TZ=UTC-2 date -d "@$between" +%Y-%m-%dT%H:%M:%S%:z)"
    local age
    for age in last5m last2h last1d last300s; do
        run -0 cmp <(seq 0 19) "$P/at/$age"
    done
    run -0 cat "$P/at/@$((between + 3600))"
    assert_output ""
    run -0 cmp <(seq 0 19) "$P/at/@1"
}

@test "earliest and latest" {
    fill 0 9
    run -0 cmp <(seq 0 9) "$P/at/earliest"
    exec 7<"$P/at/latest"
    run -0 cat <&7
    assert_output ""
    fill 10 11
    run -0 cat <&7
    assert_output $'10\n11'
    exec 7<&-
}

@test "an offset above the end waits for it: empty, then from there on" {
    fill 0 9
    exec 7<"$P/at/15"
    run -0 stat -L -c %s /proc/self/fd/7
    fill 10 14
    run -0 cat <&7
    assert_output ""
    fill 15 17
    run -0 cat <&7
    assert_output $'15\n16\n17'
    exec 7<&-
    [ "$(stat -c %s "$P/at/15")" -eq 9 ]
}

@test "malformed places are EINVAL" {
    fill 0 9
    local name
    for name in foo 1x x1 01 5-3 1- -- last lastx last5y last-5 +5 1.5 @ @x @-1 \
        2026-13-01T00:00:00Z 2026-11-29 99999999999999999999 last99999999999999999999d \
        ' 1' '1 ' Earliest; do
        run errno_of 'os.stat(A[0])' "$P/at/$name"
        assert_output EINVAL || fail "at/$name: $output"
        run errno_of 'open(A[0])' "$P/follow/$name"
        assert_output EINVAL || fail "follow/$name: $output"
    done
}

@test "at, follow, json list as empty" {
    fill 0 4999
    local dir
    for dir in at follow json; do
        run -0 ls -A "$P/$dir"
        assert_output ""
    done
}

@test "segments: not listed where it is, but it lists the closed ones, in order" {
    echo '{"segment_bytes": 4096}' >"$MNT/topics/t/config.json"
    run -0 ls -A "$P/segments"
    assert_output ""
    local n
    for n in $(seq 0 100 4900); do
        fill "$n" $((n + 99))
    done
    run -0 ls "$P"
    refute_line segments
    # The last one is still written to.
    local files=("$P"/segments/*)
    local next
    next=$(($(tail -n 1 "${files[-1]}") + 1))
    [ "$next" -gt 1000 ]
    [ "$next" -lt 5000 ]
    run -0 cmp <(seq 0 $((next - 1))) <(cat "$P"/segments/*)
    run -0 ls -A "$P/segments"
    assert_equal "${#lines[@]}" "${#files[@]}"
    assert_line --index 0 00000000000000000000
    # The listing's inode numbers are those that stat tells.
    # shellcheck disable=SC2012
    run -0 diff <(ls -i "$P/segments" | awk '{print $1, $2}') \
        <(cd "$P/segments" && stat -c '%i %n' -- *)
    run -0 grep -c '' "${files[0]}"
    assert_output "$(tail -n 1 "${files[0]}" | awk '{print $1 + 1}')"
    # By number, too; and what is none is not there.
    run -0 head -n 1 "$P/segments/0"
    assert_output 0
    run -0 errno_of 'os.stat(A[0])' "$P/segments/1"
    assert_output ENOENT
    # A recursive search reads each message once.
    run -0 bash -c 'grep -rhx 17 "$1"' - "$P"
    assert_output 17
}

@test "segments: retention and compaction show in the listing" {
    retain
    fill 0 4999
    age_out 100
    run -0 ls "$P/segments"
    refute_line 00000000000000000000
    local files=("$P"/segments/*)
    run -0 head -n 1 "${files[0]}"
    assert_output "$(log_start)"
    rmdir "$MNT/topics/t"
    run ! ls "$P/segments"
}

@test "retention: below the log start is ESTALE, log begins at it" {
    retain
    fill 0 4999
    age_out 100
    local start
    start=$(log_start)
    run -0 errno_of 'os.stat(A[0])' "$P/at/0"
    assert_output ESTALE
    run -1 cat "$P/at/$((start - 1))"
    assert_output --partial "Stale file handle"
    run -0 head -n 1 "$P/at/$start"
    assert_output "$start"
    run -0 head -n 1 "$P/log"
    assert_output "$start"
    run -0 head -n 1 "$P/at/earliest"
    assert_output "$start"
    # It never falls, restarts included.
    remount
    [ "$(log_start)" -ge "$start" ]
    run -0 tail -n 1 "$P/log"
    assert_output "$(($(jq .log_end_offset "$P/state") - 1))"
}

@test "an open view keeps its anchor while retention moves the log start" {
    fill 0 2999
    python 'import threading
P = os.environ["P"]
fd = os.open(P + "/log", os.O_RDONLY)
inode = os.fstat(fd).st_ino
middle = os.open(P + "/at/1500", os.O_RDONLY)
with open(MNT + "/topics/t/config.json", "w") as f:
    f.write(json.dumps({"segment_bytes": 4096, "retention_bytes": 8192}))
state = lambda: json.load(open(P + "/state"))
sizes = [os.fstat(fd).st_size]
middles = [os.fstat(middle).st_size]
end = 3000
deadline = time.time() + 30 * int(os.environ["TOPICFS_TEST_SLOW"])
while state()["log_start_offset"] <= 3000:
    assert time.time() < deadline, state()
    with open(P + "/log", "a") as f:
        f.write("".join("%d\n" % n for n in range(end, end + 500)))
    end += 500
    sizes.append(os.fstat(fd).st_size)
    middles.append(os.fstat(middle).st_size)
    time.sleep(0.02) # the pace of writing
assert sizes == sorted(sizes) and middles == sorted(middles), "a size fell"
full = "".join("%d\n" % n for n in range(end)).encode()
assert os.fstat(fd).st_size == len(full)
skip = sum(len(str(n)) + 1 for n in range(1500))
assert os.fstat(middle).st_size == len(full) - skip
# Below the log start: ESTALE, never zeros; above it: the same bytes at the same place.
for view, base in (fd, 0), (middle, skip):
    try:
        os.pread(view, 10, 0)
        raise AssertionError("read a deleted range")
    except OSError as e:
        assert e.errno == errno.ESTALE, e
    tail = len(full) - base - 1000
    assert os.pread(view, 1000, tail) == full[-1000:]
# Who opens it now begins at the log start, which may still move while it is read.
while True:
    first = state()["log_start_offset"]
    now = os.open(P + "/log", os.O_RDONLY)
    assert os.fstat(now).st_ino == inode, "the inode number changed"
    try:
        text = os.read(now, 100)
    except OSError as e:
        assert e.errno == errno.ESTALE, e
        text = b""
    os.close(now)
    if state()["log_start_offset"] == first:
        break
    assert time.time() < deadline, state()
assert text.split()[0] == str(first).encode()'
}

@test "tail -f under retention: every line once, in order, no complaint" {
    fill 0 99
    retain
    background tail -n +1 -f -s 0.05 "$P/log" >"$WORK/out" 2>"$WORK/err"
    local at
    for ((at = 100; at < 6000; at += 100)); do
        fill "$at" $((at + 99))
        # Not faster than tail reads, or retention would rightly delete what it wants next.
        wait_for 10 lines_in "$WORK/out" $((at + 100))
    done
    wait_for 30 started_above 100
    fill 6000 6000
    wait_for 10 lines_in "$WORK/out" 6001
    run -0 cmp <(seq 0 6000) "$WORK/out"
    run -0 cat "$WORK/err"
    assert_output ""
}

@test "retention by age" {
    echo '{"segment_bytes": 4096, "segment_ms": 500, "retention_ms": 1000}' \
        >"$MNT/topics/t/config.json"
    fill 0 999
    wait_for 30 started_above 500
    # The newest segment closes by age as well, and its messages go too.
    local end
    end=$(jq .log_end_offset "$P/state")
    [ "$end" -eq 1000 ]
    fill 1000 1000
    run -0 tail -n 1 "$P/log"
    assert_output 1000
}

@test "compaction keeps the last line of each key, offsets stay" {
    echo '{"cleanup_policy": "compact", "segment_bytes": 4096}' >"$MNT/topics/t/config.json"
    python 'P = os.environ["P"]
with open(P + "/log", "ab", buffering=0) as f:
    for n in range(3000):
        f.write(b"key%d\tvalue %d\n" % (n % 10, n))'
    python 'P = os.environ["P"]
# The first compaction may have come already.
old = os.open(P + "/at/0", os.O_RDONLY)
first = os.pread(old, 100, 0)
deadline = time.time() + 40 * int(os.environ["TOPICFS_TEST_SLOW"])
# Until it has done what there is to do: nothing changes for a few of its rounds.
lines, since = [None] * 1000, time.time()
while len(lines) >= 1000 or time.time() - since < 3:
    assert time.time() < deadline, len(lines)
    time.sleep(0.1) # the pace of looking
    try:
        now = open(P + "/log").read().splitlines()
    except OSError as e:
        # It was compacted between two reads of the file.
        assert e.errno == errno.ESTALE, e
        now = None
    if now is None:
        since = time.time()
    elif now != lines:
        lines, since = now, time.time()
last = {}
for line in lines:
    key, value = line.split("\t")
    n = int(value.split()[1])
    assert n % 10 == int(key[3:]), line
    last[key] = n
assert last == {"key%d" % k: 2990 + k for k in range(10)}, last
ns = [int(line.split()[-1]) for line in lines]
assert ns == sorted(ns)
# Offsets are unchanged: the message of offset n is the one with value n.
rows = subprocess.run(["timeout", "10", "head", "-n", "5", P + "/json/2995"],
                      capture_output=True, text=True).stdout.splitlines()
for row in map(json.loads, rows):
    assert row["value"].endswith("value %d" % row["offset"]) or \
        row["value"] == "value %d" % row["offset"], row
for want in ns[:20]:
    assert open(P + "/at/%d" % want).readline().split()[-1] == str(want)
# A view from before, in the rewritten range: the old bytes or ESTALE, nothing else.
try:
    got = os.pread(old, 100, 0)
    assert got == first, (got, first)
except OSError as e:
    assert e.errno == errno.ESTALE, e'
    remount
    run -0 tail -n 1 "$P/log"
    assert_output $'key9\tvalue 2999'
}

@test "a hole in a deleted topic's views: ESTALE" {
    fill 0 99
    exec 7<"$P/log" 8<"$P/at/50"
    rmdir "$MNT/topics/t"
    run -1 cat <&7
    assert_output --partial "Stale file handle"
    run -1 cat <&8
    assert_output --partial "Stale file handle"
    exec 7<&- 8<&-
}

@test "mtime of log is the last append; block size 128 KiB" {
    fill 0 9
    local now mtime
    now=$(date +%s)
    mtime=$(stat -c %Y "$P/log")
    [ $((now - mtime)) -le 5 ]
    [ "$(stat -c %o "$P/log")" -eq 131072 ]
    [ "$(stat -c %h "$P/log")" -eq 1 ]
    [ "$(stat -c %F "$P/at/3")" = "regular file" ]
}
