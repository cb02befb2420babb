"""Runs unchanged CGI scripts of Python one after the other in one process, and compiles each only once.

The process that starts it speaks CGIplus' struct mode with it: variables on descriptor 3, the request's body on
descriptor 0, the response and the sentinel CGIPLUSEOF on descriptor 1. Each run has a fresh module `__main__`.
"""

import atexit
import builtins
import gc
import io
import locale
import os
import signal
import struct
import sys
import threading
import time
import traceback
import types
import warnings

SCRIPTS_MAX = 256  # compiled scripts that are kept
PIPE_BYTES = 4096  # a body of so many bytes always fits into a pipe
MODULES_S = 2  # modules are looked at for changes so often
SIGNALS = [number for number in signal.valid_signals() if number < 32 and number not in (signal.SIGKILL, signal.SIGSTOP)]
FAILURE = b"Status: 500 Internal Server Error\r\nContent-Type: text/plain\r\n\r\nThe script failed; the server's log says why.\n"


class Refused(Exception):
    """A request that no script can answer; its words go to the log."""


class Out(io.FileIO):
    """A descriptor that counts what is written to it."""

    def __init__(self, descriptor):
        super().__init__(descriptor, "w", closefd=False)
        self.sent = 0

    def write(self, data):
        written = super().write(data)
        self.sent += written or 0
        return written


class Script:
    """A compiled script."""

    def __init__(self, path, stamp, code):
        self.path, self.stamp, self.code = path, stamp, code
        self.folder = os.path.dirname(path) or "/"
        self.used = 0


class Base:
    """What the process was before a script ran: each run begins with it again."""

    def __init__(self):
        self.environment = {name: value for name, value in os.environb.items() if not name.startswith(b"CGIPLUS")}
        self.path = sys.path[1:]
        self.umask = os.umask(0o22)
        os.umask(self.umask)
        self.signals = [signal.getsignal(number) for number in SIGNALS]
        self.filters = warnings.filters[:]
        self.hooks = (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook)
        self.recursion = sys.getrecursionlimit()
        self.locale = locale.setlocale(locale.LC_ALL)
        self.meta_path, self.path_hooks = sys.meta_path[:], sys.path_hooks[:]
        self.builtins = dict(vars(builtins))
        self.encoding, self.errors = sys.stdout.encoding, sys.stdout.errors
        self.descriptors = [os.fstat(number)[1:3] for number in range(3)]

    def restore(self):
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in zip(SIGNALS, self.signals):
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        os.umask(self.umask)
        if warnings.filters != self.filters:
            warnings.resetwarnings()
            warnings.filters[:] = self.filters
        sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook = self.hooks
        sys.setrecursionlimit(self.recursion)
        sys.settrace(None)
        sys.setprofile(None)
        sys.meta_path[:], sys.path_hooks[:] = self.meta_path, self.path_hooks
        if locale.setlocale(locale.LC_ALL) != self.locale:
            locale.setlocale(locale.LC_ALL, self.locale)
        gc.enable()
        now = vars(builtins)
        if now != self.builtins:
            for name in set(now) - set(self.builtins):
                del now[name]
            now.update(self.builtins)


