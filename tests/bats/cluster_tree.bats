#!/usr/bin/env bats
# cluster/: Kafka's ZooKeeper layout, always valid JSON; the admin files.
load helpers
setup() {
    fresh_mount
    new_topic t '' 3
    K=$MNT/cluster
    export K
}
teardown() { end_mount; }

@test "every file is there, and is JSON of the documented form" {
    local id
    id=$(jq .brokerid "$K/controller")
    run -0 jq -c '[keys, .version]' "$K/controller"
    assert_output '[["brokerid","version"],1]'
    run -0 cat "$K/controller_epoch"
    assert_output --regexp '^[0-9]+$'
    run -0 ls "$K/brokers/ids"
    assert_output "$id"
    run -0 jq -e '.version == 1 and (.host | type) == "string" and has("port") and has("jmx_port")
        and (.epoch | type) == "number" and has("instance")' "$K/brokers/ids/$id"
    run -0 jq -c --argjson id "$id" '[.version, .partitions == {"0": [$id], "1": [$id], "2": [$id]}]' \
        "$K/brokers/topics/t/assignment"
    assert_output '[1,true]'
    run -0 ls "$K/brokers/topics/t/partitions"
    assert_output $'0\n1\n2'
    local p
    for p in 0 1 2; do
        run -0 jq -e --argjson id "$id" '.version == 1 and .leader == $id and .isr == [$id]
            and .leader_epoch >= 0 and .controller_epoch >= 1' \
            "$K/brokers/topics/t/partitions/$p/state"
    done
    run -0 cat "$K/problems"
    assert_output ""
}

@test "sizes are true, so that tar and [ -s ] work" {
    local file
    while IFS= read -r file; do
        [ "$(stat -c %s "$file")" -eq "$(wc -c <"$file")" ] || fail "$file"
    done < <(find "$K" -type f)
    tar -cf "$WORK/cluster.tar" -C "$MNT" cluster
    run -0 tar -tf "$WORK/cluster.tar"
    assert_line cluster/controller
}

@test "always valid JSON while topics come and go" {
    background bash -c 'for n in {1..60}; do
        mkdir "$MNT/topics/x$n"; mkdir "$MNT/topics/x$n/1"
        rmdir "$MNT/topics/x$n"
    done'
    local churn=$!
    background "$PYTHON" -c 'import json, os, sys
seen = 0
while not os.path.exists(os.environ["WORK"] + "/done"):
    for dir, _, names in os.walk(os.environ["K"]):
        for name in names:
            if name == "problems":
                continue
            try:
                text = open(os.path.join(dir, name)).read()
            except FileNotFoundError:
                continue
            except OSError as e:
                assert e.errno == 116, e
                continue
            json.loads(text)
            seen += 1
assert seen > 20, seen'
    local reader=$!
    end_of "$churn" 60
    touch "$WORK/done"
    end_of "$reader" 20
    CHILDREN=()
    run -0 ls "$K/brokers/topics"
    assert_output t
}

@test "the controller epoch rises with every start" {
    local before
    before=$(cat "$K/controller_epoch")
    remount
    [ "$(cat "$K/controller_epoch")" -gt "$before" ]
}

@test "delete_topics deletes, vanishes when done, leaves its outcome" {
    new_topic t4
    new_topic t5
    echo '{"version":1,"topics":["t4","t5"]}' >"$K/admin/delete_topics"
    wait_for 10 test ! -e "$K/admin/delete_topics"
    run -0 ls "$MNT/topics"
    assert_output t
    run -0 jq -e . "$K/admin/last/delete_topics"
}

@test "delete_topics with an unknown topic is refused as a whole" {
    new_topic t4
    run bash -c "echo '{\"version\":1,\"topics\":[\"t4\",\"nope\"]}' >'$K/admin/delete_topics'"
    assert_failure
    [ -d "$MNT/topics/t4" ]
    run -0 cat "$K/admin/last/delete_topics"
    assert_output --partial nope
}

@test "preferred_replica_election and reassign_partitions are done at once on one node" {
    local id
    id=$(jq .brokerid "$K/controller")
    echo '{"version":1,"partitions":[{"topic":"t","partition":1}]}' \
        >"$K/admin/preferred_replica_election"
    wait_for 10 test ! -e "$K/admin/preferred_replica_election"
    run -0 jq -e . "$K/admin/last/preferred_replica_election"
    echo "{\"version\":1,\"partitions\":[{\"topic\":\"t\",\"partition\":1,\"replicas\":[$id]}]}" \
        >"$K/admin/reassign_partitions"
    wait_for 10 test ! -e "$K/admin/reassign_partitions"
    run -0 jq -e . "$K/admin/last/reassign_partitions"
    echo works >>"$MNT/topics/t/1/log"
}

@test "bad requests are EINVAL in the write, with the reason in admin/last" {
    local request
    for request in 'nonsense' '{"version":1}' '{"version":2,"partitions":[]}' \
        '{"version":1,"partitions":[{"topic":"nope","partition":0,"replicas":[1]}]}' \
        '{"version":1,"partitions":[{"topic":"t","partition":9,"replicas":[1]}]}' \
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[12345]}]}' \
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[]}]}' \
        '{"version":1,"partitions":[{"topic":"t","partition":0.5,"replicas":[1]}]}'; do
        run -0 errno_of 'fd = os.open(A[0], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
os.write(fd, A[1].encode())
os.close(fd)' "$K/admin/reassign_partitions" "$request"
        [ "$output" != OK ] || fail "accepted: $request"
        assert_output --regexp '^(EINVAL|ENOENT)$'
        [ ! -e "$K/admin/reassign_partitions" ]
    done
    run -0 cat "$K/admin/last/reassign_partitions"
    assert_output --regexp .
}

@test "nothing else of cluster/ can be changed" {
    local code
    for code in 'os.unlink(MNT + "/cluster/controller")' 'os.mkdir(MNT + "/cluster/x")' \
        'os.open(MNT + "/cluster/controller", os.O_WRONLY)' \
        'os.rename(MNT + "/cluster/controller", MNT + "/cluster/c2")' \
        'os.open(MNT + "/cluster/new", os.O_WRONLY | os.O_CREAT)' \
        'os.rmdir(MNT + "/cluster/brokers")'; do
        run -0 errno_of "$code"
        assert_output --regexp '^(EPERM|EACCES)$' || fail "$code: $output"
    done
    run -0 jq -e .brokerid "$K/controller"
}
