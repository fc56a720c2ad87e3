"""The rows of consumer groups; as those of rows.py."""

import json
import os
import subprocess
import threading
import time

from cluster import Cluster
from machine import Failure, timed_shell, wait_until
from report import Line

MESSAGE = 100
BLOCK = 128 * 1024


def stream(mount, group, topic):
    name = os.path.basename(topic.path) if hasattr(topic, "path") else topic.name
    return os.path.join(mount.mountpoint, "groups", group, "read", name)


def read_all(path, length):
    """Seconds until so many bytes were read from it, as cat reads."""
    return timed_shell(
        'dd if="$1" of=/dev/null bs=128k iflag=count_bytes,fullblock count="$2" status=none',
        path,
        str(length),
    )


# --- one node -----------------------------------------------------------------------------


def rate(bench):
    """a group with one reader and 1, 4 and 16 partitions, against plain follow"""
    messages = 500_000 if bench.quick else 2_000_000
    lines = []
    for count in (1, 4, 16):
        each = messages // count
        with bench.mount.topic(flush="os") as topic:
            for partition in range(count):
                path = os.path.join(topic.path, str(partition))
                if partition:
                    os.mkdir(path)
                bench.work.client("append", path=os.path.join(path, "log"), n=each)
            numbers = iter(range(1000))

            def group(topic=topic, count=count, each=each, numbers=numbers):
                name = f"rate-{count}-{next(numbers)}"
                path = stream(bench.mount, name, topic)
                return each * count / read_all(path, each * count * MESSAGE)

            def follow(topic=topic, count=count, each=each):
                seconds = 0
                for partition in range(count):
                    path = os.path.join(topic.path, str(partition), "follow", "earliest")
                    seconds += read_all(path, each * MESSAGE)
                return each * count / seconds

            samples = bench.interleave({"group": group, "follow": follow})
        what = f"a group's reader, {count} partition{'s' if count > 1 else ''}: messages"
        name = "follow, one after another"
        lines.append(Line(what, "/s", samples["group"], samples["follow"], name))
    return lines


def line_by_line(bench):
    """bash's while read of a group's stream, against the same of follow"""
    n = 1000 if bench.quick else 5000
    loop = 'n=0; while read -r line; do n=$((n + 1)); [ $n -lt $1 ] || break; done <"$0"'
    with bench.mount.topic(flush="os") as topic:
        bench.work.client("append", path=topic.log, n=n)
        numbers = iter(range(1000))

        def seconds(path):
            begin = time.monotonic()
            subprocess.run(["bash", "-c", loop, path, str(n)], check=True)
            return time.monotonic() - begin

        def group():
            return n / seconds(stream(bench.mount, f"lines-{next(numbers)}", topic))

        def follow():
            return n / seconds(os.path.join(topic.partition, "follow", "earliest"))

        samples = bench.interleave({"group": group, "follow": follow})
    what = "while read of a group's stream: lines"
    return [Line(what, "/s", samples["group"], samples["follow"], "while read of follow")]


def memory(bench):
    """resident memory of 1,000 groups with a member each"""
    count = 1000
    with bench.mount.topic(flush="os") as topic:
        with open(stream(bench.mount, "memory-first", topic), "rb"):
            pass
        before = bench.mount.resident_mib()
        files = []
        try:
            for number in range(count):
                files.append(os.open(stream(bench.mount, f"memory-{number}", topic), os.O_RDONLY))
            after = bench.mount.resident_mib()
        finally:
            for file in files:
                os.close(file)
    return [Line("1,000 groups with a member each: resident, above none", "MiB", [after - before])]


# --- three nodes --------------------------------------------------------------------------


class Reader(threading.Thread):
    """A member in this process; .seen has when each line came."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self._file = os.open(path, os.O_RDONLY)
        self.seen = {}
        self.error = None
        self.start()

    def run(self):
        at = 0
        try:
            while True:
                block = os.pread(self._file, BLOCK, at)
                now = time.monotonic()
                for line in block.split(b"\n"):
                    self.seen.setdefault(line, now)
                at += len(block)
        except OSError as error:
            self.error = error


def members(cluster, node, group):
    path = os.path.join(cluster.nodes[node].mountpoint, "groups", group, "members")
    with open(path, encoding="utf-8") as file:
        return json.load(file)["members"]


def append(topic, node, partition, line):
    with open(os.path.join(topic.on(node).path, str(partition), "log"), "ab", buffering=0) as log:
        log.write(line + b"\n")


def hand_over(cluster, topic, group, kill):
    """Milliseconds from a member's end until the other has read a line of each partition."""
    survivor, victim = 1, 2
    partitions = 4
    reader = Reader(stream(cluster.nodes[survivor], group, topic))
    cat = subprocess.Popen(
        ["cat", stream(cluster.nodes[victim], group, topic)], stdout=subprocess.DEVNULL
    )
    wait_until(
        30,
        "both members' partitions",
        lambda: [len(m["partitions"]) for m in members(cluster, survivor, group)] == [2, 2],
        0.02,
    )
    # Until followers fetch a new partition its first write waits; that is not meant here.
    for partition in range(partitions):
        append(topic, survivor, partition, b"first")
    begin = kill(victim, cat)
    lines = [b"%s %d" % (group.encode(), partition) for partition in range(partitions)]
    for partition, line in enumerate(lines):
        append(topic, survivor, partition, line)

    def read():
        if reader.error:
            raise Failure(f"a read failed: {reader.error}")
        return all(line in reader.seen for line in lines)

    wait_until(60, "a line of each partition", read)
    cat.kill()
    cat.wait()
    return 1000 * (max(reader.seen[line] for line in lines) - begin)


def kill_reader(_, cat):
    begin = time.monotonic()
    cat.kill()
    cat.wait()
    return begin


def hand_overs(bench):
    """kill -9 of a group's reader, and of its node: until another has its partitions"""
    samples = {"reader": [], "node": []}
    killed = 0

    def kill_node(victim, _):
        nonlocal killed
        # For one cause a partition moves once in 10 s, those of the coordinators too.
        wait_until(20, "ten seconds", lambda: time.monotonic() > killed + 11, 0.1)
        killed = cluster.kill(victim)[0]
        return killed

    with Cluster(bench.work, "cluster-groups") as cluster:
        for number in bench.rounds(3 if bench.quick else 10):
            topic = cluster.new_topic(flush="os")
            for partition in range(1, 4):
                os.mkdir(os.path.join(topic.on(1).path, str(partition)))
            topic.settle()
            samples["reader"].append(hand_over(cluster, topic, f"r{number}", kill_reader))

            samples["node"].append(hand_over(cluster, topic, f"n{number}", kill_node))
            cluster.restart(2)
            topic.settle()
            cluster.delete_topic(topic)
    what = "kill -9 of a group's reader: until all partitions are read again"
    return [
        Line(what, "ms", samples["reader"]),
        Line("kill -9 of its node: the same", "ms", samples["node"]),
    ]


ROWS = {
    "group-rate": rate,
    "group-lines": line_by_line,
    "group-memory": memory,
    "group-hand-over": hand_overs,
}
