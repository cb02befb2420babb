//! How fast a trace is imported, and in how much memory:
//! `cargo run --release -p weir-formats --example imports -- NAME MEGABYTES FOLDER`.
//!
//! A sample of the tests is repeated until the trace has so many bytes, and imported into a run below the folder. CPU time
//! is that of this process, so that other work on the machine counts less.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use weir_formats::{Made, Options, import};

/// The sample's parts: what comes once, what is repeated, what ends the file.
struct Parts {
    head: Vec<u8>,
    body: Vec<u8>,
    end: Vec<u8>,
}

fn sample(name: &str) -> std::io::Result<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name);
    let bytes = std::fs::read(path)?;
    if !name.ends_with(".gz") {
        return Ok(bytes);
    }
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked)?;
    Ok(unpacked)
}

fn whole(name: &str) -> std::io::Result<Parts> {
    Ok(Parts { head: Vec::new(), body: sample(name)?, end: Vec::new() })
}

fn parts(name: &str) -> std::io::Result<Parts> {
    match name {
        "ftrace-text" => whole("perf.script.txt.gz"),
        "ctf" => whole("ctf-perf/perf_stream_0.gz"),
        "perfetto" => whole("perfetto.pftrace"),
        "jfr" => whole("java.jfr.gz"),
        "otlp-protobuf" => whole("otlp.pb"),
        "chrome-json" => {
            let text = sample("chrome.json.gz")?;
            let find = |word: &[u8]| memchr::memmem::find(&text, word).unwrap_or(0);
            let body = text[find(b"[{\"ph\"") + 1..find(b"], \"metadata\"")].to_vec();
            Ok(Parts { head: b"[".to_vec(), body: [&body[..], b",\n"].concat(), end: b"{\"ph\":\"M\"}]".to_vec() })
        }
        _ => Err(std::io::Error::other("one of ftrace-text, ctf, perfetto, jfr, otlp-protobuf, chrome-json")),
    }
}

/// Writes the trace; what is to be named for it.
fn make(name: &str, bytes: u64, folder: &Path) -> std::io::Result<PathBuf> {
    let trace = folder.join("trace");
    std::fs::create_dir_all(&trace)?;
    if name == "ctf" {
        std::fs::write(trace.join("metadata"), sample("ctf-perf/metadata.gz")?)?;
    }
    let parts = parts(name)?;
    let path = trace.join("stream");
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&path)?);
    file.write_all(&parts.head)?;
    let mut written = 0;
    while written < bytes {
        file.write_all(&parts.body)?;
        written += parts.body.len() as u64;
    }
    file.write_all(&parts.end)?;
    file.flush()?;
    Ok(if name == "ctf" { trace } else { path })
}

/// The CPU time of this process so far, seconds, and the most memory that it has had, MiB.
fn used() -> (f64, u64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind = stat.rsplit(')').next().unwrap_or_default();
    // User and system time are the fields 14 and 15, in hundredths of a second.
    let ticks: f64 = behind.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = most.and_then(|most| most.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0);
    (ticks / 100.0, kib >> 10)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, megabytes, folder] = &arguments[..] else { return Err("imports NAME MEGABYTES FOLDER".into()) };
    let folder = Path::new(folder).join(name);
    let trace = make(name, megabytes.parse::<u64>()? << 20, &folder)?;
    let (before_s, _) = used();
    let made = Made { version: "bench", command: Vec::new() };
    let imported = import(&trace, &folder.join("run"), &Options::default(), &made)?;
    let (after_s, most_mib) = used();
    let events: u64 = imported.counts.events.values().sum();
    let cpu_s = after_s - before_s;
    println!(
        "{name}: {megabytes} MiB, {events} events, {cpu_s:.2} s of CPU time, {:.2} million events a second, {most_mib} MiB",
        events as f64 / cpu_s.max(0.01) / 1e6
    );
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
