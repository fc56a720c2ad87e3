"""The rows: each takes a Bench and returns the lines of the table that it measured."""

import glob
import json
import os
import shutil
import time

from machine import Failure, busy_share, timed_shell, wait_until
from report import Line

HERE = os.path.dirname(os.path.realpath(__file__))
MIB = 1 << 20
MESSAGE = 100


class Bench:
    """What the rows share: the workspace, one mount, the size of the work."""

    def __init__(self, work, quick, patience):
        self.work = work
        self.quick = quick
        self.patience = patience
        self.pairs = 3 if quick else 10
        self._mount = None
        with open(os.path.join(HERE, "peers.json"), encoding="utf-8") as file:
            self.peers = json.load(file)

    @property
    def mount(self):
        if self._mount is None:
            self._mount = self.work.topicfs()
        return self._mount

    def peer(self, figure):
        """The best peer's figure and its name, as arguments of Line."""
        best = self.peers["best"][figure]
        return best["value"], best["peer"]

    def rounds(self, count=None):
        """The numbers of the rounds, each once the machine is quiet or patience is at its end."""
        for round_number in range(count or self.pairs):
            deadline = time.monotonic() + self.patience
            while time.monotonic() < deadline and busy_share() > 0.15:
                pass
            yield round_number

    def interleave(self, works, pairs=None):
        """Runs all works in turn, in alternating order; a list of samples for each."""
        samples = {name: [] for name in works}
        for round_number in self.rounds(pairs):
            names = list(works)
            if round_number % 2:
                names.reverse()
            for name in names:
                samples[name].append(works[name]())
        return samples

    def against_passthrough(self, ours, its, caches=("never", "auto")):
        """ours() and its(passthrough) in turn; the passthrough's faster cache setting counts.

        Both return a rate. Returns our samples, its samples, the setting.
        """
        works = {"topicfs": ours}
        for cache in caches:
            daemon = self.work.passthrough(cache)
            works[cache] = lambda daemon=daemon: its(daemon)
        samples = self.interleave(works)
        best = max(caches, key=lambda cache: sorted(samples[cache])[self.pairs // 2])
        return samples["topicfs"], samples[best], f"passthrough_ll cache={best}"

    def against_native(self, log, what, at_most):
        """Appends of one line to log, and write with fdatasync on the native filesystem, in turn.

        Returns two lines; at_most bounds the p50.
        """
        n = 200 if self.quick else 500
        native = os.path.join(self.work.native, "synced")
        samples = self.interleave(
            {
                "topicfs": lambda: self.work.client("line", path=log, n=n),
                "native": lambda: self.work.client("line", path=native, n=n, sync=1),
            }
        )
        os.unlink(native)
        lines = []
        for percentile, bounds in (("p50", {"at_most": at_most}), ("p99", {})):
            ours, its = (
                [result[f"{percentile}_us"] for result in samples[name]]
                for name in ("topicfs", "native")
            )
            lines.append(
                Line(f"{what}, {percentile}", "us", ours, its, "native write+fdatasync", **bounds)
            )
        return lines


# --- appending ----------------------------------------------------------------------------


def cat_append(bench):
    """cat big >> log, flush=os, against the passthrough example"""
    size = (64 if bench.quick else 256) * MIB
    big = os.path.join(bench.work.native, "big")
    bench.work.client("append", path=big, n=size // MESSAGE)
    size = os.path.getsize(big)

    def rate(path):
        return size / MIB / timed_shell('cat "$1" >> "$2"', big, path)

    def ours():
        with bench.mount.topic(flush="os") as topic:
            return rate(topic.log)

    def its(passthrough):
        with passthrough.file() as path:
            return rate(path)

    samples = bench.against_passthrough(ours, its)
    os.unlink(big)
    return [Line("cat big >> log, flush=os", "MiB/s", *samples, at_least=0.9)]


def bulk(bench):
    """messages per second and server CPU, 100-byte messages in 64 KiB writes, flush=os"""
    n = 1_000_000 if bench.quick else 2_000_000
    cpu = {}

    def measured(daemon, path):
        before = daemon.cpu_seconds()
        rate = bench.work.client("append", path=path, n=n)["per_second"]
        cpu.setdefault(daemon, []).append((daemon.cpu_seconds() - before) / n * 1e6)
        return rate

    def ours():
        with bench.mount.topic(flush="os") as topic:
            return measured(bench.mount, topic.log)

    def its(passthrough):
        with passthrough.file() as path:
            return measured(passthrough, path)

    caches = ("never", "auto")
    samples = bench.against_passthrough(ours, its, caches)
    used = bench.work.passthrough(samples[2].rsplit("=", 1)[1])
    peer = bench.peer("produce_per_second")
    return [
        Line("messages per second, 64 KiB writes", "/s", samples[0], *peer, at_least=4),
        Line("the same", "/s", *samples),
        Line(
            "server CPU per million messages",
            "s",
            cpu[bench.mount],
            cpu[used],
            samples[2],
            most=0.3,
        ),
    ]


def echo(bench):
    """open, write, close for each message, acks=1 flush=os, against the passthrough example"""
    return small_appends(bench, "echo", "open, write, close; acks=1 flush=os", 1.0)


def line(bench):
    """write(2) of one message on an open file, acks=1 flush=os, against the passthrough example"""
    return small_appends(bench, "line", "write(2) of one line; acks=1 flush=os", 0.8)


def small_appends(bench, mode, what, at_least):
    n = (2000 if bench.quick else 10000) * (1 if mode == "echo" else 4)

    def ours():
        with bench.mount.topic(flush="os", acks=1) as topic:
            return bench.work.client(mode, path=topic.log, n=n)["per_second"]

    def its(passthrough):
        with passthrough.file() as path:
            return bench.work.client(mode, path=path, n=n)["per_second"]

    samples = bench.against_passthrough(ours, its)
    return [Line(what, "/s", *samples, at_least=at_least)]


def latency_os(bench):
    """latency of one append on an open file, flush=os"""
    n = 5000
    results = []
    with bench.mount.topic(flush="os") as topic:
        for _ in bench.rounds():
            results.append(bench.work.client("line", path=topic.log, n=n))
    return [
        Line(
            f"one append, flush=os, {percentile}",
            "us",
            [result[f"{percentile}_us"] for result in results],
            *bench.peer(f"append_{percentile}_us"),
            most=most,
        )
        for percentile, most in (("p50", 50), ("p99", 120))
    ]


def latency_ack(bench):
    """latency of one append, flush=ack, against write and fdatasync on the native filesystem"""
    with bench.mount.topic() as topic:
        return bench.against_native(topic.log, "one append, flush=ack", at_most=2.2)


def append_large(bench):
    """append rate at 1 MB, 1 GB and 10 GB of log; mount time and memory with the last"""
    mount = bench.work.topicfs("large")
    sizes = {"1 GB": 10**9} if bench.quick else {"1 GB": 10**9, "10 GB": 10**10}
    n = 500_000
    filled = {}
    for name, size in sizes.items():
        filled[name] = mount.new_topic(flush="os")
        bench.work.client("append", path=filled[name].log, n=size // MESSAGE)
    os.sync()

    def small():
        with mount.topic(flush="os") as topic:
            bench.work.client("append", path=topic.log, n=10**6 // MESSAGE)
            return rate(topic)

    def rate(topic):
        return bench.work.client("append", path=topic.log, n=n)["per_second"]

    works = {"1 MB": small}
    for name, topic in filled.items():
        works[name] = lambda topic=topic: rate(topic)
    samples = bench.interleave(works, bench.pairs * 2)
    lines = [
        Line(f"append rate at {name}", "/s", samples[name], samples["1 MB"], "at 1 MB",
             at_least=0.95)
        for name in sizes
    ]
    mount.stop()
    largest = list(sizes)[-1]
    seconds, resident = [], []
    for _ in bench.rounds():
        again = bench.work.topicfs("large")
        seconds.append(again.mount_seconds)
        resident.append(again.resident_mib())
        again.stop()
    lines.append(Line(f"mount with {largest}", "s", seconds, most=2))
    lines.append(Line(f"resident with {largest}", "MiB", resident))
    shutil.rmtree(mount.data)
    return lines


# --- reading ------------------------------------------------------------------------------


def cat_log(bench):
    """cat log of 1 GiB, against the passthrough example with cache=never"""
    size = (256 if bench.quick else 1024) * MIB
    passthrough = bench.work.passthrough("never")
    with bench.mount.topic(flush="os") as topic, passthrough.file() as other:
        bench.work.client("append", path=topic.log, n=size // MESSAGE)
        timed_shell('cat "$1" > "$2"', topic.log, other)
        timed_shell('cmp "$1" "$2"', topic.log, other)
        os.sync()

        def rate(path):
            return size / MIB / timed_shell('cat "$1" > /dev/null', path)

        samples = bench.interleave(
            {"topicfs": lambda: rate(topic.log), "passthrough": lambda: rate(other)}
        )
    ours = samples["topicfs"]
    per_message = [value * MIB / MESSAGE for value in ours]
    return [
        Line("cat log", "MiB/s", ours, samples["passthrough"], "passthrough_ll cache=never",
             at_least=1.0),
        Line("the same in messages", "/s", per_message, *bench.peer("consume_per_second")),
    ]


def cat_segments(bench):
    """cat segments/*, second time, against the same bytes on the native filesystem"""
    size = (512 if bench.quick else 1024) * MIB
    with bench.mount.topic(flush="os", segment_bytes="32m") as topic:
        bench.work.client("append", path=topic.log, n=size // MESSAGE)
        # All but the last, which is not closed.
        names = sorted(os.path.basename(path)[:-4] for path in glob.glob(topic.data + "/*.log"))
        names.pop()
        native = os.path.join(bench.work.native, "segments")
        os.mkdir(native)
        for name in names:
            shutil.copy(os.path.join(topic.segments, name), native)
        os.sync()
        total = sum(os.path.getsize(os.path.join(native, name)) for name in names)
        if total < size * 3 // 4:
            raise Failure(f"{total} bytes in {len(names)} segments; more were expected")

        def rate(directory):
            seconds = timed_shell('cd "$1" && shift && cat -- "$@" > /dev/null', directory, *names)
            return total / MIB / seconds

        rate(topic.segments)
        rate(native)
        samples = bench.interleave(
            {"topicfs": lambda: rate(topic.segments), "native": lambda: rate(native)}
        )
        shutil.rmtree(native)
    return [
        Line("cat segments/*, second time", "MiB/s", samples["topicfs"], samples["native"],
             "native", at_least=0.8)
    ]


def lookup(bench):
    """random at/<offset>, look-up and first line: 10^7 messages against 10^4"""
    many = 1_000_000 if bench.quick else 10_000_000
    few = 10_000
    n = 2000
    seed = [0]

    def microseconds(topic, messages):
        seed[0] += 1
        result = bench.work.client("lookup", path=topic.at, n=n, messages=messages, seed=seed[0])
        return result["seconds"] / n * 1e6

    with bench.mount.topic(flush="os") as large, bench.mount.topic(flush="os") as small:
        bench.work.client("append", path=large.log, n=many)
        bench.work.client("append", path=small.log, n=few)
        samples = bench.interleave(
            {
                "large": lambda: microseconds(large, many),
                "small": lambda: microseconds(small, few),
            }
        )
    return [
        Line(f"random at/<offset> in {many:.0e} messages", "us", samples["large"],
             samples["small"], "in 1e4", at_most=1.5)
    ]


def follow(bench):
    """from write(2) to a follow reader, one message at a time, flush=os"""
    n = 5000
    with bench.mount.topic(flush="os") as topic:
        results = [
            bench.work.client("follow", path=topic.log, reader=topic.follow, n=n)
            for _ in bench.rounds()
        ]
    return [
        Line(
            f"append to a follow reader, {percentile}",
            "us",
            [result[f"{percentile}_us"] for result in results],
            *bench.peer(f"follow_{percentile}_us"),
            most=most,
        )
        for percentile, most in (("p50", 60), ("p99", 120))
    ]


def fan(bench):
    """one producer (64 KiB writes), eight follow readers: deliveries per second, flush=os"""
    n = 500_000 if bench.quick else 1_000_000
    readers = 8
    rates = []
    for _ in bench.rounds():
        with bench.mount.topic(flush="os") as topic:
            result = bench.work.client(
                "fan", path=topic.log, reader=topic.follow, n=n, readers=readers
            )
            rates.append(result["per_second"] * readers)
    peer = bench.peer("deliveries_per_second")
    return [Line("deliveries to 8 follow readers", "/s", rates, *peer, at_least=2)]


# --- starting, memory ---------------------------------------------------------------------


def restart(bench):
    """kill -9 with 800 MiB unflushed in the last segment; until an append succeeds again"""
    size = 800 * MIB
    n = size // MESSAGE
    seconds = []
    for _ in bench.rounds(2 if bench.quick else None):
        mount = bench.work.topicfs("restart")
        topic = mount.new_topic(flush="os", segment_bytes=2**31 - 1)
        bench.work.client("append", path=topic.log, n=n)
        mount.kill()
        begin = time.monotonic()
        mount = bench.work.topicfs("restart")
        bench.work.client("append", path=topic.log, n=1, first=n)
        seconds.append(time.monotonic() - begin)
        found = os.path.getsize(topic.log)
        if found != (n + 1) * MESSAGE:
            raise Failure(f"{found} bytes after the restart, {(n + 1) * MESSAGE} expected")
        mount.delete_topic(topic)
        mount.stop()
    return [Line("restart after kill -9, 800 MiB unflushed", "s", seconds, most=2)]


def partitions(bench):
    """1,000 partitions with a message each: memory, open files, mount time"""
    count = 1000
    mount = bench.work.topicfs("partitions", partitions=count)
    topic = mount.new_topic(flush="os")
    last = os.path.join(topic.path, str(count - 1), "log")
    wait_until(60, f"{count} partitions", lambda: os.path.exists(last))
    for partition in range(count):
        path = os.path.join(topic.path, str(partition), "log")
        bench.work.client("append", path=path, n=1)
    used = mount.resident_mib("VmHWM"), mount.open_files()
    mount.stop()
    seconds, resident, files = [], [used[0]], [used[1]]
    for _ in bench.rounds():
        mount = bench.work.topicfs("partitions", partitions=count)
        if os.path.getsize(last) != MESSAGE:
            raise Failure(f"{last} has lost its message")
        seconds.append(mount.mount_seconds)
        resident.append(mount.resident_mib("VmHWM"))
        files.append(mount.open_files())
        mount.stop()
    shutil.rmtree(mount.data)
    return [
        Line("1,000 partitions: resident, peak", "MiB", resident, most=80),
        Line("1,000 partitions: open files", "files", files, most=300),
        Line("1,000 partitions: mount", "s", seconds, most=2),
    ]


def segments(bench):
    """resident memory with 1,000 segments against 10 of the same bytes"""
    size = 100 * 10**6
    results = {}
    for count in (1000, 10):
        mount = bench.work.topicfs(f"segments-{count}")
        topic = mount.new_topic(flush="os", segment_bytes=size // count)
        bench.work.client("append", path=topic.log, n=size // MESSAGE)
        timed_shell('cat "$1" > /dev/null', topic.log)
        mount.stop()
        results[count] = []
        for _ in bench.rounds():
            again = bench.work.topicfs(f"segments-{count}")
            timed_shell('cat "$1" > /dev/null', topic.log)
            results[count].append(again.resident_mib())
            again.stop()
        shutil.rmtree(mount.data)
    return [
        Line("resident with 1,000 segments, read once", "MiB", results[1000], results[10],
             "with 10")
    ]


ROWS = {
    "cat-append": cat_append,
    "bulk": bulk,
    "echo": echo,
    "line": line,
    "latency-os": latency_os,
    "latency-ack": latency_ack,
    "append-large": append_large,
    "cat-log": cat_log,
    "cat-segments": cat_segments,
    "lookup": lookup,
    "follow": follow,
    "fan": fan,
    "restart": restart,
    "partitions": partitions,
    "segments": segments,
}
