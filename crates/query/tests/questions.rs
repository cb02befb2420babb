//! The tables of a run, and the saved questions, on a run that was recorded from a real server.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_objects::Table as Rules;
use weir_query::{Ended, Origin, Queries, QueryError, SAVED, TABLES, TABLES_HEADING, Watch, reference};
use weir_trace::{JoinedHost, JoinedHosts, Limits, Run, RunReader, Source};
use weir_wire::task::{NO_SYSCALL, Switch, lane_on_host, task_on_host};
use weir_wire::{Kind, Record, text_slots};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn patient() -> Watch {
    Arc::new(|_| true)
}

fn open(run: &Path) -> Queries {
    Queries::open(run, patient()).expect("the run opens")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("the run").flatten() {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a copy");
        }
    }
}

/// A run of Apache with PHP, whose four processes take turns at a locked file, recorded with locks, disk, timers, stacks
/// and Apache's phases. A copy, as tables are kept beside the segments.
fn recorded() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded"), folder.path());
    folder
}

/// An answer: its columns' names, and its rows by them.
struct Answer {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Answer {
    fn of(queries: &mut Queries, sql: &str) -> Self {
        let (mut names, mut rows) = (Vec::new(), Vec::new());
        let ended = queries
            .ask(sql, &mut |columns| names = columns.iter().map(|&name| name.to_owned()).collect(), &mut |row| {
                rows.push(
                    row.iter()
                        .map(|cell| match cell {
                            weir_query::Cell::Null => String::new(),
                            weir_query::Cell::Integer(number) => number.to_string(),
                            weir_query::Cell::Real(number) => number.to_string(),
                            weir_query::Cell::Text(text) => (*text).to_owned(),
                            weir_query::Cell::Bytes(_) => panic!("no table holds bytes"),
                        })
                        .collect(),
                );
                true
            })
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(ended, Ended::Whole { rows: rows.len() as u64 });
        Self { names, rows }
    }

    fn column(&self, name: &str) -> impl Iterator<Item = &str> {
        let at = self.names.iter().position(|one| one == name).unwrap_or_else(|| panic!("no column {name}"));
        self.rows.iter().map(move |row| row[at].as_str())
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        self.column(name).filter(|text| !text.is_empty()).map(|text| text.parse().expect("a number")).collect()
    }

    fn sum(&self, name: &str) -> f64 {
        self.numbers(name).iter().sum()
    }
}

fn number(queries: &mut Queries, sql: &str) -> f64 {
    let answer = Answer::of(queries, sql);
    answer.rows[0][0].parse().unwrap_or_else(|_| panic!("{sql}: {:?}", answer.rows))
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * one.abs().max(other.abs()).max(1.0)
}

#[test]
fn the_page_on_the_tables_is_true() {
    let path = root().join("docs/reference/sql.md");
    let page = fs::read_to_string(&path).expect("the page");
    let head = page.split(TABLES_HEADING).next().unwrap_or_default();
    let whole = format!("{}\n\n{}", head.trim_end(), reference());
    if std::env::var_os("WEIR_BLESS").is_some() {
        fs::write(&path, &whole).expect("the page is written");
        return;
    }
    assert!(page == whole, "docs/reference/sql.md differs from the tables; WEIR_BLESS=1 writes it");
}

#[test]
fn the_package_for_many_runs_asks_the_same() {
    let path = root().join("python/weir_lake/weir_lake/questions.json");
    let text = |text: &str| serde_json::Value::from(text.trim());
    let one =
        |saved: &weir_query::Saved| serde_json::json!({"name": saved.name, "asks": saved.asks, "sql": text(saved.sql)});
    let whole = format!("{:#}\n", serde_json::Value::Array(SAVED.iter().map(one).collect()));
    if std::env::var_os("WEIR_BLESS").is_some() {
        fs::write(&path, &whole).expect("the file is written");
    }
    assert_eq!(fs::read_to_string(&path).ok(), Some(whole), "WEIR_BLESS=1 writes it");
}

#[test]
fn every_table_has_the_columns_that_it_is_said_to_have() {
    let run = recorded();
    let mut queries = open(run.path());
    for table in TABLES {
        let answer = Answer::of(&mut queries, &format!("SELECT * FROM {}", table.name));
        assert_eq!(answer.names, table.columns.iter().map(|column| column.name).collect::<Vec<_>>(), "{}", table.name);
        // What is empty in this run: its server asks no others and has no rules.
        let may_be_empty = ["asked", "decisions"].contains(&table.name);
        assert!(may_be_empty || !answer.rows.is_empty(), "{} is empty", table.name);
    }
}

#[test]
fn the_parts_of_each_request_add_up() {
    let run = recorded();
    let mut queries = open(run.path());
    let wrong = "SELECT count(*) FROM (SELECT id, response_ns, sum(duration_ns) AS parts_ns FROM requests
        JOIN parts ON request_id = id GROUP BY id, response_ns) WHERE response_ns <> parts_ns";
    assert_eq!(number(&mut queries, wrong), 0.0);
    assert!(number(&mut queries, "SELECT count(*) FROM requests") > 100.0);
    assert_eq!(number(&mut queries, "SELECT min(joined) FROM requests"), 1.0);
    // The generator's own rows, read at once, are the same requests.
    let differ = "SELECT (SELECT sum(response_ns) FROM load_samples) - (SELECT sum(response_ns) FROM requests)";
    assert_eq!(number(&mut queries, differ), 0.0);
}

