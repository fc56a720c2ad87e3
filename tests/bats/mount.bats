#!/usr/bin/env bats
# Mounting and unmounting, the command line, refusals, what stays behind.
load helpers
setup() { fresh_mount; }
teardown() { end_mount; }

# The background daemon that serves $DATA; only while it runs.
background_daemon() {
    pgrep -f -- "mount .*data=$DATA" | head -n 1
}

no_daemon() {
    ! background_daemon | grep -q .
}

@test "--help, --version, and no command" {
    run -0 "$TOPICFS_BIN" --help
    assert_output --partial "topicfs mount"
    assert_output --partial retention_ms
    assert_output --partial session_timeout_ms
    run -0 "$TOPICFS_BIN" --version
    assert_output --regexp '[0-9]+\.[0-9]+'
    run -16 "$TOPICFS_BIN"
    assert_output --partial mount
    run -16 "$TOPICFS_BIN" frobnicate
}

@test "bad options are named, and nothing is mounted" {
    mkdir "$WORK/m2"
    local option
    for option in nonsense=1 nonsense flush=sometimes segment_bytes=0 node=-1 retention_ms= \
        listen=nowhere coord=zookeeper:2181; do
        run -16 "$TOPICFS_BIN" mount -o "data=$WORK/d2,$option" "$WORK/m2"
        assert_output --partial "${option%%=*}"
        run mountpoint -q "$WORK/m2"
        assert_failure
    done
    [ ! -e "$WORK/d2" ]
    run -16 "$TOPICFS_BIN" mount --no-such-flag "$WORK/m2"
    run -16 "$TOPICFS_BIN" mount
    run -16 "$TOPICFS_BIN" mount "$WORK/m2" "$WORK/m3"
}

@test "a second process on the same data is refused; the first goes on" {
    new_topic t
    mkdir "$WORK/m2"
    run -1 within 10 "$TOPICFS_BIN" mount -f -o "data=$DATA" "$WORK/m2"
    assert_output --partial "in use"
    run -1 within 10 "$TOPICFS_BIN" mount -o "data=$DATA" "$WORK/m2"
    assert_output --partial "in use"
    run -8 within 10 "$TOPICFS_BIN" check "$DATA"
    echo works >>"$MNT/topics/t/0/log"
    run -0 cat "$MNT/topics/t/0/log"
    assert_output works
}

@test "a second mount at the same place is refused; the first goes on" {
    run -1 within 10 "$TOPICFS_BIN" mount -f -o "data=$WORK/d2" "$MNT"
    run -0 ls "$MNT/topics"
}

@test "it starts over a dead mount" {
    new_topic t
    echo before >>"$MNT/topics/t/0/log"
    kill -KILL "$DAEMON"
    wait_for 5 ended "$DAEMON"
    run ls "$MNT"
    assert_failure
    start_daemon
    run -0 cat "$MNT/topics/t/0/log"
    assert_output before
}

@test "SIGTERM, SIGINT and SIGHUP unmount cleanly" {
    local signal
    for signal in TERM INT HUP; do
        # A background job of a script starts with SIGINT ignored; the daemon takes it anyhow.
        kill "-$signal" "$DAEMON"
        end_of "$DAEMON" 10
        DAEMON=
        run mountpoint -q "$MNT"
        assert_failure
        start_daemon
    done
}

@test "SIGTERM at any moment of the start ends it in time, with nothing mounted" {
    new_topic t
    echo kept >>"$MNT/topics/t/0/log"
    stop_daemon
    # A disk that is slow to flush makes a start last long enough to meet every part of it.
    cc -shared -fPIC -D_GNU_SOURCE -o "$WORK/slow_flush.so" \
        "$REPOSITORY/tests/bats/slow_flush.c"
    echo 40 >"$WORK/slow"
    local ms pid status
    for ms in 0 1 3 5 10 20 40 60 80 100 150 200 250 300 400 500; do
        LD_PRELOAD=$WORK/slow_flush.so SLOW_FLUSH=$WORK/slow \
            ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0 \
            "$TOPICFS_BIN" mount -f -o "data=$DATA" "$MNT" \
            </dev/null >>"$DAEMON_LOG" 2>&1 3>&- 4>&- &
        pid=$!
        CHILDREN+=("$pid")
        sleep "$(printf '0.%03d' "$ms")" # stopped at one moment or another of its start
        kill -TERM "$pid"
        status=0
        end_of "$pid" 10 || status=$?
        # Before it could take the signal: 143.
        case $status in
        0 | 1 | 143) ;;
        *) fail "after $ms ms: status $status" ;;
        esac
        run mountpoint -q "$MNT"
        assert_failure
    done
    start_daemon
    run -0 cat "$MNT/topics/t/0/log"
    assert_output kept
}

