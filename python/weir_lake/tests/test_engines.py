"""The same questions have the same answers on SQLite (`weir sql`), DuckDB and DataFusion; with SPARK set on Spark too.

`make test-lake` runs it; WEIR and WEIR_PARQUET name the programs. LAKE_RUNS makes a data set of so many runs of 100 hosts
by repeating one, which all engines are asked, too. The last lines are the verdict.
"""

import json
import math
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

import weir_lake

HERE = pathlib.Path(__file__).parent
RECORDED = HERE.parents[2] / "crates/query/tests/recorded"


def further():
    """The questions beside the saved ones, by their numbers."""
    text = (HERE / "further.sql").read_text(encoding="utf-8")
    paragraphs = [part.strip() for part in text.split("\n\n")]
    return {f"further {at}": part for at, part in enumerate(paragraphs) if part and not part.startswith("--")}


def comparable(rows):
    """Rows in an order of their own: NULL stands at different places in the engines' orders."""
    def cell(value):
        if value is None:
            return (0, "")
        if isinstance(value, (int, float)):
            return (1, float(f"{value:.9g}"))
        return (2, str(value))
    return sorted([tuple(cell(value) for value in row) for row in rows])


class Engines(unittest.TestCase):
    """A data set of two runs on each engine."""

    # What each engine was asked: how often its answer was the same, how often another one, and for how many seconds.
    verdict = {}

    def asked(self, engine, begun_s, is_same):
        """Notes an answer for the verdict."""
        same, other, seconds = self.verdict.get(engine, (0, 0, 0))
        self.verdict[engine] = (same + is_same, other + (not is_same), seconds + time.monotonic() - begun_s)

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.folder.name)
        cls.run_folder, cls.lake_folder = folder / "shop", folder / "lake"
        shutil.copytree(RECORDED, cls.run_folder)
        for name in ("shop", "shop-2"):
            command = [os.environ["WEIR_PARQUET"], cls.run_folder, cls.lake_folder, "--name", name]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        cls.engines = ["duckdb", "datafusion"] + [name for name in [os.environ.get("SPARK")] if name]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()
        for engine, (same, other, seconds) in cls.verdict.items():
            print(f"{engine}: {same} answers as expected, {other} others, {seconds:.0f} s")

    def sqlite(self, question, run=None):
        """Columns and rows by `weir sql`."""
        command = [os.environ["WEIR"], "sql", run or self.run_folder, question, "--json"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        rows = json.loads(done.stdout)
        return (list(rows[0]) if rows else None), [tuple(row.values()) for row in rows]

    def test_thirty_questions_have_one_answer(self):
        asked = {name: one.sql for name, one in weir_lake.questions().items()} | further()
        self.assertGreaterEqual(len(asked), 30)
        lakes = {name: weir_lake.open(self.lake_folder, engine=name) for name in self.engines}
        answered = 0
        for name, question in asked.items():
            columns, rows = self.sqlite(question)
            answered += bool(rows)
            for engine, lake in lakes.items():
                with self.subTest(question=name, engine=engine):
                    begun_s = time.monotonic()
                    answer = lake.ask_sql(question, run="shop")
                    self.asked(engine, begun_s, comparable(answer.rows) == comparable(rows))
                    if columns is not None:
                        self.assertEqual([column.lower() for column in answer.columns], columns)
                    self.assertEqual(comparable(answer.rows), comparable(rows))
        self.assertGreaterEqual(answered, 30)

    def test_all_runs_are_asked_at_once(self):
        for engine in self.engines:
            with self.subTest(engine=engine):
                lake = weir_lake.open(self.lake_folder, engine=engine)
                self.assertEqual([one.run for one in lake.runs()], ["shop", "shop-2"])
                answer = lake.sql("SELECT run, count(*) AS requests FROM requests GROUP BY run ORDER BY run")
                self.assertEqual([row[0] for row in answer.rows], ["shop", "shop-2"])
                self.assertEqual(answer.rows[0][1], answer.rows[1][1])
                one = lake.ask_sql("SELECT count(*) AS requests FROM requests", run="shop").rows[0][0]
                self.assertEqual((one, True), (answer.rows[0][1], one > 100))
                with self.assertRaisesRegex(weir_lake.LakeError, "2 runs fit"):
                    lake.ask("where-time-goes")

    def test_a_run_of_several_hosts_is_asked_as_one(self):
        folder = pathlib.Path(self.folder.name)
        run, lake_folder = folder / "joined", folder / "joined-lake"
        shutil.copytree(RECORDED, run)
        hosts = [{"name": "web", "clock_error_ns": 0}, {"name": "store", "clock_error_ns": 5}]
        (run / "joined.json").write_text(json.dumps({"hosts": hosts, "warnings": []}), encoding="utf-8")
        command = [os.environ["WEIR_PARQUET"], run, lake_folder, "--name", "shop"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        asked = [one.sql for one in weir_lake.questions().values()][:6] + [
            "SELECT host_name, count(*) AS events FROM events GROUP BY host_name",
            "SELECT host_name, events, lost, clock_error_ns FROM run",
            "SELECT host_name, class, count(*) AS objects, sum(used_ns) AS used_ns FROM objects GROUP BY host_name, class",
        ]
        for engine in self.engines:
            lake = weir_lake.open(lake_folder, engine=engine)
            self.assertEqual([one.host for one in lake.runs()], ["store", "unknown", "web"])
            for question in asked:
                with self.subTest(engine=engine, question=question):
                    _, rows = self.sqlite(question, run)
                    answer = lake.ask_sql(question, run="shop", host="*")
                    self.assertEqual(comparable(answer.rows), comparable(rows))
                    self.assertTrue(rows)
            # Each host's rows lie in its own partition.
            answer = lake.sql("SELECT host, host_name, count(*) AS tasks FROM tasks GROUP BY host, host_name")
            self.assertEqual([row[:2] for row in answer.rows], [("web", "web")])
            with self.assertRaisesRegex(weir_lake.LakeError, "3 runs fit"):
                lake.ask("where-time-goes")

    @unittest.skipUnless(os.environ.get("LAKE_RUNS"), "LAKE_RUNS is not set")
    def test_many_runs_of_many_hosts_are_answered_without_a_change(self):
        count, hosts = int(os.environ["LAKE_RUNS"]), 100
        many = pathlib.Path(self.folder.name) / "many"
        tables = [path for path in self.lake_folder.iterdir() if path.is_dir()]
        for table in tables:
            one = next(table.glob("host=*/day=*/run=shop"))
            for number in range(count):
                to = many / table.name / f"host=web-{number % hosts}" / one.parent.name / f"run=run-{number}"
                to.mkdir(parents=True)
                for file in one.iterdir():
                    os.link(file, to / file.name)
        one = weir_lake.open(self.lake_folder).ask_sql("SELECT count(*), sum(response_ns) FROM requests", run="shop").rows[0]
        questions = {
            "SELECT host, count(DISTINCT run) AS runs, count(*) AS requests, sum(response_ns) AS response_ns "
            "FROM requests GROUP BY host": (hosts, (count // hosts, one[0] * (count // hosts), one[1] * (count // hosts))),
            "SELECT count(*) AS requests, sum(response_ns) AS response_ns FROM requests": (1, (one[0] * count, one[1] * count)),
        }
        for engine in self.engines:
            lake = weir_lake.open(many, engine=engine)
            for question, (rows, last) in questions.items():
                with self.subTest(engine=engine, question=question):
                    begun_s = time.monotonic()
                    answer = lake.sql(question)
                    is_same = len(answer.rows) == rows and all(row[-len(last):] == last for row in answer.rows)
                    self.asked(f"{engine}, {count} runs", begun_s, is_same)
                    self.assertTrue(is_same, answer.rows[:3])

    def test_what_is_missing_is_told(self):
        with self.assertRaisesRegex(weir_lake.LakeError, "weir export"):
            weir_lake.open(self.run_folder)
        with self.assertRaisesRegex(weir_lake.LakeError, "duckdb, datafusion"):
            weir_lake.open(self.lake_folder, engine="oracle")
        with self.assertRaisesRegex(weir_lake.LakeError, "slowest-requests"):
            weir_lake.open(self.lake_folder).ask("fastest")

    def test_floats_are_told_apart(self):
        # The comparison itself: it must not take different answers for equal.
        self.assertNotEqual(comparable([(1, None)]), comparable([(1, 0)]))
        self.assertNotEqual(comparable([(1.0001,)]), comparable([(1.0002,)]))
        self.assertFalse(math.isnan(comparable([(1,)])[0][0][1]))


if __name__ == "__main__":
    unittest.main()
