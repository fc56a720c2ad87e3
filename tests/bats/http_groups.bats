#!/usr/bin/env bats
# Consumer groups over HTTP: curl as a member, beside readers on the mount.
# shellcheck disable=SC2016 # what is quoted is for other shells
load helpers
load http
setup() {
    fresh_mount listen=127.0.0.1:0
    find_url
    new_topic t
    G=$URL/groups/g
    export G
}
teardown() { end_mount; }

ANSWER_S=40 # polls wait for as long as 30 s

# Sets $ID.
join() {
    answers 201 -X POST "$G/members?topic=t"
    ID=$(jq -r .member <<<"$output")
}
poll() { # [ARGUMENTS]: the values, one per line
    answers 200 "$G/members/$ID?${1:-}"
    output=$(jq -r .value <<<"$output")
}
# The member has a poll that waits: another one is refused.
taken() {
    [ "$(curl -s -o "$WORK/taken" -w '%{http_code}' "$G/members/$ID?wait_ms=0")" = 409 ]
}
committed() {
    cat "$MNT/groups/g/offsets/t/0"
}
members_are() {
    [ "$(jq '.members | length' "$MNT/groups/g/members")" = "$1" ]
}

@test "join, poll, leave: a poll commits what the one before gave out" {
    printf 'k\tv\n' >>"$MNT/topics/t/0/log"
    seq 2 5 >>"$MNT/topics/t/0/log"
    join
    [ "$(jq -r '.members[0].topic' "$MNT/groups/g/members")" = t ]
    answers 200 "$G/members/$ID?wait_ms=10000"
    run -0 jq -c '[.partition, .offset, .key, .value]' <<<"${output%%$'\n'*}"
    assert_output '[0,0,"k","v"]'
    case $(committed) in 0 | none) ;; *) false ;; esac
    poll wait_ms=0
    assert_output ""
    [ "$(committed)" = 5 ]
    answers 200 -X DELETE "$G/members/$ID"
    wait_for 5 members_are 0
    answers 404 "$G/members/$ID"
    answers 404 -X DELETE "$G/members/$ID"
}

@test "HEAD of a member hands nothing out: its answer has no body to see it in" {
    seq 5 >>"$MNT/topics/t/0/log"
    join
    answers 405 -I "$G/members/$ID?wait_ms=1000"
    [[ "$output" == *$'Allow: GET, POST, DELETE\r'* ]]
    answers 200 -I "$G"
    poll wait_ms=10000
    assert_output "$(seq 5)"
}

@test "a poll waits for messages, and for so long" {
    join
    poll wait_ms=300
    assert_output ""
    begin_curl "$WORK/out" "$G/members/$ID?wait_ms=30000"
    wait_for 5 taken
    echo hello >>"$MNT/topics/t/0/log"
    wait_for 10 lines_in "$WORK/out" 1
    run -0 jq -r .value "$WORK/out"
    assert_output hello
}

@test "a client that goes away while it waits has nothing taken from it" {
    join
    run -28 curl -s --max-time 1 "$G/members/$ID?wait_ms=30000"
    echo hello >>"$MNT/topics/t/0/log"
    # It is noticed within a moment: 409 until then.
    hello() {
        curl -sf "$G/members/$ID?wait_ms=500" | jq -r .value | grep -qx hello
    }
    wait_for 10 hello
}

@test "an answer that broke off is given again" {
    head -c 8000000 /dev/zero | tr '\0' x | fold -w 1000 >>"$MNT/topics/t/0/log"
    join
    run -28 curl -s --max-time 1 --limit-rate 20k -o "$WORK/part" \
        "$G/members/$ID?max_bytes=8000000&wait_ms=10000"
    poll_more() {
        curl -sf "$G/members/$ID?max_bytes=1000&wait_ms=500" >"$WORK/again"
    }
    wait_for 10 poll_more
    run -0 jq -r .offset "$WORK/again"
    assert_line --index 0 0
}

@test "what is given out ends about where max_bytes says" {
    seq 1000 >>"$MNT/topics/t/0/log"
    join
    poll 'max_bytes=10&wait_ms=10000'
    [ "${output%%$'\n'*}" = 1 ]
    [ "$(wc -l <<<"$output")" -le 6 ]
    local all=$output
    while poll 'max_bytes=1000&wait_ms=500' && [ -n "$output" ]; do
        all+=$'\n'$output
    done
    run -0 cmp <(seq 1000) <(echo "$all")
}

@test "commits that come sooner" {
    seq 5 >>"$MNT/topics/t/0/log"
    join
    poll wait_ms=10000
    answers 200 --data '{"0":3}' "$G/members/$ID"
    [ "$(committed)" = 3 ]
    answers 400 --data '{"0":9}' "$G/members/$ID"
    answers 400 --data '{"7":1}' "$G/members/$ID"
    answers 400 --data 'x' "$G/members/$ID"
    answers 200 -X DELETE "$G/members/$ID"
    join
    poll wait_ms=10000
    assert_output $'4\n5'
}

