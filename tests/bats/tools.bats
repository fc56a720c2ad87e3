#!/usr/bin/env bats
# Everyday tools on the mount: reading is right, what can't work fails at once.
load helpers
setup() {
    fresh_mount
    new_topic t
    P=$MNT/topics/t/0
    export P
    seq 1 2000 >>"$P/log"
    seq 1 2000 >"$WORK/want"
}
teardown() { end_mount; }

@test "cat, head, tail -n, tail -c, tac, nl" {
    run -0 cmp "$WORK/want" <(cat "$P/log")
    run -0 cmp <(head -n 7 "$WORK/want") <(head -n 7 "$P/log")
    run -0 cmp <(head -c 777 "$WORK/want") <(head -c 777 "$P/log")
    run -0 cmp <(tail -n 7 "$WORK/want") <(tail -n 7 "$P/log")
    run -0 cmp <(tail -c 77 "$WORK/want") <(tail -c 77 "$P/log")
    run -0 cmp <(tail -n +1990 "$WORK/want") <(tail -n +1990 "$P/log")
    run -0 cmp <(tac "$WORK/want") <(tac "$P/log")
}

@test "wc, sort, uniq, awk, sed, cut, grep, diff, md5sum, split" {
    run -0 bash -c "wc <'$P/log' | tr -s ' '"
    assert_output "$(wc <"$WORK/want" | tr -s ' ')"
    run -0 cmp <(sort "$WORK/want") <(sort "$P/log")
    run -0 awk '{ s += $1 } END { print s }' "$P/log"
    assert_output 2001000
    run -0 sed -n '5p;$p' "$P/log"
    assert_output $'5\n2000'
    run -0 grep -c 7 "$P/log"
    assert_output "$(grep -c 7 "$WORK/want")"
    run -0 diff "$WORK/want" "$P/log"
    run -0 bash -c "md5sum <'$P/log'"
    assert_output "$(md5sum <"$WORK/want")"
    split -l 1000 "$P/log" "$WORK/part."
    run -0 cmp <(cat "$WORK"/part.*) "$WORK/want"
}

@test "tail -f delivers later appends" {
    background tail -n 1 -f -s 0.1 "$P/log" >"$WORK/out" 2>"$WORK/err"
    wait_for 5 lines_in "$WORK/out" 1
    seq 2001 2010 >>"$P/log"
    wait_for 10 lines_in "$WORK/out" 11
    run -0 cmp <(seq 2000 2010) "$WORK/out"
    [ ! -s "$WORK/err" ]
}

@test "tail -F goes on through a topic that is made again" {
    background tail -n 1 -F -s 0.1 "$P/log" >"$WORK/out" 2>"$WORK/err"
    wait_for 5 lines_in "$WORK/out" 1
    echo a >>"$P/log"
    wait_for 10 lines_in "$WORK/out" 2
    rmdir "$MNT/topics/t"
    new_topic t
    echo b >>"$P/log"
    wait_for 20 lines_in "$WORK/out" 3
    run -0 cat "$WORK/out"
    assert_output $'2000\na\nb'
}

@test "tail -f of two logs at once" {
    new_topic u
    echo first-u >>"$MNT/topics/u/0/log"
    background tail -q -n 1 -f -s 0.1 "$P/log" "$MNT/topics/u/0/log" >"$WORK/out"
    wait_for 10 lines_in "$WORK/out" 2
    echo from-t >>"$P/log"
    echo from-u >>"$MNT/topics/u/0/log"
    wait_for 10 lines_in "$WORK/out" 4
    run -0 sort "$WORK/out"
    assert_output $'2000\nfirst-u\nfrom-t\nfrom-u'
}

@test "less, and less +F" {
    run -0 bash -c "TERM=dumb less '$P/log' | cmp - '$WORK/want'"
    background script -qec "stty rows 24 cols 80; TERM=dumb less +F '$P/log'" "$WORK/typescript" \
        </dev/null >"$WORK/out" 2>&1
    wait_for 10 grep -q 'Waiting for data' "$WORK/out"
    echo appended-later >>"$P/log"
    wait_for 10 grep -q appended-later "$WORK/out"
}

@test "grep -r, find, tar, rsync, cp -r over the mount end and read each message once" {
    echo unique-needle >>"$P/log"
    run -0 within 20 grep -rc unique-needle "$MNT/topics/t/0"
    run -0 within 20 bash -c "grep -r unique-needle '$MNT' | wc -l"
    assert_output 1
    run -0 within 20 find "$MNT" -name log
    assert_output "$P/log"
    run -0 within 20 tar -cf "$WORK/mount.tar" -C "$MNT" .
    mkdir "$WORK/untar" "$WORK/copy"
    tar -xf "$WORK/mount.tar" -C "$WORK/untar"
    run -0 cmp "$P/log" "$WORK/untar/topics/t/0/log"
    run -0 cmp "$MNT/topics/t/config.json" "$WORK/untar/topics/t/config.json"
    run -0 within 20 rsync -a "$MNT/" "$WORK/copy/"
    run -0 cmp "$P/log" "$WORK/copy/topics/t/0/log"
    # A second run with nothing new copies no log again.
    run -0 within 20 rsync -ai --exclude append --exclude state --exclude 'cluster' "$MNT/" "$WORK/copy/"
    refute_output --partial ">f"
}

