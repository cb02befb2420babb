//! The store under what happens to files: many writes, their bounds, `kill -9`, a full disk, damage.
// scripts/test: serves

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use weir_measure::durations::Durations;
use weir_store::{Batch, Fold, Limits, Minute, Outcome, Reader, Record, Select, Series, Store, StoreError};
use weir_testkit::SmallDisk;

const MINUTE_MS: u64 = 60_000;

fn series(class: &str, user: &str) -> Series {
    Series { source: "shop".into(), class: class.into(), user: user.into() }
}

fn fold(durations: &[u64]) -> Fold {
    let mut fold = Fold::default();
    for duration in durations {
        fold.durations.push(*duration);
    }
    fold.outcomes[Outcome::Good as usize] = durations.len() as u64;
    (fold.blocked_ns, fold.queued_ns) = (3, 2);
    fold
}

fn minute(minute: u64, series: Series, durations: &[u64]) -> Minute {
    Minute { minute, series, fold: fold(durations) }
}

fn record(at_ms: u64, span: u64, body: &str) -> Record {
    Record {
        at_ms,
        series: series("pay", "ann"),
        duration_ns: 7,
        outcome: Outcome::Failed,
        trace: [u64::MAX, span / 10],
        span,
        body: body.into(),
    }
}

fn minutes(batch: &[Minute]) -> Batch {
    Batch { minutes: batch.to_vec(), ..Batch::default() }
}

fn records(batch: &[Record]) -> Batch {
    Batch { records: batch.to_vec(), ..Batch::default() }
}

/// All minutes, in their order.
fn all(path: &Path) -> Vec<Minute> {
    let mut found = Vec::new();
    let reader = Reader::open(path).expect("it is there");
    let read = reader.minutes(&Select::default(), |minute| {
        found.push(minute);
        true
    });
    read.expect("readable");
    found
}

#[test]
fn minutes_of_several_writers_merge() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("deep/er/store");
    let mut store = Store::open(&path, Limits::default()).expect("a store");
    assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    let (pay, look) = (series("pay", "ann"), series("look", ""));
    store.write(&minutes(&[minute(9, pay.clone(), &[10]), minute(8, look.clone(), &[1])]), 0).expect("written");
    drop(store);
    let mut store = Store::open(&path, Limits::default()).expect("the same store");
    store.write(&minutes(&[minute(9, pay.clone(), &[20, 30]), minute(9, look.clone(), &[5])]), 0).expect("written");
    let mut merged = fold(&[10]);
    merged.merge(&fold(&[20, 30]));
    assert_eq!((merged.blocked_ns, merged.queued_ns, merged.count()), (6, 4, 3));
    let found = all(&path);
    assert_eq!(found.iter().map(|minute| minute.minute).collect::<Vec<_>>(), [8, 9, 9]);
    assert!(found.contains(&Minute { minute: 9, series: pay.clone(), fold: merged.clone() }), "{found:?}");

    let reader = store.reader().expect("a second connection");
    let mut both = merged.clone();
    both.merge(&fold(&[5]));
    let from = Select { from_ms: Some(9 * MINUTE_MS + 7), ..Select::default() };
    let by_source = reader.summed(&from, |series| series.source.clone()).expect("readable");
    assert_eq!(by_source["shop"], both);
    let before = Select { to_ms: Some(9 * MINUTE_MS), ..Select::default() };
    assert_eq!(reader.summed(&before, Series::clone).expect("readable").keys().collect::<Vec<_>>(), [&look]);
    let of_ann = Select { user: Some("ann".into()), class: Some("pay".into()), ..Select::default() };
    assert_eq!(reader.summed(&of_ann, Series::clone).expect("readable")[&pay], merged);
}

#[test]
fn records_come_back_by_time_trace_and_number() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("store");
    let mut store = Store::open(&path, Limits::default()).expect("a store");
    let odd = "it's \"odd\";\u{0}\u{1f980} -- drop table record";
    let written = [record(5, 10, "a"), record(7, u64::MAX, odd), record(6, 11, "c")];
    let settings = vec![("number".to_owned(), "1".to_owned())];
    store.write(&Batch { records: written.to_vec(), settings, ..Batch::default() }, 0).expect("written");
    assert_eq!(store.setting("number").expect("readable").as_deref(), Some("1"));
    let reader = store.reader().expect("a second connection");
    let newest = reader.records(&Select::default(), 2).expect("readable");
    assert_eq!(newest, [written[1].clone(), written[2].clone()]);
    let early = Select { to_ms: Some(6), ..Select::default() };
    assert_eq!(reader.records(&early, 9).expect("readable"), [written[0].clone()]);
    assert_eq!(reader.trace([u64::MAX, 1], 9).expect("readable"), [written[0].clone(), written[2].clone()]);
    assert_eq!(reader.span(u64::MAX, 9).expect("readable"), [written[1].clone()]);
    assert_eq!(reader.span(3, 9).expect("readable"), []);
    // The same event once more takes its own place.
    store.write(&records(&[record(5, 10, "with its children")]), 0).expect("written");
    let again = reader.trace([u64::MAX, 1], 9).expect("readable");
    assert_eq!(again.iter().map(|record| &*record.body).collect::<Vec<_>>(), ["with its children", "c"]);
    store.set("rules", "one").and_then(|()| store.set("rules", "two")).expect("written");
    assert_eq!(store.setting("rules").expect("readable").as_deref(), Some("two"));
    assert_eq!(store.setting("none").expect("readable"), None);
}

