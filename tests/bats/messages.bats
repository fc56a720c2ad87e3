#!/usr/bin/env bats
# What a message is: lines, parts of lines, who completes them, limits, any bytes.
load helpers
setup() {
    fresh_mount
    new_topic t
    LOG=$MNT/topics/t/0/log
    export LOG
}
teardown() { end_mount; }

offset_end() {
    jq .log_end_offset "$MNT/topics/t/0/state"
}

@test "one echo is one message; two lines are two" {
    echo one >>"$LOG"
    printf 'two\nthree\n' >>"$LOG"
    run -0 cat "$LOG"
    assert_output $'one\ntwo\nthree'
    [ "$(offset_end)" -eq 3 ]
}

@test "printf without a newline is a whole message once the shell closes the file" {
    printf 'abc' >>"$LOG"
    printf 'def' >>"$LOG"
    run -0 cmp <(printf 'abc\ndef\n') "$LOG"
}

@test "parts of a line in one redirection are one message" {
    {
        printf 'ab'
        printf 'cd'
        printf 'ef\n'
    } >>"$LOG"
    run -0 cmp <(printf 'abcdef\n') "$LOG"
}

@test "a child that wrote a part of a line completes it by ending" {
    { /usr/bin/printf ab; /usr/bin/printf 'cd\n'; } >>"$LOG"
    run -0 cmp <(printf 'ab\ncd\n') "$LOG"
}

@test "a part of a line is not visible before it is complete" {
    python 'fd = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
assert os.write(fd, b"ab") == 2
assert os.stat(os.environ["LOG"]).st_size == 0
assert open(os.environ["LOG"], "rb").read() == b""
os.fsync(fd)
assert open(os.environ["LOG"], "rb").read() == b"", "fsync must not end a line"
assert os.write(fd, b"cd\nef") == 5
assert open(os.environ["LOG"], "rb").read() == b"abcd\n"
os.close(fd)
assert open(os.environ["LOG"], "rb").read() == b"abcd\nef\n"'
}

@test "a child that only inherited the file does not complete a part by ending" {
    python 'fd = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
os.set_inheritable(fd, True)
os.write(fd, b"ab")
subprocess.run(["true"], close_fds=False, check=True)
assert open(os.environ["LOG"], "rb").read() == b""
os.write(fd, b"cd\n")
assert open(os.environ["LOG"], "rb").read() == b"abcd\n"'
}

@test "closing a duplicate by the process that wrote completes its part" {
    python 'fd = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
other = os.dup(fd)
os.write(fd, b"ab")
os.close(other)
assert open(os.environ["LOG"], "rb").read() == b"ab\n"
os.write(fd, b"cd\n")
assert open(os.environ["LOG"], "rb").read() == b"ab\ncd\n"'
}

@test "two processes that share a descriptor share the line" {
    python 'fd = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
os.write(fd, b"ab")
if os.fork() == 0:
    os.write(fd, b"cd\n")
    os._exit(0)
os.wait()
assert open(os.environ["LOG"], "rb").read() == b"abcd\n"'
}

@test "two open files do not share a line" {
    python 'a = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
b = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
os.write(a, b"a1-")
os.write(b, b"b1-")
os.write(a, b"a2\n")
os.write(b, b"b2\n")
assert open(os.environ["LOG"], "rb").read() == b"a1-a2\nb1-b2\n"'
}

@test "a killed writer's part is completed" {
    python 'fd = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
os.write(fd, b"last words")
os.kill(os.getpid(), signal.SIGKILL)' || true
    # The kernel sends RELEASE on its own time.
    wait_for 5 lines_in "$LOG" 1
    run -0 cmp <(printf 'last words\n') "$LOG"
}

@test "one write is one batch, never mixed with another writer's" {
    local i
    for i in 1 2 3 4; do
        background "$PYTHON" -c 'import os, sys
fd = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
for n in range(50):
    block = b"".join(b"%s %d %d %s\n" % (sys.argv[1].encode(), n, k, b"x" * 500) for k in range(20))
    assert os.write(fd, block) == len(block)' "$i"
    done
    local pid
    for pid in "${CHILDREN[@]}"; do
        end_of "$pid" 60
    done
    CHILDREN=()
    python 'lines = open(os.environ["LOG"]).read().splitlines()
assert len(lines) == 4 * 50 * 20, len(lines)
seen = set()
for at in range(0, len(lines), 20):
    heads = [line.split(" ", 3) for line in lines[at:at + 20]]
    assert len({(h[0], h[1]) for h in heads}) == 1, heads
    assert [int(h[2]) for h in heads] == list(range(20)), heads
    seen.add((heads[0][0], heads[0][1]))
assert len(seen) == 200'
}

@test "a line over the limit is EMSGSIZE and leaves nothing" {
    echo '{"max_message_bytes": 10}' >"$MNT/topics/t/config.json"
    run -0 errno_append "$LOG" 'b"x" * 10 + b"\n"'
    assert_output 11
    run -0 errno_append "$LOG" 'b"x" * 11 + b"\n"'
    assert_output EMSGSIZE
    run -0 errno_append "$LOG" 'b"y" * 11'
    assert_output EMSGSIZE
    run -0 cmp <(printf 'xxxxxxxxxx\n') "$LOG"
    run -1 bash -c "echo 12345678901 >>'$LOG'"
    assert_output --partial "Message too long"
}

