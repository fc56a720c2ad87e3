#!/usr/bin/env bats
# Owner, group and mode per topic: kept across restarts, enforced for others.
load helpers
setup() {
    needs_root "act as several users"
    fresh_mount
    new_topic t
    echo hello >>"$MNT/topics/t/0/log"
}
teardown() { end_mount; }

# as UID:GID COMMAND...: as that user, without other groups or rights.
as() {
    local ids=$1
    shift
    setpriv --reuid="${ids%:*}" --regid="${ids#*:}" --clear-groups "$@"
}

@test "chown and chmod of a topic hold for its files and over restarts" {
    chown 1234:4321 "$MNT/topics/t"
    chmod 0750 "$MNT/topics/t"
    local how
    for how in clean crash; do
        run -0 stat -c '%u:%g %a' "$MNT/topics/t"
        assert_output "1234:4321 750"
        run -0 stat -c '%u:%g' "$MNT/topics/t/0/log"
        assert_output "1234:4321"
        if [ "$how" = clean ]; then
            remount
        else
            kill9
            start_daemon
        fi
    done
    run -0 stat -c '%u:%g %a' "$MNT/topics/t"
    assert_output "1234:4321 750"
}

@test "another user reads what the mode allows, and no more" {
    chmod 755 "$MNT/topics/t"
    run -0 as 65534:65534 cat "$MNT/topics/t/0/log"
    assert_output hello
    run -1 as 65534:65534 bash -c "echo x >>'$MNT/topics/t/0/log'"
    assert_output --partial "Permission denied"
    run as 65534:65534 bash -c "echo '{}' >'$MNT/topics/t/config.json'"
    assert_failure
    assert_output --partial "Permission denied"
    run as 65534:65534 bash -c "echo x >>'$MNT/topics/t/append'"
    assert_failure

    chmod 700 "$MNT/topics/t"
    local file
    for file in 0/log 0/at/0 0/follow/0 0/json/0 0/state config.json; do
        run as 65534:65534 timeout 5 head -n 1 "$MNT/topics/t/$file"
        assert_failure 1
        assert_output --partial "Permission denied"
    done
}

@test "group rights count" {
    chown 0:777 "$MNT/topics/t"
    chmod 770 "$MNT/topics/t"
    run -0 as 65534:777 bash -c "echo from the group >>'$MNT/topics/t/0/log'"
    run -0 as 65534:777 tail -n 1 "$MNT/topics/t/0/log"
    assert_output "from the group"
    run -1 as 65534:778 cat "$MNT/topics/t/0/log"
}

@test "the owner of a topic may change it, others may not" {
    chown 1234:1234 "$MNT/topics/t"
    run -0 as 1234:1234 chmod 711 "$MNT/topics/t"
    run -0 as 1234:1234 bash -c "echo '{\"flush\":\"os\"}' >'$MNT/topics/t/config.json'"
    run -0 as 1234:1234 mkdir "$MNT/topics/t/1"
    run as 65534:65534 chmod 777 "$MNT/topics/t"
    assert_failure
    run as 65534:65534 chown 65534 "$MNT/topics/t"
    assert_failure
    run as 65534:65534 mkdir "$MNT/topics/t/2"
    assert_failure
    run -0 stat -c '%u %a' "$MNT/topics/t"
    assert_output "1234 711"
}

@test "making topics follows the mode of topics/, and the maker owns the topic" {
    run as 1234:1234 mkdir "$MNT/topics/mine"
    assert_failure
    assert_output --partial "Permission denied"
    run as 1234:1234 rmdir "$MNT/topics/t"
    assert_failure
    chmod 1777 "$MNT/topics" || chmod 777 "$MNT/topics"
    run -0 as 1234:1234 mkdir "$MNT/topics/mine"
    run -0 stat -c '%u:%g' "$MNT/topics/mine"
    assert_output "1234:1234"
    run -0 as 1234:1234 bash -c "echo x >>'$MNT/topics/mine/0/log'"
    remount
    run -0 as 1234:1234 mkdir "$MNT/topics/again"
    run -0 as 1234:1234 rmdir "$MNT/topics/again"
}

@test "the admin files and cluster/ are for the mount's owner to write, for all to read" {
    run -0 as 65534:65534 cat "$MNT/cluster/controller"
    run as 65534:65534 bash -c \
        "echo '{\"version\":1,\"topics\":[\"t\"]}' >'$MNT/cluster/admin/delete_topics'"
    assert_failure
    [ -d "$MNT/topics/t" ]
}

@test "the umask counts for a new topic" {
    (umask 027 && mkdir "$MNT/topics/u")
    run -0 stat -c %a "$MNT/topics/u"
    assert_output 750
}

@test "owner, mode and times of single files can't be changed" {
    local code
    for code in 'os.chmod(MNT + "/topics/t/0/log", 0o600)' \
        'os.chown(MNT + "/topics/t/0/log", 5, 5)' \
        'os.chmod(MNT + "/topics/t/config.json", 0o600)'; do
        run -0 errno_of "$code"
        assert_output EPERM
    done
}