/// What must be so for the answer to a saved question, beside that it has rows.
fn holds(name: &str, answer: &Answer, queries: &mut Queries) {
    let mut ask = |sql: &str| number(queries, sql);
    let same = |one: f64, other: f64| assert!(near(one, other), "{name}: {one} is not {other}");
    match name {
        "slowest-requests" => {
            same(answer.numbers("response_ns")[0], ask("SELECT max(response_ns) FROM requests"));
            let pairs = answer.numbers("response_ns").into_iter().zip(answer.numbers("part_ns"));
            pairs.for_each(|(all, part)| assert!(part <= all, "{name}: {part} of {all}"));
        }
        "where-time-goes" => {
            same(answer.sum("percent"), 100.0);
            same(answer.sum("part_ns"), ask("SELECT sum(response_ns) FROM requests"));
        }
        "why-slow" => assert!(answer.numbers("slow_mean_ns")[0] > ask("SELECT avg(response_ns) FROM requests") / 16.0),
        "what-changed" => {
            let mean = ask("SELECT avg(response_ns) FROM requests WHERE half = 1");
            same(answer.sum("first_mean_ns"), mean);
            same(answer.sum("second_mean_ns") - mean, answer.sum("change_ns"));
        }
        "times-by-class" | "times-per-second" => {
            same(answer.sum("requests"), ask("SELECT count(*) FROM requests"));
            let [p50, p99, most] = ["p50_ns", "p99_ns", "max_ns"].map(|column| answer.numbers(column));
            assert!((0..p50.len()).all(|at| p50[at] <= p99[at] && p99[at] <= most[at]), "{name}");
            // By another way: half of the requests take at most the median.
            let class = "SELECT count(*) FROM requests WHERE class =
                (SELECT class FROM requests GROUP BY class ORDER BY count(*) DESC, class LIMIT 1)";
            if name == "times-by-class" {
                let below = ask(&format!("{class} AND response_ns <= {}", p50[0]));
                assert!(2.0 * below >= ask(class), "{below}");
            }
        }
        "outcomes" | "not-joined" => same(answer.sum("requests"), ask("SELECT count(*) FROM requests")),
        "cpu-by-class" => same(answer.sum("run_ns"), ask("SELECT sum(duration_ns) FROM parts WHERE part = 'run'")),
        "queueing-by-worker" => {
            same(answer.sum("queued_ns"), ask("SELECT sum(duration_ns) FROM parts WHERE part LIKE '%_queue'"));
        }
        "servers-behind" => assert!(answer.column("process").any(|process| process.contains("apache2"))),
        "lateness" => same(answer.numbers("requests")[0], ask("SELECT count(*) FROM load_samples")),
        "lock-holders" => {
            assert!(answer.column("holder").any(|holder| holder.contains("apache2")), "{:?}", answer.rows);
            assert!(answer.column("lock_name").any(|lock| lock.contains("shop.lock")), "{:?}", answer.rows);
        }
        "locks" => same(answer.sum("waits"), ask("SELECT count(*) FROM lock_waits")),
        "waits-for-cpu" => assert!(answer.sum("waited_ns") <= ask("SELECT sum(ready_ns) FROM tasks") + 1.0),
        "longest-waits" => {
            same(answer.numbers("duration_ns")[0], ask("SELECT max(duration_ns) FROM waits WHERE traced = 1"));
        }
        "cpu-by-process" => same(answer.sum("run_ns"), ask("SELECT sum(run_ns) FROM tasks")),
        "cpu-use" => {
            assert!(
                answer.numbers("percent").iter().all(|percent| (0.0..=100.0).contains(percent)),
                "{:?}",
                answer.rows
            );
        }
        "busiest-objects" => {
            same(answer.numbers("busy_ns")[0], ask("SELECT max(used_ns) FROM objects"));
            assert!(answer.column("class").any(|class| class == "cpu"), "{:?}", answer.rows);
            assert!(answer.column("interaction").any(|one| one == "conversation"), "{:?}", answer.rows);
        }
        "who-asked-whom" => {
            same(answer.numbers("all_used_ns")[0], answer.numbers("all_used_ns").into_iter().fold(0.0, f64::max));
            assert!(answer.sum("times") <= ask("SELECT count(*) FROM interactions"));
            let by_tasks = answer.column("asks").zip(answer.column("interaction"));
            assert!(by_tasks.into_iter().any(|(asks, one)| asks == "apache2" && one == "cpu"), "{:?}", answer.rows);
        }
        "hot-functions" => assert!(answer.column("function").all(|function| !function.is_empty())),
        "events-by-kind" => same(answer.sum("events"), ask("SELECT events FROM run")),
        _ => {}
    }
}

