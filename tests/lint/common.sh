# shellcheck shell=bash
# What the lint scripts share: the repository's root, its files, and how to report.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root" || exit
failures=0

# Files below version control or about to be, NUL-separated; arguments are git pathspecs.
# Outside of a git checkout (a release archive) everything but build directories counts.
files() {
    if git rev-parse --git-dir >/dev/null 2>&1; then
        git ls-files -z --cached --others --exclude-standard --deduplicate -- "$@" |
            while IFS= read -r -d '' path; do
                # A file that was deleted but not yet committed is still listed.
                [ ! -e "$path" ] || printf '%s\0' "$path"
            done
    else
        local pattern
        for pattern in "$@"; do
            find . -path './build*' -prune -o -type f -path "./$pattern" -printf '%P\0'
        done
    fi
}

complain() {
    printf '%s\n' "$*"
    failures=$((failures + 1))
}

# Ends the script; call it last.
report() {
    if [ "$failures" -gt 0 ]; then
        echo "$failures finding(s)"
        exit 1
    fi
    exit 0
}

require() {
    command -v "$1" >/dev/null || {
        echo "$1 is missing: mountscripts/install-deps --tests installs it" >&2
        exit 1
    }
}
