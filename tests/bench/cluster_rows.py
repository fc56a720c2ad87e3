"""The rows with three nodes and etcd, all on this machine; as those of rows.py."""

import json
import os
import time

from cluster import Cluster, Writer
from machine import Failure, wait_until
from report import Line

NODES = 3
SESSION_S = 6  # the default of session_timeout_ms
REST_S = 10.5  # for so long after a dead process was noticed, sessions alone may tell of another


def client_lines(bench, results, what, figure, bounds):
    """p50 and p99 of what bench_client measured, against the best peer's figure."""
    lines = []
    for percentile, most in zip(("p50", "p99"), bounds):
        samples = [result[f"{percentile}_us"] for result in results]
        peer = bench.peer(f"{figure}_{percentile}_us") if figure else ()
        bound = {"most": most} if most else {}
        lines.append(Line(f"{what}, {percentile}", "us", samples, *peer, **bound))
    return lines


# --- appending ----------------------------------------------------------------------------


def bulk(bench):
    """messages per second and server CPU, 64 KiB writes, acks=all flush=os, against one node"""
    n = 200_000 if bench.quick else 1_000_000
    cpu = []

    def append(path):
        return bench.work.client("append", path=path, n=n)["per_second"]

    def three():
        with cluster.topic(flush="os") as topic:
            before = cluster.cpu_seconds()
            rate = append(topic.on(topic.leader()).log)
            topic.settle()
            cpu.append((cluster.cpu_seconds() - before) / n * 1e6)
            return rate

    def one():
        with bench.mount.topic(flush="os") as topic:
            return append(topic.log)

    with Cluster(bench.work, "cluster-bulk") as cluster:
        samples = bench.interleave({"three": three, "one": one})
    what = "three nodes, acks=all: messages per second"
    peer = bench.peer("produce_three_per_second")
    return [
        Line(what, "/s", samples["three"], samples["one"], "one node", at_least=0.3),
        Line(what + ", again", "/s", samples["three"], *peer, at_least=2),
        Line("three nodes: server CPU per million messages, with etcd", "s", cpu,
             *bench.peer("server_cpu_three_per_million_s"), most=1.5),
    ]


def appenders(bench):
    """8 appenders of single lines on one partition, acks=all flush=os, against one"""
    n = 1000 if bench.quick else 4000
    with Cluster(bench.work, "cluster-appenders") as cluster, cluster.topic(flush="os") as topic:
        log = topic.on(topic.leader()).log

        def rate(writers):
            result = bench.work.client("lines", path=log, n=n * writers, writers=writers)
            return result["per_second"]

        samples = bench.interleave({"eight": lambda: rate(8), "one": lambda: rate(1)})
    return [
        Line("three nodes: lines of 8 appenders on one partition", "/s", samples["eight"],
             samples["one"], "one appender", at_least=4)
    ]


def latency(bench):
    """latency of one append, acks=all flush=os, on the leader's mount and on a follower's"""
    n = 1000 if bench.quick else 4000
    with Cluster(bench.work, "cluster-latency") as cluster, cluster.topic(flush="os") as topic:

        def work(node):
            return bench.work.client("line", path=topic.on(node).log, n=n)

        samples = bench.interleave(
            {
                "leader": lambda: work(topic.leader()),
                "follower": lambda: work(topic.follower()),
            }
        )
    bounds = {"leader": (250, 600), "follower": (None, 600)}
    lines = []
    for where, results in samples.items():
        what = f"three nodes: one append on the {where}'s mount, flush=os"
        lines += client_lines(bench, results, what, "append_three", bounds[where])
    return lines


def latency_ack(bench):
    """latency of one append, default settings, against write and fdatasync natively"""
    with Cluster(bench.work, "cluster-ack") as cluster, cluster.topic() as topic:
        log = topic.on(topic.leader()).log
        return bench.against_native(log, "three nodes: one append, flush=ack", at_most=4)


def follow(bench):
    """from write(2) on the leader's mount to a follow reader on another's, flush=os"""
    n = 1000 if bench.quick else 4000
    results = []
    with Cluster(bench.work, "cluster-follow") as cluster, cluster.topic(flush="os") as topic:
        for _ in bench.rounds():
            topic.settle()
            log = topic.on(topic.leader()).log
            reader = topic.on(topic.follower()).follow
            results.append(bench.work.client("follow", path=log, reader=reader, n=n))
    what = "three nodes: append to a follow reader on another mount"
    return client_lines(bench, results, what, "follow_three", (300, 800))


# --- failing ------------------------------------------------------------------------------


def quantile(samples, part):
    ordered = sorted(samples)
    return ordered[round(part * (len(ordered) - 1))]


def outage(topic, fail):
    """Seconds until a write that begins after the leader's failure succeeds on another mount.

    fail(leader) returns when the failure began and when it was complete. Then each line that
    was acknowledged is looked for.
    """
    leader = topic.leader()
    survivor = topic.follower()
    writer = Writer(topic.on(survivor).log, "line")
    writer.acknowledgement(time.monotonic() + 0.1)
    begin, complete = fail(leader)
    seconds = writer.acknowledgement(complete) - begin
    writer.stop()
    writer.check(topic.on(survivor).log)
    return leader, seconds