class Engine:
    """Reads requests and runs scripts."""

    def __init__(self):
        self.process = os.getpid()
        try:
            self.eof = os.environb[b"CGIPLUSEOF"]
        except KeyError:
            sys.exit("weir rte: CGIPLUSEOF is not set; `rte = true` in weir.toml starts this program")
        self.own = {name: value for name, value in os.environb.items() if name.startswith(b"CGIPLUS")}
        self.base = Base()
        # Away from where scripts reach by number: body, response, errors.
        self.body, self.response, self.errors = (os.dup(number) for number in range(3))
        self.null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(self.null, 0)
        self.base.descriptors[0] = os.fstat(0)[1:3]
        os.set_inheritable(3, False)
        self.kept = b""
        self.scripts, self.uses, self.told = {}, 0, set()
        self.folder, self.modules = None, {}  # modules of scripts' folders: {folder: {name: (module, stamp)}}
        self.others, self.looked = {}, time.monotonic()
        self.ends = []  # what the script has registered with atexit
        self.register = atexit.register
        atexit.register = self.at_exit
        self.renew = None  # why the process is to be renewed
        self.used = None  # the module of the last run

    # ---- requests ----

    def serve(self):
        while (data := self.request()) is not None:
            self.answer(data)
            if self.renew:
                self.start_anew()

    def fill(self):
        data = os.read(3, 65536)
        self.kept += data
        return bool(data)

    def request(self):
        """Returns the variables of the next request, None at the end."""
        while (at := self.kept.find(b"\n")) < 0:
            if not self.fill():
                return None
        if not self.kept.startswith(b"!!"):
            raise SystemExit("weir rte: this is no request of struct mode")
        end = at + 1 + int(self.kept[2:at])
        while len(self.kept) < end:
            if not self.fill():
                return None
        data, self.kept = self.kept[at + 1 : end], self.kept[end:]
        return data

    def variables(self, data):
        found, at = dict(self.base.environment), 0
        while at + 2 <= len(data):
            (length,) = struct.unpack_from("=H", data, at)
            if length == 0:
                break
            name, _, value = data[at + 2 : at + 1 + length].partition(b"=")
            found[name] = value
            at += 2 + length
        now = os.environb
        for name in [name for name in now if name not in found]:
            del now[name]
        for name, value in found.items():
            if now.get(name) != value:
                now[name] = value
        return found

    def answer(self, data):
        found = self.variables(data)
        length = found.get(b"CONTENT_LENGTH", b"")
        length = int(length) if length.isdigit() else 0
        path = os.fsdecode(found.get(b"SCRIPT_FILENAME", b""))
        raw = self.streams()
        failed = None
        try:
            if length:
                self.take_body(length)
            script = self.script(path)
        except Refused as refused:
            failed = f"weir rte: {path}: {refused}"
        except Exception as error:
            failed = f"weir rte: {path}: {error}"
        status = 0
        if failed is None:
            status, failed = self.run(script)
        if os.getpid() != self.process:
            self.write_error(failed)
            self.flush()
            os._exit(255 if failed else status)
        if failed is not None:
            self.flush()
            self.write_error(failed)
            if raw.sent == 0:
                os.write(self.response, FAILURE)
        self.finish()

    def take_body(self, length):
        """Gives the script its body as standard input that ends behind it."""
        if length <= PIPE_BYTES:
            read, write = os.pipe()
        else:
            read = write = os.memfd_create("body")
        trouble = None
        while length:
            data = os.read(self.body, min(length, 65536))
            if not data:
                raise Refused("the body ends early")
            length -= len(data)
            try:
                if trouble is None:
                    os.write(write, data)
            except OSError as error:  # the rest is still read, as it must not meet the next request
                trouble = error
        if read != write:
            os.close(write)
        else:
            os.lseek(read, 0, os.SEEK_SET)
        os.dup2(read, 0)
        os.close(read)
        if trouble is not None:
            raise Refused(f"the body cannot be kept: {trouble}")

    def streams(self):
        raw = Out(1)
        sys.stdin = sys.__stdin__ = io.TextIOWrapper(
            io.BufferedReader(io.FileIO(0, "r", closefd=False)), self.base.encoding, self.base.errors
        )
        buffer = io.BufferedWriter(raw, 65536)
        sys.stdout = sys.__stdout__ = io.TextIOWrapper(buffer, self.base.encoding, self.base.errors)
        sys.stderr = sys.__stderr__ = io.TextIOWrapper(
            io.BufferedWriter(Out(2)), self.base.encoding, "backslashreplace", line_buffering=True
        )
        self.now = (sys.stdout, buffer, sys.stderr)
        return raw

    def flush(self):
        for stream in (sys.stdout, sys.stderr, *self.now):
            try:
                stream.flush()
            except Exception:
                pass  # the script has closed or replaced it

    def write_end(self):
        """Writes the sentinel, with what the script's standard output keeps if it is as it was."""
        stream = self.now[0]
        try:
            if sys.stdout is stream and stream.encoding == self.base.encoding and self.is_own(1):
                stream.write(self.eof.decode())
                stream.flush()
                return
        except ValueError:
            pass  # it is closed, or its buffer is another's
        self.flush()
        for number, own in ((1, self.response), (2, self.errors)):
            if not self.is_own(number):
                os.dup2(own, number)
        os.write(self.response, self.eof)

    def is_own(self, number):
        """Whether the descriptor is still the stream that the process was started with."""
        try:
            return os.fstat(number)[1:3] == self.base.descriptors[number]
        except OSError:
            return False

    def write_error(self, words):
        if words:
            os.write(self.errors, words.rstrip("\n").encode("utf-8", "backslashreplace") + b"\n")

    def say(self, words):
        """Tells a sentence once."""
        if words not in self.told and len(self.told) < 10_000:
            self.told.add(words)
            self.write_error("weir rte: " + words)

    # ---- scripts ----

    def script(self, path):
        state = os.stat(path)
        stamp = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        script = self.scripts.get(path)
        if script is None or script.stamp != stamp:
            with open(path, "rb") as file:
                source = file.read()
            check_language(path, source.split(b"\n", 1)[0])
            if script is None and len(self.scripts) >= SCRIPTS_MAX:
                oldest = min(self.scripts.values(), key=lambda one: one.used)
                del self.scripts[oldest.path]
                self.say(f"more than {SCRIPTS_MAX} scripts run in one process; the oldest are compiled anew when they come again")
            try:
                code = compile(source, path, "exec", dont_inherit=True)
            except (SyntaxError, ValueError) as error:
                raise Refused("".join(traceback.format_exception_only(error))) from None
            script = self.scripts[path] = Script(path, stamp, code)
        self.uses += 1
        script.used = self.uses
        return script

    def run(self, script):
        """Runs it. Returns its exit status, and words if it failed."""
        os.chdir(script.folder)
        self.enter(script.folder)
        sys.argv[:] = [script.path]
        sys.path[:] = [script.folder, *self.base.path]
        module = types.ModuleType("__main__")
        module.__file__ = script.path
        sys.modules["__main__"] = module
        if "random" in sys.modules:
            sys.modules["random"].seed()  # a seed that another script has set would be foreseen
        self.ends.clear()
        status, failed = guarded(lambda: exec(script.code, vars(module)))
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        while self.ends:
            function, arguments, names = self.ends.pop()
            _, trouble = guarded(lambda: function(*arguments, **names))
            failed = failed or trouble
        if threading.active_count() > 1:
            self.renew = "threads run on"
            self.say(f"{script.path}: its threads run on after its end; a new process takes the next request")
        self.leave(script.folder)
        self.used = module
        return status, failed

    def at_exit(self, function, *arguments, **names):
        """atexit.register: what the script itself registers runs at its end, what modules register at the process'."""
        caller = sys._getframe(1).f_globals
        if caller is vars(sys.modules["__main__"]):
            self.ends.append((function, arguments, names))
            return function
        return self.register(function, *arguments, **names)

    # ---- modules ----

    def enter(self, folder):
        """Modules that lie beside scripts belong to their folder: another one can have others of the same names."""
        if self.folder != folder:
            for name in self.modules.get(self.folder, {}):
                sys.modules.pop(name, None)
            self.folder = folder
            for name, (module, _) in self.modules.get(folder, {}).items():
                sys.modules[name] = module
        own = self.modules.get(folder)
        if own and any(stamp != file_stamp(module.__file__) for module, stamp in own.values()):
            for name in own:
                sys.modules.pop(name, None)
            own.clear()
            sys.path_importer_cache.clear()

    def leave(self, folder):
        if len(sys.modules) == getattr(self, "module_count", 0):
            return
        own = self.modules.setdefault(folder, {})
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if name != "__main__" and name not in own and isinstance(file, str) and file.startswith(folder + os.sep):
                own[name] = (module, file_stamp(file))
            elif isinstance(file, str) and file not in self.others:
                self.others[file] = file_stamp(file)
        self.module_count = len(sys.modules)

    def look_at_modules(self):
        """Has the process renewed if the file of another module has changed."""
        now = time.monotonic()
        if now - self.looked < MODULES_S:
            return
        self.looked = now
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if name == "__main__" or not isinstance(file, str) or name in self.modules.get(self.folder, {}):
                continue
            stamp = file_stamp(file)
            if self.others.setdefault(file, stamp) != stamp:
                self.renew = "a module has changed"

    # ---- the end of a response ----

    def finish(self):
        if self.used is not None:
            vars(self.used).clear()  # breaks the circles between functions and their variables
            self.used = None
        self.base.restore()
        self.write_end()
        if not self.is_own(2):
            os.dup2(self.errors, 2)
        os.dup2(self.null, 0)
        try:
            while True:
                child, _ = os.waitpid(-1, os.WNOHANG)
                if child == 0:
                    self.say("child processes of a script still run; they can write into later responses, so this process ends")
                    os._exit(0)
        except ChildProcessError:
            pass
        self.look_at_modules()

    def start_anew(self):
        """Replaces the program by itself: the same process and the same streams, without threads and modules."""
        os.dup2(self.body, 0)
        os.set_inheritable(3, True)
        os.closerange(4, 256)
        environment = dict(self.base.environment)
        environment.update(self.own)
        os.execve(sys.executable, [sys.executable, *getattr(sys, "orig_argv", [None, __file__])[1:]], environment)


def guarded(run):
    """Runs it as python runs a program. Returns the exit status, and words if it failed."""
    try:
        run()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 255, None
        return 1, str(end.code)
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        error.__traceback__ = trace
        if sys.excepthook is not sys.__excepthook__:  # such as cgitb's
            try:
                sys.excepthook(type(error), error, trace)
                return 1, f"{type(error).__name__}: {error}"
            except Exception:
                pass
        return 1, "".join(traceback.format_exception(error))
    return 0, None


def check_language(path, first):
    if first.startswith(b"#!") and b"python" not in first or not first.startswith(b"#!") and not path.endswith(".py"):
        raise Refused(
            "this is no script of Python: its name does not end with .py, and its first line does not name python; "
            "see `run` and `cgi` in weir.toml"
        )
    for switch in first.split()[1:]:
        if switch.startswith(b"-") and switch not in (b"-u", b"-B", b"-E", b"-s"):
            raise Refused(f"the first line asks for `{os.fsdecode(switch)}`; serve this script with `cgi = true`")


def file_stamp(file):
    try:
        state = os.stat(file)
    except OSError:
        return None
    return state.st_ino, state.st_size, state.st_mtime_ns


if __name__ == "__main__":
    Engine().serve()