#[test]
fn what_is_too_old_goes() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("store");
    let limits = Limits { age: Duration::from_secs(600), ..Limits::default() };
    let mut store = Store::open(&path, limits).expect("a store");
    let kept: Vec<Minute> = (0..30).map(|at| minute(at, series(&format!("c{at}"), ""), &[at])).collect();
    store.write(&minutes(&kept), 0).expect("written");
    let old = [record(19 * MINUTE_MS, 1, "old"), record(20 * MINUTE_MS, 2, "new")];
    store.write(&records(&old), 0).expect("written");
    let removed = store.retire(30 * MINUTE_MS).expect("removed");
    assert_eq!((removed.minutes_removed, removed.records_removed), (20, 1));
    assert_eq!(all(&path).iter().map(|minute| minute.minute).collect::<Vec<_>>(), (20..30).collect::<Vec<_>>());
    assert_eq!(store.retire(30 * MINUTE_MS).expect("removed").minutes_removed, 0);
}

/// Hours of many users, and long records, into one MiB: the newest stay.
#[test]
fn the_bound_on_bytes_holds() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("store");
    let limits = Limits { bytes: 1 << 20, ..Limits::default() };
    let mut store = Store::open(&path, limits).expect("a store");
    let (mut removed_minutes, mut removed_records, mut most) = (0, 0, 0);
    let body = "x".repeat(20_000);
    for at in 0..200 {
        let users = (0..60).map(|user| minute(at, series("pay", &format!("u{user}")), &[user, 1 << user, at]));
        let long = (0..3).map(|number| record(at * MINUTE_MS, at * 10 + number, &body));
        let batch = Batch { minutes: users.collect(), records: long.collect(), ..Batch::default() };
        let written = store.write(&batch, at * MINUTE_MS).expect("there is always room for the newest");
        removed_minutes += written.minutes_removed;
        removed_records += written.records_removed;
        most = most.max(fs::metadata(&path).expect("a file").len());
    }
    assert!(most <= 1 << 20, "the file had {most} bytes");
    assert!(store.used_bytes().expect("readable") > 1 << 19, "and the room is made use of");
    let left = all(&path);
    assert_eq!(left.len() as u64 + removed_minutes, 200 * 60, "what is gone was counted");
    assert_eq!(left.last().map(|minute| minute.minute), Some(199));
    assert!(left.windows(2).all(|pair| pair[0].minute <= pair[1].minute) && left[0].minute > 0);
    let reader = store.reader().expect("a second connection");
    let kept = reader.records(&Select::default(), 1000).expect("readable");
    assert_eq!(kept.len() as u64 + removed_records, 600);
    assert!(kept.len() > 10 && kept[0].at_ms == 199 * MINUTE_MS, "{} records", kept.len());
    // One that cannot fit at all is refused, and what is there stays readable.
    let giant = "x".repeat(2 << 20);
    let refused = store.write(&records(&[record(200 * MINUTE_MS, 9999, &giant)]), 200 * MINUTE_MS);
    assert!(matches!(refused, Err(StoreError::Full { .. })), "{refused:?}");
    store.write(&minutes(&[minute(201, series("pay", ""), &[1])]), 0).expect("it goes on");
}

/// What the writer that is killed does, in a process of its own.
const WRITER: &str = "WEIR_TEST_WRITES_TO";

#[test]
fn a_writer_to_be_killed() {
    let Some(path) = std::env::var_os(WRITER) else { return };
    let mut store = Store::open(Path::new(&path), Limits::default()).expect("a store");
    let mut number: u64 = store.setting("number").expect("readable").map_or(0, |text| text.parse().expect("a number"));
    loop {
        number += 1;
        let batch = Batch {
            minutes: vec![minute(7, series("one", ""), &[number]), minute(7, series("other", ""), &[number])],
            records: vec![record(number, number, "whole")],
            settings: vec![("number".to_owned(), number.to_string())],
        };
        store.write(&batch, 0).expect("written");
        println!("wrote {number}");
    }
}

