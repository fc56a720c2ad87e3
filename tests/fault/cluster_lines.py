"""Writers, watchers and the final check of the cluster tests.

    cluster_lines.py write LOG NAME NOTES    append "NAME <number>" until SIGTERM; note in NOTES
                                             "ok <line>" or "<errno> <line>" after each write
    cluster_lines.py states FOLDER           read the state files of all mounts until SIGTERM;
                                             exit 1 as soon as one is not what it should be
    cluster_lines.py grows LOG SEEN          read the log until SIGTERM, in SEEN what was seen;
                                             exit 1 as soon as any of it is not there any more
    cluster_lines.py check FOLDER TOPIC NOTES...   all mounts: the same bytes, every
                                             acknowledged line once, none twice, in order
"""
import collections
import errno
import glob
import json
import os
import signal
import sys
import time


class Stop(Exception):
    pass


def on_term(_signal, _frame):
    raise Stop


def write(log, name, notes):
    """Each line is written once: what failed is not tried again."""
    out = open(notes, "a", buffering=1)
    number = 0
    fd = -1
    while True:
        number += 1
        line = "%s %d" % (name, number)
        result = "ok"
        try:
            if fd < 0:
                fd = os.open(log, os.O_WRONLY | os.O_APPEND)
            text = line.encode() + b"\n"
            assert os.write(fd, text) == len(text)
        except OSError as error:
            result = errno.errorcode[error.errno]
            if fd >= 0:
                try:
                    os.close(fd)
                except OSError:
                    pass
            fd = -1
        out.write("%s %s\n" % (result, line))
        # The pace of somebody who writes, and who tries again.
        time.sleep(0.2 if result != "ok" else 0.002)


STATE_KEYS = {"leader", "leader_epoch", "isr", "replicas", "high_watermark"}
PATIENCE_S = 2 * int(os.environ.get("TOPICFS_TEST_SLOW", 1))
# Of a mount whose node has been killed, or that is not there.
GONE = (errno.ENOTCONN, errno.ECONNABORTED, errno.ENOENT, errno.ENODEV, errno.EIO)


def states(folder):
    reads = 0
    while True:
        for path in glob.glob(folder + "/n[0-9]*"):
            for name in ("cluster/controller", "topics/t/0/state"):
                begin = time.time()
                try:
                    with open(path + "/" + name) as file:
                        text = file.read()
                except OSError as error:
                    assert error.errno in GONE, (path, name, error)
                    continue
                assert time.time() - begin < PATIENCE_S, (path, name, "took", time.time() - begin)
                if name == "cluster/controller" and text == "":
                    continue
                state = json.loads(text)
                if name.endswith("state"):
                    assert STATE_KEYS <= set(state), text
                    assert state["leader"] == -1 or state["leader"] in state["isr"], text
                    assert set(state["isr"]) <= set(state["replicas"]), text
                reads += 1
        time.sleep(0.02)  # the pace of looking
        # Who looks at it finds a number at any time.
        with open(folder + "/run/states-read.new", "w") as file:
            file.write(str(reads))
        os.replace(folder + "/run/states-read.new", folder + "/run/states-read")


def grows(log, seen):
    """A mount whose node is away has nothing to show; what it shows then begins as before."""
    last = b""
    while True:
        try:
            with open(log, "rb") as file:
                text = file.read()
        except OSError as error:
            assert error.errno in GONE, (log, error)
            time.sleep(0.05)  # the pace of trying again
            continue
        assert text.startswith(last), (log, len(last), len(text))
        if text != last:
            last = text
            with open(seen, "wb") as file:
                file.write(last)
        time.sleep(0.01)  # the pace of looking


def check(folder, topic, notes):
    acknowledged, failed = set(), {}
    for path in notes:
        for note in open(path):
            result, line = note.rstrip("\n").split(" ", 1)
            if result == "ok":
                acknowledged.add(line)
            else:
                failed[line] = result
    mounts = sorted(glob.glob(folder + "/n[0-9]*"))
    texts = []
    for mount in mounts:
        with open("%s/topics/%s/0/log" % (mount, topic), "rb") as file:
            texts.append(file.read())
    lines = texts[0].decode().split("\n")
    assert lines.pop() == "", "the last line has no end"
    for mount, text in zip(mounts, texts):
        assert text == texts[0], "%s has other bytes than %s (%d, %d)" % (
            mount, mounts[0], len(text), len(texts[0]))
    stored = set(lines)
    twice = sorted(line for line, count in collections.Counter(lines).items() if count > 1)
    assert not twice, "twice: %s" % twice[:10]
    lost = sorted(acknowledged - stored)
    assert not lost, "acknowledged and lost: %d, %s" % (len(lost), lost[:10])
    strange = sorted(stored - acknowledged - set(failed))
    # The last write of each writer may have been under way when it was stopped.
    assert len(strange) <= len(notes), "nobody wrote: %s" % strange[:10]
    last = {}
    for line in lines:
        name, number = line.rsplit(" ", 1)
        assert int(number) > last.get(name, 0), "%s after %d" % (line, last[name])
        last[name] = int(number)
    print("%d lines, %d acknowledged, %d failed: %s" % (
        len(lines), len(acknowledged), len(failed), sorted(set(failed.values()))))


def main():
    signal.signal(signal.SIGTERM, on_term)
    try:
        if sys.argv[1] == "write":
            write(*sys.argv[2:5])
        elif sys.argv[1] == "grows":
            grows(*sys.argv[2:4])
        elif sys.argv[1] == "states":
            states(sys.argv[2])
        else:
            check(sys.argv[2], sys.argv[3], sys.argv[4:])
    except Stop:
        pass


main()
