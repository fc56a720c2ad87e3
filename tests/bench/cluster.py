"""A cluster on this machine: etcd, and nodes with a mount each.

    with Cluster(work, "cluster") as cluster:
        with cluster.topic(flush="os") as topic:
            work.client("append", path=topic.on(topic.leader()).log, n=1000)

With isolated=True the nodes are in network namespaces of their own, as machines beside
each other, and cluster.link() unplugs one; this needs root.
"""

import base64
import contextlib
import json
import os
import random
import socket
import subprocess
import threading
import time

from machine import Failure, Topic, Topicfs, process_cpu_seconds, wait_until

CLUSTER = "bench"
NETWORK = "10.86.75"
HUB = NETWORK + ".254"


def free_port():
    """Of the loopback interface, below those that the kernel gives to connections."""
    for _ in range(200):
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise Failure("no free port between 20000 and 32000")


class Loopback:
    """All processes at one address."""

    def __init__(self, count):
        self.etcd = "127.0.0.1"
        self.etcd_ports = free_port(), free_port()
        self.nodes = {i: f"127.0.0.1:{free_port()}" for i in range(1, count + 1)}

    def etcd_prefix(self):
        return []

    def node_prefix(self, _):
        return []

    def close(self):
        pass


class Isolated:
    """Each node in a namespace that a link joins to the one of etcd."""

    def __init__(self, count):
        if os.geteuid() != 0:
            raise Failure("network namespaces need root")
        self.etcd = HUB
        self.etcd_ports = 2379, 2380
        self.nodes = {i: f"{NETWORK}.{i}:9640" for i in range(1, count + 1)}
        self._holders = {}
        self._make("hub")
        self._hub("ip", "link", "set", "lo", "up")
        self._hub("ip", "link", "add", "name", "hub", "type", "bridge")
        self._hub("ip", "addr", "add", HUB + "/24", "dev", "hub")
        self._hub("ip", "link", "set", "hub", "up")
        for node in self.nodes:
            self._join(node)

    def _make(self, name):
        # A namespace lasts as long as a process in it.
        holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self._holders[name] = holder
        mine = os.readlink("/proc/self/ns/net")
        path = f"/proc/{holder.pid}/ns/net"
        wait_until(10, "a network namespace", lambda: os.readlink(path) != mine)

    def _prefix(self, name):
        return ["nsenter", f"--net=/proc/{self._holders[name].pid}/ns/net"]

    def _run(self, name, *command):
        subprocess.run([*self._prefix(name), *command], check=True)

    def _hub(self, *command):
        self._run("hub", *command)

    def _join(self, node):
        self._make(node)
        link = f"n{node}"
        peer = ["peer", "name", "eth0", "netns", str(self._holders[node].pid)]
        self._hub("ip", "link", "add", "name", link, "type", "veth", *peer)
        self._hub("ip", "link", "set", link, "master", "hub")
        self._hub("ip", "link", "set", link, "up")
        address = f"{NETWORK}.{node}/24"
        self._run(node, "ip", "addr", "add", address, "dev", "eth0")
        self._run(node, "ip", "link", "set", "lo", "up")
        self._run(node, "ip", "link", "set", "eth0", "up")

    def link(self, node, up):
        self._hub("ip", "link", "set", f"n{node}", "up" if up else "down")

    def etcd_prefix(self):
        return self._prefix("hub")

    def node_prefix(self, node):
        return self._prefix(node)

    def close(self):
        for holder in self._holders.values():
            holder.kill()
            holder.wait()


