#!/usr/bin/env bats
# The error table: which errno each mistake gets, at once, with nothing changed.
load helpers
setup() {
    fresh_mount
    new_topic t
    seq 0 9 >>"$MNT/topics/t/0/log"
}
teardown() { end_mount; }

# fails ERRNO CODE: the Python code fails with that errno, and the log is as before.
fails() {
    run -0 errno_of "$2"
    [ "$output" = "$1" ] || fail "$2: $output, not $1"
    run -0 cmp <(seq 0 9) "$MNT/topics/t/0/log"
}

@test "opening a log in ways that could lose data: EPERM" {
    local flags
    for flags in O_WRONLY O_RDWR 'O_WRONLY | os.O_TRUNC' 'O_WRONLY | os.O_APPEND | os.O_TRUNC' \
        'O_RDONLY | os.O_TRUNC'; do
        fails EPERM "os.open(MNT + '/topics/t/0/log', os.$flags)"
    done
    fails EPERM 'os.truncate(MNT + "/topics/t/0/log", 0)'
    fails EPERM 'os.truncate(MNT + "/topics/t/0/log", 5)'
    fails EPERM 'os.ftruncate(os.open(MNT + "/topics/t/0/log", os.O_WRONLY | os.O_APPEND), 0)'
}

@test "O_APPEND cleared after opening: EPERM on write" {
    fails EPERM 'fd = os.open(MNT + "/topics/t/0/log", os.O_WRONLY | os.O_APPEND)
fcntl.fcntl(fd, fcntl.F_SETFL, 0)
os.write(fd, b"overwritten\n")'
    fails EPERM 'fd = os.open(MNT + "/topics/t/0/log", os.O_WRONLY | os.O_APPEND)
fcntl.fcntl(fd, fcntl.F_SETFL, 0)
os.pwrite(fd, b"overwritten\n", 0)'
}

@test "unlink, rename, link, mknod, mkdir in the wrong place" {
    local code
    for code in 'os.unlink(MNT + "/topics/t/0/log")' \
        'os.unlink(MNT + "/topics/t/config.json")' \
        'os.rename(MNT + "/topics/t/0/log", MNT + "/topics/t/0/log2")' \
        'os.rename(MNT + "/topics/t", MNT + "/topics/u")' \
        'os.link(MNT + "/topics/t/0/log", MNT + "/topics/t/0/log2")' \
        'os.symlink("x", MNT + "/topics/t/link")' \
        'os.mknod(MNT + "/topics/t/fifo", 0o10644)' \
        'os.open(MNT + "/topics/t/new", os.O_WRONLY | os.O_CREAT)' \
        'os.open(MNT + "/topics/new", os.O_WRONLY | os.O_CREAT)' \
        'os.open(MNT + "/new", os.O_WRONLY | os.O_CREAT)' \
        'os.open(MNT + "/topics/t/0/new", os.O_WRONLY | os.O_CREAT)' \
        'os.mkdir(MNT + "/new")' \
        'os.mkdir(MNT + "/topics/t/0/new")' \
        'os.rmdir(MNT + "/topics")' \
        'os.rmdir(MNT + "/topics/t/0")' \
        'os.unlink(MNT + "/topics/t/0/state")'; do
        run -0 errno_of "$code"
        assert_output --regexp '^(EPERM|EACCES)$' || fail "$code: $output"
    done
    run -0 cmp <(seq 0 9) "$MNT/topics/t/0/log"
}

@test "views, streams, state and segments can't be written" {
    local file
    for file in at/0 follow/0 json/0 state; do
        run -0 errno_of "os.open(MNT + '/topics/t/0/$file', os.O_WRONLY | os.O_APPEND)"
        assert_output --regexp '^(EPERM|EACCES)$' || fail "$file: $output"
    done
}

