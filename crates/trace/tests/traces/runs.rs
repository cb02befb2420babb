//! Run directories: bounds, the manifest, `run.toml`, and directories that are something else.

use crate::support;

use std::fs;
use std::path::Path;
use weir_trace::{Cost, Entry, Limits, OpenRunError, Run, RunReader, Source, WriteError, parse_manifest};
use weir_wire::Record;

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn numbered(number: u64) -> Record {
    Record { time_ns: number, kind: 0x102, a: number, ..Record::default() }
}

#[test]
fn a_stream_rotates_and_keeps_its_bound() {
    let directory = directory();
    let run = Run::create(directory.path()).expect("a run");
    // A block of ten records takes 384 bytes, so a segment holds two and a stream eight.
    let limits = Limits { block_slots: 10, segment_bytes: 1000, stream_bytes: 4000 };
    let mut stream = run.stream(Source::Kernel, 3, limits);
    let size = || -> u64 {
        let files = fs::read_dir(directory.path().join("segments")).expect("a folder");
        files.map(|file| file.expect("a file").metadata().expect("its size").len()).sum()
    };
    for number in 0..1000 {
        stream.push(numbered(number), &[], None).expect("it is written");
        assert!(size() <= limits.stream_bytes);
    }
    let written = stream.finish().expect("it is written");
    let reader = RunReader::open(directory.path()).expect("a run");
    let mut kept = Vec::new();
    let mut merge = reader.merge();
    merge.each(|sourced| {
        kept.push(sourced.record.a);
        true
    });
    assert!(kept.len() >= 60, "the newest fill the bound: {}", kept.len());
    assert!(kept.iter().copied().eq(1000 - kept.len() as u64..1000), "the oldest went first");
    assert_eq!(written.records, 1000);
    assert_eq!(written.lost, 1000 - kept.len() as u64, "what was removed counts as lost");

    let removed: u64 =
        reader.entries.iter().map(|entry| if let Entry::Removed { records, .. } = entry { *records } else { 0 }).sum();
    assert_eq!(removed, written.lost, "the manifest tells what was removed");
    let there = |file: &str| directory.path().join("segments").join(file).exists();
    let is_removed =
        |name: &str| reader.entries.iter().any(|entry| matches!(entry, Entry::Removed { file, .. } if file == name));
    for entry in &reader.entries {
        if let Entry::Segment { file, bytes, records, first_ns, last_ns, .. } = entry {
            assert!(there(file) != is_removed(file), "{file} is there or told as removed");
            assert_eq!((*records, *last_ns - *first_ns, *bytes), (20, 19, 768));
        }
    }
    // The losses that blocks tell add up to what is missing, less those of blocks that were removed later.
    assert!(merge.damage().lost > 0);
}

#[test]
fn streams_of_one_name_do_not_collide() {
    let directory = directory();
    let limits = Limits { block_slots: 1, segment_bytes: 200, stream_bytes: 600 };
    let run = Run::create(directory.path()).expect("a run");
    // The first removes its oldest segments, whose names the second must not take.
    for _ in 0..3 {
        let again = Run::create(directory.path()).expect("the run is joined");
        let (mut a, mut b) = (run.stream(Source::Client, 0, limits), again.stream(Source::Client, 0, limits));
        for number in 0..50 {
            a.push(numbered(number), &[], None).expect("it is written");
            b.push(numbered(number), &[], None).expect("it is written");
        }
        a.finish().expect("it is written");
        b.finish().expect("it is written");
    }
    let records = support::merged(directory.path());
    assert!(records.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns), "streams were mixed");
    assert_eq!(records.iter().filter(|record| record.a == 49).count(), 6);
}

#[test]
fn absurd_limits_are_brought_within_bounds() {
    let directory = directory();
    let run = Run::create(directory.path()).expect("a run");
    for (lane, block_slots) in [0, 1, usize::MAX].into_iter().enumerate() {
        for bytes in [0, u64::MAX] {
            let limits = Limits { block_slots, segment_bytes: bytes, stream_bytes: u64::MAX };
            let mut stream = run.stream(Source::Kernel, lane as u32, limits);
            let count = if block_slots > 1 { 200_000 } else { 100 };
            for number in 0..count {
                stream.push(numbered(number), &[[1; 4]; 1], None).expect("it is written");
            }
            stream.finish().expect("it is written");
        }
    }
    let mut merge = RunReader::open(directory.path()).expect("a run").merge();
    let mut records = 0;
    merge.each(|_| {
        records += 1;
        true
    });
    assert_eq!((records, merge.damage().bytes), (2 * (200_000 + 200), 0));
}