#[test]
fn killed_at_any_time_nothing_is_half_written() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("store");
    let mut told = 0;
    for round in 0..15u64 {
        let mut writer = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "a_writer_to_be_killed", "--nocapture"])
            .env(WRITER, &path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(writer.stdout.take().expect("a pipe")).lines();
        let mut seen = 0;
        for line in lines {
            let line = line.expect("text");
            // The harness writes the test's name before the first.
            if let Some((_, number)) = line.split_once("wrote ") {
                told = number.parse().expect("a number");
                seen += 1;
            }
            if seen == 3 + round * 7 {
                // Not between two writes, but anywhere in the next ones.
                std::thread::sleep(Duration::from_micros(round * 331));
                writer.kill().expect("it is killed");
            }
        }
        let _ = writer.wait();
        assert!(seen >= 3 + round * 7, "it wrote");
        let mut store = Store::open(&path, Limits::default()).expect("it opens again");
        let number: u64 = store.setting("number").expect("readable").expect("it was set").parse().expect("a number");
        assert!(number >= told, "{number} of {told} that were told of");
        let counts: Vec<u64> = all(&path).iter().map(|minute| minute.fold.count()).collect();
        assert_eq!(counts, [number, number], "both or none");
        assert_eq!(store.reader().and_then(|reader| reader.span(number, 2)).expect("readable").len(), 1);
        store.retire(0).expect("writable");
    }
    let checked = Command::new("sqlite3").arg(&path).arg("pragma integrity_check").output();
    if let Ok(checked) = checked {
        assert_eq!(String::from_utf8_lossy(&checked.stdout).trim(), "ok");
    }
}

#[test]
fn a_full_disk_keeps_what_was_written_and_goes_on_when_there_is_room() {
    let Some(disk) = SmallDisk::mount(4) else { return };
    let path = disk.path().join("store");
    let mut store = Store::open(&path, Limits::default()).expect("a store");
    store.write(&minutes(&[minute(1, series("pay", ""), &[1])]), 0).expect("written");
    let ballast = disk.path().join("ballast");
    // Until nothing more goes in.
    let _ = fs::write(&ballast, vec![1u8; 8 << 20]);
    let body = "x".repeat(1000);
    let (mut next, mut last) = (1..10_000, 0);
    let refused = next.find_map(|number| {
        let mut batch = records(&[record(number, number, &body)]);
        batch.minutes.push(minute(1, series("pay", ""), &[number]));
        let written = store.write(&batch, 0);
        last = number;
        written.err()
    });
    let refused = refused.expect("the disk is full");
    assert!(matches!(refused, StoreError::Full { .. }) && refused.to_string().contains("make room"), "{refused}");
    let count = |path: &Path| all(path).iter().map(|minute| minute.fold.count()).sum::<u64>();
    assert_eq!(count(&path), last, "the first, and all up to the one that was refused");
    // Again and again: the error stays the same, and nothing of it is kept.
    for _ in 0..20 {
        let again = store.write(&minutes(&[minute(1, series("pay", &body), &[1])]), 0);
        assert!(matches!(again, Ok(_) | Err(StoreError::Full { .. })), "{again:?}");
    }
    let before = count(&path);
    fs::remove_file(&ballast).expect("there is room again");
    store.write(&minutes(&[minute(1, series("pay", ""), &[1])]), 0).expect("it goes on");
    assert_eq!(count(&path), before + 1);
    assert_eq!(store.reader().and_then(|reader| reader.span(last, 1)).expect("readable"), []);
}

