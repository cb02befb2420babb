#!/usr/bin/env python3
"""A second implementation of the framework, written from the paper's sentences, to check the first one.

usage: framework.py RUN JSON [RUN JSON]...   compares each run with what `weir objects --json` says of it

Horikawa, "A Framework for Performance Evaluation Based on Event Tracing" (2000), sections 2.2, 3.3.1 and 3.3.3.
Unlike the first one this reads the whole run, and then looks at each task's whole life:

  A request comes in at an end of a connection that answers: R is the first arrival of data since the answer before (or,
  where the run has the other end, the first sending there since the answer before), A the first taking of data since
  the answer before, F the last sending before the next A.
  Whose work a task's time is: that of the job that it touched last (by taking, sending, or hearing an answer that the
  job had asked for), as long as that job's F is still to come; else it is background.
  A job belongs to the transaction of the job at which its requester was when it asked; one whose requester is outside
  begins a transaction. A task that a job makes by fork belongs to that job's transaction until it ends.
  U (steps 7 to 9): a CPU's time is divided by whose work it was; a disk's time is that of the work at its request.
  Q (equation 2): A less R, for the work at A (CPUs) or of the job itself (servers).
  Streams of HTTP/2: R when a task takes the first head of a stream that waits for none, A when the first head of the
  answer is given after that, F when the answer's last byte is given; one that is given up has its A, if it has none, and
  its F then. All of it is of the job at which the task that took the head was.
  Semi-busy-waiting: wake-ups between a server's F and its next A that were followed by another wake-up, and in between
  by no taking, sending or hearing.
"""
import bisect
import collections
import glob
import heapq
import ipaddress
import json
import os
import struct
import sys

SLOT = struct.Struct("<QHBBIQQ")
M32 = 0xFFFFFFFF
FOREVER = 1 << 63
TASK_NAME, WINDOW, SWITCH, WAKING, FORK, EXIT = 0x0003, 0x0008, 0x0101, 0x0102, 0x0103, 0x0105
NAMED, DISK, FRAME = 0x0106, 0x0107, 0x0208
READY, RECV, SEND, STATE, OPEN, PEER = 0x0201, 0x0202, 0x0203, 0x0204, 0x0205, 0x0207
CONNECTION, REQUEST = 0x0301, 0x0302