#[test]
fn every_saved_question_has_an_answer_that_holds() {
    let run = recorded();
    let mut queries = open(run.path());
    let mut empty = Vec::new();
    for question in SAVED {
        let answer = Answer::of(&mut queries, question.sql);
        assert!(
            answer
                .names
                .iter()
                .all(|name| name.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '_')),
            "{}: {:?}",
            question.name,
            answer.names
        );
        if answer.rows.is_empty() {
            empty.push(question.name);
        } else {
            holds(question.name, &answer, &mut queries);
        }
    }
    // What this run does not hold.
    assert_eq!(empty, EMPTY);
    assert!(SAVED.len() - EMPTY.len() >= 20);
}

/// Questions to which the recorded run has no rows: its server asks no others and has no rules.
const EMPTY: [&str; 2] = ["asked", "decisions"];

#[test]
fn interactions_add_up_to_their_objects_and_cpus_to_the_turns_on_them() {
    let run = recorded();
    let mut queries = open(run.path());
    let differ = "SELECT count(*) FROM objects LEFT JOIN (
            SELECT interaction, object_class, object_id, sum(used_ns) AS used_ns, sum(waited_ns) AS waited_ns
            FROM interactions GROUP BY interaction, object_class, object_id) AS told
        ON told.interaction = objects.interaction AND told.object_class = objects.class
            AND told.object_id IS objects.id
        WHERE coalesce(told.used_ns, 0) <> coalesce(objects.used_ns, 0)
            OR objects.waited_ns IS NOT NULL AND coalesce(told.waited_ns, 0) <> objects.waited_ns";
    assert_eq!(number(&mut queries, differ), 0.0);
    assert!(number(&mut queries, "SELECT count(*) FROM objects WHERE used_ns > 0") > 4.0);
    // Another fold of the same events, cut at the same edges: each turn on a CPU that has both ends.
    let turns = "SELECT count(*) FROM interactions JOIN slices ON cpu = object_id AND pid = requester_id
            AND slices.at_ns = accepted_ns AND duration_ns = used_ns
        WHERE interaction = 'cpu' AND finished_ns IS NOT NULL";
    let finished = number(&mut queries, "SELECT count(*) FROM interactions WHERE interaction = 'cpu' AND used_ns > 0");
    assert!(finished > 1000.0);
    assert_eq!(number(&mut queries, turns), finished);
    // The generator is outside of the run's server: each of its requests is an interaction with a task.
    let asked = "SELECT count(*) FROM interactions WHERE interaction = 'conversation' AND requester_class = 'client'
            AND used_ns IS NOT NULL";
    assert!(number(&mut queries, asked) >= number(&mut queries, "SELECT count(*) FROM requests"));
}