@test "topic names: Kafka's rule" {
    local name
    for name in 'a b' 'a/../b c' 'ü' 'a*b' 'a:b' $'a\nb' $'a\tb' 'a\b' "$(printf 'x%.0s' {1..250})" \
        '#' ' '; do
        run errno_of 'os.mkdir(MNT + "/topics/" + A[0].replace("/", "%"))' "$name"
        [ "$output" = EINVAL ] || [ "$output" = ENAMETOOLONG ] || fail "'$name': $output"
    done
    run -0 errno_of 'os.mkdir(MNT + "/topics/" + "x" * 256)'
    assert_output ENAMETOOLONG
    run -0 errno_of 'os.mkdir(MNT + "/topics/" + "x" * 250)'
    assert_output --regexp '^(EINVAL|ENAMETOOLONG)$'
    for name in a A.b-c_9 0 ... -x "$(printf 'y%.0s' {1..249})"; do
        mkdir -- "$MNT/topics/$name"
        echo hi >>"$MNT/topics/$name/0/log"
        run -0 cat "$MNT/topics/$name/0/log"
        assert_output hi
        rmdir -- "$MNT/topics/$name"
    done
    run -0 errno_of 'os.mkdir(MNT + "/topics/t")'
    assert_output EEXIST
}

@test "what is not there: ENOENT" {
    local path
    for path in topics/nope topics/t/1 topics/t/nope topics/t/0/nope cluster/nope \
        cluster/brokers/ids/99 nope topics/nope/0/log; do
        run -0 errno_of "os.stat(MNT + '/$path')"
        assert_output ENOENT || fail "$path: $output"
    done
    fails ENOENT 'os.rmdir(MNT + "/topics/nope")'
}

@test "a topic deleted while open: ESTALE for write, read, fstat of its files" {
    exec 7>>"$MNT/topics/t/0/log" 8<"$MNT/topics/t/0/log"
    rmdir "$MNT/topics/t"
    run -0 errno_of 'os.write(7, b"x\n")'
    assert_output ESTALE
    run -0 errno_of 'os.read(8, 10)'
    assert_output ESTALE
    exec 7>&- 8<&-
    run -0 ls "$MNT/topics"
    assert_output ""
}

@test "a topic deleted and made again: old descriptors never reach the new one" {
    exec 7>>"$MNT/topics/t/0/log" 8<"$MNT/topics/t/0/log"
    rmdir "$MNT/topics/t"
    new_topic t
    echo new >>"$MNT/topics/t/0/log"
    run -0 errno_of 'os.write(7, b"x\n")'
    assert_output ESTALE
    run -0 errno_of 'os.read(8, 10)'
    assert_output ESTALE
    exec 7>&- 8<&-
    run -0 cat "$MNT/topics/t/0/log"
    assert_output new
}

@test "a shell's > on a log says so and wipes nothing" {
    run -1 bash -c "echo x >'$MNT/topics/t/0/log'"
    assert_output --partial "Operation not permitted"
    run -0 cmp <(seq 0 9) "$MNT/topics/t/0/log"
}

@test "extended attributes and mmap for writing are refused, not half done" {
    run -0 errno_of 'os.setxattr(MNT + "/topics/t/0/log", "user.x", b"1")'
    assert_output --regexp '^(ENOTSUP|EOPNOTSUPP|ENOSYS|EPERM)$'
    run -0 errno_of 'import mmap
fd = os.open(MNT + "/topics/t/0/log", os.O_RDWR | os.O_APPEND)
mmap.mmap(fd, 10, mmap.MAP_SHARED, mmap.PROT_WRITE)'
    assert_output --regexp '^(ENODEV|EACCES|EPERM)$'
}

@test "a read-only mount refuses writes, reads go on" {
    remount ro
    run -0 errno_append "$MNT/topics/t/0/log" 'b"x\n"'
    assert_output EROFS
    run -0 errno_of 'os.mkdir(MNT + "/topics/u")'
    assert_output EROFS
    run -0 cmp <(seq 0 9) "$MNT/topics/t/0/log"
}

@test "seeking: negative and beyond the end behave as on any file" {
    python 'fd = os.open(MNT + "/topics/t/0/log", os.O_RDONLY)
try:
    os.lseek(fd, -1, os.SEEK_SET)
    raise AssertionError
except OSError as e:
    assert e.errno == errno.EINVAL
assert os.lseek(fd, 0, os.SEEK_END) == 20
assert os.pread(fd, 10, 1 << 40) == b""
assert os.lseek(fd, 1000, os.SEEK_SET) == 1000 and os.read(fd, 10) == b""
assert os.pread(fd, 4, 16) == b"8\n9\n"'
}