@test "cp -p and rsync -a of a log keep bytes, mode and time" {
    cp -p "$P/log" "$WORK/copy"
    run -0 cmp "$WORK/want" "$WORK/copy"
    [ "$(stat -c '%Y %a' "$WORK/copy")" = "$(stat -c '%Y %a' "$P/log")" ]
    rsync -a "$P/log" "$WORK/rsynced"
    run -0 cmp "$WORK/want" "$WORK/rsynced"
    # Onto a log: refused, nothing changed.
    run cp "$WORK/copy" "$P/log"
    assert_failure
    run rsync -a --ignore-times "$WORK/copy" "$P/log"
    assert_failure
    run rsync -a --ignore-times --inplace "$WORK/copy" "$P/log"
    [ "$(wc -l <"$P/log")" -eq 2000 ]
    run -0 cmp "$WORK/want" "$P/log"
}

@test "dd with append, tee -a" {
    printf 'from dd\n' | dd of="$P/log" oflag=append conv=notrunc status=none
    echo "from tee" | tee -a "$P/log" >/dev/null
    run -0 tail -n 2 "$P/log"
    assert_output $'from dd\nfrom tee'
    run dd if="$WORK/want" of="$P/log" status=none
    assert_failure
    run dd if="$WORK/want" of="$P/log" conv=notrunc status=none
    assert_failure
    run tee "$P/log" </dev/null
    assert_failure
    [ "$(wc -l <"$P/log")" -eq 2002 ]
    printf 'synced\n' | dd of="$P/log" oflag=append,sync conv=notrunc,fsync status=none
    run -0 tail -n 1 "$P/log"
    assert_output synced
    run -0 cmp "$WORK/want" <(dd if="$P/log" bs=1000 count=9 status=none | head -c 8893)
}

@test "mv, rm, vim, sed -i, truncate, shred on a log: refused at once, nothing changed" {
    local try
    for try in "mv '$P/log' '$P/log.1'" "rm -f '$P/log'" "sed -i s/1/2/ '$P/log'" \
        "truncate -s 0 '$P/log'" "mv '$P/log' '$WORK/stolen'" "ln '$P/log' '$P/log2'" \
        "shred '$P/log'" "touch -d yesterday '$P/log'" "install /dev/null '$P/log'"; do
        run within 5 bash -c "$try"
        [ "$status" -ne 0 ] || fail "went through: $try"
        [ "$status" -ne 124 ] || fail "took too long: $try"
        run -0 cmp "$WORK/want" "$P/log"
    done
    run within 10 vim -es -N -u NONE -i NONE -c '%s/1/2/' -c 'wq!' "$P/log"
    [ "$status" -ne 124 ]
    run -0 cmp "$WORK/want" "$P/log"
    run -0 ls "$P"
    assert_output $'at\nfollow\njson\nlog\nstate'
}

@test "vim and view read a log" {
    run -0 within 10 vim -es -N -u NONE -i NONE -R -c "w! $WORK/by-vim" -c 'q!' "$P/log"
    run -0 cmp "$WORK/want" "$WORK/by-vim"
}

@test "rm -r of a topic fails on its files; rmdir deletes it" {
    run within 10 rm -rf "$MNT/topics/t"
    assert_failure
    run -0 cmp "$WORK/want" "$P/log"
    rmdir "$MNT/topics/t"
    [ ! -e "$MNT/topics/t" ]
}

@test "ls -l, stat, du, df show real values" {
    run -0 stat -c '%s %F' "$P/log"
    assert_output "8893 regular file"
    run -0 bash -c "ls -l '$P/log' | awk '{print \$5}'"
    assert_output 8893
    run -0 bash -c "du --apparent-size -b '$P/log' | cut -f1"
    assert_output 8893
    run -0 within 10 du -s "$MNT"
    # The filesystem that df shows is the one of the data directory.
    run -0 bash -c "df --output=size '$MNT' | tail -n 1"
    local size=$output
    run -0 bash -c "df --output=size '$DATA' | tail -n 1"
    assert_output "$size"
    run -0 df --output=fstype "$MNT"
    assert_line --partial fuse
    run -0 ls -lR "$MNT"
    run -0 ls -li "$P"
}

