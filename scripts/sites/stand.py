"""What a site needs around it: a directory, the server, and the programs behind it. All of it ends with the stand."""

import http.client
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.parse

from browser import Browser, Failure

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/how-to/applications.md"
USER = "www-data"
# How long a program may take to start, in seconds.
PATIENCE_S = 60
FPM = """[global]
daemonize = no
error_log = {folder}/php-fpm.log
[www]
listen = {folder}/php-fpm.sock
listen.mode = 0666
pm = static
pm.max_children = 5
catch_workers_output = yes
php_admin_value[upload_max_filesize] = 16M
php_admin_value[post_max_size] = 16M
php_admin_value[error_log] = /proc/self/fd/2
php_admin_value[session.save_path] = {folder}/sessions
php_admin_value[default_socket_timeout] = 5
; Settings that a test has just written hold for the next request.
php_admin_value[opcache.revalidate_freq] = 0
{owner}"""
TLS = """
[tls]
certificates = [{{ certificate = "{folder}/certificate.pem", key = "{folder}/key.pem" }}]
"""
UNVERIFIED = ssl._create_unverified_context()


def configuration(heading, **replaced):
    """The configuration that the page of documentation gives below a heading, with the paths of this run in it."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^##+ {re.escape(heading)}$.*?^```toml\n(.*?)^```$", text, re.M | re.S)
    if not found:
        raise Failure(f"{PAGE}: no configuration below the heading {heading!r}")
    text = found[1]
    for before, now in replaced.items():
        if before not in text:
            raise Failure(f"{PAGE}: the configuration below {heading!r} no longer has {before!r}")
        text = text.replace(before, str(now))
    return text


class Stand:
    """A directory of its own, and what runs in it."""

    def __init__(self, name, weir, pictures):
        self.name, self.weir, self.pictures = name, weir, pictures
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"weir-{name}-"))
        self.folder.chmod(0o755)
        self.running, self.browsers = [], []
        self.is_root = os.geteuid() == 0
        self.user = USER if self.is_root else None
        self.address = None

    def owned(self, path):
        """Gives a path, with all below it, to the user that the programs run as."""
        if self.is_root:
            for at in [path, *path.rglob("*")]:
                shutil.chown(at, USER, USER) if not at.is_symlink() else None
        return path

    def directory(self, name):
        path = self.folder / name
        path.mkdir()
        return self.owned(path)

    def start(self, name, command, is_up, user=None, **options):
        """Starts a program, and waits until it is up."""
        log = self.folder / f"{name}.output"
        if user and self.is_root:
            entry = pwd.getpwnam(user)
            options |= {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        with open(log, "wb") as said:
            process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                start_new_session=True, **options,
            )
        self.running.append((name, process))
        end = time.monotonic() + PATIENCE_S
        while not is_up():
            if process.poll() is not None or time.monotonic() > end:
                state = "ended" if process.poll() is not None else f"is not up within {PATIENCE_S} s"
                raise Failure(f"{name} {state}: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        return process

    def said(self, name):
        """What a program has written so far."""
        return (self.folder / f"{name}.output").read_text(errors="replace")

    def php(self):
        """Debian's php-fpm with a pool of its own; returns its socket."""
        program = sorted(pathlib.Path("/usr/sbin").glob("php-fpm*"))[-1]
        owner = f"user = {USER}\ngroup = {USER}\n" if self.is_root else ""
        (self.folder / "php-fpm.conf").write_text(FPM.format(folder=self.folder, owner=owner))
        path = self.folder / "php-fpm.sock"
        self.directory("sessions")
        if self.is_root:
            shutil.chown(self.folder, USER, USER)
        self.start("php-fpm", [program, "--nodaemonize", "--fpm-config", self.folder / "php-fpm.conf"], lambda: answers(path))
        return path

    def mariadb(self, database):
        """MariaDB with a new database; returns its socket. The user is root, without a password."""
        folder = self.directory("mariadb")
        path, options = folder / "socket", ["--no-defaults", f"--datadir={folder / 'tables'}"]
        user = [f"--user={USER}"] if self.is_root else []
        subprocess.run(
            ["mariadb-install-db", *options, *user, "--auth-root-authentication-method=normal", "--skip-test-db"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        command = ["/usr/sbin/mariadbd", *options, *user, f"--socket={path}", f"--pid-file={folder / 'pid'}", "--skip-networking"]
        self.start("mariadb", command, lambda: answers(path))
        client = ["mariadb", "--no-defaults", "--user=root", f"--socket={path}", "-e", f"CREATE DATABASE {database}"]
        subprocess.run(client, check=True)
        return path

    def serve(self, text, is_secure=False):
        """Starts the server with a configuration; over TLS with a certificate that the browser is told to take."""
        if is_secure:
            text += TLS.format(folder=self.folder)
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                 "-keyout", self.folder / "key.pem", "-out", self.folder / "certificate.pem", "-days", "2",
                 "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
                check=True, stderr=subprocess.DEVNULL,
            )
        file = self.folder / "weir.toml"
        file.write_text(text)
        checked = subprocess.run([self.weir, "check", file], capture_output=True, text=True)
        if checked.returncode:
            raise Failure(f"weir check: {checked.stdout}{checked.stderr}\n{text}")
        port = free_port()
        self.address = f"{'https' if is_secure else 'http'}://localhost:{port}"
        self.start("weir", [self.weir, "serve", "--listen", f"127.0.0.1:{port}", file], lambda: answers(port))

    def end_server(self):
        """Ends the server alone, and looks at how it ends."""
        (process,) = [process for name, process in self.running if name == "weir"]
        self.running.remove(("weir", process))
        end(process)
        if process.returncode:
            raise Failure(f"the server ended with {process.returncode}: {self.said('weir')}")

    def tell(self):
        """Shows what the programs said last, after a failure."""
        for name, _ in self.running:
            print(f"  {name} said:\n" + "".join(f"    {line}\n" for line in self.said(name).splitlines()[-15:]), flush=True)
        for browser in self.browsers:
            for page in browser.pages.values():
                print(f"  a page: {page.where()}", flush=True)
                self.picture(page, "failure")

    def page(self):
        """A tab in a browser of the stand."""
        if not self.browsers:
            self.browsers.append(Browser())
        return self.browsers[0].page()

    def picture(self, page, name):
        if self.pictures:
            page.picture(self.pictures / f"{self.name}-{name}.png")

    def end(self):
        """Ends all programs, in the order opposite to that of their starts, and removes the directory."""
        for browser in self.browsers:
            browser.close()
        for _, process in reversed(self.running):
            end(process)
        shutil.rmtree(self.folder, ignore_errors=True)


def end(process):
    """Ends a program, the leader of a session of its own; its number is not used again before it is waited for."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def answers(place):
    """Whether connections are taken at a port of the loopback interface, or at a Unix socket."""
    is_port = isinstance(place, int)
    with socket.socket(socket.AF_INET if is_port else socket.AF_UNIX) as one:
        try:
            one.connect(("127.0.0.1", place) if is_port else str(place))
            return True
        except OSError:
            return False


def ask(address, method="GET", data=None, **fields):
    """A request without a browser: its status, fields and body. Redirects are not followed."""
    parts = urllib.parse.urlsplit(address)
    # The connection is made to where the server listens; the name is that of the site.
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection("127.0.0.1", parts.port, timeout=PATIENCE_S, context=UNVERIFIED)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=PATIENCE_S)
    fields.setdefault("Host", parts.netloc)
    target = parts.path + ("?" + parts.query if parts.query else "")
    connection.request(method, target, data, {name.replace("_", "-"): value for name, value in fields.items()})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, response.headers, body


def expect(holds, what):
    if not holds:
        raise Failure(what)


def compressed(stand, path):
    """The server compresses a file: not for the first request, which does not wait for it."""
    end = time.monotonic() + PATIENCE_S
    while True:
        status, fields, _ = ask(stand.address + path, Accept_Encoding="gzip")
        if status == 200 and fields["Content-Encoding"] == "gzip":
            return
        expect(time.monotonic() < end, f"{path} is not compressed: {status} {fields}")
        time.sleep(0.05)
