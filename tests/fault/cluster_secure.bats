#!/usr/bin/env bats
# An etcd that asks for certificates and for a password, and a member that does not end.
load ../bats/helpers
load cluster
setup() { :; }
teardown() {
    [ -n "${C-}" ] || return 0
    ! mountpoint -q "$C/other" || "$TOPICFS_BIN" umount "$C/other"
    chattr -i "$C/other" 2>/dev/null || true
    rm -rf --one-file-system "$C/other"
    end_cluster
}

# other SCHEME OPTIONS: another node of the cluster, by hand.
other() {
    mkdir -p "$C/other"
    run within 60 "$TOPICFS_BIN" mount \
        -o "coord=$1://$(etcd_address),cluster=local,node=9,role=client,listen=127.0.0.1:0" \
        -o "data=$C/data/other$2" "$C/other"
}

refused() { # TEXT SCHEME OPTIONS
    local start
    start=$(now_ms)
    other "${@:2}"
    assert_failure 1
    assert_output --partial "$1"
    [ $(($(now_ms) - start)) -lt $((15000 * TOPICFS_TEST_SLOW)) ]
    run ! mountpoint -q "$C/other"
}

works() { # OPTIONS
    other etcds "$1"
    assert_success
    run -0 within 10 cat "$C/other/topics/t/0/log"
    assert_output hi
    run -0 within 30 "$TOPICFS_BIN" umount "$C/other"
}

@test "etcd with certificates and a password: who has them gets in, and nobody else" {
    fresh_cluster 2 --tls --password
    cluster_topic_on_two t
    echo hi >>"$C/n2/topics/t/0/log"
    run -0 "$CLUSTER" status
    assert_output --partial 'https://127.0.0.1'
    refute_output --partial 'does not answer'
    local tls=$C/run/tls all password
    password=$(cat "$C/run/password")
    all=,coord_ca=$tls/ca.pem,coord_cert=$tls/client.pem,coord_key=$tls/client.key
    local login=,coord_user=topicfs,coord_password_file=$C/run/password
    works "$all$login"
    refused 'certificate' etcds ",coord_ca=$tls/ca.pem$login"
    refused 'user name is empty' etcds "$all"
    echo wrong >"$C/run/wrong"
    refused 'authentication failed' etcds "$all,coord_user=topicfs,coord_password_file=$C/run/wrong"
    refused "$C/run/no-key" etcds \
        ",coord_ca=$tls/ca.pem,coord_cert=$tls/client.pem,coord_key=$C/run/no-key$login"
    refused "$C/run/nothing" etcds "$all,coord_user=topicfs,coord_password_file=$C/run/nothing"
    # What the password is stands nowhere.
    run -1 grep -rlF "$password" "$C/run" --include='*.log'

    # Names without a directory are of where the command was given, also for later connections.
    cd "$tls"
    other etcds ",coord_ca=ca.pem,coord_cert=client.pem,coord_key=client.key,\
coord_user=topicfs,coord_password_file=../password"
    assert_success
    cd /

    # The tokens are gone with the member; new ones are asked for.
    "$CLUSTER" kill etcd1
    "$CLUSTER" start etcd1
    wait_for 20 no_problems
    wait_for 20 test ! -s "$C/other/cluster/problems"
    echo '{"retention_ms":"3d"}' >"$C/n1/topics/t/config.json"
    wait_for 10 grep -q 259200000 "$C/n2/topics/t/config.json"
    wait_for 10 grep -q 259200000 "$C/other/topics/t/config.json"
    run -0 within 30 "$TOPICFS_BIN" umount "$C/other"
    "$CLUSTER" kill 1
    "$CLUSTER" start 1
    wait_for 10 grep -q hi "$C/n1/topics/t/0/log"
    run -0 within 10 cat "$C/n1/topics/t/0/log"
    assert_output hi
    run -1 "$CLUSTER" up 2 --etcd 3
    run -0 within 60 "$CLUSTER" up 2
}

cluster_topic_on_two() {
    mkdir "$C/n1/topics/$1"
    wait_for 10 test -e "$C/n2/topics/$1/0/log"
}

@test "certificates that can't be made are an error, and the next up makes them" {
    local bin=$BATS_TEST_TMPDIR/bin
    C=$(mktemp -d /tmp/topicfs-test.XXXXXX)
    CHILDREN=()
    export TOPICFS_CLUSTER_DIR=$C
    mkdir "$bin"
    printf '#!/bin/sh\n[ "$1" != x509 ] || exit 1\nexec %s "$@"\n' "$(command -v openssl)" \
        >"$bin/openssl"
    chmod +x "$bin/openssl"
    PATH=$bin:$PATH run -1 within 60 "$CLUSTER" up 1 --tls --password
    assert_output --partial 'openssl could not make the certificates'
    run -0 within 60 "$CLUSTER" up 1 --tls --password
    run -0 "$CLUSTER" status
    assert_output --partial 'https://127.0.0.1'
}

@test "a node of another machine needs a key, and is told what is wrong with it" {
    fresh_cluster 1
    echo short >"$C/key"
    other etcd ",cluster_key=$C/key"
    assert_failure 1
    assert_output --partial "cluster_key=$C/key: not one line of 16 to 512 printable characters"
}

@test "a member of etcd that does not react is killed by stop" {
    fresh_cluster 1
    kill -STOP "$(pid_of etcd1)"
    local start
    start=$(now_ms)
    run -0 within 30 "$CLUSTER" stop etcd1
    [ $(($(now_ms) - start)) -lt $((8000 * TOPICFS_TEST_SLOW)) ]
    run "$CLUSTER" status
    assert_output --partial 'etcd1  down'
    "$CLUSTER" start etcd1
    wait_for 20 no_problems
}

@test "who is refused by a node that it follows says so in problems, until that is mended" {
    fresh_cluster 3
    cluster_topic t
    local options
    options=$(cat "$C/options")
    "$CLUSTER" stop 3
    printf '0123456789abcdef0123456789abcdef\n' >"$C/key"
    chmod 600 "$C/key"
    echo "$options,cluster_key=$C/key" >"$C/options"
    "$CLUSTER" start 3
    wait_for 20 all_in_sync t
    reassign t n1 '[3,1,2]'
    elect_preferred t n1
    wait_for 20 grep -q 'kind=peer node 3: it refuses this node' "$C/n1/cluster/problems"
    wait_for 20 grep -q 'kind=peer node 3: it refuses this node' "$C/n2/cluster/problems"
    "$CLUSTER" stop 3
    echo "$options" >"$C/options"
    "$CLUSTER" start 3
    wait_for 20 all_in_sync t
    wait_for 10 no_problems
}
