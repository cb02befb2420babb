"""A fault as a plan: what is started, what is planted, and what is the right answer. README.md has its keys."""

import re
import shutil
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent

# The causes are weir's parts of a response; crates/cli/tests/commands/causes_study.rs keeps them in step with its own.
CAUSES = (
    "generator", "connect", "request_transit", "accept_queue", "worker_queue", "run", "wait_cpu", "wait_disk",
    "wait_lock", "wait_process", "wait_network", "wait_timer", "stopped", "response_transit", "client_wakeup",
    "unattributed",
)

# Where programs are looked for: servers lie in sbin, and Go's compiler in a folder of its own.
PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin"

GROUPS = ("queues", "locks", "sleeps", "work", "cpu", "storage", "downstream", "network", "threads", "outside", "none")

# Who only asks and waits for its answer is innocent of every fault.
ALWAYS_INNOCENT = r"weir-load|^weir\b"


class PlanError(Exception):
    """A plan cannot be used; the text names the file, the mistake, and what would be right."""


@dataclass(frozen=True)
class Start:
    """A program that a plan starts, in its own process group."""

    run: str
    port: str = ""  # the plan goes on when this port listens
    file: str = ""  # the plan goes on when this file is there
    seconds: float = 0.0  # a pause before what comes next
    once: bool = False  # the plan goes on when the program has ended
    after: bool = False  # is started when the servers are there, with the load
    record: str = "auto"  # auto: by its port, else by its process; pid, port; no: it is not told to the tool
    runtime: str = ""  # flask, node: what instrumentation may be put around it
    normal: bool = False  # without the priority that other servers of the suite have
    environment: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Expected:
    """The right answer."""

    parts: tuple  # any of these causes is true
    culprit: str  # a regular expression that the first culprit matches; empty: no culprit is asked for
    share: tuple  # least and largest true share of the mean response
    innocent: str  # a regular expression: a culprit that matches it is wrong blame


@dataclass(frozen=True)
class Fault:
    """One plan."""

    name: str
    planted: str
    group: str
    needs: tuple
    use: tuple
    values: dict
    files: dict
    starts: tuple
    path: str
    scheme: str
    load: str
    packs: bool
    undisturbed: bool
    expected: Expected


def read(path):
    """Reads a plan; raises PlanError where a key is unknown, missing or impossible."""
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise PlanError(f"{path}: {error}") from error

    def fail(text):
        raise PlanError(f"{path}: {text}")

    def only(given, known, where):
        for key in given:
            if key not in known:
                fail(f"`{key}` is no key of {where}; known are {', '.join(sorted(known))}")

    keys = {"planted", "group", "needs", "use", "values", "files", "start", "load", "expect", "undisturbed"}
    only(table, keys, "a plan")
    for key in ("planted", "group", "start", "load", "expect"):
        if key not in table:
            fail(f"`{key}` is missing")
    if not re.match(r"\S.*\.$", table["planted"]) or len(table["planted"]) > 240:
        fail("`planted` is a sentence of at most 240 characters")
    if table["group"] not in GROUPS:
        fail(f"`group` is one of {', '.join(GROUPS)}")
    only(table["load"], {"path", "options", "scheme", "packs"}, "[load]")
    expected = expect(table["expect"], table["group"], only, fail)
    starts = []
    for start in table["start"]:
        only(start, set(Start.__dataclass_fields__), "[[start]]")
        if "run" not in start:
            fail("a [[start]] has no `run`")
        if start.get("record", "auto") not in ("auto", "pid", "port", "no"):
            fail("`record` is auto, pid, port or no")
        starts.append(Start(**start))
    if not any(told(start) == "port" for start in starts):
        fail("no [[start]] has a `port` that the tool is told")
    for name in table.get("use", ()):
        if not (HERE / "servers" / name).is_file():
            fail(f"`use` names `{name}`, which servers/ does not have")
    load = table["load"]
    return Fault(
        name=path.stem, planted=table["planted"], group=table["group"], needs=tuple(table.get("needs", ())),
        use=tuple(table.get("use", ())), values=table.get("values", {}), files=table.get("files", {}),
        starts=tuple(starts), path=load.get("path", "/"), scheme=load.get("scheme", "http"),
        load=load.get("options", "-c 2"), packs=load.get("packs", False),
        undisturbed=table.get("undisturbed", True), expected=expected,
    )


def expect(given, group, only, fail):
    only(given, {"parts", "culprit", "share", "innocent"}, "[expect]")
    for key in ("parts", "culprit", "share", "innocent"):
        if key not in given:
            fail(f"[expect] has no `{key}`")
    for part in given["parts"]:
        if part not in CAUSES:
            fail(f"`{part}` is no cause; known are {', '.join(CAUSES)}")
    if not given["parts"]:
        fail("`parts` names at least one cause")
    if not given["culprit"] and group != "none":
        fail("only a plan of the group `none` has no culprit")
    share = given["share"]
    if len(share) != 2 or not 0 <= share[0] < share[1] <= 1:
        fail("`share` is the least and the largest true share, such as [0.5, 1.0]")
    for key in ("culprit", "innocent"):
        try:
            re.compile(given[key])
        except re.error as error:
            fail(f"`{key}` is no regular expression: {error}")
    innocent = "|".join(text for text in (ALWAYS_INNOCENT, given["innocent"]) if text)
    return Expected(tuple(given["parts"]), given["culprit"], tuple(share), innocent)


def told(start):
    """How a tool is told of a program: by `port` or `pid`, or `no`."""
    if start.record != "auto":
        return start.record
    if start.once or start.after:
        return "no"
    return "port" if start.port else "pid"


def all_faults():
    """All plans, by name."""
    return [read(path) for path in sorted((HERE / "faults").glob("*.toml"))]


def missing(needs, have):
    """What this machine lacks of what is needed, in words; `have` holds what the runner has made, such as a venv."""
    for need in needs:
        if need in have:
            continue
        if need.startswith("/"):
            if not Path(need).exists():
                return f"{need} is missing"
        elif need in ("venv", "slow-fs"):
            return f"{need} could not be made"
        elif shutil.which(need, path=PATH) is None:
            return f"the program {need} is missing"
    return None
