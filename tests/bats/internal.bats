#!/usr/bin/env bats
# Topics that topicfs keeps for itself: their names begin with __.
load helpers
load http

# One that is found in the data directory after the store was lost.
setup() {
    fresh_mount listen=127.0.0.1:0
    new_topic x
    printf 'k\ta\nk\tb\n' >>"$MNT/topics/x/0/log"
    stop_daemon
    mv "$DATA/x-0" "$DATA/__x-0"
    rm -r "$DATA/store"
    start_daemon listen=127.0.0.1:0
    find_url
}
teardown() { end_mount; }

# refused ERROR SCRIPT: the script fails, and says so.
refused() {
    run -1 bash -c "$2"
    assert_output --partial "$1"
}

@test "they are not listed, and can be read by name" {
    run -0 ls "$MNT/topics"
    refute_output --partial __x
    run -0 cat "$MNT/topics/__x/0/log"
    assert_output "$(printf 'k\ta\nk\tb')"
    run -0 stat -c %a "$MNT/topics/__x"
    assert_output 700
}

@test "nobody writes, deletes or extends them; their settings are the owner's" {
    refused "Operation not permitted" "echo k >>'$MNT/topics/__x/0/log'"
    refused "Operation not permitted" "echo k >>'$MNT/topics/__x/append'"
    refused "Operation not permitted" "rmdir '$MNT/topics/__x'"
    refused "Operation not permitted" "mkdir '$MNT/topics/__x/1'"
    refused "Invalid argument" "mkdir '$MNT/topics/__y'"
    refused "Operation not permitted" \
        "echo '{\"version\":1,\"topics\":[\"__x\"]}' >'$MNT/cluster/admin/delete_topics'"
    echo '{"segment_bytes":1048576}' >"$MNT/topics/__x/config.json"
    [ "$(setting __x segment_bytes)" = 1048576 ]
    [ "$(setting __x cleanup_policy)" = compact ]
}

@test "the same over HTTP" {
    run -0 curl -s "$URL/topics"
    assert_output '[]'
    run -0 curl -s "$URL/topics?internal=true"
    assert_output '["__x"]'
    run -0 curl -s -o /dev/null -w '%{http_code}' "$URL/topics?internal=perhaps"
    assert_output 400
    run -0 curl -s "$URL/topics/__x/0?from=1"
    assert_output "$(printf 'k\tb')"
    for path in /topics/__x /topics/__x/0; do
        run -0 curl -s -o /dev/null -w '%{http_code}' --data-binary $'k\tc\n' "$URL$path"
        assert_output 403
    done
    run -0 wc -l <"$MNT/topics/__x/0/log"
    assert_output 2
}
