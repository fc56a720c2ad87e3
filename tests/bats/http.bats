#!/usr/bin/env bats
# The HTTP server: curl as a client, what it refuses, who may what, and its end.
load helpers
load http

setup() {
    fresh_mount listen=127.0.0.1:0
    find_url
}
teardown() {
    rm -f "$WORK/slow"
    end_mount
}

remount_with() {
    remount "$1"
    find_url
}

# header NAME CURL-ARGUMENT...: the value of a header of the answer.
header() {
    local name=$1
    shift
    curl -s -o /dev/null -D - "$@" | tr -d '\r' | sed -n "s/^$name: //Ip"
}

# socket CODE...: Python with a function connect() to the server.
socket() {
    python "import socket, threading
def connect():
    s = socket.create_connection(('127.0.0.1', int(os.environ['PORT'])))
    s.settimeout(20)
    return s
def answer(s):
    data = b''
    try:
        while True:
            part = s.recv(65536)
            if not part:
                break
            data += part
    except ConnectionResetError:
        pass
    return data
$1" "${@:2}"
}

@test "lines go in by POST and come out by GET, and the mount sees the same" {
    new_topic t
    answers 200 --data-binary $'one\ntwo\nthree' "$URL/topics/t/0"
    [ "$output" = '{"base_offset":0,"next_offset":3,"count":3}' ]
    printf 'four\n\n' >>"$MNT/topics/t/0/log"
    same <(printf 'one\ntwo\nthree\nfour\n\n') "$MNT/topics/t/0/log"
    same <(curl -s "$URL/topics/t/0") "$MNT/topics/t/0/log"
    same <(curl -s "$URL/topics/t/0?from=3") <(printf 'four\n\n')
    [ "$(header X-Topicfs-First-Offset "$URL/topics/t/0?from=3")" = 3 ]
    [ "$(header X-Topicfs-Next-Offset "$URL/topics/t/0?from=3")" = 5 ]
    [ "$(header X-Topicfs-High-Watermark "$URL/topics/t/0?from=3")" = 5 ]
    [ "$(header X-Topicfs-Log-Start-Offset "$URL/topics/t/0?from=3")" = 0 ]
    answers 200 "$URL/topics/t/0?from=latest"
    [ -z "$output" ]
    answers 200 "$URL/topics"
    [ "$output" = '["t"]' ]
    answers 200 "$URL/topics/t"
    [ "$(jq -c '.partitions[0] | [.leader, .high_watermark]' <<<"$output")" = '[1,5]' ]
    [ "$(jq .config.acks <<<"$output")" = '"all"' ]
}

@test "each key has its partition, as with append" {
    new_topic a '' 4
    new_topic b '' 4
    seq -f $'key%g\tvalue' 1 100 >"$WORK/lines"
    cat "$WORK/lines" >>"$MNT/topics/a/append"
    answers 200 --data-binary "@$WORK/lines" "$URL/topics/b"
    [ "$(jq .count <<<"$output")" = 100 ]
    [ "$(jq '[.partitions[].count] | add' <<<"$output")" = 100 ]
    local p
    for p in 0 1 2 3; do
        same "$MNT/topics/a/$p/log" "$MNT/topics/b/$p/log"
    done
}

@test "all of a log, in portions of whole lines, however small" {
    new_topic t '{"segment_bytes": 65536}'
    seq 1 20000 >"$WORK/lines"
    split -C 30000 "$WORK/lines" "$WORK/part."
    local part size next
    for part in "$WORK"/part.*; do
        answers 200 --data-binary "@$part" "$URL/topics/t/0"
    done
    for size in 1000 50000 1000000; do
        next=0
        : >"$WORK/read"
        while [ "$next" -lt 20000 ]; do
            curl -s -D "$WORK/head" -o "$WORK/body" "$URL/topics/t/0?from=$next&max_bytes=$size"
            [ "$(wc -c <"$WORK/body")" -le "$size" ]
            cat "$WORK/body" >>"$WORK/read"
            next=$(tr -d '\r' <"$WORK/head" | sed -n 's/^X-Topicfs-Next-Offset: //p')
            [ "$next" = "$(wc -l <"$WORK/read")" ]
        done
        same "$WORK/lines" "$WORK/read"
    done
    # A line that is longer than max_bytes comes whole.
    answers 200 "$URL/topics/t/0?from=19999&max_bytes=1"
    [ "$output" = 20000 ]
}

