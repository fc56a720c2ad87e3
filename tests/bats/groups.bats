#!/usr/bin/env bats
# groups/: streams that join, the commit rule, offsets, members, lag.
# shellcheck disable=SC2016 # what is quoted is for other shells
load helpers
setup() {
    fresh_mount
    new_topic t '' "${PARTITIONS:-1}"
    G=$MNT/groups/g
    P=$MNT/topics/t/0
    export G P
}
teardown() { end_mount; }

committed() { # [PARTITION [GROUP [TOPIC]]]
    cat "$MNT/groups/${2:-g}/offsets/${3:-t}/${1:-0}"
}
committed_is() { # OFFSET [PARTITION [GROUP]]
    [ "$(committed "${2:-0}" "${3:-g}")" = "$1" ]
}
members_are() { # NUMBER [GROUP]
    [ "$(jq '.members | length' "$MNT/groups/${2:-g}/members")" = "$1" ]
}
lag_is() { # NUMBER
    [ "$(jq .lag "$G/lag")" = "$1" ]
}
# No partition is without a member, and so many members have one.
all_owned() { # MEMBERS PARTITIONS
    [ "$(jq -c '[([.members[].partitions | select(length > 0)] | length),
        ([.members[].partitions[]] | unique | length),
        ([.members[].partitions[]] | length)]' "$G/members")" = "[$1,$2,$2]" ]
}
four_partitions() {
    new_topic four '' 4
}

# --- the tree --------------------------------------------------------------------------

@test "a valid name is there, and listed once it is used" {
    run -0 ls "$MNT/groups"
    assert_output ""
    [ -d "$G" ]
    run ! ls "$MNT/groups/not valid"
    run -0 ls "$G"
    assert_output $'config.json\njson\nlag\nmembers\noffsets\nread'
    run ! mkdir "$G"
    echo earliest >"$G/offsets/t/0"
    run -0 ls "$MNT/groups"
    assert_output g
    run -0 ls "$G/offsets"
    assert_output t
    run -0 ls "$G/offsets/t"
    assert_output 0
}

@test "recursion ends, and joins no group" {
    seq 3 >>"$P/log"
    echo 1 >"$G/offsets/t/0"
    run -0 within 20 grep -rl 2 "$MNT/groups" "$MNT/topics"
    refute_line --partial /read/
    run -0 within 20 find "$MNT/groups" -name '*.json'
    run -0 within 20 tar -C "$MNT" -cf /dev/null groups
    [ "$(jq '.members | length' "$G/members")" = 0 ]
    [ "$(committed)" = 1 ]
}

@test "everyday tools read the small files" {
    seq 3 >>"$P/log"
    echo 2 >"$G/offsets/t/0"
    run -0 cat "$G/offsets/t/0"
    assert_output 2
    run -0 wc -c "$G/offsets/t/0"
    assert_output --partial "2 "
    run -0 grep -c . "$G/offsets/t/0"
    assert_output 1
    read -r offset <"$G/offsets/t/0"
    [ "$offset" = 2 ]
    run -0 cp "$G/lag" "$WORK/lag"
    [ "$(jq .lag "$WORK/lag")" = 1 ]
    run -0 tail -n 1 "$G/offsets/t/0"
    assert_output 2
    python 'assert open(MNT + "/groups/g/offsets/t/0").read() == "2\n"'
}

# --- the commit rule -------------------------------------------------------------------

@test "while read: line by line, in bash and dash" {
    local shell
    seq 10 >>"$P/log"
    for shell in bash dash; do
        run -0 within 20 "$shell" -c '
            n=0
            while read -r line; do
                echo "$line"
                n=$((n + 1))
                [ $n -lt 4 ] || break
            done <"$MNT/groups/'$shell'/read/t"'
        assert_output $'1\n2\n3\n4'
        # The fourth was handed out, but nobody came back for the fifth.
        wait_for 5 members_are 0 $shell
        run -0 committed 0 $shell
        assert_output 3
        run -0 within 20 "$shell" -c 'read -r line <"$MNT/groups/'$shell'/read/t"; echo "$line"'
        assert_output 4
    done
}

