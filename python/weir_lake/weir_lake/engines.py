"""The engines that answer: each shows folders of Parquet files as views, and gives rows as tuples."""

from __future__ import annotations

import abc
import decimal
import pathlib

PARTITIONS = ("host", "day", "run")


class Engine(abc.ABC):
    """What answers questions in SQL."""

    @abc.abstractmethod
    def view(self, table: str, folder: pathlib.Path) -> None:
        """Shows a table of all runs, with the columns host, day and run."""

    @abc.abstractmethod
    def view_of_run(self, table: str, folders: list[pathlib.Path]) -> None:
        """Shows a table of one run, whose files lie in these folders, one for each host, without those columns."""

    @abc.abstractmethod
    def ask(self, question: str) -> tuple[list[str], list[tuple]]:
        """Columns and rows of an answer."""


def start(name: str) -> Engine:
    """The engine of a name; ImportError if its package is missing, ValueError if there is none of the name."""
    if name == "duckdb":
        return DuckDb()
    if name == "datafusion":
        return DataFusion()
    if name.startswith(("spark://", "local")):
        return Spark(name)
    raise ValueError(f"there is no engine {name!r}; they are duckdb, datafusion and spark://HOST:PORT")


def _plain(value):
    """Whole numbers of any width are int, others float."""
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def _quoted(path: pathlib.Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


class DuckDb(Engine):
    """DuckDB, in this process."""

    def __init__(self) -> None:
        import duckdb

        self._connection = duckdb.connect()

    def view(self, table: str, folder: pathlib.Path) -> None:
        files = _quoted(folder / "*" / "*" / "*" / "*.parquet")
        types = "{'host': VARCHAR, 'day': VARCHAR, 'run': VARCHAR}"
        self._connection.execute(
            f"CREATE OR REPLACE VIEW {table} AS "
            f"SELECT * FROM read_parquet({files}, hive_partitioning = true, hive_types = {types})"
        )

    def view_of_run(self, table: str, folders: list[pathlib.Path]) -> None:
        files = ", ".join(_quoted(folder / "*.parquet") for folder in folders)
        self._connection.execute(
            f"CREATE OR REPLACE VIEW {table} AS SELECT * FROM read_parquet([{files}], hive_partitioning = false)"
        )

    def ask(self, question: str) -> tuple[list[str], list[tuple]]:
        answer = self._connection.execute(question)
        columns = [column[0] for column in answer.description]
        return columns, [tuple(map(_plain, row)) for row in answer.fetchall()]


class DataFusion(Engine):
    """DataFusion, in this process."""

    def __init__(self) -> None:
        import datafusion

        self._datafusion = datafusion
        self._context = datafusion.SessionContext()

    def _register(self, table: str, folder: pathlib.Path, partitions: list) -> None:
        if self._context.table_exist(table):
            self._context.deregister_table(table)
        self._context.register_parquet(table, str(folder), table_partition_cols=partitions)

    def view(self, table: str, folder: pathlib.Path) -> None:
        import pyarrow

        self._register(table, folder, [(name, pyarrow.string()) for name in PARTITIONS])

    def view_of_run(self, table: str, folders: list[pathlib.Path]) -> None:
        if len(folders) == 1:
            self._register(table, folders[0], [])
            return
        # A table has one folder here: those of several hosts are put together by a view.
        hosts = [f"{table}_of_host_{number}" for number in range(len(folders))]
        for name, folder in zip(hosts, folders, strict=True):
            self._register(name, folder, [])
        if self._context.table_exist(table):
            self._context.deregister_table(table)
        all_hosts = " UNION ALL ".join(f"SELECT * FROM {name}" for name in hosts)
        self._context.sql(f"CREATE VIEW {table} AS {all_hosts}")

    def ask(self, question: str) -> tuple[list[str], list[tuple]]:
        answer = self._context.sql(question)
        columns = list(answer.schema().names)
        rows: list[tuple] = []
        for batch in answer.collect():
            # By position, as two columns may have one name.
            values = [batch.column(index).to_pylist() for index in range(batch.num_columns)]
            rows.extend(tuple(map(_plain, row)) for row in zip(*values, strict=True))
        return columns, rows


class Spark(Engine):
    """Spark, on a cluster or in this process."""

    _SETTINGS = {
        # The names of hosts, days and runs are texts, also those that look like numbers.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        # Without it each step of a question is 200 tasks, which take longer to hand out than to run; Spark joins and splits
        # what it is to shuffle by size.
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.enabled": "false",
    }

    def __init__(self, master: str) -> None:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).appName("weir_lake")
        for key, value in self._SETTINGS.items():
            builder = builder.config(key, value)
        self._session = builder.getOrCreate()

    def view(self, table: str, folder: pathlib.Path) -> None:
        self._session.read.parquet(str(folder)).createOrReplaceTempView(table)

    def view_of_run(self, table: str, folders: list[pathlib.Path]) -> None:
        whole = None
        for folder in folders:
            # The files themselves: of a folder Spark would take the partitions for columns.
            files = [str(path) for path in sorted(folder.glob("*.parquet"))]
            of_host = self._session.read.option("basePath", str(folder)).parquet(*files)
            whole = of_host if whole is None else whole.unionByName(of_host)
        whole.createOrReplaceTempView(table)

    def ask(self, question: str) -> tuple[list[str], list[tuple]]:
        answer = self._session.sql(question)
        return list(answer.columns), [tuple(map(_plain, row)) for row in answer.collect()]