#[test]
fn bounds_of_time_choose_what_is_read_and_change_no_answer() {
    let run = recorded();
    let mut queries = open(run.path());
    let duration = number(&mut queries, "SELECT duration_ns FROM run") as i64;
    for table in TABLES {
        let Origin::Raw(time) = table.origin else { continue };
        for (from, to) in [(0, duration), (duration / 3, duration / 2), (-5, 7), (duration / 2, duration / 3)] {
            for (low, high) in [(">=", "<="), (">", "<")] {
                let count = |time: &str| {
                    format!("SELECT count(*) FROM {} WHERE {time} {low} {from} AND {time} {high} {to}", table.name)
                };
                let pushed = number(&mut queries, &count(time));
                // A sum is no column, so that all rows are read.
                let whole = number(&mut queries, &count(&format!("({time} + 0)")));
                assert_eq!(pushed, whole, "{}: {low} {from}, {high} {to}", table.name);
            }
        }
        let all = number(&mut queries, &format!("SELECT count(*) FROM {}", table.name));
        let some = number(
            &mut queries,
            &format!("SELECT count(*) FROM {0} WHERE {time} = (SELECT min({time}) FROM {0})", table.name),
        );
        assert_eq!(all > 0.0, some > 0.0, "{}", table.name);
    }
    assert_eq!(
        number(&mut queries, "SELECT count(*) FROM events WHERE at_ns > 1.5e300 OR at_ns < 'text' AND at_ns > NULL"),
        0.0
    );
}

#[test]
fn errors_name_what_is_wrong_and_what_would_be_right() {
    let run = recorded();
    let mut queries = open(run.path());
    let mut wrong = |sql: &str| queries.rows(sql).expect_err(sql).to_string();
    let column = wrong("SELECT respone_ns FROM requests");
    assert!(
        column.contains("\"respone_ns\"")
            && column.contains("did you mean response_ns?")
            && column.contains("requests has id, at_ns"),
        "{column}"
    );
    let table = wrong("SELECT * FROM request");
    assert!(
        table.contains("\"request\"") && table.contains("did you mean requests?") && table.contains("lock_waits"),
        "{table}"
    );
    let syntax = wrong("SELEC * FROM requests");
    assert!(syntax.contains("syntax error") && syntax.contains("SELECT count(*)"), "{syntax}");
    for change in [
        "DELETE FROM requests",
        "DELETE FROM requests RETURNING id",
        "DROP TABLE parts",
        "INSERT INTO run VALUES (1)",
        "ATTACH 'x' AS y",
        "PRAGMA page_size = 4096",
        "CREATE TABLE x (y)",
        "UPDATE parts SET part = ''",
        "VACUUM INTO 'x'",
    ] {
        let refused = queries.rows(change).expect_err(change);
        let is_refused = matches!(refused, QueryError::Refused { .. }) || change.starts_with("INSERT");
        assert!(is_refused, "{change}: {refused}");
    }
    let two = queries.rows("SELECT 1; SELECT 2").expect_err("two");
    assert!(matches!(two, QueryError::Refused { .. }), "{two}");
    assert!(queries.rows("  -- nothing").is_err());
    assert_eq!(queries.rows("SELECT 1 AS one;").expect("one"), [["1"]]);
    let saved = weir_query::saved("slowest-request").expect_err("there is none");
    assert!(saved.to_string().contains("did you mean slowest-requests?"), "{saved}");
}

#[test]
fn a_long_question_is_stopped() {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let watch: Watch = Arc::new(move |_| !asked.load(Ordering::Relaxed));
    let run = recorded();
    let mut queries = Queries::open(run.path(), watch).expect("the run opens");
    stop.store(true, Ordering::Relaxed);
    // Bounded, so that a question which is not stopped ends as well, with an answer.
    let long =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) SELECT count(*) FROM n";
    assert!(matches!(queries.rows(long), Err(QueryError::Stopped)));
}

