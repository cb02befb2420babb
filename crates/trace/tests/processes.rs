//! Runs and processes: several at a time, killed ones, full disks, and the memory that reading takes.
// scripts/test: serves

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weir_testkit::require;
use weir_trace::{Entry, Limits, Run, RunReader, Source, WriteError};
use weir_wire::Record;

const ROLE: &str = "WEIR_TRACE_TEST_ROLE";
const DIRECTORY: &str = "WEIR_TRACE_TEST_DIRECTORY";

/// What the other tests start this very program for; alone it has no part to play.
#[test]
fn a_process_of_its_own() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let directory = PathBuf::from(std::env::var_os(DIRECTORY).expect("a directory"));
    match role.as_str() {
        "join" => join(&directory),
        "write until killed" => write_until_killed(&directory),
        "fill" => fill(&directory),
        "read" => read(&directory),
        other => panic!("no such role: {other}"),
    }
}

fn this_program(role: &str, directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "a_process_of_its_own", "--nocapture"]);
    command.env(ROLE, role).env(DIRECTORY, directory).stdout(Stdio::piped());
    command
}

fn numbered(number: u64) -> Record {
    Record { time_ns: number, kind: 0x102, a: number, ..Record::default() }
}

fn segments(directory: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(directory.join("segments")).expect("a folder");
    files.map(|file| file.expect("a file").path()).collect()
}

fn join(directory: &Path) {
    let run = Run::create(directory).expect("the run is made or joined");
    run.begin(Source::Client, "1", vec!["x".repeat(3000)], None, None).expect("noted");
    let mut stream = run.stream(Source::Client, 0, Limits { block_slots: 2, segment_bytes: 200, ..Limits::default() });
    for number in 0..300 {
        stream.push(numbered(number), &[], None).expect("it is written");
    }
    stream.finish().expect("it is written");
    run.end(Source::Client, weir_trace::Cost::default(), Vec::new()).expect("noted");
}

#[test]
fn several_processes_write_to_one_run() {
    let temporary = tempfile::tempdir().expect("a directory");
    let directory = temporary.path().join("deep/run");
    let children: Vec<_> = (0..6).map(|_| this_program("join", &directory).spawn().expect("it starts")).collect();
    for child in children {
        assert!(child.wait_with_output().expect("it ends").status.success());
    }
    let reader = RunReader::open(&directory).expect("every line of the manifest is whole");
    let count = |wanted: fn(&Entry) -> bool| reader.entries.iter().filter(|entry| wanted(entry)).count();
    assert_eq!(count(|entry| matches!(entry, Entry::Source { command, .. } if command[0].len() == 3000)), 6);
    assert_eq!(count(|entry| matches!(entry, Entry::End { .. })), 6);
    assert_eq!(count(|entry| matches!(entry, Entry::Segment { records: 2, .. })), 900);
    let records = support::merged(&directory);
    assert_eq!(records.len(), 1800);
    assert!(records.chunks(6).enumerate().all(|(number, six)| six.iter().all(|record| record.a == number as u64)));
    let summary: toml::Table =
        fs::read_to_string(directory.join("run.toml")).expect("run.toml").parse().expect("whole");
    let sources = summary["source"].as_array().expect("sources");
    assert_eq!(sources.iter().filter(|source| source.get("cost").is_some()).count(), 6, "the last summary is complete");
}

fn write_until_killed(directory: &Path) {
    let run = Run::create(directory).expect("a run");
    run.begin(Source::Kernel, "1", Vec::new(), None, None).expect("noted");
    let mut stream =
        run.stream(Source::Kernel, 0, Limits { block_slots: 100, segment_bytes: 100_000, ..Limits::default() });
    for number in 0.. {
        stream.push(numbered(number), &[], None).expect("it is written");
        if number % 1000 == 999 {
            stream.flush().expect("it is written");
            println!("flushed {}", number + 1);
        }
    }
}