@test "a long poll ends when a message comes, or the time is over" {
    new_topic t
    begin_curl "$WORK/out" "$URL/topics/t/0?from=latest&wait_ms=30000"
    local poll=$! begin
    sleep 0.3 # nothing shows that the node has it: it is given time
    alive "$poll"
    begin=$(now_ms)
    echo hello >>"$MNT/topics/t/0/log"
    end_of "$poll" 5
    [ $(($(now_ms) - begin)) -lt $((1000 * TOPICFS_TEST_SLOW)) ]
    [ "$(cat "$WORK/out")" = hello ]
    begin=$(now_ms)
    answers 200 "$URL/topics/t/0?from=latest&wait_ms=300"
    [ -z "$output" ]
    [ $(($(now_ms) - begin)) -ge 300 ]
}

@test "a long poll on a topic that is deleted ends" {
    new_topic t
    begin_curl "$WORK/out" -w '%{http_code}' "$URL/topics/t/0?from=latest&wait_ms=30000"
    local poll=$!
    sleep 0.3 # as above
    rmdir "$MNT/topics/t"
    end_of "$poll" 5
    [[ $(cat "$WORK/out") == *410 ]]
}

@test "acks of one request" {
    new_topic t
    local acks
    for acks in 0 1 all; do
        answers 200 --data-binary x "$URL/topics/t/0?acks=$acks"
    done
    wait_for 5 lines_in "$MNT/topics/t/0/log" 3
    answers 400 --data-binary x "$URL/topics/t/0?acks=2"
    run -0 cat "$MNT/topics/t/0/log"
    [ "${#lines[@]}" = 3 ]
}

# Flushes take as many milliseconds longer, so that lines are appended and not committed.
slow_disk() {
    cc -shared -fPIC -D_GNU_SOURCE -o "$WORK/slow_flush.so" \
        "$REPOSITORY/tests/bats/slow_flush.c"
    stop_daemon
    local sanitizer=${ASAN_OPTIONS-}
    LD_PRELOAD=$WORK/slow_flush.so SLOW_FLUSH=$WORK/slow \
        ASAN_OPTIONS=${sanitizer:+$sanitizer:}verify_asan_link_order=0 \
        start_daemon listen=127.0.0.1:0
    find_url
    echo "$1" >"$WORK/slow"
}

@test "a commit that takes too long: 504, and the line is there later, once" {
    new_topic t '{"delivery_timeout_ms": 300}' 2
    slow_disk 2000
    answers 504 --data-binary x "$URL/topics/t/0"
    [ "$(jq -r .error <<<"$output")" = COMMIT_TIMEOUT ]
    [[ $output == *"may commit later"* ]]
    answers 504 --data-binary $'a\t1\nb\t1\nc\t1\n' "$URL/topics/t"
    answers 200 --data-binary y "$URL/topics/t/0?acks=0"
    rm "$WORK/slow"
    wait_for 20 grep -qx y "$MNT/topics/t/0/log"
    [ "$(grep -cx x "$MNT/topics/t/0/log")" = 1 ]
    lines_of_both() { [ "$(cat "$MNT"/topics/t/[01]/log | wc -l)" = 5 ]; }
    wait_for 20 lines_of_both
}

@test "the end while a POST waits for its commit: it is answered" {
    new_topic t
    slow_disk 1500
    background curl -s -o /dev/null -w '%{http_code}' --data-binary x "$URL/topics/t/0" >"$WORK/out"
    local post=$!
    wait_for 5 eval "jq -e '.log_end_offset == 1' '$MNT/topics/t/0/state'"
    rm "$WORK/slow" # the flush that runs goes on being slow
    stop_daemon
    end_of "$post" 10
    [[ $(cat "$WORK/out") == [25]0[0-9] ]]
    start_daemon
    run -0 cat "$MNT/topics/t/0/log"
    [ "$output" = x ]
}