@test "what was committed stays over a restart" {
    seq 10 >>"$P/log"
    bash -c 'for i in 1 2 3 4 5; do read -r line; done' <"$G/read/t"
    wait_for 5 members_are 0
    run -0 committed
    assert_output 4
    remount
    run -0 committed
    assert_output 4
    run -0 bash -c 'read -r line; echo "$line"' <"$G/read/t"
    assert_output 5
    kill9
    start_daemon
    run -0 committed
    assert_output 4
}

@test "cat takes everything, and commits what it came back for" {
    seq 100 >>"$P/log"
    background cat "$G/read/t" >"$WORK/out"
    local reader=$!
    wait_for 10 lines_in "$WORK/out" 100
    wait_for 10 committed_is 100
    seq 101 110 >>"$P/log"
    wait_for 10 lines_in "$WORK/out" 110
    run -0 cmp <(seq 110) "$WORK/out"
    wait_for 10 committed_is 110
    kill "$reader"
    wait_for 10 members_are 0
}

@test "head -n 1 has its line handed out again" {
    seq 5 >>"$P/log"
    run -0 within 10 head -n 1 "$G/read/t"
    assert_output 1
    wait_for 5 members_are 0
    run -0 within 10 head -n 1 "$G/read/t"
    assert_output 1
}

@test "python and perl: lines that were iterated over" {
    seq 5 >>"$P/log"
    within 20 "$PYTHON" - <<'END'
import os
fd = os.open(os.environ["G"] + "/read/t", os.O_RDONLY)
assert os.read(fd, 100) == b"1\n2\n3\n4\n5\n"
assert os.pread(fd, 10, 2) == b"2\n3\n4\n5\n"  # 1 is finished by this
assert os.pread(fd, 1, 3) == b"\n"
assert os.lseek(fd, 2, os.SEEK_SET) == 2   # 2 is not: it can be read again
assert os.read(fd, 2) == b"2\n"
assert os.read(fd, 2) == b"3\n"            # 2 is
try:
    os.pread(fd, 1, 0)
    assert False, "what was finished was read again"
except OSError as e:
    assert e.errno == 116, e
try:
    os.pread(fd, 1, 1000)
    assert False, "beyond what was handed out"
except OSError as e:
    assert e.errno == 22, e
os.close(fd)
END
    wait_for 5 members_are 0
    run -0 committed
    assert_output 2

    run -0 within 20 perl -e '
        open my $f, "<", "$ENV{G}/read/t" or die;
        sysread $f, my $line, 2;
        print $line;
        sysread $f, $line, 2;
        print $line;'
    assert_output $'3\n4'
    wait_for 5 committed_is 3
}

@test "O_NONBLOCK and poll" {
    within 30 "$PYTHON" - <<'END'
import os, select, threading, time
fd = os.open(os.environ["G"] + "/read/t", os.O_RDONLY | os.O_NONBLOCK)
def again():
    try:
        os.read(fd, 100)
        assert False, "read something"
    except BlockingIOError:
        pass
again()
assert not select.select([fd], [], [], 0.1)[0]
def later():
    time.sleep(0.3) # nothing shows that the wait has begun: it is given time
    with open(os.environ["P"] + "/log", "a") as f:
        f.write("x\n")
t = threading.Thread(target=later)
t.start()
assert select.select([fd], [], [], 20)[0], "poll never woke"
t.join()
assert os.read(fd, 100) == b"x\n"
again()
END
    wait_for 5 committed_is 1
}

@test "an interrupt ends a read that waits, and an open stream can be closed at once" {
    background cat "$G/read/t"
    local reader=$!
    wait_for 5 members_are 1
    wait_for 5 blocked "$reader"
    kill "$reader"
    wait_for 2 ended "$reader"
    wait_for 5 members_are 0
    : <"$G/read/t"
    wait_for 5 members_are 0
    [ "$(committed)" = 0 ] || [ "$(committed)" = none ]
}

# --- members ---------------------------------------------------------------------------

