//! Traces of other tools.

use std::io::Cursor;
use std::sync::LazyLock;
use weir_formats::{
    Counts, Event, LinePattern, Markers, ReadError, What, read_chrome_json, read_ctf_bytes, read_ftrace_text, read_jfr,
    read_lines, read_otlp_json, read_otlp_protobuf, read_perf_data, read_perfetto, read_trace_dat,
};

/// Bytes that a trace may unpack to are bounded by the reader; so few events are in so short inputs.
const EVENTS_MAX: usize = 1 << 22;

fn markers() -> Markers {
    let pattern = |text: &str| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    Markers::new(pattern("request/id/uri"), pattern("request_end/id"))
}

/// Reads, and holds the counts against each other.
fn check(input: &[u8], read: impl FnOnce(&mut dyn FnMut(Event<'_>)) -> Result<Counts, ReadError>) {
    let mut events = 0;
    let outcome = read(&mut |event| {
        events += 1;
        if let What::Switch { from, to, .. } = event.what {
            assert!(from.name.len() <= input.len().max(64 << 10) && to.name.len() <= input.len().max(64 << 10));
        }
    });
    // Of what was skipped each piece was there.
    match outcome {
        Ok(counts) => assert!(counts.skipped.values().sum::<u64>() <= EVENTS_MAX as u64),
        Err(error) => assert!(error.to_string().starts_with("byte "), "{error}"),
    }
    assert!(events <= EVENTS_MAX);
}

/// Reads any bytes as each format.
pub fn foreign_trace(input: &[u8]) {
    check(input, |take| read_perf_data(Cursor::new(input), &markers(), take));
    check(input, |take| read_trace_dat(Cursor::new(input), &markers(), take));
    check(input, |take| read_ftrace_text(input, &markers(), take));
}

/// Reads any bytes as CTF: up to the first zero byte the metadata, behind it a stream.
pub fn trace_ctf(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (metadata, stream) = (&input[..end], input.get(end + 1..).unwrap_or_default());
    check(input, |take| read_ctf_bytes(metadata, &[stream], &markers(), take));
}

/// Reads any bytes as Perfetto's protobuf.
pub fn trace_perfetto(input: &[u8]) {
    check(input, |take| read_perfetto(input, &markers(), take));
}

/// Reads any bytes as Chrome's JSON.
pub fn trace_chrome_json(input: &[u8]) {
    check(input, |take| read_chrome_json(input, &markers(), take));
}

/// Reads any bytes as a file of Java's flight recorder.
pub fn trace_jfr(input: &[u8]) {
    check(input, |take| read_jfr(Cursor::new(input), &markers(), take));
}

/// Reads any bytes as OpenTelemetry's spans, in both encodings.
pub fn trace_otlp(input: &[u8]) {
    check(input, |take| read_otlp_json(input, take));
    check(input, |take| read_otlp_protobuf(input, take));
}

/// A pattern of lines; to compile it takes longer than to read a line.
static LINES: LazyLock<LinePattern> = LazyLock::new(|| {
    let pattern = r"^(?<time_us>[\d.]+) (?<event>[\w:]+) (?<task>\d+)(?: cpu=(?<cpu>\d+))?(?: id=(?<id>\w+))?";
    pattern.parse().unwrap_or_else(|error| panic!("{error}"))
});

/// Reads any bytes as lines.
pub fn trace_lines(input: &[u8]) {
    check(input, |take| read_lines(input, &LINES, &markers(), take));
}

/// Reads any text as forms of lines, and lines by what it says.
pub fn line_forms(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(forms) = LinePattern::from_toml(text) else { return };
    let markers = forms.markers().cloned().unwrap_or_default();
    let lines = b"12.5 worker 42 took a1 /item\n12501 done a1\n\xff 7 begin cpu=1 nginx/42 id=7\n";
    check(lines, |take| read_lines(&lines[..], &forms, &markers, take));
}