class Etcd:
    """One member, with the settings of mountscripts/cluster."""

    def __init__(self, directory, network, log_path):
        self._network = network
        client, peer = (f"http://{network.etcd}:{port}" for port in network.etcd_ports)
        self.client = client
        command = [*network.etcd_prefix(), "etcd", "--name", "etcd1", "--data-dir", directory]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", f"etcd1={peer}", "--initial-cluster-state", "new"]
        command += ["--heartbeat-interval=50", "--election-timeout=500", "--pre-vote=true"]
        command += ["--auto-compaction-mode=revision", "--auto-compaction-retention=10000"]
        command += ["--logger=zap", "--log-level=warn"]
        environment = {k: v for k, v in os.environ.items() if k != "ETCDCTL_API"}
        with open(log_path, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        wait_until(30, "an answer of etcd", self._answers, 0.1)

    def _command(self, *arguments):
        return [*self._network.etcd_prefix(), "etcdctl", "--endpoints", self.client, *arguments]

    def _answers(self):
        if self.process.poll() is not None:
            raise Failure("etcd ended while starting")
        return subprocess.run(self._command("get", "x"), check=False, **self._how()).returncode == 0

    @staticmethod
    def _how():
        return {"env": {**os.environ, "ETCDCTL_API": "3"}, "capture_output": True}

    def get(self, prefix):
        """What begins with prefix: a dictionary."""
        command = self._command("get", "--prefix", prefix, "-w", "json")
        done = subprocess.run(command, check=True, **self._how())
        pairs = json.loads(done.stdout).get("kvs", [])
        return {decode(pair["key"]): decode(pair.get("value", "")) for pair in pairs}

    def watch(self, prefix):
        return Watch(self._command("watch", "--prefix", prefix, "-w", "json"), self._how()["env"])

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def decode(text):
    return base64.b64decode(text).decode()


class Watch(threading.Thread):
    """What etcd tells of changes: .events are (time, key, value), value None: deleted."""

    def __init__(self, command, environment):
        super().__init__(daemon=True)
        self.events = []
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        self.start()

    def run(self):
        for line in self._process.stdout:
            now = time.monotonic()
            for event in json.loads(line).get("Events") or []:
                pair = event["kv"]
                value = None if event.get("type") == 1 else decode(pair.get("value", ""))
                self.events.append((now, decode(pair["key"]), value))

    def stop(self):
        self._process.kill()
        self._process.wait()
        self.join()


class Writer(threading.Thread):
    """Appends one line after the other; .acknowledged are (begin, end) of each write."""

    def __init__(self, path, name):
        super().__init__(daemon=True)
        self._path = path
        self._name = name
        self._stopping = False
        self.acknowledged = []
        self.error = None
        self.start()

    def line(self, number):
        return f"{self._name} {number}\n".encode()

    def run(self):
        try:
            with open(self._path, "ab", buffering=0) as log:
                while not self._stopping:
                    begin = time.monotonic()
                    log.write(self.line(len(self.acknowledged)))
                    self.acknowledged.append((begin, time.monotonic()))
                    time.sleep(0.001)
        except OSError as error:
            self.error = error

    def acknowledgement(self, since):
        """When the first write that began after `since` was acknowledged; waits for it."""

        def later():
            if self.error:
                raise Failure(f"a write failed: {self.error}")
            return bool(self.acknowledged) and self.acknowledged[-1][0] > since

        wait_until(60, "an acknowledged write", later)
        return next(end for begin, end in self.acknowledged if begin > since)

    def stop(self):
        self._stopping = True
        self.join()
        if self.error:
            raise Failure(f"a write failed: {self.error}")

    def check(self, path):
        """Each line that was acknowledged is there, once, in order."""
        with open(path, "rb") as log:
            found = log.read()
        if found != b"".join(map(self.line, range(len(self.acknowledged)))):
            raise Failure(f"{path} is not what was acknowledged")


class ClusterTopic:
    """A topic, as each of the nodes shows it."""

    def __init__(self, cluster, name):
        self._cluster = cluster
        self.name = name

    def on(self, node):
        return Topic(self._cluster.nodes[node], self.name)

    def state(self, node, partition=0):
        path = os.path.join(self.on(node).path, str(partition), "state")
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def leader(self):
        return self.state(1)["leader"]

    def follower(self):
        return self.leader() % len(self._cluster.nodes) + 1

    def settle(self):
        """Waits until each node shows it with all replicas in sync, up to the end."""

        def settled():
            try:
                states = [self.state(node) for node in self._cluster.nodes]
            except FileNotFoundError:
                return False
            ends = {state["high_watermark"] for state in states}
            ends |= {state["log_end_offset"] for state in states}
            full = all(len(state["isr"]) == len(states) for state in states)
            return full and len(ends) == 1 and states[0]["leader"] > 0

        wait_until(60, f"{self.name} in sync", settled, 0.01)


class Cluster:
    """`options` are mount options of all nodes; `nodes` the running ones by number."""

    def __init__(self, work, name, count=3, isolated=False, **options):
        self._work = work
        self._directory = os.path.join(work.path, name)
        os.makedirs(self._directory)
        self._options = options
        self._names = 0
        self.nodes = {}
        self.etcd = None
        self.network = Isolated(count) if isolated else Loopback(count)
        if isolated:
            self._options["cluster_key"] = self._make_key()
        try:
            self.etcd = Etcd(
                os.path.join(self._directory, "etcd"), self.network, work.log_path(name + "-etcd")
            )
            for node in self.network.nodes:
                self.start(node)
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _make_key(self):
        path = os.path.join(self._directory, "key")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write(os.urandom(32).hex() + "\n")
        return path

    def key(self, name):
        """In etcd, as docs/coordination.md names it."""
        return f"/topicfs/{CLUSTER}/{name}"

    def start(self, node):
        """Also again, on the data of the one that was killed."""
        address = self.network.nodes[node]
        self.nodes[node] = Topicfs(
            self._work.binary,
            os.path.join(self._directory, f"data{node}"),
            os.path.join(self._directory, f"n{node}"),
            self._work.log_path(f"{os.path.basename(self._directory)}-n{node}"),
            prefix=self.network.node_prefix(node),
            coord="etcd://" + self.etcd.client.split("//")[1],
            cluster=CLUSTER,
            node=node,
            listen=address,
            **self._options,
        )

    def kill(self, node):
        """kill -9; the times just before and after, and the mount is taken away later."""
        process = self.nodes[node].process
        begin = time.monotonic()
        process.kill()
        process.wait()
        return begin, time.monotonic()

    def restart(self, node):
        self.nodes[node].kill()
        self.start(node)

    def others(self, node):
        return [other for other in self.nodes if other != node]

    def new_topic(self, **settings):
        self._names += 1
        topic = ClusterTopic(self, f"bench-{self._names}")
        os.mkdir(topic.on(1).path)
        topic.on(1).configure(**settings)
        topic.settle()
        return topic

    def delete_topic(self, topic):
        os.rmdir(topic.on(1).path)
        directories = [topic.on(node).data for node in self.nodes]
        wait_until(30, f"the removal of {topic.name}", lambda: not any(map(os.path.exists, directories)))

    @contextlib.contextmanager
    def topic(self, **settings):
        topic = self.new_topic(**settings)
        yield topic
        self.delete_topic(topic)

    def cpu_seconds(self):
        """Of all servers, etcd too."""
        pids = [node.process.pid for node in self.nodes.values()] + [self.etcd.process.pid]
        return sum(map(process_cpu_seconds, pids))

    def stop(self):
        # All at once: each would otherwise hand over to one that is next to go.
        for node in self.nodes.values():
            if node.process.poll() is None:
                node.process.terminate()
        for node in self.nodes.values():
            node.stop()
            node.release()
        self.nodes = {}
        if self.etcd:
            self.etcd.stop()
            self.etcd = None
        self.network.close()
