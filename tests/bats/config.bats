#!/usr/bin/env bats
# config.json: what it shows, what a write changes, what is refused, two writers at once.
load helpers
setup() {
    fresh_mount
    new_topic t
    C=$MNT/topics/t/config.json
    export C
}
teardown() { end_mount; }

# write_config BYTES: one write(2); prints OK or the errno.
write_config() {
    errno_of 'fd = os.open(os.environ["C"], os.O_WRONLY); os.write(fd, A[0].encode()); os.close(fd)' "$1"
}

@test "it is complete, valid JSON with the documented defaults" {
    run -0 jq -e '.partitions == 1 and .replication_factor == 1 and .acks == "all"
        and .min_insync_replicas == 1 and .on_below_min == "wait" and .flush == "ack"
        and .flush_ms == 1000 and .max_message_bytes == 1048576
        and .segment_bytes == 268435456 and .segment_ms == 604800000
        and .retention_ms == 604800000 and .retention_bytes == -1
        and .cleanup_policy == "delete" and (.key_delimiter == "\t" or .key_delimiter == "tab")
        and .unclean_leader_election == false and .delivery_timeout_ms == 30000
        and .replica_lag_time_max_ms == 10000 and .replica_lag_max_messages == 0
        and (.version | type) == "number"' "$C"
    [ "$(stat -c %s "$C")" -eq "$(wc -c <"$C")" ]
}

@test "the keys named are changed, null restores the default, the version rises" {
    local before
    before=$(setting t version)
    echo '{"retention_ms": 1000, "flush": "os"}' >"$C"
    [ "$(setting t retention_ms)" = 1000 ]
    [ "$(setting t flush)" = os ]
    [ "$(setting t segment_ms)" = 604800000 ]
    [ "$(setting t version)" -gt "$before" ]
    echo '{"retention_ms": null}' >>"$C"
    [ "$(setting t retention_ms)" = 604800000 ]
    [ "$(setting t flush)" = os ]
    remount
    [ "$(setting t flush)" = os ]
}

@test "null restores the default of the mount" {
    remount retention_ms=5000
    new_topic u
    [ "$(setting u retention_ms)" = 5000 ]
    echo '{"retention_ms": 7000}' >"$MNT/topics/u/config.json"
    [ "$(setting u retention_ms)" = 7000 ]
    echo '{"retention_ms": null}' >"$MNT/topics/u/config.json"
    [ "$(setting u retention_ms)" = 5000 ]
}

@test "opening with > and writing nothing erases nothing" {
    local before
    before=$(cat "$C")
    : >"$C"
    [ "$(cat "$C")" = "$before" ]
}

@test "refusals come with the write, change nothing, and say why in the log" {
    local before json
    before=$(cat "$C")
    for json in '{"no_such_key": 1}' '{"retention_ms": "soon"}' '{"retention_ms": 1.5}' \
        '{"retention_ms": -2}' '{"segment_bytes": 0}' '{"max_message_bytes": -1}' \
        '{"flush": "sometimes"}' '{"acks": 2}' '{"cleanup_policy": []}' \
        '{"key_delimiter": "ab"}' '{"retention_ms": 1, "nope": 2}' '[1]' '"text"' '5 ' \
        '{"a" 1}' '{"retention_ms": 1,}' '}' '{"retention_ms": 99999999999999999999}' \
        '{"retention_ms": 1, "retention_ms": 2}' 'hello' '{"flush_ms": true}'; do
        run -0 write_config "$json"
        assert_output EINVAL || fail "$json: $output"
        [ "$(cat "$C")" = "$before" ] || fail "$json changed something"
    done
    run -0 grep -c no_such_key "$DAEMON_LOG"
    # Each has a line there, also what is no JSON.
    run -0 grep -c 'topic t.*refused' "$DAEMON_LOG"
    assert_output 21
}

@test "keys that can't change: accepted as they are, refused otherwise" {
    run -0 write_config '{"partitions": 1, "replication_factor": 1}'
    assert_output OK
    run -0 write_config '{"partitions": 2}'
    assert_output EPERM
    run -0 write_config '{"replication_factor": 3}'
    assert_output EPERM
    [ "$(setting t partitions)" = 1 ]
}

