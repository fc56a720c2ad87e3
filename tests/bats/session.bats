#!/usr/bin/env bats
# A first session, as one would type it.
load helpers
setup() { fresh_mount; }
teardown() { end_mount; }

@test "a topic from mkdir to rmdir" {
    cd "$MNT"
    mkdir topics/orders
    echo "first order" >>topics/orders/0/log
    echo "second order" >>topics/orders/0/log

    run -0 cat topics/orders/0/log
    assert_output $'first order\nsecond order'
    run -0 tail -n 1 topics/orders/0/log
    assert_output "second order"
    run -0 cat topics/orders/0/at/last1
    assert_output "second order"
    run -0 cat topics/orders/0/at/0
    assert_line --index 0 "first order"
    run -0 within 5 head -n 1 topics/orders/0/follow/1
    assert_output "second order"
    run -0 within 5 head -n 1 topics/orders/0/json/0
    run -0 jq -r .value <<<"$output"
    assert_output "first order"

    run -0 ls topics
    assert_output "orders"
    rmdir topics/orders
    run -0 ls topics
    assert_output ""
    [ ! -e topics/orders ]
    cd /
}

@test "a topic's directory has what it should" {
    new_topic t
    run -0 ls "$MNT"
    assert_output $'cluster\ntopics' || assert_output $'cluster\ngroups\ntopics'
    run -0 ls "$MNT/topics/t"
    assert_output $'0\nappend\nconfig.json'
    run -0 ls "$MNT/topics/t/0"
    assert_output $'at\nfollow\njson\nlog\nstate'
}

@test "state tells leader, high watermark and end as JSON" {
    new_topic t
    seq 1 10 >>"$MNT/topics/t/0/log"
    local state=$MNT/topics/t/0/state
    run -0 jq -e '.high_watermark == 10 and .log_end_offset == 10 and .log_start_offset == 0
        and .leader_epoch >= 0 and (.isr == .replicas) and (.isr | index([1]) != -1)
        and (.leader | type) == "number" and .size > 0 and (.epochs | length) >= 1' "$state"
    # The controller's own view of the partition names the same leader.
    run -0 jq .leader "$state"
    local leader=$output
    run -0 jq .leader "$MNT/cluster/brokers/topics/t/partitions/0/state"
    assert_output "$leader"
}

@test "what was written is there after a restart" {
    new_topic t
    seq 1 1000 >>"$MNT/topics/t/0/log"
    remount
    run -0 cmp <(seq 1 1000) "$MNT/topics/t/0/log"
    echo after >>"$MNT/topics/t/0/log"
    run -0 tail -n 1 "$MNT/topics/t/0/log"
    assert_output after
    run -0 cat "$MNT/topics/t/0/at/1000"
    assert_output after
}

@test "every restart of a leader makes a new leader epoch" {
    new_topic t
    echo one >>"$MNT/topics/t/0/log"
    local before after
    before=$(jq .leader_epoch "$MNT/topics/t/0/state")
    remount
    after=$(jq .leader_epoch "$MNT/topics/t/0/state")
    [ "$after" -gt "$before" ]
    kill9
    start_daemon
    [ "$(jq .leader_epoch "$MNT/topics/t/0/state")" -gt "$after" ]
}

@test "a topic made again is empty, with another inode" {
    new_topic t
    echo old >>"$MNT/topics/t/0/log"
    local before after
    before=$(stat -c %i "$MNT/topics/t/0/log")
    rmdir "$MNT/topics/t"
    new_topic t
    run -0 cat "$MNT/topics/t/0/log"
    assert_output ""
    after=$(stat -c %i "$MNT/topics/t/0/log")
    [ "$before" != "$after" ]
    remount
    run -0 cat "$MNT/topics/t/0/log"
    assert_output ""
}

@test "README's session gives what README says" {
    ln -s "$MNT" "$WORK/topicfs"
    mkdir "$WORK/topicfs-data"
    ln -s "$DAEMON_LOG" "$WORK/topicfs-data/topicfs.log"
    HOME=$WORK "$PYTHON" - "$REPOSITORY/README.md" <<'END'
import re, subprocess, sys
text = open(sys.argv[1]).read()
section = text[text.index("## A session\n"):]
section = section[:section.index("\n## ", 5)]
steps = []
for line in section.splitlines():
    if line.startswith("    $ "):
        steps.append((line[6:], []))
    elif line.startswith("    "):
        steps[-1][1].append(line[4:])
assert len(steps) > 10, steps

def plain(line):
    line = re.sub(r"^bash: line \d+: ", "bash: ", line)
    return re.sub(r'"timestamp":\d+', '"timestamp":0', line)

for command, want in steps:
    # What waits for messages until Ctrl-C is left after a moment.
    waits = ["timeout", "-s", "INT", "1"] if "follow/" in command else []
    done = subprocess.run(waits + ["bash", "-c", "cd ~/topicfs\n" + command],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    got = [plain(line) for line in done.stdout.splitlines()]
    want = [plain(line) for line in want]
    if command.startswith("grep -r"):
        got, want = sorted(got), sorted(want)
    assert got == want, "%s\ngave %s\nnot  %s" % (command, got, want)
END
}