@test "partitions are shared, and those of a killed reader go to the others" {
    four_partitions
    export G
    background bash -c 'while read -r l; do echo "$l"; done <"$G/read/four"' >"$WORK/a"
    local first=$!
    wait_for 10 all_owned 1 4
    background bash -c 'while read -r l; do echo "$l"; done <"$G/read/four"' >"$WORK/b"
    wait_for 10 all_owned 2 4
    for i in $(seq 400); do printf '%d\n' "$i"; done |
        while read -r i; do echo "$i" >>"$MNT/topics/four/$((i % 4))/log"; done
    wait_for 20 bash -c '[ "$(cat "$WORK/a" "$WORK/b" | wc -l)" -ge 400 ]'
    run -0 cmp <(sort -n "$WORK/a" "$WORK/b") <(seq 400)
    [ -s "$WORK/a" ]
    [ -s "$WORK/b" ]
    kill -KILL "$first"
    wait_for 10 all_owned 1 4
    for i in $(seq 401 500); do echo "$i" >>"$MNT/topics/four/$((i % 4))/log"; done
    wait_for 20 bash -c '[ "$(cat "$WORK/a" "$WORK/b" | sort -nu | wc -l)" -ge 500 ]'
    run -0 cmp <(sort -nu "$WORK/a" "$WORK/b") <(seq 500)
    # No more than the line in hand was done twice.
    [ "$(cat "$WORK/a" "$WORK/b" | wc -l)" -le 501 ]
}

@test "a member too many waits, and takes over" {
    background cat "$G/read/t" >"$WORK/a"
    local first=$!
    wait_for 10 all_owned 1 1
    background cat "$G/read/t" >"$WORK/b"
    wait_for 10 members_are 2
    wait_for 10 all_owned 1 1
    seq 10 >>"$P/log"
    wait_for 10 lines_in "$WORK/a" 10
    [ ! -s "$WORK/b" ]
    wait_for 10 committed_is 10
    kill "$first"
    wait_for 10 members_are 1
    seq 11 20 >>"$P/log"
    wait_for 10 lines_in "$WORK/b" 10
    run -0 cmp <(seq 11 20) "$WORK/b"
}

@test "several groups each get everything" {
    seq 50 >>"$P/log"
    background cat "$MNT/groups/one/read/t" >"$WORK/one"
    background cat "$MNT/groups/two/read/t" >"$WORK/two"
    wait_for 10 lines_in "$WORK/one" 50
    wait_for 10 lines_in "$WORK/two" 50
    run -0 cmp "$WORK/one" "$WORK/two"
    run -0 ls "$MNT/groups"
    assert_output $'one\ntwo'
}

@test "a partition that is added is read by the members that are there" {
    background cat "$G/read/t" >"$WORK/out"
    wait_for 10 all_owned 1 1
    mkdir "$MNT/topics/t/1"
    wait_for 10 all_owned 1 2
    echo new >>"$MNT/topics/t/1/log"
    wait_for 10 lines_in "$WORK/out" 1
}

@test "who holds lines for too long is replaced" {
    echo '{"max_poll_interval_ms": 1000}' >"$G/config.json"
    seq 5 >>"$P/log"
    background bash -c 'exec <"$G/read/t"; read -r line; echo "$line"; exec sleep 1000' >"$WORK/a"
    wait_for 10 lines_in "$WORK/a" 1
    background cat "$G/read/t" >"$WORK/b"
    wait_for 20 lines_in "$WORK/b" 5
    run -0 cmp <(seq 5) "$WORK/b"
}

@test "start=latest begins at the end" {
    seq 5 >>"$P/log"
    echo '{"start": "latest"}' >"$G/config.json"
    background cat "$G/read/t" >"$WORK/out"
    wait_for 10 all_owned 1 1
    wait_for 10 committed_is 5
    seq 6 8 >>"$P/log"
    wait_for 10 lines_in "$WORK/out" 3
    run -0 cat "$WORK/out"
    assert_output $'6\n7\n8'
}

# --- json, manual commits --------------------------------------------------------------

@test "json has partition and offset, under the same rule" {
    printf 'k\tv\nplain\n' >>"$P/log"
    within 20 "$PYTHON" - <<'END'
import json, os
fd = os.open(os.environ["G"] + "/json/t", os.O_RDONLY)
lines = b""
while lines.count(b"\n") < 2:
    lines += os.read(fd, 65536)
first, second = [json.loads(line) for line in lines.splitlines()]
assert (first["partition"], first["offset"], first["key"], first["value"]) == (0, 0, "k", "v"), first
assert (second["offset"], second["key"], second["value"]) == (1, None, "plain"), second
assert first["timestamp"] > 1700000000000
END
    wait_for 5 members_are 0
    case $(committed) in 0 | 1 | none) ;; *) false ;; esac
}