@test "topicfs umount, fusermount3 -u and umount end the daemon" {
    local how
    for how in "$TOPICFS_BIN umount" "fusermount3 -u" umount; do
        $how "$MNT"
        end_of "$DAEMON" 10
        DAEMON=
        run mountpoint -q "$MNT"
        assert_failure
        start_daemon
    done
    run -1 "$TOPICFS_BIN" umount "$WORK/nowhere"
}

@test "topicfs umount of a busy mount says who keeps it; --lazy detaches" {
    new_topic t
    background sleep 100 7<"$MNT/topics/t/0/log"
    local holder=$!
    wait_for 5 test -e "/proc/$holder/fd/7"
    run -1 within 20 "$TOPICFS_BIN" umount "$MNT"
    assert_output --partial "$holder"
    mountpoint -q "$MNT"
    background "$TOPICFS_BIN" umount --lazy "$MNT"
    wait_for 5 bash -c '! mountpoint -q "$MNT"'
    kill -KILL "$holder"
    end_of "$DAEMON" 10
    DAEMON=
}

@test "in the background: returns when it answers, logs beside the data" {
    stop_daemon
    run -0 within 20 "$TOPICFS_BIN" mount -o "data=$DATA" "$MNT"
    mkdir "$MNT/topics/t"
    echo hi >>"$MNT/topics/t/0/log"
    run -0 cat "$MNT/topics/t/0/log"
    assert_output hi
    [ -s "$DATA/topicfs.log" ]
    # It holds none of our descriptors and has a session of its own.
    local pid
    pid=$(background_daemon)
    [ "$(ps -o sid= -p "$pid" | tr -d ' ')" != "$(ps -o sid= -p $$ | tr -d ' ')" ]
    run -0 "$TOPICFS_BIN" umount "$MNT"
    # umount returns with the daemon gone: the data is free at once.
    run no_daemon
    assert_success
    start_daemon
    run -0 cat "$MNT/topics/t/0/log"
    assert_output hi
}

@test "in the background: a failure is told, with status 1" {
    mkdir "$WORK/m2"
    echo x >"$WORK/file"
    run -1 within 20 "$TOPICFS_BIN" mount -o "data=$WORK/file/data" "$WORK/m2"
    assert_output --partial "$WORK/file"
    run -1 within 20 "$TOPICFS_BIN" mount -o "data=$WORK/file" "$WORK/m2"
    run -1 within 20 "$TOPICFS_BIN" mount -o "data=$WORK/d2" "$WORK/file"
    run mountpoint -q "$WORK/m2"
    assert_failure
}

@test "the mount point is unwritable underneath, and --release gives it back" {
    "$TOPICFS_BIN" umount "$MNT"
    end_of "$DAEMON" 10
    DAEMON=
    run mkdir "$MNT/topics"
    assert_failure
    run bash -c "echo lost >'$MNT/file'"
    assert_failure
    start_daemon
    "$TOPICFS_BIN" umount --release "$MNT"
    end_of "$DAEMON" 10
    DAEMON=
    mkdir "$MNT/now-it-works"
    rmdir "$MNT/now-it-works"
}

@test "a crash leaves the mount point unwritable, too" {
    kill9
    run mkdir "$MNT/topics"
    assert_failure
    start_daemon
}

@test "a mount point that has something in it is refused, unless nonempty" {
    mkdir "$WORK/m2"
    touch "$WORK/m2/file"
    run -1 within 10 "$TOPICFS_BIN" mount -f -o "data=$WORK/d2" "$WORK/m2"
    assert_output --partial empty
    run -1 within 10 "$TOPICFS_BIN" mount -f -o "data=$WORK/d2/x" "$WORK/d2"
    run -1 within 10 "$TOPICFS_BIN" mount -f -o "data=$WORK/m3/data" "$WORK/m3"
    # nonempty
    run -0 within 20 "$TOPICFS_BIN" mount -o "data=$WORK/d4,nonempty" "$WORK/m2"
    [ -d "$WORK/m2/topics" ]
    run -0 "$TOPICFS_BIN" umount "$WORK/m2"
    [ -e "$WORK/m2/file" ]
}