@test "members on the mount and over HTTP share the partitions" {
    mkdir "$MNT/topics/t/1"
    background cat "$MNT/groups/g/read/t" >"$WORK/out"
    wait_for 5 members_are 1
    join
    shared() {
        [ "$(jq -c '[.members[].partitions | length]' "$MNT/groups/g/members")" = '[1,1]' ]
    }
    wait_for 10 shared
    echo a >>"$MNT/topics/t/0/log"
    echo b >>"$MNT/topics/t/1/log"
    poll wait_ms=10000
    wait_for 10 lines_in "$WORK/out" 1
    run -0 sort "$WORK/out" <(echo "$output")
    assert_output $'a\nb'
    answers 200 -X DELETE "$G/members/$ID"
    alone() {
        [ "$(jq -c '.members[].partitions' "$MNT/groups/g/members")" = '[0,1]' ]
    }
    wait_for 10 alone
}

@test "the group: names, description, settings, offsets, removal" {
    seq 10 >>"$MNT/topics/t/0/log"
    answers 200 "$URL/groups"
    assert_equal "$output" '[]'
    answers 200 --data latest "$G/offsets/t/0"
    [ "$(committed)" = 10 ]
    answers 200 --data 4 "$G/offsets/t/0"
    [ "$(committed)" = 4 ]
    answers 400 --data 11 "$G/offsets/t/0"
    answers 400 --data x "$G/offsets/t/0"
    answers 404 --data 1 "$G/offsets/nothing/0"
    answers 200 "$G"
    run -0 jq -c '.offsets[0] | [.topic, .partition, .offset, .end]' <<<"$output"
    assert_output '["t",0,4,10]'
    answers 200 --data '{"start":"latest"}' "$G/config"
    answers 400 --data '{"start":"never"}' "$G/config"
    answers 200 "$URL/groups"
    assert_equal "$output" '["g"]'
    join
    answers 409 -X DELETE "$G"
    answers 409 --data 1 "$G/offsets/t/0"
    answers 200 -X DELETE "$G/members/$ID"
    wait_for 5 members_are 0
    answers 200 -X DELETE "$G"
    answers 200 "$URL/groups"
    assert_equal "$output" '[]'
}

@test "garbage is refused, and members are their users' own" {
    answers 400 -X POST "$G/members"
    answers 400 -X POST "$G/members?topic=t&x=1"
    answers 404 -X POST "$G/members?topic=nothing"
    answers 400 -X POST "$URL/groups/not%20valid/members?topic=t"
    answers 404 "$G/members/0123456789abcdef0123456789abcdef"
    answers 405 -X PUT "$G"
    seq 9 >>"$MNT/topics/t/0/log"
    local wrong
    for wrong in '4 2' '4,2' +4 -1 4x '' latest5 'latest latest'; do
        answers 400 --data-raw "$wrong" "$G/offsets/t/0"
    done
    answers 400 --data-binary @- "$G/offsets/t/0" < <(printf '4\0')
    answers 200 --data-binary @- "$G/offsets/t/0" <<<' 4'
    [ "$(committed)" = 4 ]
    chmod 755 "$MNT/topics" "$MNT/topics/t"
    join
    answers 400 "$G/members/$ID?wait_ms=x"
    answers 400 "$G/members/$ID?max_bytes=0"
    run -0 setpriv --reuid=65534 --regid=65534 --clear-groups \
        curl -s -o /dev/null -w '%{http_code}' "$G/members/$ID"
    assert_output 404
    chmod 700 "$MNT/topics/t"
    run -0 setpriv --reuid=65534 --regid=65534 --clear-groups \
        curl -s -o /dev/null -w '%{http_code}' -X POST "$G/members?topic=t"
    assert_output 403
}

@test "a deleted topic ends its members; a stop does not wait for them" {
    join
    begin_curl "$WORK/out" -w '%{http_code}' "$G/members/$ID?wait_ms=30000"
    wait_for 5 taken
    rmdir "$MNT/topics/t"
    end_of "$!" 10
    run -0 tail -c 3 "$WORK/out"
    assert_output 410
    new_topic t
    join
    begin_curl "$WORK/out" "$G/members/$ID?wait_ms=30000"
    wait_for 5 taken
    stop_daemon
}

@test "metrics tell members and lag" {
    seq 10 >>"$MNT/topics/t/0/log"
    echo 4 >"$MNT/groups/g/offsets/t/0"
    join
    metric() {
        curl -s "$URL/metrics" | grep '^topicfs_group' | grep -F 'group="g"' >"$WORK/metrics" &&
            grep -q 'lag.* 6$' "$WORK/metrics" && grep -q 'members.* 1$' "$WORK/metrics"
    }
    wait_for 10 metric
}