@test "commit=manual: reads commit nothing, writes to offsets do" {
    echo '{"commit": "manual"}' >"$G/config.json"
    seq 5 >>"$P/log"
    background bash -c 'exec <"$G/read/t"; while read -r l; do echo "$l"; done' >"$WORK/a"
    local reader=$!
    wait_for 10 lines_in "$WORK/a" 5
    case $(committed) in 0 | none) ;; *) false ;; esac
    echo 3 >"$G/offsets/t/0"
    run -0 committed
    assert_output 3
    kill "$reader"
    wait_for 10 members_are 0
    run -0 within 10 head -n 1 "$G/read/t"
    assert_output 4
}

# --- offsets ---------------------------------------------------------------------------

@test "offsets: all forms" {
    local stamp
    seq 10 >>"$P/log"
    run -0 committed
    assert_output none
    reset() { # VALUE EXPECTED
        printf '%s\n' "$1" >"$G/offsets/t/0"
        run -0 committed
        assert_output "$2"
    }
    reset 4 4
    reset +3 7
    reset -2 5
    reset earliest 0
    reset latest 10
    reset last3 7
    reset last1h 0
    stamp=$(date -u -d '+1 hour' +%Y-%m-%dT%H:%M:%SZ)
    reset "$stamp" 10
    reset @1 0
    reset none none
    reset 10 10
    run -0 within 10 bash -c 'echo 8 >"$G/offsets/t/0"; read -r l <"$G/read/t"; echo "$l"'
    assert_output 9
}

@test "offsets: what is refused" {
    seq 10 >>"$P/log"
    echo 4 >"$G/offsets/t/0"
    local value
    for value in 11 x 1-2 -9 +7 '' 0x3 99999999999999999999; do
        run -0 errno_of 'fd = os.open(MNT + "/groups/g/offsets/t/0", os.O_WRONLY)
os.write(fd, A[0].encode() + b"\n")' "$value"
        assert_output EINVAL
    done
    run -0 committed
    assert_output 4
    background cat "$G/read/t" >"$WORK/out"
    wait_for 10 members_are 1
    run -0 errno_of 'fd = os.open(MNT + "/groups/g/offsets/t/0", os.O_WRONLY)
os.write(fd, b"1\n")'
    assert_output EBUSY
    run ! rmdir "$G"
    assert_output --partial "busy"
    run ! ls "$G/offsets/nothing"
    run ! ls "$G/offsets/t/1"
    run ! cat "$G/read/nothing"
}

@test "preview tells what a value would lead to, and changes nothing" {
    seq 10 >>"$P/log"
    echo 4 >"$G/offsets/t/0"
    echo latest >"$G/offsets/t/0.preview"
    run -0 cat "$G/offsets/t/0.preview"
    assert_output 10
    echo -2 >"$G/offsets/t/0.preview"
    run -0 cat "$G/offsets/t/0.preview"
    assert_output 2
    run -0 committed
    assert_output 4
    run -0 errno_of 'os.write(os.open(MNT + "/groups/g/offsets/t/0.preview", os.O_WRONLY), b"99\n")'
    assert_output EINVAL
}

@test "lag and members" {
    seq 10 >>"$P/log"
    lag_is 0
    echo 4 >"$G/offsets/t/0"
    run -0 jq -c '.topics.t.partitions["0"] | [.committed, .log_start, .end, .lag, .member]' "$G/lag"
    assert_output '[4,0,10,6,null]'
    background cat "$G/read/t" >"$WORK/out"
    wait_for 10 lag_is 0
    run -0 jq -c '[.group, (.members[0] | .topic, .node, .partitions)]' "$G/members"
    assert_output '["g","t",1,[0]]'
    run -0 jq -r '.topics.t.partitions["0"].member' "$G/lag"
    assert_output "$(jq -r '.members[0].id' "$G/members")"
}