#[test]
fn what_was_pushed_is_written_without_finish() {
    let directory = directory();
    let run = Run::create(directory.path()).expect("a run");
    let mut stream = run.stream(Source::Kernel, 0, Limits::default());
    stream.push(numbered(1), &[], None).expect("it is held");
    drop(stream);
    assert_eq!(support::merged(directory.path()), [numbered(1)]);
}

#[test]
fn run_toml_says_who_recorded_what_when() {
    let directory = directory();
    let run = Run::create(directory.path()).expect("a run");
    run.begin(Source::Kernel, "1.2.3", vec!["weir".into(), "record".into()], Some("sockets"), None).expect("noted");
    run.begin(Source::Client, "1.2.3", vec!["weir".into(), "load".into()], None, Some(7)).expect("noted");
    let cost = Cost { events: 10, bytes: 320, lost: 1, cpu_seconds: 0.5 };
    run.end(Source::Client, cost, vec!["a note".into()]).expect("noted");
    let text = fs::read_to_string(directory.path().join("run.toml")).expect("run.toml");
    let table: toml::Table = text.parse().expect("TOML");
    assert_eq!(table["weir"].as_str(), Some("1.2.3"));
    let host = table["host"].as_table().expect("the host");
    for key in ["name", "machine_id", "boot_id", "kernel", "cpus"] {
        assert!(host.contains_key(key), "{key} is missing in {text}");
    }
    let sources = table["source"].as_array().expect("the sources");
    assert_eq!(sources.len(), 2);
    assert_eq!(sources[0]["rung"].as_str(), Some("sockets"));
    assert_eq!(sources[1]["seed"].as_integer(), Some(7));
    assert_eq!(sources[1]["command"].as_array().map(Vec::len), Some(2));
    assert_eq!(sources[1]["pid"].as_integer(), Some(i64::from(std::process::id())));
    assert_eq!(sources[1]["cost"]["events"].as_integer(), Some(10));
    assert!(sources[0].get("cost").is_none(), "a source that has not ended has no cost yet");
    let pairs = |index: usize| sources[index]["clock_pairs_ns"].as_array().expect("pairs").len();
    assert_eq!((pairs(0), pairs(1)), (1, 2));
    let left: Vec<_> =
        fs::read_dir(directory.path()).expect("a folder").map(|file| file.expect("a file").file_name()).collect();
    assert_eq!(left.len(), 3, "run.toml, the manifest, segments and nothing else: {left:?}");

    let reader = RunReader::open(directory.path()).expect("a run");
    assert_eq!((reader.rung(), reader.cost(Source::Client)), (Some("sockets"), cost));
    assert_eq!(reader.cost(Source::Kernel), Cost::default());
}

fn entry() -> Entry {
    Entry::Removed { file: "a.seg".into(), records: 3 }
}

#[test]
fn a_cut_line_of_the_manifest_is_passed_over() {
    let directory = directory();
    let run = Run::create(directory.path()).expect("a run");
    run.note(&entry()).expect("noted");
    let manifest = directory.path().join("manifest.jsonl");
    let line = fs::read_to_string(&manifest).expect("a manifest");
    for cut in 1..line.len() {
        fs::write(&manifest, format!("{line}{}", &line[..cut])).expect("written");
        let reader = RunReader::open(directory.path()).expect("a run");
        let told = if cut == line.len() - 1 { (vec![entry(), entry()], 0) } else { (vec![entry()], 1) };
        assert_eq!((reader.entries, reader.manifest_cut), told, "cut at {cut}");
        // A writer that goes on does not add to the half line.
        run.note(&entry()).expect("noted");
        let entries = RunReader::open(directory.path()).expect("a run").entries;
        assert_eq!(entries.len(), if cut == line.len() - 1 { 3 } else { 2 }, "cut at {cut}");
    }
}