@test "a data directory that is not writable, or of a newer format" {
    mkdir "$WORK/m2"
    if [ "$(id -u)" -eq 0 ]; then
        mkdir "$WORK/d2"
        mount -t tmpfs -o ro none "$WORK/d2"
        run within 10 "$TOPICFS_BIN" mount -f -o "data=$WORK/d2" "$WORK/m2"
        umount "$WORK/d2"
        [ "$status" -eq 1 ]
        assert_output --partial "$WORK/d2"
    fi
    stop_daemon
    local file=$DATA/meta.json
    cp "$file" "$WORK/saved"
    sed -i 's/"version":1/"version":999/' "$file"
    run cmp "$file" "$WORK/saved"
    assert_failure
    run -1 within 10 "$TOPICFS_BIN" mount -f -o "data=$DATA" "$MNT"
    assert_output --partial newer
    run -8 "$TOPICFS_BIN" check "$DATA"
    cp "$WORK/saved" "$file"
    start_daemon
}

@test "mount -t topicfs, as fstab would have it" {
    needs_root "mount as mount(8) does"
    stop_daemon
    # In a mount namespace of its own /sbin can get the helper without touching the machine.
    mkdir "$WORK/overlay" "$WORK/bin"
    ln -s "$TOPICFS_BIN" "$WORK/bin/topicfs"
    cp "$REPOSITORY/mountscripts/mount.topicfs" "$WORK/bin/"
    cat >"$WORK/script" <<'END'
set -euo pipefail
sbin=$(readlink -f /sbin)
mount -t tmpfs none "$WORK/overlay"
mkdir "$WORK/overlay/upper" "$WORK/overlay/changes"
mount -t overlay overlay -o "lowerdir=$sbin,upperdir=$WORK/overlay/upper,workdir=$WORK/overlay/changes" "$sbin"
sed "s|^find_topicfs() {|&\n    echo '$WORK/bin/topicfs'; return|" "$WORK/bin/mount.topicfs" >"$sbin/mount.topicfs"
chmod 755 "$sbin/mount.topicfs"
mount -t topicfs -o _netdev,nofail,flush=os "$DATA" "$MNT"
mountpoint "$MNT"
findmnt -n -o SOURCE,FSTYPE "$MNT"
mkdir "$MNT/topics/t"
jq -r .flush "$MNT/topics/t/config.json"
echo "through mount -t" >>"$MNT/topics/t/0/log"
cat "$MNT/topics/t/0/log"
umount "$MNT"
echo "$DATA $MNT topicfs _netdev,nofail,noauto 0 0" >"$WORK/fstab"
mount --fstab "$WORK/fstab" "$MNT"
cat "$MNT/topics/t/0/log"
umount "$MNT"
! mount -t topicfs -o nonsense "$DATA" "$MNT" || echo accepted
END
    run -0 within 60 unshare -m --propagation private bash "$WORK/script"
    assert_line --partial "is a mountpoint"
    assert_line --partial "$DATA"
    assert_line --partial topicfs
    assert_line os
    [ "$(grep -c 'through mount -t' <<<"$output")" -eq 2 ]
    refute_line accepted
    wait_for 10 no_daemon
    start_daemon
    run -0 cat "$MNT/topics/t/0/log"
    assert_output "through mount -t"
}

@test "systemd is told when it is ready and when it stops" {
    stop_daemon
    "$PYTHON" - <<'END' &
import os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(os.environ["WORK"] + "/notify")
s.settimeout(60)
while True:
    text = s.recv(4096).decode()
    with open(os.environ["WORK"] + "/notified", "a") as f:
        f.write(text + "\n")
    if "READY=1" in text:
        assert os.path.isdir(os.environ["MNT"] + "/topics"), "ready before it answers"
    if "STOPPING=1" in text:
        break
END
    local listener=$!
    wait_for 5 test -S "$WORK/notify"
    NOTIFY_SOCKET=$WORK/notify start_daemon
    wait_for 10 grep -q READY=1 "$WORK/notified"
    stop_daemon
    end_of "$listener" 20
    grep -q STOPPING=1 "$WORK/notified"
    start_daemon
}