def kill_leader(bench):
    """kill -9 of a leader: until writes go on, default settings, at least 50 times"""
    seconds = []
    killed = float("-inf")
    with Cluster(bench.work, "cluster-kill") as cluster:
        for _ in bench.rounds(3 if bench.quick else 50):
            with cluster.topic() as topic:
                time.sleep(max(0, killed + REST_S - time.monotonic()))
                leader, took = outage(topic, cluster.kill)
                killed = time.monotonic()
                seconds.append(took)
                cluster.restart(leader)
                topic.settle()
    peer = bench.peer("failover_s")
    lines = [Line("kill -9 of a leader: until writes go on", "s", seconds, *peer, most=0.5)]
    for name, part in (("p90", 0.9), ("max", 1.0)):
        lines.append(Line(f"the same, {name} of {len(seconds)}", "s", [quantile(seconds, part)]))
    return lines


def cut_leader(bench):
    """a leader's machine cut off (its network link goes down): until writes go on"""
    seconds = []
    with Cluster(bench.work, "cluster-cut", isolated=True) as cluster:

        def unplug(node):
            now = time.monotonic()
            cluster.network.link(node, False)
            return now, time.monotonic()

        for _ in bench.rounds(2 if bench.quick else None):
            with cluster.topic() as topic:
                leader, took = outage(topic, unplug)
                seconds.append(took)
                cluster.network.link(leader, True)
                topic.settle()
    what = f"leader's machine cut off, {SESSION_S} s session: until writes go on"
    return [Line(what, "s", seconds, most=SESSION_S + 1)]


class Failover:
    """The end of a node that is the controller and leads all partitions of a topic."""

    SAMPLE = 20
    VICTIM = 3

    def __init__(self, cluster, count):
        self._cluster = cluster
        self._count = count
        self._topic = cluster.new_topic(flush="os")
        self._states = cluster.key(f"brokers/topics/{self._topic.name}/partitions/")
        self._others = cluster.others(self.VICTIM)
        self._killed = float("-inf")

    def _all(self, accept):
        states = self._cluster.etcd.get(self._states).values()
        return len(states) == self._count and all(accept(json.loads(state)) for state in states)

    @staticmethod
    def _in_sync(state):
        return state["leader"] > 0 and len(state["isr"]) == NODES

    def prepare(self):
        """The others stop, at once, and come back; until all is in sync again."""
        wait_until(300, "all in sync", lambda: self._all(self._in_sync), 0.2)
        for node in self._others:
            self._cluster.nodes[node].process.terminate()
        for node in self._others:
            self._cluster.nodes[node].stop()
        for node in self._others:
            self._cluster.start(node)
        wait_until(300, "all led by one node", lambda: self._all(self._led_by_victim), 0.2)
        wait_until(30, "the victim as controller", self._victim_controls, 0.1)

    def _led_by_victim(self, state):
        return self._in_sync(state) and state["leader"] == self.VICTIM

    def _victim_controls(self):
        key = self._cluster.key("controller")
        found = self._cluster.etcd.get(key)
        return key in found and json.loads(found[key])["brokerid"] == self.VICTIM

    def measure(self):
        """Seconds: kill to detection; from there to the last leader, to the last write."""
        cluster = self._cluster
        step = self._count // self.SAMPLE
        node = cluster.nodes[self._others[0]]
        path = os.path.join(node.mountpoint, "topics", self._topic.name)
        logs = [os.path.join(path, str(p), "log") for p in range(0, self._count, step)]
        watch = cluster.etcd.watch(cluster.key("brokers/"))
        writers = [Writer(log, "line") for log in logs]
        for writer in writers:
            writer.acknowledgement(time.monotonic())
        time.sleep(max(0, self._killed + REST_S - time.monotonic()))
        begin, gone = cluster.kill(self.VICTIM)
        self._killed = gone
        written = max(writer.acknowledgement(gone) for writer in writers)
        led = self._await_leaders(watch)
        detected = self._detected(watch)
        for writer in writers:
            writer.stop()
        watch.stop()
        cluster.restart(self.VICTIM)
        return detected - begin, led - detected, written - detected

    def _detected(self, watch):
        key = self._cluster.key(f"brokers/ids/{self.VICTIM}")
        times = [when for when, k, value in list(watch.events) if k == key and value is None]
        if not times:
            raise Failure("nobody ended the registration of the node that was killed")
        return times[0]

    def _await_leaders(self, watch):
        """When the last partition got another leader."""
        led = {}

        def complete():
            for when, key, value in list(watch.events):
                if key.startswith(self._states) and value is not None:
                    if json.loads(value)["leader"] in self._others:
                        led.setdefault(key, when)
            return len(led) == self._count

        wait_until(60, "leaders for all partitions", complete, 0.1)
        return max(led.values())


def failover(bench):
    """kill -9 of the controller, which leads 1,000 partitions: until all are led, and written"""
    count = 1000
    options = {"partitions": count, "auto_leader_rebalance": "false"}
    samples = []
    with Cluster(bench.work, "cluster-failover", **options) as cluster:
        work = Failover(cluster, count)
        for _ in bench.rounds(1 if bench.quick else None):
            work.prepare()
            samples.append(work.measure())
    detection, led, written = zip(*samples)
    return [
        Line("controller with 1,000 partitions killed: until it is noticed", "s", detection),
        Line("from then until all have a leader", "s", led, most=1),
        Line(f"from then until a write on each of {Failover.SAMPLE} returned", "s", written, most=1),
    ]


ROWS = {
    "cluster-bulk": bulk,
    "cluster-appenders": appenders,
    "cluster-latency": latency,
    "cluster-ack": latency_ack,
    "cluster-follow": follow,
    "cluster-kill": kill_leader,
    "cluster-cut": cut_leader,
    "cluster-failover": failover,
}
