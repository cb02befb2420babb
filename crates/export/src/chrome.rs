//! A run in the trace format of Chrome (an object with `traceEvents`), for chrome://tracing and its kin.

use crate::charts::{self, Chart, Charted, Slice, Track};
use crate::error::ExportError;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use weir_query::{Cell, Queries};

/// Processes that are none: above every number that Linux gives (`PID_MAX_LIMIT` is 2^22).
const REQUESTS: u32 = 1 << 23;
const CPUS: u32 = (1 << 23) + 1;
const OBJECTS: u32 = (1 << 23) + 2;
/// Threads that are none, beside those of the same process.
const SERVING: u32 = 1 << 24;

/// Writes a run in Chrome's trace format.
///
/// # Errors
/// [`ExportError`].
pub fn chrome(queries: &mut Queries, path: &Path) -> Result<Charted, ExportError> {
    let wrong = |source| ExportError::Write { path: path.to_owned(), source };
    let mut trace = Trace { out: BufWriter::new(File::create(path).map_err(wrong)?), events: 0 };
    let charted = charts::tell(queries, &mut trace, &wrong)?;
    let end: &[u8] =
        if trace.events == 0 { b"{\"traceEvents\": []}\n" } else { b"\n], \"displayTimeUnit\": \"ns\"}\n" };
    trace.out.write_all(end).and_then(|()| trace.out.flush()).map_err(wrong)?;
    Ok(charted)
}

struct Trace<W> {
    out: W,
    events: u64,
}

impl<W: Write> Trace<W> {
    fn event(&mut self, event: &Value) -> io::Result<()> {
        self.out.write_all(if self.events == 0 { b"{\"traceEvents\": [\n" } else { b",\n" })?;
        self.events += 1;
        serde_json::to_writer(&mut self.out, event).map_err(io::Error::from)
    }
}

/// Process and thread of a track, as the format has them.
fn place(track: Track) -> (u32, u32) {
    match track {
        Track::Requests => (REQUESTS, 0),
        Track::Lane(lane) => (REQUESTS, lane + 1),
        Track::Cpus => (CPUS, 0),
        Track::Cpu(cpu) => (CPUS, cpu + 1),
        Track::Objects => (OBJECTS, 0),
        Track::Object(object) => (OBJECTS, object + 1),
        Track::Process(process) => (process, 0),
        Track::Thread { process, pid } => (process, pid),
        Track::Serving { process, pid } => (process, SERVING | pid),
    }
}

/// Microseconds with their fraction.
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

impl<W: Write> Chart for Trace<W> {
    fn clocks(&mut self, _monotonic_ns: u64, _unix_ns: u64) -> io::Result<()> {
        // The format has one clock.
        Ok(())
    }

    fn track(&mut self, track: Track, name: &str) -> io::Result<()> {
        let (pid, tid) = place(track);
        let what = if track.group().is_none() { "process_name" } else { "thread_name" };
        self.event(&json!({ "ph": "M", "name": what, "pid": pid, "tid": tid, "args": { "name": name } }))
    }

    fn begin(&mut self, slice: &Slice<'_>) -> io::Result<()> {
        let (pid, tid) = place(slice.track);
        let known = slice.arguments.iter().filter_map(|(name, cell)| match cell {
            Cell::Integer(number) => Some(((*name).to_owned(), Value::from(*number))),
            Cell::Text(text) if !text.is_empty() => Some(((*name).to_owned(), Value::from(*text))),
            // What is not known is left out.
            _ => None,
        });
        let args: Map<String, Value> = known.collect();
        let ns = slice.to_ns.saturating_sub(slice.from_ns);
        self.event(&json!({
            "ph": "X", "name": slice.name, "cat": slice.category, "ts": us(slice.from_ns), "dur": us(ns),
            "pid": pid, "tid": tid, "args": args,
        }))?;
        if slice.flow == 0 {
            return Ok(());
        }
        // An arrow from the request to each stretch in which a thread served it, or from who asks to what is asked.
        let ph = if slice.is_first { "s" } else { "t" };
        self.event(&json!({
            "ph": ph, "name": if slice.category == "request" || slice.category == "serving" { "request" } else { "interaction" },
            "cat": "flow", "id": slice.flow, "ts": us(slice.from_ns), "pid": pid,
            "tid": tid,
        }))
    }

    fn end(&mut self, _slice: &Slice<'_>) -> io::Result<()> {
        // An event of sort X holds its end.
        Ok(())
    }
}