@test "the lines before one that is too long are stored: a short write" {
    echo '{"max_message_bytes": 10}' >"$MNT/topics/t/config.json"
    python 'fd = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
data = b"ok\n" + b"x" * 11 + b"\nafter\n"
assert os.write(fd, data) == 3
try:
    os.write(fd, data[3:])
    raise AssertionError("accepted")
except OSError as e:
    assert e.errno == errno.EMSGSIZE, e
assert open(os.environ["LOG"], "rb").read() == b"ok\n"
assert os.write(fd, b"next\n") == 5
assert open(os.environ["LOG"], "rb").read() == b"ok\nnext\n"'
}

@test "the rest of a line that is too long is discarded up to its newline" {
    echo '{"max_message_bytes": 10}' >"$MNT/topics/t/config.json"
    python 'fd = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)
assert os.write(fd, b"x" * 8) == 8
try:
    os.write(fd, b"x" * 8)
    raise AssertionError("accepted")
except OSError as e:
    assert e.errno == errno.EMSGSIZE, e
assert os.write(fd, b"yyy\nok\n") == 7
os.close(fd)
assert open(os.environ["LOG"], "rb").read() == b"ok\n"'
}

@test "a line of exactly 1 MiB fits by default, one byte more does not" {
    python 'with open(os.environ["LOG"], "ab") as f:
    f.write(b"a" * 1048576 + b"\n")'
    [ "$(offset_end)" -eq 1 ]
    [ "$(stat -c %s "$LOG")" -eq 1048577 ]
    run -0 errno_of 'with open(os.environ["LOG"], "ab") as f: f.write(b"a" * 1048577 + b"\n")'
    assert_output EMSGSIZE
    [ "$(offset_end)" -eq 1 ]
    echo next >>"$LOG"
    run -0 cat "$MNT/topics/t/0/at/1"
    assert_output next
}

@test "empty lines are empty messages" {
    printf '\n\nx\n\n' >>"$LOG"
    echo >>"$LOG"
    [ "$(offset_end)" -eq 5 ]
    run -0 cmp <(printf '\n\nx\n\n\n') "$LOG"
    run -0 within 5 jq -r .value "$MNT/topics/t/0/json/0-4"
    assert_output $'\n\nx\n\n' || assert_line x
}

@test "any byte but the newline may occur" {
    python 'data = bytes(b for b in range(256) if b != 10) + b"\n"
data += b"crlf\r\n" + b"nul\0nul\n" + b"\xff\xfe bad utf-8 \xc3\n" + b"\0\n" + b"\r\n"
with open(os.environ["LOG"], "ab") as f:
    f.write(data)
assert open(os.environ["LOG"], "rb").read() == data
for name in "at/0", "at/0-5":
    assert open(MNT + "/topics/t/0/" + name, "rb").read() == data, name'
    [ "$(offset_end)" -eq 6 ]
    remount
    run -0 bash -c "head -c 256 '$LOG' | tail -c 2 | od -An -tx1"
    assert_output " ff 0a"
}

@test "a big file arrives byte for byte through cat, dd and python" {
    python 'import random
r = random.Random(1)
with open(os.environ["WORK"] + "/big", "wb") as f:
    for n in range(40000):
        f.write(bytes(r.choices(range(11, 256), k=r.choice([0, 1, 7, 100, 300]))) + b"\n")
    for size in 65535, 65536, 131072, 131073, 524288, 1048575, 1048576:
        f.write(b"z" * size + b"\n")'
    cat "$WORK/big" >>"$LOG"
    same "$WORK/big" "$LOG"
    dd if="$WORK/big" of="$LOG" oflag=append conv=notrunc bs=1000 status=none
    same <(cat "$WORK/big" "$WORK/big") "$LOG"
    python 'import shutil
with open(os.environ["WORK"] + "/big", "rb") as f, open(os.environ["LOG"], "ab") as t:
    shutil.copyfileobj(f, t)'
    same <(cat "$WORK/big" "$WORK/big" "$WORK/big") "$LOG"
}

@test "an open file for reading and appending does both" {
    python 'fd = os.open(os.environ["LOG"], os.O_RDWR | os.O_APPEND)
os.write(fd, b"one\ntwo\n")
assert os.pread(fd, 100, 0) == b"one\ntwo\n"
assert os.pread(fd, 3, 4) == b"two"
assert os.fstat(fd).st_size == 8
os.write(fd, b"three\n")
assert os.pread(fd, 100, 8) == b"three\n"'
}

@test "an acknowledged write is seen at once in size and bytes" {
    python 'p = os.environ["LOG"]
fd = os.open(p, os.O_WRONLY | os.O_APPEND)
reader = os.open(p, os.O_RDONLY)
size = 0
for n in range(300):
    line = b"%d\n" % n
    size += os.write(fd, line)
    assert os.stat(p).st_size == size
    assert os.fstat(reader).st_size == size
    assert os.read(reader, 100) == line'
}

@test "acks=0 and acks=1 accept and store as well" {
    local acks
    for acks in 0 1 '"all"'; do
        echo "{\"acks\": $acks}" >"$MNT/topics/t/config.json"
        seq 1 100 >>"$LOG"
    done
    wait_for 5 lines_in "$LOG" 300
    run -0 cmp <(seq 1 100; seq 1 100; seq 1 100) "$LOG"
}