#[test]
fn a_manifests_foreign_line_is_named() {
    let directory = directory();
    let run = Run::create(directory.path()).expect("a run");
    run.note(&entry()).expect("noted");
    let manifest = directory.path().join("manifest.jsonl");
    for foreign in ["hello", "{\"entry\":\"removed\",\"file\":3}", "{\"file\":\"x\"}", "[1,2]"] {
        let text = format!("\n{foreign}\n");
        let good = fs::read(&manifest).expect("a manifest");
        fs::write(&manifest, [&good[..], text.as_bytes()].concat()).expect("written");
        let error = RunReader::open(directory.path()).expect_err("a foreign line");
        assert!(matches!(error, OpenRunError::Manifest { line: 3, .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains("manifest.jsonl:3:") && message.contains("remove the line"), "{message}");
        fs::write(&manifest, good).expect("written");
    }
}

#[test]
fn entries_of_a_later_weir_are_passed_over() {
    let later = b"{\"entry\":\"moon_phase\",\"phase\":0.5}\n{\"entry\":\"removed\",\"file\":\"a.seg\",\"records\":3,\"why\":\"later\"}\n\xff\n";
    let path = Path::new("manifest.jsonl");
    let manifest = parse_manifest(&later[..later.len() - 2], path).expect("entries");
    assert_eq!((manifest.entries, manifest.cut, manifest.later), (vec![entry()], 0, 1));
    assert!(parse_manifest(later, path).is_err(), "bytes that are no text are no entry");
}

#[test]
fn directories_of_something_else_are_left_alone() {
    let refused = |make: &dyn Fn(&Path)| {
        let directory = directory();
        make(directory.path());
        let error = Run::create(directory.path()).expect_err("it is refused");
        assert!(matches!(error, WriteError::NotEmpty(_)), "{error}");
        assert!(error.to_string().contains(&*directory.path().to_string_lossy()));
        assert!(error.to_string().contains("name a new one"));
    };
    let file = |path: &Path, name: &str, text: &str| fs::write(path.join(name), text).expect("written");
    refused(&|path| file(path, "thesis.tex", "x"));
    refused(&|path| file(path, "manifest.jsonl", "{\"chrome\": true}\n"));
    refused(&|path| {
        fs::create_dir(path.join("segments")).expect("made");
        file(&path.join("segments"), "holiday.mp4", "x");
    });
    let directory = directory();
    file(directory.path(), "file", "x");
    let path = directory.path().join("file");
    let message = Run::create(&path).expect_err("a file is no directory").to_string();
    assert!(message.contains(&*path.to_string_lossy()), "{message}");
}

#[test]
fn begun_runs_are_joined() {
    let directory = directory();
    fs::create_dir(directory.path().join("segments")).expect("made");
    fs::write(directory.path().join("segments/client-1-0.000001.seg"), "").expect("written");
    let run = Run::create(directory.path()).expect("a run whose writer was killed before its first entry");
    fs::write(directory.path().join("manifest.jsonl"), "{\"entry\":\"sou").expect("written");
    Run::create(directory.path()).expect("a run whose writer was killed in its first entry");
    run.begin(Source::Client, "1", Vec::new(), None, None).expect("noted");
    fs::write(directory.path().join("report.html"), "x").expect("written");
    Run::create(directory.path()).expect("derived files do no harm");
    assert_eq!(RunReader::open(directory.path()).expect("a run").entries.len(), 1);
}

#[test]
fn what_is_no_run_says_so() {
    let directory = directory();
    let open = |path: &Path| RunReader::open(path).expect_err("no run");
    assert!(matches!(open(&directory.path().join("nowhere")), OpenRunError::Missing(_)));
    assert!(matches!(open(directory.path()), OpenRunError::NotARun(_)));
    fs::write(directory.path().join("segments"), "a file").expect("written");
    assert!(matches!(open(directory.path()), OpenRunError::NotARun(_)));
    fs::remove_file(directory.path().join("segments")).expect("removed");
    fs::create_dir(directory.path().join("segments")).expect("made");
    assert!(matches!(open(directory.path()), OpenRunError::NotARun(_)));
    // A file that only looks like a segment is read, and refused by its name.
    fs::write(directory.path().join("segments/x.seg"), "something else altogether").expect("written");
    let mut merge = RunReader::open(directory.path()).expect("it has a segment").merge();
    merge.each(|_| true);
    assert!(merge.damage().refused[0].contains("x.seg: not a weir segment"), "{:?}", merge.damage());
}

#[test]
fn a_segment_that_vanishes_costs_itself_only() {
    let directory = directory();
    let run = Run::create(directory.path()).expect("a run");
    let limits = Limits { block_slots: 1, segment_bytes: 1, ..Limits::default() };
    let mut stream = run.stream(Source::Kernel, 0, limits);
    // More segments than a process may have descriptors, too.
    for number in 0..3000 {
        stream.push(numbered(number), &[], None).expect("it is written");
    }
    stream.finish().expect("it is written");
    let mut merge = RunReader::open(directory.path()).expect("a run").merge();
    let victim = fs::read_dir(directory.path().join("segments")).expect("a folder").next().expect("a segment");
    fs::remove_file(victim.expect("a file").path()).expect("removed");
    let mut records = 0;
    merge.each(|_| {
        records += 1;
        true
    });
    assert_eq!((records, merge.damage().refused.len()), (2999, 1), "{:?}", merge.damage());
}
