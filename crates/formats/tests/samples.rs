//! Traces of other tools' making are read as these tools themselves tell them.
// scripts/test: counts

use std::fmt::Write;
use std::io::{Cursor, Read};
use std::path::Path;
use weir_formats::{Counts, Event, ReadError, What, read_ftrace_text, read_perf_data, read_trace_dat};

/// Files that are damaged and read.
const ROUNDS: usize = 60;

fn sample(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).expect("it is packed by gzip");
    unpacked
}

/// Events one per line, without those that only name tasks, in an order that ties cannot change.
fn lines(read: impl FnOnce(&mut dyn FnMut(Event<'_>)) -> Result<Counts, ReadError>) -> (Vec<String>, Counts) {
    let mut lines = Vec::new();
    let counts = read(&mut |event| {
        if matches!(event.what, What::Named { .. } | What::Lost(_)) {
            return;
        }
        let mut line = format!("{:020} {:?} {:?} ", event.at_ns, event.cpu, event.task);
        match event.what {
            // What a tool's text does not show, or not in full.
            What::CallBegins(call) => write!(line, "enter {}", call.name),
            What::CallEnds { name, result } => write!(line, "exit {name} {result}"),
            What::Fork { child, .. } => write!(line, "fork {child:?}"),
            what => write!(line, "{what:?}"),
        }
        .expect("a text grows");
        lines.push(line);
    });
    lines.sort();
    (lines, counts.expect("it is read"))
}

#[test]
fn perf_data_says_what_perf_script_says() {
    let (binary, counts) = lines(|take| read_perf_data(Cursor::new(sample("perf.data.gz")), take));
    let (text, of_text) = lines(|take| read_ftrace_text(&sample("perf.script.txt.gz")[..], take));
    assert_eq!(binary.len(), 1_775);
    assert_eq!(counts.events, of_text.events);
    for (binary, text) in binary.iter().zip(&text) {
        assert_eq!(binary, text);
    }
    assert_eq!((counts.lost, counts.cpus), (0, 2));
    assert_eq!(counts.clock.as_deref(), Some("the scheduler's clock"));
}

#[test]
fn trace_dat_says_what_trace_cmd_report_says() {
    let (binary, counts) = lines(|take| read_trace_dat(Cursor::new(sample("trace.dat.gz")), take));
    let (text, of_text) = lines(|take| read_ftrace_text(&sample("trace.report.txt.gz")[..], take));
    assert_eq!(counts.events, of_text.events);
    for (binary, text) in binary.iter().zip(&text) {
        assert_eq!(binary, text);
    }
    assert_eq!((binary.len(), counts.lost, counts.cpus), (1_560, 0, 2));
    assert_eq!(counts.clock.as_deref(), Some("mono"));
}

#[test]
fn a_file_that_is_cut_anywhere_is_told_with_its_byte_or_read_to_there() {
    let (perf, trace) = (sample("perf.data.gz"), sample("trace.dat.gz"));
    for part in 0..400 {
        let outcomes = [
            read_perf_data(Cursor::new(&perf[..perf.len() * part / 400]), |_| {}),
            read_trace_dat(Cursor::new(&trace[..trace.len() * part / 400]), |_| {}),
        ];
        for outcome in outcomes {
            let error = outcome.expect_err("it is cut").to_string();
            assert!(error.starts_with("byte "), "{part}: {error}");
        }
    }
}

#[test]
fn damaged_bytes_end_in_an_error_or_in_other_events_and_never_in_a_panic() {
    let (perf, trace) = (sample("perf.data.gz"), sample("trace.dat.gz"));
    let mut random = fastrand::Rng::with_seed(1);
    for round in 0..ROUNDS {
        for (whole, is_perf) in [(&perf, true), (&trace, false)] {
            let mut bytes = whole.clone();
            // The headers are hit as often as what they describe.
            let most = if round % 2 == 0 { 4_096 } else { bytes.len() };
            for _ in 0..random.usize(1..16) {
                let at = random.usize(..most);
                bytes[at] = random.u8(..);
            }
            let cursor = Cursor::new(bytes);
            let outcome = if is_perf { read_perf_data(cursor, |_| {}) } else { read_trace_dat(cursor, |_| {}) };
            drop(outcome);
        }
    }
}