#[test]
fn tables_are_made_once_and_anew_when_the_run_has_changed() {
    let folder = recorded();
    let count = |sql: &str| open(folder.path()).rows(sql).expect("an answer")[0][0].clone();
    let files = || -> BTreeMap<String, std::time::SystemTime> {
        let entries = fs::read_dir(folder.path().join("derived")).into_iter().flatten().flatten();
        entries
            .map(|entry| {
                (
                    entry.file_name().to_string_lossy().into_owned(),
                    entry.metadata().and_then(|data| data.modified()).expect("a time"),
                )
            })
            .collect()
    };
    assert_eq!(count("SELECT count(*) FROM events WHERE at_ns < 0"), "0");
    assert!(files().is_empty(), "a raw table needs no file: {:?}", files());
    let requests = count("SELECT count(*) FROM requests");
    let made = files();
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!((count("SELECT count(*) FROM requests"), files()), (requests, made.clone()));
    // A run that grows.
    let run = Run::create(folder.path()).expect("the run");
    let mut stream = run.stream(Source::Client, 77, Limits::default());
    stream
        .push(Record { time_ns: u64::MAX / 4, kind: Kind::ClientDropped as u16, ..Record::default() }, &[], None)
        .expect("a record");
    stream.finish().expect("a stream");
    assert_ne!(count("SELECT duration_ns FROM run"), "");
    let now = files();
    assert!(now.len() == 1 && now.keys().all(|name| !made.contains_key(name)), "{now:?}");
}

/// A run that was joined of two hosts' runs: a task of the same number on each, whose CPUs have the same numbers, too.
fn joined(folder: &Path) {
    let host = |name: &str, clock_error_ns| JoinedHost { name: name.to_owned(), clock_error_ns };
    let run = Run::create(folder).expect("a run");
    for (number, ran_ns) in [(0, 3_000), (1, 5_000)] {
        let mut stream = run.stream(Source::Kernel, number, Limits::default());
        let (lane, pid) = (lane_on_host(1, number), task_on_host(100, number));
        let switch = |time_ns: u64, prev: u32, next: u32| {
            Switch { prev, next, prev_state: 1, syscall: NO_SYSCALL, descriptor: 0 }.write(time_ns, lane)
        };
        let name = text_slots("worker");
        let a = u64::from(pid) | u64::from(pid) << 32;
        let named =
            Record { time_ns: 1, kind: Kind::TaskName as u16, slots: name.len() as u8, lane, a, ..Record::default() };
        stream.push(named, &name, None).expect("a record");
        // A disk of each host, which its records tell, and its number does not.
        let disk =
            Record { kind: Kind::DiskRequest as u16, a: u64::from(pid) | (8 << 20 | u64::from(number)) << 32, ..named };
        for record in
            [switch(1_000, 0, pid), Record { time_ns: 1_500, b: 400, slots: 0, ..disk }, switch(1_000 + ran_ns, pid, 0)]
        {
            stream.push(record, &[], None).expect("a record");
        }
        stream.finish().expect("a stream");
    }
    let hosts = vec![host("web", 0), host("store's", 70)];
    JoinedHosts { hosts, warnings: Vec::new(), damaged_bytes: 70, cut_segments: 2 }.write(folder).expect("the hosts");
}

#[test]
fn each_row_of_a_run_of_several_hosts_says_of_which_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    joined(folder.path());
    let mut queries = open(folder.path());
    let mut rows = |sql: &str| queries.rows(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let by_host =
        |store: &str, web: &str| [["store's".to_owned(), store.to_owned()], ["web".to_owned(), web.to_owned()]];
    assert_eq!(rows("SELECT host_name, run_ns FROM tasks ORDER BY 1"), by_host("5000", "3000"));
    assert_eq!(rows("SELECT host_name, duration_ns FROM slices ORDER BY 1"), by_host("5000", "3000"));
    assert_eq!(rows("SELECT host_name, count(*) FROM events GROUP BY 1 ORDER BY 1"), by_host("4", "4"));
    assert_eq!(rows("SELECT host_name, events FROM run ORDER BY 1"), by_host("4", "4"));
    assert_eq!(rows("SELECT host_name, clock_error_ns FROM run ORDER BY 1"), by_host("70", "0"));
    assert_eq!(
        rows("SELECT host_name, used_ns FROM objects WHERE interaction = 'cpu' ORDER BY 1"),
        by_host("5000", "3000")
    );
    for table in ["objects", "interactions", "disk_requests"] {
        let only = if table == "disk_requests" { "" } else { "WHERE interaction = 'disk'" };
        let time = if table == "disk_requests" { "duration_ns" } else { "used_ns" };
        let sql = format!("SELECT host_name, {time} FROM {table} {only} ORDER BY 1");
        assert_eq!(rows(&sql), by_host("400", "400"), "{table}");
    }
    // The times of both count from the first event of all.
    assert_eq!(rows("SELECT DISTINCT at_ns FROM slices"), [["999"]]);
    // Of a directory that holds the runs of hosts no single one is meant.
    let several = tempfile::tempdir().expect("a folder");
    fs::write(several.path().join("hosts"), "web\nstore\n").expect("a list");
    let refused = Queries::open(several.path(), patient()).expect_err("no run");
    assert!(matches!(refused, QueryError::Several(_)), "{refused}");
    fs::write(folder.path().join("joined.json"), "{").expect("written");
    let refused = Queries::open(folder.path(), patient()).expect_err("no list");
    assert!(matches!(refused, QueryError::Hosts { .. }), "{refused}");
}