def records(path):
    """(time, kind, flags, lane, a, b, payload words, dictionary) of a segment file, block by block."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        if data[at:at + 8] != b"weirblk\n":
            raise SystemExit(f"{path}: no block at byte {at}")
        slots, _, names = struct.unpack_from("<III", data, at + 20)
        here, texts = at + 64, {}
        stop = here + names
        while here < stop:
            number, length = struct.unpack_from("<IH", data, here)
            texts[number] = data[here + 6:here + 6 + length].decode()
            here += 6 + length
        here = stop
        at = here + 32 * slots
        while here < at:
            time, kind, flags, more, lane, a, b = SLOT.unpack_from(data, here)
            payload = struct.unpack_from(f"<{4 * more}Q", data, here + 32)
            yield time, kind, flags, lane, a, b, payload, texts
            here += 32 * (1 + more)


def stream(files):
    for path in files:
        yield from records(path)


def run_records(run):
    streams = collections.defaultdict(list)
    for path in sorted(glob.glob(os.path.join(run, "segments", "*.seg"))):
        streams[os.path.basename(path).rsplit(".", 2)[0]].append(path)
    return heapq.merge(*(stream(files) for _, files in sorted(streams.items())), key=lambda one: one[0])


def text(payload):
    raw = struct.pack(f"<{len(payload)}Q", *payload)
    return raw[1:1 + raw[0]].decode(errors="replace")


def address(high, low, port):
    ip = ipaddress.IPv6Address((high << 64) | low)
    return str(ip.ipv4_mapped or ip), port


class Job:
    """What a task does for a requester, from A to F."""

    def __init__(self, accepted, requested, parent, entry, task):
        self.accepted, self.requested, self.parent, self.task = accepted, requested, parent, task
        self.finished, self.over = None, None
        self.root = self if entry else parent.root if parent else None
        self.entry, self.name, self.end, self.offset = entry, None, None, None
        self.forked = False


class End:
    def __init__(self):
        self.role, self.peer, self.addresses = None, None, None
        self.base, self.taken = 0, 0
        self.ready, self.job = None, None
        self.asked = None  # [time, job of the task, answered, task]
        self.pending = None  # of an end that answers: (time, job of the requester), once asked


class Life:
    """A task: what it touched when, its turns on CPUs, its wake-ups."""

    def __init__(self):
        self.touched = [(0, None)]
        self.asked_cpu, self.on_cpu = None, None
        self.turns, self.waits = [], []  # (accept, finish, cpu), (request, accept, cpu)
        self.ended = False
        self.wakes = []  # for semi-busy-waiting: (time, what)

    def touch(self, time, job):
        self.touched.append((time, job))

    def job(self):
        """The job that it is at, also after an answer that may be its last."""
        job = self.touched[-1][1]
        return job if job and job.over is None else None


class Run:
    def __init__(self, run):
        self.names, self.lives, self.ends, self.by_addresses = {}, {}, {}, {}
        self.running, self.jobs, self.disks, self.forks = {}, [], [], {}
        self.clients, self.devices, self.gone = {}, {}, []
        self.heads, self.answers, self.streams = {}, {}, []  # (R, A, F or None, job) of each stream
        for record in run_records(run):
            self.read(*record)

    def all_lives(self):
        return self.gone + [(self.names.get(pid, f"task {pid}"), pid, life) for pid, life in self.lives.items()]

    def life(self, pid):
        return self.lives.setdefault(pid, Life())

    def end(self, number):
        return self.ends.setdefault(number, End())

    def read(self, time, kind, flags, lane, a, b, payload, texts):
        low, high = a & M32, a >> 32
        if kind == SWITCH:
            self.switch(time, lane, low, high, b & 0xFF)
        elif kind == WAKING:
            life = self.life(high)
            if not life.on_cpu and life.asked_cpu is None:
                life.asked_cpu = time
                life.wakes.append((time, "woken"))
        elif kind == TASK_NAME:
            self.names[low] = text(payload)
        elif kind == NAMED and flags == 2:
            self.devices[a] = text(payload)
        elif kind == FORK:
            self.fork(time, low, high)
        elif kind == EXIT:
            if low in self.lives:
                self.lives[low].ended = True
            job = self.forks.pop(low, None)
            if job and job.over is None:
                job.finished = job.over = time
        elif kind == DISK:
            self.disks.append((low, time - (b & (1 << 40) - 1), time, high))
        elif kind == FRAME:
            self.frame(time, (flags >> 5 & 1, a), flags & 0xF, flags & 0x10, flags & 0x40, self.running.get(lane))
        elif kind == WINDOW and flags & 1:
            self.pause(time)
        elif READY <= kind <= OPEN or kind == PEER:
            self.socket(time, kind, flags, lane, low, high, b, payload)
        elif kind == CONNECTION and not flags & 1:
            ports = payload[0]
            local = address(payload[4], payload[5], ports & 0xFFFF)
            remote = address(payload[6], payload[7], ports >> 16 & 0xFFFF)
            self.clients[lane, a] = (local, remote)
        elif kind == REQUEST:
            self.name(lane, a, b, payload, texts)

    def switch(self, time, lane, before, after, state):
        if before:
            life = self.life(before)
            if life.on_cpu:
                life.turns.append((life.on_cpu[0], time, life.on_cpu[1]))
            life.on_cpu = None
            if state == 0 and life.asked_cpu is None:
                life.asked_cpu = time
        if after:
            life = self.life(after)
            if life.asked_cpu is not None:
                life.waits.append((life.asked_cpu, time, lane))
            life.on_cpu, life.asked_cpu = (time, lane), None
        self.running[lane] = after

    def fork(self, time, parent, child):
        if child in self.lives and self.lives[child].ended:
            # The number is given again: another task begins.
            self.gone.append((self.names.get(child, f"task {child}"), child, self.lives.pop(child)))
        if parent in self.names:
            self.names[child] = self.names[parent]
        job = self.life(parent).job() if parent else None
        self.life(child)
        if job and job.root:
            if child in self.forks:
                self.forks[child].over = time
            made = Job(time, time, job, False, child)
            made.forked = True
            self.jobs.append(made)
            self.forks[child] = made
            self.life(child).touch(time, made)
            self.life(child).wakes.append((time, "accept"))

    def frame(self, time, stream, kind, given, more, task):
        if kind == 1 and not given and not more:
            if stream not in self.heads:
                self.heads[stream] = (time, self.life(task).job() if task else None)
        elif kind == 1 and not more or kind == 3 and not more:
            if stream in self.heads:
                asked, job = self.heads.pop(stream)
                # An answer on a stream that was not finished: the one before is left out, but it was waited for.
                self.streams.append([asked, time, None, job])
                self.answers[stream] = self.streams[-1]
        if stream in self.answers and (kind == 3 and not more or kind == 12):
            self.answers.pop(stream)[2] = time

    def pause(self, time):
        self.heads.clear()
        self.answers.clear()
        for job in self.jobs:
            if job.over is None:
                job.over = time
        for life in self.lives.values():
            life.asked_cpu = life.on_cpu = None
            life.touch(time, None)
            life.wakes.append((time, "forget"))
        for end in self.ends.values():
            end.pending = None
            end.job = None
        self.forks.clear()
        self.running.clear()

    def socket(self, time, kind, flags, lane, number, high, b, payload):
        end = self.end(number)
        if kind == OPEN:
            local = address(payload[4], payload[5], b >> 32 & 0xFFFF)
            remote = address(payload[6], payload[7], b >> 48)
            older = flags & 1
            if not older or end.addresses != (local, remote):
                self.over(time, end)
                self.forget(number)
                end = self.ends[number] = End()
                end.base, end.addresses = high, (local, remote)
                self.by_addresses[local, remote] = number
                peer = self.by_addresses.get((remote, local))
                if peer is not None and peer != number:
                    self.join(number, peer)
                if older and local[1] != remote[1]:
                    self.settle(number, "answers" if local[1] < remote[1] else "asks")
        elif kind == STATE:
            if b >> 8 & 0xFF == 2:
                self.settle(number, "asks")
            elif b >> 8 & 0xFF == 7:
                self.over(time, end)
                self.forget(number)
        elif kind == PEER:
            if number != high and not flags & 2:
                self.join(number, high)
                if flags & 1:
                    self.settle(number, "answers")
        elif kind == READY:
            if flags & 1:
                self.settle(number, "answers")
            if end.role != "asks" and (end.job is None or end.job.finished is not None) and end.ready is None:
                end.ready = time
        elif not flags & 7 and self.running.get(lane):
            task = self.running[lane]
            if end.role is None:
                self.settle(number, "answers" if kind == RECV else "asks")
            sequence = 0 if flags & 8 else high
            {(RECV, "answers"): self.take, (RECV, "asks"): self.hear,
             (SEND, "answers"): self.answer, (SEND, "asks"): self.ask}[kind, end.role](time, number, task, sequence)

    def over(self, time, end):
        if end.job and end.job.over is None:
            end.job.over = time
        end.job = None

    def forget(self, number):
        end = self.ends.pop(number, None)
        if end and end.addresses and self.by_addresses.get(end.addresses) == number:
            del self.by_addresses[end.addresses]
        if end and end.peer in self.ends and self.ends[end.peer].peer == number:
            self.ends[end.peer].peer = None

    def join(self, one, other):
        self.end(one).peer, self.end(other).peer = other, one
        if self.end(one).role:
            self.settle(one, None)
        else:
            self.settle(other, self.end(other).role)

    def settle(self, number, role):
        end = self.end(number)
        end.role = end.role or role
        peer = self.ends.get(end.peer)
        if peer and not peer.role and end.role:
            peer.role = {"answers": "asks", "asks": "answers"}[end.role]

    def take(self, time, number, task, sequence):
        end, life = self.ends[number], self.life(task)
        offset = end.taken
        step = (sequence - end.base - end.taken) & M32
        if step >= 1 << 31:
            step -= 1 << 32
        end.taken = max(end.taken, end.taken + step)
        rest = end.peer is not None and not end.pending
        if end.job and (end.job.finished is None or rest):
            life.touch(time, end.job)
            life.wakes.append((time, "touch"))
            return
        self.over(time, end)
        ready, end.ready = end.ready, None
        if end.peer is None:
            job = Job(time, ready or time, None, True, task)
            port = f":{end.addresses[0][1]}" if end.addresses else ""
            job.name, job.end, job.offset = f"{self.names.get(task, f'task {task}')}{port}", number, offset
        else:
            asked = end.pending
            job = Job(time, asked[0] if asked else None, asked[1] if asked else None, False, task)
        end.pending, end.job = None, job
        self.jobs.append(job)
        life.touch(time, job)
        life.wakes.append((time, "accept"))

    def answer(self, time, number, task, _):
        end, life = self.ends[number], self.life(task)
        if end.job:
            end.job.finished = time
            life.touch(time, end.job)
            life.wakes.append((time, "finish"))

    def ask(self, time, number, task, _):
        end, life = self.ends[number], self.life(task)
        life.wakes.append((time, "touch"))
        if end.asked and not end.asked[2]:
            return
        job = life.job()
        end.asked = [time, job, False, task]
        if end.peer is not None:
            self.end(end.peer).pending = (time, job)

    def hear(self, time, number, task, _):
        end, life = self.ends[number], self.life(task)
        if end.asked:
            end.asked[2] = True
            job = end.asked[1]
            life.touch(time, job if job and job.over is None else None)
            life.wakes.append((time, "touch"))

    def name(self, lane, connection, offset, payload, texts):
        """A client has its response: it tells what the request is called."""
        if (lane, connection) not in self.clients:
            return
        local, remote = self.clients[lane, connection]
        number = self.by_addresses.get((remote, local))
        for job in reversed(self.jobs):
            if job.entry and job.end == number and job.offset == offset:
                job.name = texts.get(payload[8] >> 32, "")
                break


def owner_at(life, time):
    """The transaction whose work a task does at a time, or None."""
    index = bisect.bisect_right(life.times, time) - 1
    job = life.touched[index][1]
    return job.root if job and time < until(job) else None


def until(job):
    """F, or, where no F was seen, when the job can last no longer."""
    return job.finished if job.finished is not None else job.over if job.over is not None else FOREVER


def cuts(life):
    """When that may change."""
    times = set(life.times)
    times.update(until(job) for _, job in life.touched if job)
    return sorted(times)


def measures(run):
    used, waited = collections.Counter(), collections.Counter()
    class_of = lambda job: job.name if job else "background"
    label = lambda pid: f"{run.names[pid]} ({pid})" if pid in run.names else str(pid)
    pairs = collections.Counter()
    for _, pid, life in run.all_lives():
        life.times = [time for time, _ in life.touched]
        changes = cuts(life)
        for accept, finish, cpu in life.turns:
            at = accept
            for change in changes[bisect.bisect_right(changes, accept):bisect.bisect_left(changes, finish)] + [finish]:
                used[class_of(owner_at(life, at)), "cpu", str(cpu)] += change - at
                at = change
            pairs[label(pid), str(cpu), "used"] += finish - accept
        for request, accept, cpu in life.waits:
            waited[class_of(owner_at(life, accept)), "cpu", str(cpu)] += accept - request
            pairs[label(pid), str(cpu), "waited"] += accept - request
    for pid, begin, end, device in run.disks:
        life = run.lives.get(pid)
        used[class_of(owner_at(life, begin) if life and pid else None), "disk", run.devices.get(device, str(device))] += end - begin
    for asked, answered, finished, job in run.streams:
        of = class_of(job.root if job else None)
        waited[of, "stream"] += answered - asked
        used[of, "stream"] += finished - answered if finished is not None else 0
    for job in run.jobs:
        conversation = "fork" if job.forked else "conversation"
        if job.finished is not None:
            used[class_of(job.root), conversation, label(job.task)] += job.finished - job.accepted
        if job.requested is not None and conversation == "conversation":
            waited[class_of(job.root), conversation, label(job.task)] += job.accepted - job.requested
    return used, waited, pairs


def semi_busy_waiting(run):
    """Team's name to (accepts, unnecessary wake-ups)."""
    teams = collections.defaultdict(lambda: [0, 0])
    for name, _, life in run.all_lives():
        finished, idle, futile, accepts, sum_ = False, False, 0, 0, 0
        for _, what in life.wakes:
            if what == "woken":
                futile += idle and finished
                idle = True
            elif what == "touch":
                idle = False
            elif what == "finish":
                finished, idle, futile = True, False, 0
            elif what == "accept":
                sum_ += futile if finished else 0
                accepts += 1
                finished, idle, futile = False, False, 0
            else:
                finished, idle, futile = False, False, 0
        if accepts:
            team = teams[name]
            team[0], team[1] = team[0] + accepts, team[1] + sum_
    return teams


