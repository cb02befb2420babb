"""A plan's servers on this machine: a folder, free ports, processes in groups of their own, and their end."""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import plan

# How long a program may take until it listens: Java and databases need some seconds on a busy machine.
READY_S = 25
PYTHON = "/usr/bin/python3"
# What the servers' configurations leave to the plans' [values].
DEFAULTS = {"apache": "", "nginx": "", "http": "", "main": "", "listen": "", "pool": "", "processes": "4"}


class StageError(Exception):
    """A server of the plan does not run; the text says which, and what it wrote last."""


class Stage:
    """Use it as a context: what was started ends with it."""

    def __init__(self, fault, shared, venv, wrap=None):
        self.fault, self.shared, self.venv, self.wrap = fault, Path(shared), venv, wrap or {}
        self.folder = Path(tempfile.mkdtemp(prefix="causes."))
        self.folder.chmod(0o755)
        self.log = self.folder / "output.log"
        self.running, self.told, self.after = [], [], []
        self.ports = free_ports(4)

    def __enter__(self):
        try:
            (self.folder / "www").mkdir()
            (self.folder / "www").chmod(0o755)
            for name in self.fault.use:
                self.write(name, (plan.HERE / "servers" / name).read_text())
            for name, text in self.fault.files.items():
                self.write(name, text)
            for start in self.fault.starts:
                if start.after:
                    self.after.append(start)
                else:
                    self.start(start)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for state in Path("/sys/fs/cgroup").glob(f"**/causes-{self.ports[0]}/freezer.state"):
            state.write_text("THAWED")
        for sign in (signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
            for process in reversed(self.running):
                # A group outlives its first process: Apache's and PostgreSQL's children do for a moment.
                try:
                    os.killpg(process.pid, sign)
                except ProcessLookupError:
                    continue
            if sign is signal.SIGTERM:
                end = time.monotonic() + 2
                while time.monotonic() < end and any(process.poll() is None for process in self.running):
                    time.sleep(0.02)
        for process in self.running:
            process.wait()
        for group in Path("/sys/fs/cgroup").glob(f"**/causes-{self.ports[0]}"):
            group.rmdir()
        subprocess.run(["umount", "-l", str(self.folder / "slow")], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def text(self, text):
        """Puts the plan's values in place of @name@; what the servers' configurations leave open is empty."""
        values = {
            "dir": self.folder, "shared": self.shared, "python": PYTHON, "venv": self.venv or "", "port": self.ports[0],
            "causes": plan.HERE, **{f"port{n + 1}": port for n, port in enumerate(self.ports)},
        }
        for name, value in self.fault.values.items():
            text = text.replace(f"@{name}@", value)
        for name, value in values.items():
            text = text.replace(f"@{name}@", str(value))
        for name, value in DEFAULTS.items():
            text = text.replace(f"@{name}@", value)
        return text

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text(text))
        path.chmod(0o755 if text.startswith("#!") else 0o644)
        path.parent.chmod(0o755)

    def start(self, start):
        """Starts a program and waits until it is ready."""
        command = shlex.split(self.text(start.run))
        wrapping = self.wrap.get(start.runtime)
        if wrapping:
            command = [*shlex.split(self.text(wrapping)), *command]
        environment = {**os.environ, "PATH": plan.PATH}
        environment.update({name: self.text(value) for name, value in start.environment.items()})
        if wrapping:
            environment.update({name: self.text(value) for name, value in self.wrap.get("environment", {}).items()})
        realtime = self.fault.undisturbed and not start.normal
        with open(self.log, "a") as log:
            process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                start_new_session=True, preexec_fn=first_on_the_cpu if realtime else None,
            )
        self.running.append(process)
        if start.once:
            if process.wait(READY_S * 2) != 0:
                raise StageError(f"{command[0]} failed: {self.last()}")
            return
        port = int(self.text(start.port)) if start.port else None
        self.wait(process, command[0], port, start.file)
        time.sleep(start.seconds)
        how = plan.told(start)
        if how == "port":
            self.told.append(("port", port, process.pid))
        elif how == "pid":
            self.told.append(("pid", process.pid, process.pid))

    def start_what_comes_with_the_load(self):
        for start in self.after:
            self.start(start)

    def wait(self, process, name, port, file):
        end = time.monotonic() + READY_S
        while (port and not listens(port)) or (file and not (self.folder / self.text(file)).exists()):
            if process.poll() is not None and process.returncode != 0:
                raise StageError(f"{name} ended: {self.last()}")
            if time.monotonic() > end:
                raise StageError(f"{name} is not ready after {READY_S} s: {self.last()}")
            time.sleep(0.05)

    def last(self):
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return " / ".join(lines[-2:])[-300:]

    def url(self):
        return f"{self.fault.scheme}://127.0.0.1:{self.ports[0]}{self.fault.path}"


def first_on_the_cpu():
    """Other programs on the machine would be a second fault: what is started goes before them, where it may."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        pass


def listens(port):
    """Without a connection, which would be a request of ours to a server that is watched."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as lines:
            for line in lines:
                fields = line.split()
                if fields[3] == "0A" and fields[1].endswith(wanted):
                    return True
    return False


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
