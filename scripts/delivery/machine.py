"""Clean systems to try packages in: a root of Debian alone, or one that systemd runs in, in namespaces of its own."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from delivery.debian import Fault, run

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ENTER = ROOT / "scripts" / "delivery" / "enter"
SUITE = "bookworm"
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
SECURITY = os.environ.get("DEBIAN_SECURITY_MIRROR", "http://deb.debian.org/debian-security")
# As a user has it: with its updates.
SOURCES = [f"deb {MIRROR} {SUITE} main", f"deb {MIRROR} {SUITE}-updates main", f"deb {SECURITY} {SUITE}-security main"]
PROGRAMS = ["mmdebstrap", "unshare", "nsenter", "dpkg-scanpackages", "tar", "ip"]
COMMAND_SECONDS = 300
BOOT_SECONDS = 60
# What apt, dpkg and the system write of themselves: no package's own files.
OWN_BOOKS = ("var/lib/dpkg/", "var/lib/apt/", "var/cache/", "var/log/apt/", "var/log/dpkg.log", "var/log/alternatives.log",
             "var/log/journal/", "var/lib/systemd/", "root/", "tmp/", "var/tmp/", "etc/ld.so.cache", "etc/.pwd.lock",
             "etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-", "etc/machine-id", "etc/resolv.conf", "run/", "dev/",
             "proc/", "sys/", "var/lib/deb-systemd", "etc/apt/sources.list.d/weir.list", "var/log/btmp", "var/log/wtmp",
             "var/lib/logrotate/", "var/log/apache2/")


def shown(done):
    return done.stdout if isinstance(done.stdout, str) else (done.stdout or b"").decode(errors="replace")


class Root:
    """A root of Debian below a folder, which goes when this ends. `tools` are packages that are there before."""

    def __init__(self, target, repository, tools=()):
        self.kept, self.repository = pathlib.Path(target), repository
        archive = self.base(tools)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="root-", dir=self.kept))
        try:
            self.unpack(archive)
        except BaseException:
            self.__exit__()
            raise

    def unpack(self, archive):
        run("tar", "-xf", archive, "-C", self.folder)
        shutil.copyfile("/etc/resolv.conf", self.folder / "etc/resolv.conf")
        shutil.copytree(self.repository, self.folder / "root/packages")
        (self.folder / "etc/apt/sources.list.d/weir.list").write_text("deb [trusted=yes] file:/root/packages ./\n")
        self.online("apt-get", "update", "--quiet")

    def base(self, tools):
        """The archive of a root with these packages, which is made once."""
        name = hashlib.sha256(" ".join([*SOURCES, *sorted(tools)]).encode()).hexdigest()[:12]
        archive = self.kept / f"{SUITE}-{name}.tar"
        if not archive.exists():
            words = ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase"]
            words += [f"--include={','.join(tools)}"] if tools else []
            # Nothing that a package would start listens yet, and documents count as files of a package.
            new = archive.with_name(f"new-{archive.name}")
            run(*words, SUITE, new, *SOURCES)
            new.rename(archive)
        return archive

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["rm", "-rf", "--one-file-system", str(self.folder)], check=False)

    def online(self, *words):
        """Runs a command with the network of this machine; apt needs it."""
        return self.enter(["unshare", "--mount", "--pid", "--fork", "--ipc", "--uts", "--kill-child"], words)

    def alone(self, *words):
        """Runs a command in a network of its own, so that its ports are free."""
        return self.enter(["unshare", "--mount", "--pid", "--fork", "--ipc", "--uts", "--net", "--kill-child"], words)

    def enter(self, before, words):
        done = subprocess.run([*before, str(ENTER), str(self.folder), *words], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=COMMAND_SECONDS)
        if done.returncode:
            raise Fault(f"in the root, {' '.join(words)} ended with {done.returncode}:\n{shown(done)}")
        return shown(done)

    def files(self):
        """What lies in the root: a path and what it is, without the books of apt and dpkg."""
        found = {}
        for path, folders, files in os.walk(self.folder):
            for name in [*folders, *files]:
                file = os.path.join(path, name)
                place = os.path.relpath(file, self.folder)
                if not f"{place}/".startswith(OWN_BOOKS) and not place.startswith(OWN_BOOKS):
                    found[place] = self.described(file)
        return found

    @staticmethod
    def described(file):
        if os.path.islink(file):
            return f"-> {os.readlink(file)}"
        if os.path.isdir(file):
            return "folder"
        with open(file, "rb") as content:
            return hashlib.sha256(content.read()).hexdigest()


def difference(before, after):
    """How two lists of files differ, a line for each."""
    lines = [f"left behind: {name} ({after[name][:40]})" for name in sorted(after.keys() - before.keys())]
    lines += [f"missing: {name}" for name in sorted(before.keys() - after.keys())]
    return lines + [f"changed: {name}" for name in sorted(before.keys() & after.keys()) if before[name] != after[name]]


class Machine:
    """A root in which systemd runs, apart from this machine's processes, network and groups."""

    def __init__(self, root):
        self.root = root
        self.group = pathlib.Path(groups()) / f"weir-packages-{os.getpid()}"
        self.log = open(root.kept / "machine.log", "wb")

    def __enter__(self):
        self.group.mkdir()
        words = ["unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--cgroup", "--net", "--kill-child=SIGKILL",
                 str(ENTER), str(self.root.folder), "/lib/systemd/systemd", "--log-target=console", "--show-status=no"]

        def join():
            (self.group / "cgroup.procs").write_text(str(os.getpid()))

        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, preexec_fn=join,
                                        env={**os.environ, "WEIR_CGROUP": "yes"}, start_new_session=True)
        try:
            self.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait(self):
        until = time.monotonic() + BOOT_SECONDS
        while time.monotonic() < until:
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            self.pid = (children.read_text().split() or [None])[0] if children.exists() else None
            if self.pid and self.is_up():
                return
            time.sleep(0.2)
        raise Fault(f"systemd did not start in {BOOT_SECONDS} s; {self.log.name} has what it said")

    def is_up(self):
        said = shown(self.enter(["systemctl", "is-system-running"])).split()
        # A unit that a root without hardware cannot have, such as a terminal, makes it degraded.
        return bool(said) and said[-1] in ("running", "degraded")

    def enter(self, words, **more):
        outside = ["nsenter", "-t", str(self.pid), "-m", "-p", "-u", "-i", "-n", "-C", "chroot", str(self.root.folder),
                   "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive",
                   "LC_ALL=C.UTF-8"]
        return subprocess.run([*outside, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=COMMAND_SECONDS, **more)

    def run(self, *words):
        done = self.enter(list(words))
        if done.returncode:
            raise Fault(f"in the machine, {' '.join(words)} ended with {done.returncode}:\n{shown(done)}")
        return shown(done)

    def __exit__(self, *_):
        self.process.kill()
        (self.group / "cgroup.kill").write_text("1")
        self.process.wait()
        self.log.close()
        for _ in range(50):
            folders = sorted((path for path in [self.group, *self.group.rglob("*")] if path.is_dir()), reverse=True)
            try:
                for folder in folders:
                    folder.rmdir()
                return
            except OSError:
                time.sleep(0.1)
        raise Fault(f"{self.group} has processes that do not end")


def groups():
    """Where control groups of version 2 are mounted."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            return fields.split()[4]
    raise Fault("this needs control groups of version 2: mount -t cgroup2 cgroup2 /sys/fs/cgroup")
