#!/usr/bin/env bats
# Real logs and hundreds of thousands of lines: what comes back is what went in.
load helpers
setup() {
    fresh_mount
    new_topic t '{"segment_bytes": 4194304}'
    P=$MNT/topics/t/0
    export P
}
teardown() { end_mount; }

# comes_back FILE: through log, at, follow, json and the segments on disk.
comes_back() {
    local file=$1 lines
    lines=$(wc -l <"$file")
    same "$file" "$P/log"
    same "$file" "$P/at/0"
    same "$file" <(cat "$P/at/0-$((lines - 1))")
    same "$file" <(within 60 cat "$P/follow/0-$((lines - 1))")
    same <(tail -n 10 "$file") "$P/at/last10"
    local half=$((lines / 2))
    same <(tail -n "+$((half + 1))" "$file") "$P/at/$half"
    # The text of the segments, one after the other, as a dead machine's disk has it.
    same "$file" <(find "$DATA" -name '*.log' -path '*t-0*' | sort | xargs cat)
    [ "$(jq .log_end_offset "$P/state")" -eq "$lines" ]
}

# Every line of json/ is an object whose key and value make the line; what is no valid UTF-8
# stands as base64 beside a null.
json_comes_back() {
    local file=$1
    "$PYTHON" - "$file" "$P/json/0-$(($(wc -l <"$file") - 1))" <<'END'
import base64, json, sys

def field(row, name):
    if row[name] is None and name + "_base64" in row:
        data = base64.b64decode(row[name + "_base64"])
        try:
            data.decode()
            raise AssertionError("base64 without need: %r" % row)
        except UnicodeDecodeError:
            return data
    return None if row[name] is None else row[name].encode()

with open(sys.argv[1], "rb") as want, open(sys.argv[2], "rb") as got:
    for n, (line, row) in enumerate(zip(want, got)):
        row = json.loads(row)
        assert row["offset"] == n, (n, row)
        key, tab, rest = line[:-1].partition(b"\t")
        if tab:
            assert field(row, "key") == key and field(row, "value") == rest, (n, row, line)
        else:
            assert field(row, "key") is None and field(row, "value") == key, (n, row, line)
    assert want.read(1) == b"" and got.read(1) == b"", "not the same number of lines"
END
}

@test "this machine's dpkg and apt history" {
    local logs
    logs=$(find /var/log -maxdepth 2 \( -name 'dpkg.log*' -o -name 'history.log*' -o -name 'term.log*' \
        -o -name 'alternatives.log*' \) -type f ! -name '*.gz' ! -name '*.xz' -size +0)
    # A fresh container may have cleared them: the package database is history as well.
    # shellcheck disable=SC2086
    cat $logs /var/lib/dpkg/status >"$WORK/history"
    [ "$(wc -l <"$WORK/history")" -gt 1000 ]
    cat "$WORK/history" >>"$P/log"
    # The last line of a log may lack its newline: closing completes it.
    [ -z "$(tail -c 1 "$WORK/history")" ] || echo >>"$WORK/history"
    comes_back "$WORK/history"
    json_comes_back "$WORK/history"
}

@test "several hundred thousand lines of package lists" {
    {
        find /var/lib/dpkg/info -name '*.list' -o -name '*.md5sums' | sort | xargs cat
        apt-cache dumpavail 2>/dev/null || true
    } >"$WORK/all"
    while [ "$(wc -l <"$WORK/all")" -lt 300000 ]; do
        cat "$WORK/all" /var/lib/dpkg/status >"$WORK/more"
        mv "$WORK/more" "$WORK/all"
    done
    head -n 500000 "$WORK/all" >"$WORK/lines"
    local start
    start=$(now_ms)
    cat "$WORK/lines" >>"$P/log"
    echo "# appended in $(($(now_ms) - start)) ms" >&3
    comes_back "$WORK/lines"
    head -n 50000 "$WORK/lines" >"$WORK/head"
    json_comes_back "$WORK/head"
    remount
    comes_back "$WORK/lines"
    run -0 "$TOPICFS_BIN" --version
}

@test "a file with everything odd in it" {
    "$PYTHON" - >"$WORK/odd" <<'END'
import os, sys
out = sys.stdout.buffer
out.write(b"\xef\xbb\xbfwith a byte order mark\r\n")
out.write(b"\r\n\r\n\n\n\n")
out.write(b"\0\0\0\n" + b"a\0b\n" + b"\0" * 70000 + b"\n")
out.write(bytes(b for b in range(256) if b != 10) * 3 + b"\n")
for size in (4095, 4096, 4097, 65535, 65536, 65537, 131071, 131072, 262144, 1000000, 1048576):
    out.write(b"L" * size + b"\n")
out.write("Grüße aus Köln, 日本語, emoji 😀\n".encode())
out.write(b"latin-1 gr\xfc\xdfe \xff\xfe\xfd\n" + b"\xed\xa0\x80 surrogate\n" + b"\xc0\x80 overlong\n")
out.write(b"\ttab first\n" + b"key\tvalue\ttail\n" + b"\t\n" + b"\"quotes\" \\backslashes\\ \x1b[31m\x7f\n")
for n in range(2000):
    out.write(os.urandom(100).replace(b"\n", b"") + b"\n")
out.write(b"no newline at the end")
END
    cat "$WORK/odd" >>"$P/log"
    echo >>"$WORK/odd"
    comes_back "$WORK/odd"
    json_comes_back "$WORK/odd"
    kill9
    start_daemon
    comes_back "$WORK/odd"
    # And by dd in pieces that cut lines anywhere, into another topic.
    new_topic u
    dd if="$WORK/odd" of="$MNT/topics/u/0/log" bs=777 oflag=append conv=notrunc status=none
    same "$WORK/odd" "$MNT/topics/u/0/log"
}

@test "line by line from a shell and from a logger-like loop" {
    head -n 300 /var/lib/dpkg/status >"$WORK/lines"
    while IFS= read -r line; do
        printf '%s\n' "$line" >>"$P/log"
    done <"$WORK/lines"
    same "$WORK/lines" "$P/log"
    # Through one open descriptor.
    new_topic u
    while IFS= read -r line; do
        printf '%s\n' "$line"
    done <"$WORK/lines" >>"$MNT/topics/u/0/log"
    same "$WORK/lines" "$MNT/topics/u/0/log"
}

@test "from one topic into another by a pipe that follows" {
    new_topic u
    head -n 5000 /var/lib/dpkg/status >"$WORK/lines"
    background bash -c "grep --line-buffered Package: <'$P/follow/0' >>'$MNT/topics/u/0/log'"
    cat "$WORK/lines" >>"$P/log"
    local want
    want=$(grep -c Package: "$WORK/lines")
    wait_for 20 lines_in "$MNT/topics/u/0/log" "$want"
    same <(grep Package: "$WORK/lines") "$MNT/topics/u/0/log"
}
