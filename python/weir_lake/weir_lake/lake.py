"""A data set that is opened, and the questions that it answers."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import urllib.parse

from weir_lake import engines


class LakeError(Exception):
    """A data set or a question that cannot be had, with the remedy."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """An answer: the names of its columns, and its rows as tuples."""

    columns: list[str]
    rows: list[tuple]


@dataclasses.dataclass(frozen=True)
class Saved:
    """A saved question: its name, what it asks, and its SQL."""

    name: str
    asks: str
    sql: str


@dataclasses.dataclass(frozen=True, order=True)
class RunName:
    """A run of a data set."""

    host: str
    day: str
    run: str


def questions() -> dict[str, Saved]:
    """All saved questions by their names; `weir sql --list` has the same."""
    text = pathlib.Path(__file__).with_name("questions.json").read_text(encoding="utf-8")
    return {one["name"]: Saved(**one) for one in json.loads(text)}


def open(folder: str | pathlib.Path, engine: str = "duckdb") -> Lake:
    """Opens a data set.

    `engine` is `duckdb`, `datafusion`, or the master of a Spark cluster such as `spark://host:7077` or `local[2]`,
    which must reach the folder by the same path.

    Raises LakeError if the folder is no data set, or if the engine's package is missing.
    """
    folder = pathlib.Path(folder)
    tables = sorted(path.name for path in folder.glob("*") if any(path.glob("host=*/day=*/run=*/*.parquet")))
    if not tables:
        raise LakeError(f"{folder}: is no data set; `weir export RUN --parquet {folder}` writes one")
    try:
        return Lake(folder, tables, engines.start(engine))
    except ImportError as error:
        raise LakeError(f"engine {engine!r} needs the package {error.name}: pip install {error.name}") from error
    except ValueError as error:
        raise LakeError(str(error)) from error


class Lake:
    """A data set: tables as views, over all runs or over one."""

    def __init__(self, folder: pathlib.Path, tables: list[str], engine: engines.Engine) -> None:
        self.folder = folder
        self.tables = tables
        self._engine = engine
        self._viewed: list[RunName] | None | str = "none yet"

    def runs(self) -> list[RunName]:
        """The runs of the data set, in the order of host, day and name."""
        return sorted(self._folders())

    def _folders(self) -> dict[RunName, pathlib.Path]:
        """The runs with their folders within a table's."""
        found = {}
        for path in (self.folder / self.tables[0]).glob("host=*/day=*/run=*"):
            parts = [urllib.parse.unquote(part.split("=", 1)[1]) for part in path.parts[-3:]]
            found[RunName(*parts)] = path.relative_to(self.folder / self.tables[0])
        return found

    def sql(self, question: str) -> Answer:
        """Asks all runs; each table has the columns host, day and run as well."""
        self._view(None)
        return Answer(*self._engine.ask(question))

    def ask(self, name: str, run: str | None = None, host: str | None = None, day: str | None = None) -> Answer:
        """Asks a saved question to one run; of several, `run`, `host` and `day` choose it, as in `ask_sql`."""
        known = questions()
        if name not in known:
            raise LakeError(f"there is no saved question {name!r}; they are {', '.join(known)}")
        return self.ask_sql(known[name].sql, run=run, host=host, day=day)

    def ask_sql(self, question: str, run: str | None = None, host: str | None = None, day: str | None = None) -> Answer:
        """Asks one run a question that says nothing of runs, as `weir sql` does.

        A run of several hosts, recorded together, is asked as one with `host="*"`: its tables have the rows of all hosts,
        and say in `host_name` of which each is.
        """
        is_of_all_hosts = host == "*"
        asked = {"host": None if is_of_all_hosts else host, "day": day, "run": run}
        fitting = [one for one in self.runs() if all(value in (None, getattr(one, key)) for key, value in asked.items())]
        is_one = len({(one.day, one.run) for one in fitting}) == 1 and (is_of_all_hosts or len(fitting) == 1)
        if not is_one:
            some = "; ".join(f"{one.host} {one.day} {one.run}" for one in fitting[:5]) or "none"
            remedy = "choose one by run, host and day (host='*' for hosts that were recorded together), or ask all by sql()"
            raise LakeError(f"{len(fitting)} runs fit ({some}); {remedy}")
        self._view(fitting)
        return Answer(*self._engine.ask(question))

    def _view(self, hosts: list[RunName] | None) -> None:
        """Shows one run, of one host or of several, or all runs."""
        if self._viewed == hosts:
            return
        folders = self._folders()
        for table in self.tables:
            if hosts is not None:
                self._engine.view_of_run(table, [self.folder / table / folders[one] for one in hosts])
            else:
                self._engine.view(table, self.folder / table)
        self._viewed = hosts