@test "what is refused, with which status, and nothing appended" {
    new_topic t '{"max_message_bytes": 10}'
    answers 404 "$URL/"
    answers 404 "$URL/nothing"
    answers 404 "$URL/topics/none"
    [ "$(jq -r .error <<<"$output")" = UNKNOWN_TOPIC ]
    [ "$(jq -r .code <<<"$output")" = 3 ]
    answers 400 "$URL/topics/a%2Fb"
    answers 400 "$URL/topics/%00"
    answers 404 "$URL/topics/t/1"
    answers 400 "$URL/topics/t/x"
    answers 400 "$URL/topics/t/-1"
    answers 416 "$URL/topics/t/0?from=1"
    answers 400 "$URL/topics/t/0?from=-1"
    answers 400 "$URL/topics/t/0?from=99999999999999999999"
    answers 400 "$URL/topics/t/0?max_bytes=0"
    answers 400 "$URL/topics/t/0?wait_ms=60001"
    answers 400 "$URL/topics/t/0?unknown=1"
    answers 400 "$URL/topics/t/0?from=0&from=0"
    answers 405 -X PUT --data x "$URL/topics/t/0"
    [ "$(header Allow -X DELETE "$URL/topics/t/0")" = 'GET, POST' ]
    answers 400 --data-binary '' "$URL/topics/t/0"
    answers 411 -X POST "$URL/topics/t/0"
    answers 411 -H 'Transfer-Encoding: chunked' --data-binary x "$URL/topics/t/0"
    answers 413 -X GET --data x "$URL/topics/t/0"
    answers 413 --data-binary $'short\nfar too long for this\n' "$URL/topics/t/0"
    [ "$(jq -r .error <<<"$output")" = MESSAGE_TOO_LARGE ]
    head -c 1048577 /dev/zero | tr '\0' '\n' >"$WORK/large"
    answers 413 --data-binary "@$WORK/large" "$URL/topics/t/0"
    answers 414 "$URL/$(head -c 9000 /dev/zero | tr '\0' a)"
    [ ! -s "$MNT/topics/t/0/log" ]
    head -c 1048576 /dev/zero | tr '\0' '\n' >"$WORK/large"
    answers 200 --data-binary "@$WORK/large" "$URL/topics/t/0"
    same "$WORK/large" "$MNT/topics/t/0/log"
}

@test "below the log start: 410, with the log start" {
    new_topic t '{"segment_bytes": 1024, "retention_bytes": 1024}'
    local i
    for i in {1..20}; do
        seq 1 100 >>"$MNT/topics/t/0/log"
    done
    has_retained() { [ "$(jq .log_start_offset "$MNT/topics/t/0/state")" -gt 0 ]; }
    wait_for 60 has_retained
    answers 410 "$URL/topics/t/0?from=0"
    [ "$(jq -r .error <<<"$output")" = OFFSET_BELOW_START ]
    [ "$(header X-Topicfs-Log-Start-Offset "$URL/topics/t/0?from=0")" -gt 0 ]
    answers 200 "$URL/topics/t/0?from=earliest"
}

@test "garbage and truncated requests: refused, and the node goes on" {
    new_topic t
    run -0 within 60 "$PYTHON" - <<'PY'
import os, random, socket
port = int(os.environ['PORT'])
random.seed(7)
good = b'POST /topics/t/0 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nabc\n'
def send(data):
    s = socket.create_connection(('127.0.0.1', port))
    s.settimeout(0.02)
    try:
        s.sendall(data)
        while s.recv(65536):
            pass
    except (ConnectionResetError, BrokenPipeError, TimeoutError):
        pass
    s.close()
for cut in range(0, len(good)):
    send(good[:cut])
for i in range(100):
    send(bytes(random.randrange(256) for _ in range(random.randrange(300))))
for i in range(100):
    data = bytearray(good)
    for _ in range(3):
        data[random.randrange(45)] = random.randrange(256)
    send(bytes(data))
for head in (b'Content-Length: -1', b'Content-Length: 99999999999999999999999', b'Content-Length: 1e3',
             b'Content-Length: 4\r\nContent-Length: 5', b'Content-Length: 18446744073709551615'):
    send(b'POST /topics/t/0 HTTP/1.1\r\nHost: localhost\r\n' + head + b'\r\n\r\nabc\n')
send(b'GET /' + b'a' * 1000000 + b' HTTP/1.1\r\n\r\n')
send(b'GET / HTTP/1.1\r\n' + b'A: b\r\n' * 100000 + b'\r\n')
PY
    # Two lengths: whoever stands between may go by the other.
    exec 9<>"/dev/tcp/127.0.0.1/$PORT"
    # In a shell of its own: the connection may be closed before the end, with SIGPIPE.
    (printf 'POST /topics/t/0 HTTP/1.1\r\nHost: localhost\r\n%s\r\n%s\r\n\r\nxy\nzz\n' \
        'Content-Length: 3' 'Content-Length: 6' >&9) || true
    run -0 within 10 cat <&9
    exec 9>&-
    assert_output --partial 'HTTP/1.1 400'
    refute_output --partial 'HTTP/1.1 200'
    run -1 grep xy "$MNT/topics/t/0/log"
    # No truncated request left a line: those that did are mutations with all four bytes.
    run -1 grep -E '.{5}' "$MNT/topics/t/0/log"
    answers 200 "$URL/healthz"
    [ "$output" = ok ]
}

