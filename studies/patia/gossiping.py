"""The rows of monitors with gossip: three nodes of a cluster that tell each other how they stand every so often.

Each node and the director has a network namespace, all at one bridge; what a node sends is as narrow as its link is in the
other rows. What its processes cost is read from the scheduler's account of each thread (schedstat).
"""

import json
import pathlib
import socket
import subprocess
import sys
import time

# Threads of a node process that ask for readings, and tell and hear them, by the first 15 characters of their names. The
# thread of the server that answers also copies sessions each 10 ms, and the one that takes datagrams in takes heartbeats.
TELLERS = {"weir-node-readi", "weir-gossip"}
WAIT_S = 30


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def wait_for(what, is_so):
    end = time.monotonic() + WAIT_S
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"study-monitors: {what} has not come within {WAIT_S} s")
        time.sleep(0.1)


def descendants(pid):
    """A process and all that it has started."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, new = [pid], [pid]
    while new:
        new = [child for child, parent in parents.items() if parent in new]
        found += new
    return found


def cpu_s(pid):
    """CPU seconds of a process and its descendants, and those of its threads that tell readings."""
    every = tellers = 0
    for process in descendants(pid):
        for task in pathlib.Path(f"/proc/{process}/task").glob("*"):
            try:
                ns = int((task / "schedstat").read_text().split()[0])
                name = (task / "comm").read_text().strip()
            except OSError:
                continue
            every += ns
            tellers += ns if name in TELLERS else 0
    return every / 1e9, tellers / 1e9


def memory_bytes(pid):
    kib = 0
    for process in descendants(pid):
        for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
            kib += int(line.split()[1]) if line.startswith("VmRSS:") else 0
    return kib * 1024


class Cluster:
    """Three nodes and a director in namespaces, their keys made once."""

    def __init__(self, weir, links, work, label):
        self.weir, self.links, self.work = weir, links, work
        self.label = f"weir-gos-{label}"
        self.processes, self.servers = [], []

    def namespace(self, name):
        return f"{self.label}-{name}"

    def folder(self, name):
        return self.work / f"cluster-{name}"

    def within(self, name, *command, log=None):
        out = subprocess.DEVNULL if log is None else (self.work / log).open("w")
        process = subprocess.Popen(["ip", "netns", "exec", self.namespace(name), *command], stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=out)
        self.processes.append(process)
        return process

    def make(self):
        hub = self.namespace("hub")
        run("ip", "netns", "add", hub)
        run("ip", "-n", hub, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", hub, "link", "set", "br0", "up")
        for number, name in enumerate(["front", *self.nodes(), "users"], 1):
            space = self.namespace(name)
            run("ip", "netns", "add", space)
            run("ip", "-n", hub, "link", "add", f"p{number}", "type", "veth", "peer", "name", "e0",
                "address", self.mac(number), "netns", space)
            run("ip", "-n", hub, "link", "set", f"p{number}", "master", "br0", "up")
            run("ip", "-n", space, "addr", "add", f"{self.address(number)}/24", "dev", "e0")
            run("ip", "-n", space, "link", "set", "e0", "up")
            run("ip", "-n", space, "link", "set", "lo", "up")
        for name, mbit in zip(self.nodes(), self.links):
            run("tc", "-n", self.namespace(name), "qdisc", "add", "dev", "e0", "root", "tbf", "rate", f"{mbit}mbit",
                "burst", "64k", "latency", "400ms")
        self.make_keys()

    def nodes(self):
        return [f"n{number}" for number in range(1, len(self.links) + 1)]

    @staticmethod
    def address(place):
        return f"10.231.40.{place}"

    @staticmethod
    def mac(place):
        return f"02:00:00:00:40:{place:02}"

    def make_keys(self):
        first = str(self.folder("n1"))
        run(self.weir, "cluster", "init", first, "--name", "n1")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            at = f"127.0.0.1:{free.getsockname()[1]}"
        log = self.work / "admit.log"
        with log.open("w") as out:
            admit = subprocess.Popen([self.weir, "cluster", "admit", first, "--listen", at, "--count",
                                      str(len(self.links))], stdout=subprocess.DEVNULL, stderr=out)
        wait_for("the place to join at", lambda: "can join at" in log.read_text())
        for name in [*self.nodes()[1:], "front"]:
            role = ["--director"] if name == "front" else []
            token = run(self.weir, "cluster", "token", first, *role)
            run(self.weir, "cluster", "join", str(self.folder(name)), "--name", name, "--at", at, input=token)
        admit.wait(timeout=WAIT_S)

    def begin(self, interval_s):
        """Starts the servers; as nodes of a cluster that gossip so often, or, without a time, by themselves."""
        if interval_s is not None:
            self.write_members(interval_s)
            self.within("front", self.weir, "cluster", "director", str(self.folder("front")), "--interface", "e0",
                        log="director.log")
        for place, name in enumerate(self.nodes(), 2):
            options = []
            if interval_s is not None:
                keeper = str(self.work / f"keeper-{name}.sock")
                self.within(name, self.weir, "keeper", "--cluster", str(self.folder(name)), "--interface", "e0",
                            "--socket", keeper, log=f"keeper-{name}.log")
                options = ["--cluster", str(self.folder(name)), "--keeper", keeper]
            self.servers.append(self.within(
                name, "taskset", "-c", "0", self.weir, "serve", "--listen", f"{self.address(place)}:8080", "--loops",
                "1", *options, str(self.work / "site"), log=f"serve-{name}.log"))
        if interval_s is not None:
            everyone = [*self.nodes(), "front"]
            wait_for("what all members say", lambda: all(len(self.heard(name)) == 4 for name in everyone))
        else:
            time.sleep(1)

    def write_members(self, interval_s):
        text = (f"service = [\"{self.address(80)}:80\"]\ngossip_ms = {interval_s * 1000:.0f}\n"
                f"[director]\nname = \"front\"\naddress = \"{self.address(1)}:7700\"\n")
        for number, name in enumerate(self.nodes(), 1):
            text += (f"[[node]]\nname = \"{name}\"\nnumber = {number}\naddress = \"{self.address(number + 1)}:7700\"\n"
                     f"mac = \"{self.mac(number + 1)}\"\n")
        for name in [*self.nodes(), "front"]:
            (self.folder(name) / "members.toml").write_text(text)

    def top(self, name):
        told = subprocess.run([self.weir, "cluster", "top", str(self.folder(name)), "--once", "--json"],
                              capture_output=True, text=True, check=False)
        return json.loads(told.stdout)["top"] if told.returncode == 0 else {"members": [], "gossip": {}}

    def heard(self, name):
        """The members that one has heard of."""
        return [member for member in self.top(name)["members"] if member["state"] == "alive"]

    def age_s(self, name):
        """How old the oldest reading of another node is."""
        others = [member for member in self.heard(name) if member["name"] != name and member["age_s"] is not None]
        return max((member["age_s"] for member in others), default=float("nan"))

    def end(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(timeout=WAIT_S)
        self.processes, self.servers = [], []

    def remove(self):
        self.end()
        for name in ["users", *self.nodes(), "front", "hub"]:
            subprocess.run(["ip", "netns", "del", self.namespace(name)], check=False, stderr=subprocess.DEVNULL)


def measure(cluster, interval_s, seconds, seed):
    """Loads all nodes for some seconds; a row for each."""
    cluster.begin(interval_s)
    names = cluster.nodes()
    pids = [server.pid for server in cluster.servers]
    sent = [cluster.top(name)["gossip"].get("sent_bytes", 0) if interval_s else 0 for name in names]
    before, begun = [cpu_s(pid) for pid in pids], time.monotonic()
    loads = []
    for place, _ in enumerate(names, 2):
        command = ["ip", "netns", "exec", cluster.namespace("users"), "taskset", "-c", "1", cluster.weir, "load", "-q",
                   "--json", "-c", "8", "-d", f"{seconds:g}s", "--seed", str(seed), "--urls",
                   str(cluster.work / "urls"), f"http://{cluster.address(place)}:8080/"]
        loads.append(subprocess.Popen(command, stdout=subprocess.PIPE))
    reports = [json.loads(load.communicate()[0]) for load in loads]
    after, passed_s = [cpu_s(pid) for pid in pids], time.monotonic() - begun
    rows = []
    for number, name in enumerate(names):
        report = reports[number]
        if report["errors"]:
            sys.exit(f"study-monitors: node {name}: {report['errors']}")
        now = cluster.top(name)["gossip"]["sent_bytes"] if interval_s else 0
        every, tellers = (late - early for late, early in zip(after[number], before[number]))
        rows.append({
            "block": seed, "node": number + 1, "interval_s": interval_s,
            "cpu_percent": 100 * every / passed_s,
            "tellers_percent": 100 * tellers / passed_s,
            "memory_bytes": memory_bytes(pids[number]),
            "gossip_bytes_per_s": (now - sent[number]) / passed_s,
            "age_s": cluster.age_s(name) if interval_s else float("nan"),
            "requests_per_s": report["rate_per_s"],
        })
    cluster.end()
    return rows


def mean(rows, name):
    return sum(row[name] for row in rows) / len(rows)


def spread(rows, name):
    return max(row[name] for row in rows) - min(row[name] for row in rows)


def lines(rows, links, intervals_s, repeats):
    """The part of the page with gossip."""
    out = ["## With gossip", "",
           f"The same load, {repeats} times each way, on three nodes of a cluster with a director, which tell each other how "
           "they stand (`gossip_ms` of `members.toml`); all namespaces are at one bridge.",
           "A node is the server and the processes beside it, which also send heartbeats and copy sessions each 10 ms: what "
           "these cost is in the first CPU column, as is what the server does for a reading; the threads that ask for "
           "readings, tell and hear them are in the second.",
           "Gossip is what the node sends, with the heads of UDP and IPv4; the age is that of the oldest reading of another "
           "node at the end of a run.", ""]
    for number, mbit in enumerate(links, 1):
        out += [f"### Node {number}, link of {mbit} Mbit/s", "",
                "| readings told every | CPU of the node | of it readings and gossip | memory | gossip | age "
                "| requests a second |", "|---|---|---|---|---|---|---|"]
        for interval_s in [None, *intervals_s]:
            these = [row for row in rows if row["node"] == number and row["interval_s"] == interval_s]
            name = "never (no cluster)" if interval_s is None else f"{interval_s:g} s"
            of_gossip = ["", "", ""] if interval_s is None else [
                f"{mean(these, 'tellers_percent'):.3f} % ± {spread(these, 'tellers_percent'):.3f}",
                f"{mean(these, 'gossip_bytes_per_s'):,.0f} B/s", f"{mean(these, 'age_s'):.1f} s"]
            out.append(
                f"| {name} | {mean(these, 'cpu_percent'):.2f} % ± {spread(these, 'cpu_percent'):.2f} | {of_gossip[0]} "
                f"| {mean(these, 'memory_bytes') / 1e6:.1f} MB | {of_gossip[1]} | {of_gossip[2]} "
                f"| {mean(these, 'requests_per_s'):.1f} ± {spread(these, 'requests_per_s'):.1f} |")
        out.append("")
    return out
