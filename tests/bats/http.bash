# shellcheck shell=bash
# The mount's HTTP server, for bats files whose mount has listen=127.0.0.1:0. After helpers.bash.

# find_url: sets $URL and $PORT; the port is the kernel's choice, the log tells it.
find_url() {
    local scheme
    PORT=
    read -r scheme PORT < <(sed -nE 's/.* (HTTPS?) on port ([0-9]+) of .*/\1 \2/p' "$DAEMON_LOG" |
        tail -n 1)
    [ -n "$PORT" ]
    URL=${scheme,,}://127.0.0.1:$PORT
    export PORT URL
}

# begin_curl OUT CURL-ARGUMENT...: in the background, its pid is $!; returns when the request is on
# its way.
begin_curl() {
    background curl -s -v "${@:2}" >"$1" 2>"$1.err"
    wait_for 5 grep -q '^> ' "$1.err"
}

# answers STATUS CURL-ARGUMENT...: that status, within $ANSWER_S seconds; the body is in $output.
answers() {
    local expected=$1
    shift
    run -0 curl -s --max-time $((${ANSWER_S:-30} * TOPICFS_TEST_SLOW)) -w '%{http_code}' "$@"
    [ "${output: -3}" = "$expected" ] || fail "$*: $output, not $expected"
    output=${output:0:-3}
    output=${output%$'\n'}
}
