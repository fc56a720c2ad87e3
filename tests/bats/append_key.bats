#!/usr/bin/env bats
# topics/<t>/append: a line's key chooses its partition, as Kafka's default partitioner does.
load helpers
setup() {
    fresh_mount
    new_topic t '' 4
    APPEND=$MNT/topics/t/append
    export APPEND
}
teardown() { end_mount; }

# Kafka's murmur2, checked against the vectors of its own unit test.
MURMUR='
def murmur2(data):
    m, mask = 0x5bd1e995, 0xffffffff
    h = (0x9747b28c ^ len(data)) & mask
    for i in range(0, len(data) & ~3, 4):
        k = int.from_bytes(data[i:i + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    tail = data[len(data) & ~3:]
    if len(tail) >= 3: h ^= tail[2] << 16
    if len(tail) >= 2: h ^= tail[1] << 8
    if len(tail) >= 1: h = (h ^ tail[0]) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)
for key, want in ((b"21", -973932308), (b"foobar", -790332482), (b"abc", 479470107),
                  (b"a-little-bit-long-string", -985981536),
                  (b"a-little-bit-longer-string", -1486304829)):
    assert murmur2(key) == want & 0xffffffff, key
def partition_of(key, n):
    return (murmur2(key) & 0x7fffffff) % n
def read(p):
    return open(MNT + "/topics/t/%d/log" % p, "rb").read()
'

@test "every key is in the partition that Kafka would choose, its lines in order" {
    python "$MURMUR"'
want = {p: b"" for p in range(4)}
with open(os.environ["APPEND"], "ab", buffering=0) as f:
    for n in range(20):
        block = b""
        for k in range(50):
            key = b"key-%d" % k
            line = key + b"\tvalue %d\n" % n
            block += line
            want[partition_of(key, 4)] += line
        assert f.write(block) == len(block)
for p in want:
    assert want[p], p
    assert read(p) == want[p], p'
}

@test "odd keys: empty, binary, UTF-8, with further delimiters" {
    python "$MURMUR"'
for key in b"", b"\0\1\2", "grüße".encode(), b"\xff" * 7, b"a b":
    line = key + b"\tx\ty\n"
    before = read(partition_of(key, 4))
    with open(os.environ["APPEND"], "ab", buffering=0) as f:
        f.write(line)
    assert read(partition_of(key, 4)) == before + line, key'
}

@test "lines without a key: one partition per write, rotating" {
    # Four writes in one open file, and four that open it anew.
    python '
fd = os.open(os.environ["APPEND"], os.O_WRONLY | os.O_APPEND)
for n in range(8):
    if n >= 4:
        fd = os.open(os.environ["APPEND"], os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"a%d\nb%d\n" % (n, n))
total = 0
for p in range(4):
    lines = open(MNT + "/topics/t/%d/log" % p).read().split()
    assert lines, p
    total += len(lines)
    for a, b in zip(lines[::2], lines[1::2]):
        assert a[0] == "a" and b[0] == "b" and a[1:] == b[1:], lines
assert total == 16, total'
}

@test "the delimiter is a setting; none means no keys" {
    echo '{"key_delimiter": ":"}' >"$MNT/topics/t/config.json"
    python "$MURMUR"'
for k in range(20):
    line = b"k%d:v\n" % k
    p = partition_of(b"k%d" % k, 4)
    before = read(p)
    with open(os.environ["APPEND"], "ab", buffering=0) as f:
        f.write(line)
    assert read(p) == before + line, k'
    echo '{"key_delimiter": ""}' >"$MNT/topics/t/config.json"
    local i
    for i in 1 2 3 4; do
        echo "same:key" >>"$APPEND"
    done
    local p
    for p in 0 1 2 3; do
        run -0 grep -c same:key "$MNT/topics/t/$p/log"
        assert_output 1
    done
}

@test "append reads as empty for root, not at all for others; > is refused" {
    # Empty, so that grep -r and tar as root go through.
    run -0 within 5 cat "$APPEND"
    assert_output ""
    if [ "$(id -u)" -eq 0 ]; then
        run setpriv --reuid=65534 --regid=65534 --clear-groups cat "$APPEND"
        assert_failure
        assert_output --partial "Permission denied"
    fi
    run -1 bash -c ": >'$APPEND'"
    assert_output --partial "Operation not permitted"
}

@test "a line that is too long fails the whole write, with no short write" {
    echo '{"max_message_bytes": 20}' >"$MNT/topics/t/config.json"
    run -0 errno_append "$APPEND" 'b"k\tfine\n" + b"k\t" + b"x" * 30 + b"\n"'
    assert_output EMSGSIZE
}

@test "a part of a line waits for its end in append, too" {
    python "$MURMUR"'
fd = os.open(os.environ["APPEND"], os.O_WRONLY | os.O_APPEND)
p = partition_of(b"key", 4)
os.write(fd, b"ke")
os.write(fd, b"y\tval")
assert read(p) == b""
os.write(fd, b"ue\nkey\tsecond")
assert read(p) == b"key\tvalue\n"
os.close(fd)
assert read(p) == b"key\tvalue\nkey\tsecond\n"'
}

@test "mkdir adds the next partition only; append then uses it" {
    run -0 errno_of 'os.mkdir(MNT + "/topics/t/6")'
    assert_output EINVAL
    run -0 errno_of 'os.mkdir(MNT + "/topics/t/4x")'
    assert_output EINVAL
    run -0 errno_of 'os.mkdir(MNT + "/topics/t/04")'
    assert_output EINVAL
    run -0 errno_of 'os.mkdir(MNT + "/topics/t/3")'
    assert_output EEXIST
    mkdir "$MNT/topics/t/4"
    [ "$(setting t partitions)" -eq 5 ]
    # It has a leader when mkdir returns: an append works at once.
    echo hi >>"$MNT/topics/t/4/log"
    python "$MURMUR"'
for k in range(30):
    line = b"key%d\tv\n" % k
    p = partition_of(b"key%d" % k, 5)
    before = read(p)
    with open(os.environ["APPEND"], "ab", buffering=0) as f:
        f.write(line)
    assert read(p) == before + line, k'
    remount
    [ "$(setting t partitions)" -eq 5 ]
    run -0 head -n 1 "$MNT/topics/t/4/log"
    assert_output hi
}
