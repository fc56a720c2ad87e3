"""Readers of consumer groups, and the check of what they did.

    groups_work.py work STREAM DONE         reads line by line, as bash's `while read` does, until
                                            SIGTERM; notes each line in DONE when it was worked
                                            on; opens the stream anew when it breaks
    groups_work.py fill FOLDER TOPIC PARTITIONS NAME COUNT NOTES [NODE...]
                                            appends "NAME <number>" to the partitions in turn, on
                                            the mounts in turn; notes what was acknowledged
    groups_work.py check NOTES TWICE DONE...     every acknowledged line is in one of DONE, and
                                            not more than TWICE lines were worked on again
"""
import collections
import os
import signal
import sys
import time


class Stop(Exception):
    pass


def on_term(_signal, _frame):
    raise Stop


def work_on(fd, done):
    at = 0
    while True:
        block = os.pread(fd, 4096, at)
        if not block:
            raise OSError("end of the stream")
        end = block.find(b"\n")
        if end < 0:
            raise OSError("no whole line in a block")
        done.write(block[: end + 1].decode())
        at += end + 1


def work(stream, path):
    fd = -1
    with open(path, "a", buffering=1) as done:
        while True:
            try:
                fd = os.open(stream, os.O_RDONLY)
                work_on(fd, done)
            except OSError as error:
                print("%.3f %s: %s" % (time.time(), stream, error), flush=True)
                if fd >= 0:
                    os.close(fd)
                fd = -1
                time.sleep(0.1)  # the pace of trying again


def append(path, text):
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, text)
    finally:
        os.close(fd)


def fill(folder, topic, partitions, name, count, notes, *nodes):
    nodes = nodes or ("1", "2", "3")
    with open(notes, "a", buffering=1) as out:
        for number in range(int(count)):
            line = "%s %d\n" % (name, number)
            for attempt in range(40):
                node = nodes[(number + attempt) % len(nodes)]
                path = "%s/n%s/topics/%s/%d/log" % (folder, node, topic, number % int(partitions))
                try:
                    append(path, line.encode())
                except OSError as error:
                    # Perhaps it is stored: a line of its own from here on.
                    line = "%s %d again %d\n" % (name, number, attempt)
                    print("%.3f %s: %s" % (time.time(), path, error), flush=True)
                    time.sleep(0.1)  # the pace of trying again
                    continue
                out.write(line)
                break
            else:
                sys.exit("line %d was never acknowledged" % number)


def check(notes, twice, *paths):
    with open(notes) as text:
        wanted = set(text)
    done = collections.Counter()
    for path in paths:
        with open(path) as text:
            done.update(text)
    lost = sorted(wanted - set(done))
    again = sum(count - 1 for count in done.values())
    print("%d lines, %d worked on, %d again" % (len(wanted), sum(done.values()), again))
    if lost:
        sys.exit("never worked on: %s" % "".join(lost[:10]))
    if again > int(twice):
        most = ["%d x %s" % (count, line) for line, count in done.most_common(10)]
        sys.exit("more than %s again: %s" % (twice, "".join(most)))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, on_term)
    try:
        {"work": work, "fill": fill, "check": check}[sys.argv[1]](*sys.argv[2:])
    except Stop:
        pass