#[test]
fn what_a_killed_writer_flushed_is_readable() {
    for round in 1..=5 {
        let temporary = tempfile::tempdir().expect("a directory");
        let mut child = this_program("write until killed", temporary.path()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut flushed = 0;
        for line in lines {
            let line = line.expect("a line");
            if let Some(number) = line.strip_prefix("flushed ") {
                flushed = number.parse().expect("a number");
                if flushed >= round * 40_000 {
                    break;
                }
            }
        }
        child.kill().expect("it is killed");
        child.wait().expect("it ends");
        // As if it had been killed in the middle of a line as well.
        let manifest = temporary.path().join("manifest.jsonl");
        let mut text = fs::read(&manifest).expect("a manifest");
        text.extend(b"{\"entry\":\"segment\",\"fi");
        fs::write(&manifest, text).expect("written");

        let records = support::merged(temporary.path());
        assert!(records.len() as u64 >= flushed, "{} of {flushed} records", records.len());
        assert!(records.iter().enumerate().all(|(number, record)| *record == numbered(number as u64)));
        // The next one goes on with the run.
        let run = Run::create(temporary.path()).expect("the run is joined");
        run.begin(Source::Client, "1", Vec::new(), None, None).expect("noted");
        let reader = RunReader::open(temporary.path()).expect("a run");
        assert!(matches!(reader.entries.last(), Some(Entry::Source { source, .. }) if source == "client"));
    }
}

/// Writes until the system refuses, and checks the error and what is readable then; the parent has set the limit.
fn fill(directory: &Path) {
    let ballast = directory.join("ballast");
    fs::write(&ballast, vec![1; 100_000]).expect("written");
    let run = Run::create(&directory.join("run")).expect("a run");
    let mut stream =
        run.stream(Source::Kernel, 0, Limits { block_slots: 1000, segment_bytes: 600_000, ..Limits::default() });
    let mut failed = 0;
    let mut records = 0;
    for number in 0..200_000 {
        records += 1;
        if let Err(error) = stream.push(numbered(number), &[], None) {
            let WriteError::Io { path, .. } = &error else { panic!("{error}") };
            assert!(path.starts_with(directory) && error.to_string().contains(&*path.to_string_lossy()), "{error}");
            assert!(error.to_string().contains("what was recorded before stays readable"), "{error}");
            failed += 1;
            if failed == 3 {
                break;
            }
        }
    }
    assert_eq!(failed, 3, "the limit was met");
    let written = stream.written();
    assert_eq!(written.records + written.lost, records, "what is not written is lost");
    let readable = support::merged(run.directory());
    assert_eq!(readable.len() as u64, written.records);
    assert!(readable.iter().enumerate().all(|(number, record)| record.a == number as u64));
    let mut merge = RunReader::open(run.directory()).expect("a run").merge();
    merge.each(|_| true);
    assert_eq!((merge.damage().bytes, merge.damage().cut_segments), (0, 0), "no half block is left");

    // With room again the stream goes on, and its next block tells what was lost.
    fs::remove_file(&ballast).expect("removed");
    lift_the_limit();
    stream.push(numbered(1_000_000), &[], None).expect("it is held");
    let last = stream.finish().expect("there is room again");
    let mut merge = RunReader::open(run.directory()).expect("a run").merge();
    let mut latest = 0;
    merge.each(|sourced| {
        latest = sourced.record.a;
        true
    });
    assert_eq!((latest, merge.damage().lost, merge.damage().bytes), (1_000_000, last.lost, 0));
    println!("filled");
}

/// Lifts the soft limit of file sizes, if that was what limited.
fn lift_the_limit() {
    // SAFETY: both calls read or write the structure of ours that is given, and nothing else.
    unsafe {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
    }
}

#[test]
fn a_file_that_may_not_grow_leaves_what_was_recorded() {
    let temporary = tempfile::tempdir().expect("a directory");
    let mut command = this_program("fill", temporary.path());
    // SAFETY: between fork and exec only two system calls are made, which are safe there.
    unsafe {
        command.pre_exec(|| {
            // Without this the signal of the limit would end the process.
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            let limit = libc::rlimit { rlim_cur: 500_000, rlim_max: libc::RLIM_INFINITY };
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
            Ok(())
        });
    }
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("filled"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_full_disk_leaves_what_was_recorded() {
    let temporary = tempfile::tempdir().expect("a directory");
    let mount = "mount -t tmpfs -o size=1m weir-test \"$WEIR_TRACE_TEST_DIRECTORY\"";
    let may_mount = Command::new("unshare").args(["-m", "sh", "-c", mount]).env(DIRECTORY, temporary.path()).output();
    let may_mount = may_mount.is_ok_and(|output| output.status.success());
    if require::or_skip(may_mount, "needs the right to mount a small file system of its own").is_none() {
        return;
    }
    let this = this_program("fill", temporary.path());
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &format!("{mount} && exec \"$0\" \"$@\"")]).arg(this.get_program());
    command.args(this.get_args()).env(ROLE, "fill").env(DIRECTORY, temporary.path());
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("filled"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

fn read(directory: &Path) {
    let (mut records, mut latest) = (0u64, 0);
    RunReader::open(directory).expect("a run").merge().each(|sourced| {
        assert!(sourced.record.time_ns >= latest);
        latest = sourced.record.time_ns;
        records += 1;
        true
    });
    let status = fs::read_to_string("/proc/self/status").expect("this process");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    println!("read {records} {}", peak.trim().trim_end_matches(" kB"));
}

#[test]
fn reading_takes_bounded_memory() {
    let temporary = tempfile::tempdir().expect("a directory");
    let run = Run::create(temporary.path()).expect("a run");
    let lanes = 4;
    let mut streams: Vec<_> = (0..lanes).map(|lane| run.stream(Source::Kernel, lane, Limits::default())).collect();
    // 300 MB.
    let count = 9_500_000;
    for number in 0..count {
        // Long turns, so that the merge has blocks of all lanes in hand.
        let lane = number / 100 % u64::from(lanes);
        streams[lane as usize].push(numbered(number), &[], None).expect("it is written");
    }
    for stream in streams {
        stream.finish().expect("it is written");
    }
    let bytes: u64 = segments(temporary.path()).iter().map(|path| fs::metadata(path).expect("its size").len()).sum();
    assert!(bytes > 300_000_000);
    let output = this_program("read", temporary.path()).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let said = text.lines().find_map(|line| line.split_once("read ")).map(|(_, said)| said).unwrap_or_default();
    let (records, peak_kb) = said.split_once(' ').unwrap_or_default();
    assert_eq!(records, count.to_string(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let peak_kb: u64 = peak_kb.parse().expect("a number");
    assert!(peak_kb < 64 << 10, "reading took {peak_kb} kB");
}