@test "below the log start a reader goes on at the log start" {
    echo '{"segment_bytes": 4096, "retention_bytes": 8192}' >"$MNT/topics/t/config.json"
    echo 0 >"$G/offsets/t/0" || true
    seq 5000 >>"$P/log"
    started() { [ "$(jq .log_start_offset "$P/state")" -gt 0 ]; }
    seq 5001 9000 >>"$P/log"
    wait_for 30 started
    # It may go on moving.
    at_start() {
        [ "$(within 10 head -n 1 "$G/read/t")" = "$(head -n 1 "$P/log")" ]
    }
    wait_for 20 at_start
    run -0 within 10 head -n 1 "$G/read/t"
    [ "$output" -gt 1 ]
}

# --- config, removal -------------------------------------------------------------------

@test "config.json: as that of topics" {
    run -0 jq -r '.start, .commit' "$G/config.json"
    assert_output $'earliest\nauto'
    echo '{"start": "latest", "max_poll_interval_ms": 1000}' >"$G/config.json"
    run -0 jq -r '.start, .max_poll_interval_ms' "$G/config.json"
    assert_output $'latest\n1000'
    run -0 ls "$MNT/groups"
    assert_output g
    local text
    for text in '{"start": "never"}' '{"nothing": 1}' '[]' '3'; do
        run ! bash -c 'printf "%s" "$1" >"$G/config.json"' - "$text"
    done
    run -0 grep 'group g: refused: start: never is unknown; allowed: earliest or latest' "$DAEMON_LOG"
    run -0 errno_of 'fd = os.open(MNT + "/groups/g/config.json", os.O_WRONLY)
os.write(fd, b"{")
os.close(fd)'
    assert_output EINVAL
    echo '{"start": null}' >"$G/config.json"
    run -0 jq -r .start "$G/config.json"
    assert_output earliest
    remount
    run -0 jq -r .max_poll_interval_ms "$G/config.json"
    assert_output 1000
}

@test "rmdir removes a group without members" {
    seq 5 >>"$P/log"
    echo 3 >"$G/offsets/t/0"
    rmdir "$G"
    run -0 ls "$MNT/groups"
    assert_output ""
    run -0 committed
    assert_output none
    remount
    run -0 ls "$MNT/groups"
    assert_output ""
}

@test "a topic that is made again is begun anew" {
    seq 1000 >>"$P/log"
    echo 1000 >"$G/offsets/t/0"
    rmdir "$MNT/topics/t"
    new_topic t
    run -0 committed
    assert_output none
    seq 10 >>"$MNT/topics/t/0/log"
    background cat "$G/read/t" >"$WORK/out"
    wait_for 10 lines_in "$WORK/out" 10
    run -0 cmp <(seq 10) "$WORK/out"
}

@test "a topic that is deleted ends its readers with ESTALE" {
    background "$PYTHON" -c 'import os, sys
fd = os.open(os.environ["G"] + "/read/t", os.O_RDONLY)
print("open", flush=True)
try:
    os.read(fd, 100)
except OSError as e:
    print(e.errno, flush=True)' >"$WORK/out"
    wait_for 10 lines_in "$WORK/out" 1
    rmdir "$MNT/topics/t"
    wait_for 10 lines_in "$WORK/out" 2
    run -0 tail -n 1 "$WORK/out"
    assert_output 116
}

@test "the internal topic is hidden, and safe from hands" {
    echo earliest >"$G/offsets/t/0"
    run -0 ls "$MNT/topics"
    assert_output t
    [ -d "$MNT/topics/__consumer_offsets" ]
    run ! rmdir "$MNT/topics/__consumer_offsets"
    run -0 errno_append "$MNT/topics/__consumer_offsets/0/log" 'b"x\n"'
    assert_output EPERM
    run -0 committed
    assert_output 0
}

@test "permissions: who may read the topic may read and reset in a group" {
    seq 3 >>"$P/log"
    chmod 755 "$MNT/topics"
    chmod 700 "$MNT/topics/t"
    as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
    run ! as_nobody cat "$G/read/t"
    run ! as_nobody cat "$G/offsets/t/0"
    chmod 755 "$MNT/topics/t"
    run -0 within 10 setpriv --reuid=65534 --regid=65534 --clear-groups head -n 1 "$G/read/t"
    assert_output 1
    run -0 as_nobody bash -c 'echo 2 >"$G/offsets/t/0"; cat "$G/offsets/t/0"'
    assert_output 2
}