def figures(run):
    """Everything that is compared: a name to a number."""
    used, waited, pairs = measures(run)
    all_ = {}
    for job in run.jobs:
        if job.entry:
            for what in ("finished", "unfinished", "response"):
                all_.setdefault((what, job.name), 0)
            all_["unfinished" if job.finished is None else "finished", job.name] += 1
            all_["response", job.name] += 0 if job.finished is None else job.finished - job.requested
    all_.update({("used", *key): ns for key, ns in used.items()})
    all_.update({("waited", *key): ns for key, ns in waited.items()})
    all_.update({("pair", *key): ns for key, ns in pairs.items()})
    for name, (accepts, futile) in semi_busy_waiting(run).items():
        all_["accepts", name], all_["semi-busy-waiting", name] = accepts, futile
    return {key: number for key, number in all_.items() if number}


def told(report):
    """The same figures as `weir objects --json` tells them."""
    all_ = collections.Counter()
    for one in report["classes"]:
        all_["finished", one["name"]] = one["finished"]
        all_["unfinished", one["name"]] = one["unfinished"]
        all_["response", one["name"]] = one["response_ns"]
        for use in one["uses"]:
            key = one["name"], use["interaction"], use["name"]
            if use["interaction"] == "stream":
                # Streams are many: the figures of all of a class are compared.
                all_["used", one["name"], "stream"] += use["used_ns"] or 0
                all_["waited", one["name"], "stream"] += use["waited_ns"] or 0
            if use["interaction"] in ("cpu", "disk", "conversation", "fork"):
                all_["used", *key] += use["used_ns"] or 0
            if use["interaction"] in ("cpu", "conversation"):
                all_["waited", *key] += use["waited_ns"] or 0
    for pair in report["pairs"]:
        if pair["interaction"] == "cpu":
            name = pair["requester"][1], pair["object"][1]
            all_["pair", *name, "used"] += pair["used_ns"]
            all_["pair", *name, "waited"] += pair["waited_ns"]
    for team in report["teams"]:
        all_["accepts", team["name"]] += team["accepts"]
        all_["semi-busy-waiting", team["name"]] += team["semi_busy_waiting"]
    return {key: number for key, number in all_.items() if number}


def main():
    compared, wrong = 0, 0
    for run, report in zip(sys.argv[1::2], sys.argv[2::2]):
        here = figures(Run(run))
        with open(report, encoding="utf-8") as file:
            there = told(json.load(file))
        for key in sorted(here.keys() | there.keys(), key=str):
            compared += 1
            if here.get(key, 0) != there.get(key, 0):
                wrong += 1
                if wrong < 40:
                    print(f"{run}: {key}: {here.get(key, 0)} here, {there.get(key, 0)} there")
        names = sorted({key[1] for key in here if key[0] == "finished"})
        print(f"{run}: {len(here)} figures; classes: {', '.join(names)}")
    print(f"{compared} compared, {wrong} differ")
    sys.exit(1 if wrong or not compared else 0)


if __name__ == "__main__":
    main()