@test "bytes gather over several writes until the value is complete" {
    python 'fd = os.open(os.environ["C"], os.O_WRONLY)
for part in b"{\"reten", b"tion_ms\"", b": 12", b"34}":
    assert os.write(fd, part) == len(part)
assert json.load(open(os.environ["C"]))["retention_ms"] == 1234, "applied in the write"
os.close(fd)'
    [ "$(setting t retention_ms)" = 1234 ]
}

@test "incomplete at close is EINVAL" {
    run -0 write_config '{"retention_ms": 5'
    assert_output EINVAL
    [ "$(setting t retention_ms)" = 604800000 ]
    # A shell does not say what close() says.
    run -0 grep 'config.json of topic t: refused: closed before' "$DAEMON_LOG"
}

@test "a value that can't be JSON any more is EINVAL in that write" {
    python 'fd = os.open(os.environ["C"], os.O_WRONLY)
os.write(fd, b"{\"retention_ms\":")
try:
    os.write(fd, b" ]")
    raise AssertionError("accepted")
except OSError as e:
    assert e.errno == errno.EINVAL, e'
}

@test "cp onto it works, with read-modify-write through jq" {
    jq '.retention_ms = 4321' "$C" >"$WORK/new"
    cp "$WORK/new" "$C"
    [ "$(setting t retention_ms)" = 4321 ]
    # The same file again carries a version that is no longer the present one.
    run -1 cp "$WORK/new" "$C"
    [ "$(setting t retention_ms)" = 4321 ]
}

@test "a version makes it compare-and-swap" {
    local version
    version=$(setting t version)
    run -0 write_config "{\"version\": $((version + 1)), \"retention_ms\": 1}"
    assert_output EAGAIN
    [ "$(setting t retention_ms)" = 604800000 ]
    run -0 write_config "{\"version\": $version, \"retention_ms\": 1}"
    assert_output OK
    run -0 write_config "{\"version\": $version, \"retention_ms\": 2}"
    assert_output EAGAIN
    [ "$(setting t retention_ms)" = 1 ]
}

@test "two writers at once: no update is lost" {
    echo '{"flush_ms": 1000}' >"$C"
    local i
    for i in 1 2 3; do
        background "$PYTHON" -c 'import errno, json, os
path, done = os.environ["C"], 0
while done < 15:
    config = json.load(open(path))
    change = {"version": config["version"], "flush_ms": config["flush_ms"] + 1}
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, json.dumps(change).encode())
        done += 1
    except OSError as e:
        assert e.errno == errno.EAGAIN, e
    os.close(fd)'
    done
    local pid
    for pid in "${CHILDREN[@]}"; do
        end_of "$pid" 60
    done
    CHILDREN=()
    [ "$(setting t flush_ms)" = 1045 ]
}

@test "vim, sed -i and mv on it are refused" {
    run timeout 10 vim -es -N -u NONE -i NONE -c '%s/ack/os/' -c 'wq!' "$C" </dev/null
    [ "$(setting t flush)" = ack ] || [ "$(setting t flush)" = os ]
    run sed -i 's/ack/os/' "$C"
    assert_failure
    run mv "$C" "$MNT/topics/t/other"
    assert_failure
    run rm -f "$C"
    assert_failure
    echo '{}' >"$WORK/new"
    run mv -f "$WORK/new" "$MNT/topics/t/new.json"
    assert_failure
    run -0 ls "$MNT/topics/t"
    assert_output $'0\nappend\nconfig.json'
    run -0 jq -e .version "$C"
}

@test "a smaller max_message_bytes applies to the next write of an open file" {
    python 'log = os.environ["C"].replace("config.json", "0/log")
fd = os.open(log, os.O_WRONLY | os.O_APPEND)
os.write(fd, b"x" * 100 + b"\n")
with open(os.environ["C"], "w") as f:
    f.write("{\"max_message_bytes\": 50}")
try:
    os.write(fd, b"x" * 100 + b"\n")
    raise AssertionError("accepted")
except OSError as e:
    assert e.errno == errno.EMSGSIZE, e'
}

@test "mount options: defaults for new topics, unknown ones refused" {
    remount segment_bytes=1m,flush=os,acks=1,max_message_bytes=64k
    new_topic u
    [ "$(setting u segment_bytes)" = 1048576 ]
    [ "$(setting u flush)" = os ]
    [ "$(setting u acks)" = 1 ]
    [ "$(setting u max_message_bytes)" = 65536 ]
    [ "$(setting t flush)" = ack ]
}
