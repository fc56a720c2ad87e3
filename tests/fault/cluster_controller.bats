#!/usr/bin/env bats
# The controller's own death and return, and what it was in the middle of.
load ../bats/helpers
load cluster
setup() { :; }
teardown() { end_cluster; }

PARTITIONS=100

# The states of all partitions, as one mount shows them: one JSON object a line.
states() { # MOUNT
    cat "$C/$1"/cluster/brokers/topics/many/partitions/*/state
}

all_led_by_all() { # MOUNT: each has a leader and three in sync
    [ "$(states "$1" | jq -s 'map(select(.leader > 0 and (.isr|length) == 3)) | length')" = "$PARTITIONS" ]
}

not_live() { # NODE, as the mount of THIRD sees it
    [ ! -e "$C/n$THIRD/cluster/brokers/ids/$1" ]
}

# One line to every partition, from the mounts in turn.
write_everywhere() {
    "$PYTHON" -c 'import os, sys
for p in range(int(sys.argv[1])):
    mount = sys.argv[2 + p % 3]
    fd = os.open("%s/topics/many/%d/log" % (mount, p), os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"a line\n")
    os.close(fd)' "$PARTITIONS" "$C/n1" "$C/n2" "$C/n3"
}

# What etcd was told, in order: leaders move with the epoch of the present controller, and a
# partition's leader epoch never falls.
check_history() {
    local etcd=(etcdctl --endpoints "http://$(etcd_address)") end=/topicfs/end-of-history
    # Behind all of it, so that whoever reads it knows where it ends.
    ETCDCTL_API=3 "${etcd[@]}" put "$end" there
    ETCDCTL_API=3 within 30 "$PYTHON" -c 'import base64, json, subprocess, sys
watch = subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE)
now, states, moves, ended = 0, {}, 0, False
while not ended:
    for event in json.loads(watch.stdout.readline()).get("Events", []):
        kv = event["kv"]
        key = base64.b64decode(kv["key"]).decode()
        ended = ended or key == sys.argv[1]
        if "value" not in kv:
            continue
        value = base64.b64decode(kv["value"]).decode()
        if key.endswith("/controller_epoch"):
            assert int(value) == now + 1, (key, value, now)
            now = int(value)
        elif key.endswith("/state"):
            new, old = json.loads(value), states.get(key)
            states[key] = new
            if old is None:
                continue
            assert new["leader_epoch"] >= old["leader_epoch"], (key, old, new)
            if new["leader"] != old["leader"]:
                moves += 1
                assert new["controller_epoch"] == now, (key, now, old, new)
                assert new["leader_epoch"] > old["leader_epoch"], (key, old, new)
watch.terminate()
watch.wait()
print(now, "controllers,", moves, "moves")
assert now >= 2 and moves > 0' "$end" "${etcd[@]}" watch --prefix /topicfs/ --rev=1 -w json
}

# stops_in_the_middle HOW: a node is killed, the controller stops while it moves what that node
# led, and wakes when the next one has acted.
stops_in_the_middle() {
    local controller victim k
    controller=$(controller_of n1)
    victim=$((controller % 3 + 1))
    THIRD=$((victim % 3 + 1))
    "$1" "$controller" "$victim"
    # Nobody but the third is there now: it gets on alone, and the old one comes back.
    wait_for 20 led_by_third
    [ "$(controller_of "n$THIRD")" = "$THIRD" ]
    kill -CONT "$(pid_of "$controller")"
    "$CLUSTER" start "$victim"
    for k in n1 n2 n3; do wait_for 30 all_led_by_all "$k"; done
    wait_for 10 one_controller
    write_everywhere
    # Leaders may still move back to where they are preferred: in the end all show the same.
    wait_for 10 same_states n2
    wait_for 10 same_states n3
}

same_states() { # MOUNT: as n1
    cmp <(states n1) <(states "$1")
}

led_by_third() {
    [ "$(states "n$THIRD" | jq -s "map(select(.leader == $THIRD)) | length")" = "$PARTITIONS" ]
}

at_once() { # CONTROLLER VICTIM
    "$CLUSTER" kill "$2"
    wait_for 10 not_live "$2"
    kill -STOP "$(pid_of "$1")"
}

with_a_transaction_under_way() { # CONTROLLER VICTIM
    kill -STOP "$(pid_of etcd1)"
    "$CLUSTER" kill "$2"
    # It finds out, and tells etcd, which answers when it is stopped itself. Nothing shows how far
    # it has got: this is the moment in which it is stopped.
    sleep "$(awk "BEGIN { print 0.5 * $TOPICFS_TEST_SLOW }")"
    kill -STOP "$(pid_of "$1")"
    kill -CONT "$(pid_of etcd1)"
}

@test "the controller stops in the middle of a failover, and wakes after the next has acted" {
    OPTIONS=partitions=$PARTITIONS fresh_cluster 3
    mkdir "$C/n1/topics/many"
    wait_for 10 one_controller
    local k
    for k in n1 n2 n3; do wait_for 20 all_led_by_all "$k"; done
    stops_in_the_middle at_once
    stops_in_the_middle with_a_transaction_under_way
    check_history
    wait_for 20 no_problems
}