#[test]
fn objects_by_other_rules_are_other_tables() {
    let run = recorded();
    let rules = |object: &str| {
        let mut rules = Rules::ours();
        let text = format!(
            "[[interaction]]\nname = \"sleep\"\npattern = \"detached\"\nby = \"object\"\n[[rule]]\nevent = \"sched_switch\"\n\
             when = \"prev_pid != 0 && prev_state != 0\"\ndo = \"accept\"\ninteraction = \"sleep\"\n\
             requester = \"task:prev_pid\"\nobject = \"{object}:prev_pid\"\n"
        );
        rules.extend(&text).expect("rules");
        rules
    };
    let asked = |rules: Rules, class: &str| {
        let mut queries = Queries::with_rules(run.path(), rules, patient()).expect("the run opens");
        let sql = format!(
            "SELECT (SELECT count(*) FROM objects WHERE class = '{class}'), count(*) FROM interactions
            WHERE object_class = '{class}'"
        );
        queries.rows(&sql).expect("an answer")[0]
            .iter()
            .map(|number| number.parse().expect("a number"))
            .collect::<Vec<u64>>()
    };
    let kept = || {
        let files = fs::read_dir(run.path().join("derived")).expect("tables").flatten();
        files.filter(|file| file.file_name().to_string_lossy().contains("-objects-")).count()
    };
    assert_eq!(asked(Rules::ours(), "bed"), [0, 0]);
    let beds = asked(rules("bed"), "bed");
    assert!(beds[0] > 1 && beds[1] > beds[0], "{beds:?}");
    // The tables by our own rules are still those.
    assert_eq!(asked(Rules::ours(), "bed"), [0, 0]);
    assert_eq!((asked(rules("bed"), "bed"), kept()), (beds.clone(), 2));
    // Of other rules the latest are kept, and no more.
    assert_eq!((asked(rules("cot"), "cot"), asked(rules("cot"), "bed")), (beds, vec![0, 0]));
    assert_eq!(kept(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Records of any kind with any operands make no table panic, and the raw table of events holds each of them.
    #[test]
    fn any_records_make_tables(
        records in proptest::collection::vec(
            (any::<u64>(), any::<u16>(), any::<u8>(), any::<u64>(), any::<u64>(), 0_usize..4),
            1..60,
        ),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let run = Run::create(folder.path()).expect("a run");
        let mut stream = run.stream(Source::Kernel, 0, Limits::default());
        let mut time_ns = 0_u64;
        for (step, kind, flags, a, b, slots) in &records {
            time_ns += step % 1_000_000;
            // Half of them of kinds that there are.
            let kinds = weir_wire::KINDS;
            let kind = if kind % 2 == 0 { kinds[usize::from(*kind) % kinds.len()].code } else { *kind };
            let (lane, slots_told) = ((*a % 5) as u32, *slots as u8);
            let record = Record { time_ns, kind, flags: *flags, slots: slots_told, lane, a: *a, b: *b };
            stream.push(record, &vec![[*a, *b, time_ns, 7]; *slots], None).expect("a record");
        }
        stream.finish().expect("a stream");
        prop_assert!(RunReader::open(folder.path()).is_ok());
        let mut queries = open(folder.path());
        for table in TABLES {
            let rows = queries.rows(&format!("SELECT * FROM {}", table.name));
            prop_assert!(rows.is_ok(), "{}: {:?}", table.name, rows.err());
        }
        let count = queries.rows("SELECT count(*) FROM events").expect("a count");
        prop_assert_eq!(count, [[records.len().to_string()]]);
    }
}