@test "a hundred topics: mount again, list, one each" {
    local i
    for i in {1..100}; do
        mkdir "$MNT/topics/t$i"
    done
    for i in {1..100}; do
        echo "in $i" >>"$MNT/topics/t$i/0/log"
    done
    remount
    [ "$(find "$MNT/topics" -mindepth 1 -maxdepth 1 -type d | wc -l)" -eq 100 ]
    for i in {1..100}; do
        [ "$(<"$MNT/topics/t$i/0/log")" = "in $i" ]
    done
    # Open files do not grow with the partitions.
    [ "$(find "/proc/$DAEMON/fd" -type l | wc -l)" -lt 320 ]
}

@test "memory and open files do not grow with use" {
    new_topic t
    seq 1 1000 >>"$MNT/topics/t/0/log"
    churn() {
        local i
        for i in {1..300}; do
            : "$(head -n 1 "$MNT/topics/t/0/at/$i")" "$(<"$MNT/topics/t/0/state")"
            echo "$i" >>"$MNT/topics/t/0/log"
        done
    }
    churn
    local files memory
    files=$(find "/proc/$DAEMON/fd" -type l | wc -l)
    memory=$(awk '/VmRSS/ {print $2}' "/proc/$DAEMON/status")
    churn
    churn
    [ "$(find "/proc/$DAEMON/fd" -type l | wc -l)" -le $((files + 5)) ]
    case ${TOPICFS_TEST_SLOW} in
    1) [ "$(awk '/VmRSS/ {print $2}' "/proc/$DAEMON/status")" -le $((memory + 4096)) ] ;;
    esac
}

@test "where few open files are allowed, many partitions share them" {
    stop_daemon
    local DATA=$WORK/few
    # shellcheck disable=SC2030,SC2031 # the limit is meant for the daemon alone
    start_with_few() {
        local soft
        soft=$(ulimit -Sn)
        ulimit -Sn 64
        start_daemon partitions=60
        ulimit -Sn "$soft"
    }
    start_with_few
    mkdir "$MNT/topics/t"
    seq 1 600 | awk '{print $1 "\tx"}' >>"$MNT/topics/t/append"
    [ "$(cat "$MNT"/topics/t/*/log | wc -l)" -eq 600 ]
    mkdir "$MNT/topics/t/60"
    echo y >>"$MNT/topics/t/60/log"
    run -0 cat "$MNT/cluster/problems"
    assert_output ""
    [ "$(find "/proc/$DAEMON/fd" -type l | wc -l)" -lt 60 ]
}

@test "a start that fails before it has looked at the logs leaves the clean stop as it is" {
    new_topic t
    echo hi >>"$MNT/topics/t/0/log"
    stop_daemon
    grep -q '"clean":true' "$DATA/running.json"
    run within 60 "$TOPICFS_BIN" mount \
        -o "data=$DATA,coord=etcd://127.0.0.1:1,listen=127.0.0.1:9" "$MNT"
    assert_failure 1
    assert_output --partial "127.0.0.1:1"
    grep -q '"clean":true' "$DATA/running.json"
    run within 20 "$TOPICFS_BIN" mount -o "data=$DATA,coord=etcd://127.0.0.1:1" "$MNT"
    assert_failure 1
    assert_output "topicfs: the nodes of a cluster reach each other over HTTP: listen must be set where coord is not embedded"
    local address
    for address in listen=127.0.0.1:0 listen=127.0.0.1:9,advertise=h1:0; do
        run within 20 "$TOPICFS_BIN" mount -o "data=$DATA,coord=etcd://127.0.0.1:1,$address" "$MNT"
        assert_failure 1
        assert_output "topicfs: ${address##*,}: other nodes are to reach this one there: give host:port with a port of 1 to 65535"
    done
    start_daemon
    run -1 grep -q '"clean":true' "$DATA/running.json"
    kill9
    # After a crash nothing is made good by it.
    run within 60 "$TOPICFS_BIN" mount \
        -o "data=$DATA,coord=etcd://127.0.0.1:1,listen=127.0.0.1:9" "$MNT"
    assert_failure 1
    run -1 grep -q '"clean":true' "$DATA/running.json"
    start_daemon
    [ "$(<"$MNT/topics/t/0/log")" = hi ]
}