#[test]
fn what_is_no_store_is_said_to_be_none() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("store");
    assert!(matches!(Reader::open(&path), Err(StoreError::NotOpened { .. })), "there is none");
    fs::write(&path, vec![b'x'; 9000]).expect("written");
    assert!(matches!(Store::open(&path, Limits::default()), Err(StoreError::Damaged { .. })));
    let (store, aside) = Store::open_or_begin_anew(&path, Limits::default()).expect("a new one");
    let aside = aside.expect("the old one is kept");
    assert_eq!((fs::read(&aside).expect("it is there").len(), all(&path).len()), (9000, 0));
    drop(store);
    let (_, none) = Store::open_or_begin_anew(&path, Limits::default()).expect("the same");
    assert_eq!(none, None);

    let sql = |path: &Path, sql: &str| {
        let connection = rusqlite::Connection::open(path).expect("a database");
        connection.execute_batch(sql).expect("it does as told");
    };
    let other = folder.path().join("other");
    sql(&other, "create table mine (a)");
    // What may be kept at a path is known without a change there.
    assert!(matches!(weir_store::check_store(&other), Err(StoreError::Foreign { .. })));
    for (name, is_good) in [("store", true), ("text", false), ("none", true), ("none/of/them", true), (".", false)] {
        let path = folder.path().join(name);
        if name == "text" {
            fs::copy(&aside, &path).expect("copied");
        }
        assert_eq!(weir_store::check_store(&path).is_ok(), is_good, "{name}");
    }
    assert!(!folder.path().join("none").exists());
    let ours = Store::open(&folder.path().join("ours"), Limits::default()).expect("a new one");
    weir_store::check_store(ours.path()).expect("its mark is in the log only");
    let begun = folder.path().join("begun");
    sql(&begun, "pragma auto_vacuum = incremental; pragma journal_mode = wal");
    assert!(fs::metadata(&begun).expect("a file").len() > 0);
    weir_store::check_store(&begun).expect("it has no tables yet");
    assert!(matches!(Store::open(&other, Limits::default()), Err(StoreError::Foreign { .. })));
    sql(&path, "pragma user_version = 2");
    let newer = Store::open(&path, Limits::default()).expect_err("of a later version");
    assert!(matches!(newer, StoreError::Newer { found: 2, known: 1, .. }), "{newer}");
    assert!(matches!(Reader::open(&path), Err(StoreError::Newer { .. })));
}

/// Bytes of the file turned over, or its end cut off: an error or other figures, but nothing breaks.
#[test]
fn damage_is_an_error_at_most() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("store");
    let mut store = Store::open(&path, Limits::default()).expect("a store");
    for at in 0..40 {
        let mut batch = minutes(&[minute(at, series("pay", &format!("u{at}")), &[at, 1 << at])]);
        batch.records.push(record(at, at, &"x".repeat(900)));
        store.write(&batch, 0).expect("written");
    }
    drop(store);
    let whole = fs::read(&path).expect("the log is written back with the last connection");
    let mut errors = 0;
    for round in 0..60usize {
        let mut damaged = whole.clone();
        for step in 0..40 {
            let at = (round * 7919 + step * 104_729) % damaged.len();
            damaged[at] = damaged[at].wrapping_add(1 + round as u8);
        }
        damaged.truncate(whole.len() - round % 3 * whole.len() / 4);
        let path = folder.path().join(format!("damaged{round}"));
        fs::write(&path, damaged).expect("written");
        let read = Reader::open(&path).and_then(|reader| {
            reader.records(&Select::default(), 1000)?;
            reader.summed(&Select::default(), Series::clone)
        });
        errors += u32::from(read.is_err());
        let written = Store::open(&path, Limits::default())
            .and_then(|mut store| store.write(&minutes(&[minute(3, series("pay", "u3"), &[1])]), 0));
        drop(written);
    }
    assert!(errors > 0, "some of it must be noticed");
}

#[test]
fn an_unreadable_histogram_hides_no_other_row() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("store");
    let mut store = Store::open(&path, Limits::default()).expect("a store");
    store.write(&minutes(&[minute(1, series("a", ""), &[9]), minute(1, series("b", ""), &[9])]), 0).expect("written");
    let connection = rusqlite::Connection::open(&path).expect("a database");
    connection.execute("update minute set durations = x'ff' where series = 1", []).expect("it does as told");
    let found = all(&path);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].fold.durations, Durations::default());
    assert_eq!(found[1].fold, fold(&[9]));
}

#[test]
fn views_are_there_for_people_who_ask_and_replace_those_of_before() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("store.db");
    let asked = |query: &str| {
        let connection = rusqlite::Connection::open(&path).expect("opens");
        connection.query_row(query, [], |row| row.get::<_, i64>(0)).map_err(|error| error.to_string())
    };
    let mut store = Store::open(&path, Limits::default()).expect("opens");
    store
        .write(&Batch { records: vec![record(7, 1, "{}"), record(9, 2, "{}")], ..Batch::default() }, 9)
        .expect("writes");
    store.set_views(&[("at", "select at_ms as ms from record")], 9).expect("sets");
    assert_eq!(asked("select sum(ms) from at"), Ok(16));
    let version = asked("pragma schema_version");
    store.set_views(&[("at", "select at_ms as ms from record")], 9).expect("sets");
    assert_eq!(asked("pragma schema_version"), version, "what is there already is not made anew");
    drop(store);
    let mut store = Store::open(&path, Limits::default()).expect("opens");
    store.set_views(&[("at", "select 2 * at_ms as ms from record")], 9).expect("sets");
    assert_eq!(asked("select sum(ms) from at"), Ok(32));
    assert!(store.set_views(&[("wrong", "select from")], 9).is_err());
}