@test "while read and mapfile in bash" {
    run -0 bash -c "while read -r line; do echo \"<\$line>\"; done <'$P/log' | tail -n 1"
    assert_output "<2000>"
    run -0 bash -c "mapfile -t lines <'$P/log'; echo \${#lines[@]} \${lines[1999]}"
    assert_output "2000 2000"
}

@test "python file I/O: text, binary, append, print, json, mmap private" {
    python 'P = os.environ["P"]
with open(P + "/log") as f:
    assert [int(line) for line in f] == list(range(1, 2001))
with open(P + "/log", "a") as f:
    for n in range(5):
        print("printed", n, file=f)
    f.flush()
    assert open(P + "/log").read().endswith("printed 4\n")
    json.dump({"a": 1}, f)
assert open(P + "/log", "rb").read().endswith(b"printed 4\n{\"a\": 1}\n")
with open(P + "/log", "ab", buffering=0) as f:
    f.write(b"raw\n")
    f.writelines([b"one\n", b"two\n"])
with open(P + "/log", "rb") as f:
    f.seek(-4, 2)
    assert f.read() == b"two\n"
try:
    open(P + "/log", "w")
    raise AssertionError("w")
except PermissionError:
    pass
try:
    open(P + "/log", "r+")
    raise AssertionError("r+")
except PermissionError:
    pass
import mmap
with open(P + "/log", "rb") as f:
    m = mmap.mmap(f.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    assert m[:4] == b"1\n2\n"'
}

@test "perl file I/O" {
    run -0 perl -e 'open my $f, ">>", "$ENV{P}/log" or die $!; print $f "perl $_\n" for 1..3; close $f or die $!;
        open $f, "<", "$ENV{P}/log" or die $!; my @l = <$f>; print scalar(@l), " $l[-1]"; seek $f, 0, 0; print scalar <$f>;
        open $f, ">", "$ENV{P}/log" and die "opened"; print "refused\n";'
    assert_output $'2003 perl 3\n1\nrefused'
}

@test "inotifywait sees appends made through this mount" {
    background inotifywait -q -t 20 -e modify "$P/log" >"$WORK/events" 2>&1
    local watcher=$!
    # It says nothing when it is ready under -q: its inotify descriptor tells.
    wait_for 10 bash -c "grep -qs '^inotify' /proc/$watcher/fdinfo/*"
    echo x >>"$P/log"
    end_of "$watcher" 20
    run -0 cat "$WORK/events"
    assert_output --partial MODIFY
}

@test "inotifywait on the directory sees the appends of every writer" {
    exec 5>>"$P/log"
    background inotifywait -m -e modify "$P" >"$WORK/events" 2>"$WORK/watch"
    wait_for 10 grep -q established "$WORK/watch"
    # Equal events that nobody has read yet become one.
    echo one >&5
    wait_for 10 lines_in "$WORK/events" 1
    echo two >>"$P/log"
    wait_for 10 lines_in "$WORK/events" 2
    echo three >&5
    exec 5>&-
    wait_for 10 lines_in "$WORK/events" 3
    run -0 grep -c 'MODIFY log' "$WORK/events"
    assert_output 3
}

@test "closed segments: cached, mmap works, sparse reads are right" {
    echo '{"segment_bytes": 1024}' >"$MNT/topics/t/config.json"
    local i
    for i in 1 2 3 4; do
        seq 1 1000 >>"$P/log"
    done
    python 'import mmap
P = os.environ["P"]
with open(P + "/segments/0", "rb") as f:
    size = os.fstat(f.fileno()).st_size
    data = f.read()
    assert len(data) == size > 0
    m = mmap.mmap(f.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    assert m[:] == data
    assert open(P + "/log", "rb").read(size) == data
    assert os.pread(f.fileno(), 10, 100) == data[100:110]
next = data.count(b"\n")
with open(P + "/segments/%d" % next, "rb") as f:
    more = f.read()
assert open(P + "/log", "rb").read(len(data) + len(more)) == data + more
try:
    open(P + "/segments/0", "ab")
    raise AssertionError("opened for writing")
except PermissionError:
    pass'
}

@test "exec of two appenders in one shell, and a here document" {
    cat >>"$P/log" <<END
first
second
END
    exec 5>>"$P/log" 6>>"$P/log"
    echo five >&5
    echo six >&6
    exec 5>&- 6>&-
    run -0 tail -n 4 "$P/log"
    assert_output $'first\nsecond\nfive\nsix'
}

@test "pipelines end: head on a log, SIGPIPE, xargs, sort -u of many" {
    run -0 bash -c "set -o pipefail; cat '$P/log' | sort -u | wc -l"
    assert_output 2000
    run bash -c "cat '$P/log' | head -n 1"
    assert_output 1
    run -0 bash -c "xargs -n 500 echo <'$P/log' | wc -l"
    assert_output 4
}