@test "hundreds of slow clients keep neither others nor the unmount waiting" {
    new_topic t
    background "$PYTHON" -c '
import os, socket, time
all = []
for i in range(300):
    s = socket.create_connection(("127.0.0.1", int(os.environ["PORT"])))
    s.sendall((b"GET /to", b"POST /topics/t/0 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc",
        b"")[i % 3])
    all.append(s)
print("open", flush=True)
time.sleep(60) # these clients are there, and do nothing' >"$WORK/slow"
    wait_for 20 grep open "$WORK/slow"
    answers 200 --data-binary x "$URL/topics/t/0"
    answers 200 "$URL/topics/t/0"
    local begin
    begin=$(now_ms)
    stop_daemon
    [ $(($(now_ms) - begin)) -lt $((5000 * TOPICFS_TEST_SLOW)) ]
}

@test "two hundred long polls: all wake, and all end with the mount" {
    new_topic t
    cat >"$WORK/polls" <<'PY'
import os, socket, sys
port = int(os.environ['PORT'])
def start(path):
    s = socket.create_connection(('127.0.0.1', port))
    s.settimeout(60)
    s.sendall(b'GET ' + path + b' HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
    return s
def finish(s):
    data = b''
    while True:
        part = s.recv(65536)
        if not part:
            return data
        data += part
first = [start(b'/topics/t/0?from=0&wait_ms=60000') for _ in range(200)]
print('first', flush=True)
for s in first:
    data = finish(s)
    assert data.startswith(b'HTTP/1.1 200') and data.endswith(b'\r\n\r\nx\n'), data
second = [start(b'/topics/t/0?from=1&wait_ms=60000') for _ in range(200)]
print('second', flush=True)
for s in second:
    data = finish(s)
    assert data.startswith((b'HTTP/1.1 200', b'HTTP/1.1 503')), data
print('done', flush=True)
PY
    background "$PYTHON" "$WORK/polls" >"$WORK/out" 2>&1
    local polls=$! begin
    wait_for 20 grep first "$WORK/out"
    echo x >>"$MNT/topics/t/0/log"
    wait_for 20 grep second "$WORK/out"
    sleep 0.3 # as above, for all of them
    begin=$(now_ms)
    stop_daemon
    [ $(($(now_ms) - begin)) -lt $((5000 * TOPICFS_TEST_SLOW)) ]
    end_of "$polls" 10 || fail "$(cat "$WORK/out")"
}

@test "clients that vanish from their long poll leave nothing behind" {
    new_topic t
    socket '
for i in range(50):
    s = connect()
    s.sendall(b"GET /topics/t/0?from=0&wait_ms=500 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    s.close()'
    few_files() { [ "$(find "/proc/$DAEMON/fd" -mindepth 1 | wc -l)" -lt 45 ]; }
    wait_for 10 few_files
    answers 200 "$URL/topics/t/0"
}

@test "local clients act as the user that they are" {
    needs_root "act as another user"
    remount_with listen=127.0.0.1:0,allow_other
    new_topic t
    echo secret >>"$MNT/topics/t/0/log"
    nobody() { run -0 runuser -u nobody -- curl -s -o /dev/null -w '%{http_code}' "$@"; }
    nobody "$URL/topics/t/0"
    [ "$output" = 200 ]
    nobody --data x "$URL/topics/t/0"
    [ "$output" = 403 ]
    chmod 700 "$MNT/topics/t"
    nobody "$URL/topics/t/0"
    [ "$output" = 403 ]
    nobody "$URL/topics/t"
    [ "$output" = 403 ]
    chown nobody "$MNT/topics/t"
    nobody --data x "$URL/topics/t/0"
    [ "$output" = 200 ]
    remount_with listen=127.0.0.1:0,allow_other=false
    nobody "$URL/topics/t/0"
    [ "$output" = 403 ]
    nobody "$URL/healthz"
    [ "$output" = 200 ]
}

@test "a web page can't use its reader's rights" {
    new_topic t
    answers 403 -H 'Origin: http://example.org' --data x "$URL/topics/t/0"
    answers 403 -H 'Host: example.org' "$URL/topics/t/0"
    answers 200 -H "Host: localhost:$PORT" "$URL/topics/t/0"
    [ ! -s "$MNT/topics/t/0/log" ]
}

@test "beyond the loopback interface only with tokens or certificates" {
    stop_daemon
    run ! "$TOPICFS_BIN" mount -f -o "data=$DATA,listen=0.0.0.0:0" "$MNT"
    assert_output --partial "can be reached from other machines"
    run ! mountpoint -q "$MNT"
    run ! "$TOPICFS_BIN" mount -f -o "data=$DATA,listen=0.0.0.0:0,token_file=$WORK/none" "$MNT"
    assert_output --partial "token_file"
    echo '0123456789abcdef root' >"$WORK/tokens"
    chmod 644 "$WORK/tokens"
    run ! "$TOPICFS_BIN" mount -f -o "data=$DATA,listen=0.0.0.0:0,token_file=$WORK/tokens" "$MNT"
    assert_output --partial "other users may read"
    start_daemon
}

@test "tokens: whom they name, and a changed file" {
    local me
    me=$(id -un)
    printf '# me\n0123456789abcdef %s\n' "$me" >"$WORK/tokens"
    chmod 600 "$WORK/tokens"
    remount_with "listen=0.0.0.0:0,token_file=$WORK/tokens"
    new_topic t
    answers 200 -H 'Authorization: Bearer 0123456789abcdef' --data x "$URL/topics/t/0"
    answers 200 -H 'Authorization: Bearer 0123456789abcdef' -H 'Host: example.org' "$URL/topics/t/0"
    answers 401 -H 'Authorization: Bearer 0123456789abcdeX' "$URL/topics/t/0"
    answers 401 -H 'Authorization: Basic 0123456789abcdef' "$URL/topics/t/0"
    # From another address of this machine: no longer a loopback client.
    local address
    address=$(hostname -I 2>/dev/null | tr ' ' '\n' | grep -m 1 '^[0-9.]*$') || true
    if [ -n "$address" ]; then
        answers 401 "http://$address:$PORT/topics/t/0"
        answers 200 "http://$address:$PORT/healthz"
        answers 200 -H 'Authorization: Bearer 0123456789abcdef' "http://$address:$PORT/topics/t/0"
    fi
    echo "fedcba9876543210 $me" >"$WORK/tokens"
    new_token() {
        curl -sf -H 'Authorization: Bearer fedcba9876543210' "$URL/topics/t/0"
    }
    wait_for 10 new_token
    answers 401 -H 'Authorization: Bearer 0123456789abcdef' "$URL/topics/t/0"
    # A broken file leaves the former tokens in force.
    echo broken >"$WORK/tokens"
    noticed() {
        curl -s -H 'Authorization: Bearer fedcba9876543210' "$URL/topics"
        grep token_file "$MNT/cluster/problems"
    }
    wait_for 10 noticed
    answers 200 -H 'Authorization: Bearer fedcba9876543210' "$URL/topics/t/0"
}

make_certificate() { # NAME SUBJECT [CA]
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$2" \
        -keyout "$WORK/$1.key" -out "$WORK/$1.csr" 2>/dev/null
    openssl x509 -req -in "$WORK/$1.csr" -CA "$WORK/$3.pem" -CAkey "$WORK/$3.key" -days 2 \
        -extfile <(echo 'subjectAltName=IP:127.0.0.1') -out "$WORK/$1.pem" 2>/dev/null
}

make_ca() { # NAME
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
        -subj "/CN=$1" -keyout "$WORK/$1.key" -out "$WORK/$1.pem" 2>/dev/null
}

@test "HTTPS, and certificates as users" {
    make_ca ca
    make_ca other
    make_certificate server server ca
    make_certificate me "$(id -un)" ca
    make_certificate stranger no-such-user ca
    make_certificate forged "$(id -un)" other
    stop_daemon
    run ! "$TOPICFS_BIN" mount -f -o "data=$DATA,listen=127.0.0.1:0,tls_cert=$WORK/server.pem" "$MNT"
    assert_output --partial "belong together"
    run ! "$TOPICFS_BIN" mount -f -o \
        "data=$DATA,listen=127.0.0.1:0,tls_cert=$WORK/server.pem,tls_key=$WORK/me.key" "$MNT"
    assert_output --partial "is tls_key the key of tls_cert?"
    start_daemon "listen=0.0.0.0:0,tls_cert=$WORK/server.pem,tls_key=$WORK/server.key,tls_ca=$WORK/ca.pem"
    find_url
    new_topic t
    local tls=(--cacert "$WORK/ca.pem")
    seq 1 30000 >"$WORK/lines"
    answers 200 "${tls[@]}" --cert "$WORK/me.pem" --key "$WORK/me.key" --data-binary "@$WORK/lines" \
        "$URL/topics/t/0"
    same <(curl -s "${tls[@]}" --cert "$WORK/me.pem" --key "$WORK/me.key" "$URL/topics/t/0") "$WORK/lines"
    answers 403 "${tls[@]}" --cert "$WORK/stranger.pem" --key "$WORK/stranger.key" "$URL/topics/t/0"
    local address
    address=$(hostname -I 2>/dev/null | tr ' ' '\n' | grep -m 1 '^[0-9.]*$') || true
    if [ -n "$address" ]; then
        answers 401 -k "https://$address:$PORT/topics/t/0"
        answers 401 -k --cert "$WORK/forged.pem" --key "$WORK/forged.key" "https://$address:$PORT/topics/t/0"
        answers 200 -k --cert "$WORK/me.pem" --key "$WORK/me.key" "https://$address:$PORT/topics/t/0"
    fi
    run ! curl -s --max-time 5 "http://127.0.0.1:$PORT/healthz"
}

@test "healthz, metrics, cluster" {
    new_topic t
    seq 1 5 >>"$MNT/topics/t/0/log"
    answers 200 "$URL/metrics"
    grep -qx 'topicfs_partition_high_watermark{topic="t",partition="0"} 5' <<<"$output"
    grep -qx 'topicfs_partition_messages_in_total{topic="t",partition="0"} 5' <<<"$output"
    grep -qx 'topicfs_partition_bytes_in_total{topic="t",partition="0"} 10' <<<"$output"
    grep -qx 'topicfs_partition_is_leader{topic="t",partition="0"} 1' <<<"$output"
    grep -qx 'topicfs_problems 0' <<<"$output"
    same <(curl -s "$URL/cluster/brokers/topics/t/partitions/0/state") \
        "$MNT/cluster/brokers/topics/t/partitions/0/state"
    answers 200 "$URL/cluster/brokers"
    [ "$output" = '["ids/","topics/"]' ]
    answers 200 "$URL/cluster/problems"
    [ -z "$output" ]
    answers 404 "$URL/cluster/none"
    answers 404 "$URL/cluster/..%2f"
    same <(curl -s "$URL/topics/t/0/state" | jq -S .) <(jq -S . "$MNT/topics/t/0/state")
}

@test "many clients at once: every acknowledged line is there once" {
    new_topic t '{"flush": "os"}' 3
    cat >"$WORK/clients" <<'PY'
import http.client, json, os, sys, threading
port = int(os.environ['PORT'])
def run(n):
    c = http.client.HTTPConnection('127.0.0.1', port)
    for i in range(100):
        c.request('POST', '/topics/t' if i % 2 else '/topics/t/0', '%d-%d\tx\n' % (n, i))
        r = c.getresponse()
        r.read()
        assert r.status == 200, r.status
        if i % 10 == 0:
            c.request('GET', '/topics/t/0?from=earliest&wait_ms=10')
            r = c.getresponse()
            assert r.status == 200
            r.read()
threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
for t in threads: t.start()
for t in threads: t.join()
PY
    run -0 within 60 "$PYTHON" "$WORK/clients"
    [ -z "$output" ]
    same <(cat "$MNT"/topics/t/[012]/log | sort) \
        <(for n in {0..7}; do for i in {0..99}; do printf '%d-%d\tx\n' "$n" "$i"; done; done | sort)
}
