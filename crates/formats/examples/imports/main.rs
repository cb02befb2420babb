//! How fast a trace is imported, and in how much memory:
//! `cargo run --release -p weir-formats --example imports -- NAME MEGABYTES FOLDER`.
//!
//! A sample of the tests is repeated, later each time, until the trace has so many bytes, and imported into a run below the
//! folder. Formats that are read from begin to end come by a pipe, which another thread fills; others are a file, which is
//! removed at the end. CPU time is that of the thread that imports, so that other work on the machine counts less.

mod protobuf;
mod sample;
mod trace_dat;

use protobuf::{Path as Field, widened};
use sample::{Body, Form, Sample, bytes};
use std::fs::File;
use std::io::{BufWriter, Cursor, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use weir_formats::{Made, Markers, Options, import, read_ctf_bytes, read_perf_data, read_perfetto};

const NAMES: [&str; 10] = [
    "perf-data",
    "trace-dat",
    "ctf",
    "jfr",
    "perfetto",
    "chrome-json",
    "ftrace-text",
    "otlp-protobuf",
    "otlp-json",
    "lines",
];
/// Those that are read back and forth.
const FILES: [&str; 4] = ["perf-data", "trace-dat", "ctf", "jfr"];
/// Copies of the events of the recorder's sample in a chunk: a real one has some 12 MB, of which little describes.
const COPIES: usize = 4_500;

/// Places of eight bytes that hold a time between these two.
fn times_between(body: &[u8], (first_ns, last_ns): (u64, u64)) -> Vec<(usize, usize, Form, u64)> {
    let (mut times, mut at) = (Vec::new(), 0);
    while let Some(eight) = body.get(at..at + 8) {
        let number = u64::from_le_bytes(eight.try_into().expect("eight bytes"));
        if (first_ns..=last_ns).contains(&number) {
            times.push((at, 8, Form::Little, number));
            at += 7;
        }
        at += 1;
    }
    times
}

/// The events of `perf.data` repeated; the tables behind them lie further behind.
fn perf_data(megabytes: u64) -> Result<Sample, Box<dyn std::error::Error>> {
    let all = bytes("perf.data.gz")?;
    let mut span = (u64::MAX, 0);
    read_perf_data(Cursor::new(&all), &Markers::default(), |event| {
        if event.at_ns > 0 {
            span = (span.0.min(event.at_ns), span.1.max(event.at_ns));
        }
    })?;
    let number = |at: usize| u64::from_le_bytes(all[at..at + 8].try_into().expect("eight bytes"));
    // Where the header says where its events lie, and a table of other sections behind them.
    let (data, size) = (number(40) as usize, number(48) as usize);
    let body = Body::new(&all[data..data + size], times_between(&all[data..data + size], span));
    // What is written is a mebibyte or somewhat more at a time, as `Sample::write` does it.
    let per_piece = (1usize << 20).div_ceil(size);
    let pieces = (megabytes << 20).div_ceil((per_piece * size) as u64);
    let whole = pieces * (per_piece * size) as u64;
    let (mut head, mut end) = (all[..data].to_vec(), all[data + size..].to_vec());
    head[48..56].copy_from_slice(&whole.to_le_bytes());
    let sections: u32 = all[72..104].iter().map(|byte| byte.count_ones()).sum();
    for section in 0..sections as usize {
        let place = section * 16;
        let offset = u64::from_le_bytes(end[place..place + 8].try_into().expect("eight bytes"));
        end[place..place + 8].copy_from_slice(&(offset + whole - size as u64).to_le_bytes());
    }
    Ok(Sample { head, body, end })
}

fn ctf() -> Result<Sample, Box<dyn std::error::Error>> {
    let (metadata, all) = (bytes("ctf-perf/metadata.gz")?, bytes("ctf-perf/perf_stream_0.gz")?);
    let mut span = (u64::MAX, 0);
    read_ctf_bytes(&metadata, &[&all], &Markers::default(), |event| {
        span = (span.0.min(event.at_ns), span.1.max(event.at_ns));
    })?;
    Ok(Sample { body: Body::new(&all, times_between(&all, span)), ..Sample::default() })
}

/// A chunk of the flight recorder with many events, which begins later each time. Each copy of its events within it is
/// later than the one before.
fn jfr() -> std::io::Result<Sample> {
    const SIZE: usize = 8;
    const START: usize = 32;
    const TICKS_PER_S: usize = 56;
    const HEAD: usize = 68;
    let mut chunk = bytes("java.jfr.gz")?;
    let number = |at: usize| u64::from_be_bytes(chunk[at..at + 8].try_into().expect("eight bytes"));
    let (start_ns, lasts_ns, ticks_per_s) = (number(START), number(START + 8), number(TICKS_PER_S));
    let (mut at, mut events) = (HEAD, Vec::new());
    while at < chunk.len() {
        let mut within = at;
        let size = protobuf::number(&chunk, &mut within) as usize;
        let kind = within;
        // What describes classes (0) and constants (1) is none.
        if protobuf::number(&chunk, &mut within) > 1 {
            let time = within;
            let ticks = protobuf::number(&chunk, &mut within);
            events.push((&chunk[kind..time], ticks, &chunk[within..at + size]));
        }
        at += size;
    }
    let mut copies = Vec::new();
    let span = (u128::from(lasts_ns) * u128::from(ticks_per_s) / 1_000_000_000) as u64;
    for copy in 1..=COPIES as u64 {
        for (kind, ticks, rest) in &events {
            let mut event = kind.to_vec();
            protobuf::write_number(&mut event, ticks + copy * span);
            event.extend_from_slice(rest);
            // An event's size counts its own bytes, which are one or two here.
            let size = event.len() as u64 + 1;
            protobuf::write_number(&mut copies, if size > 0x7f { size + 1 } else { size });
            copies.append(&mut event);
        }
    }
    chunk.extend_from_slice(&copies);
    let (size, lasts_ns) = (chunk.len() as u64, lasts_ns * (COPIES as u64 + 1));
    chunk[SIZE..SIZE + 8].copy_from_slice(&size.to_be_bytes());
    chunk[START + 8..START + 16].copy_from_slice(&lasts_ns.to_be_bytes());
    let mut body = Body::new(&chunk, [(START, 8, Form::Big, start_ns)]);
    body.lasts_ns = Some(lasts_ns);
    Ok(Sample { body, ..Sample::default() })
}

/// Lines as a script of bpftrace prints them.
fn lines() -> Sample {
    let mut text = String::new();
    for number in 0..1_000u64 {
        let at_ns = 1_000_000_000_000 + number * 10_000;
        text += &format!(
            "{at_ns} begin {} {number}\n{} end {} {number}\n",
            4_000 + number % 8,
            at_ns + 7_000,
            4_000 + number % 8
        );
    }
    let mut times = Vec::new();
    let mut at = 0;
    for line in text.lines() {
        let written = line.split(' ').next().unwrap_or_default();
        times.push((at, written.len(), Form::Nanos, written.parse().expect("a time")));
        at += line.len() + 1;
    }
    Sample { body: Body::new(text.as_bytes(), times), ..Sample::default() }
}

fn chrome_json() -> std::io::Result<Sample> {
    let text = bytes("chrome.json.gz")?;
    let find = |word: &[u8]| memchr::memmem::find(&text, word).unwrap_or(0);
    let events = &text[find(b"[{\"ph\"") + 1..find(b"], \"metadata\"")];
    let body = Body::of_text(&[events, b",\n"].concat(), &[("\"ts\": ", Form::Micros)]);
    Ok(Sample { head: b"[".to_vec(), body, end: b"{\"ph\":\"M\"}]".to_vec() })
}

fn otlp_json() -> Result<Sample, Box<dyn std::error::Error>> {
    // As the collector writes it: an export a line.
    let export: serde_json::Value = serde_json::from_slice(&bytes("otlp.json.gz")?)?;
    let words = [("\"startTimeUnixNano\":\"", Form::Nanos), ("\"endTimeUnixNano\":\"", Form::Nanos)];
    Ok(Sample { body: Body::of_text(format!("{export}\n").as_bytes(), &words), ..Sample::default() })
}

/// Perfetto's packets without those that packed ones are in (field 50 of a packet): their times could not be changed.
fn unpacked(trace: &[u8]) -> std::io::Result<Vec<u8>> {
    const PACKED: [u8; 2] = [0x92, 0x03];
    let (mut out, mut at) = (Vec::new(), 0);
    while at < trace.len() {
        let mut within = at;
        protobuf::number(trace, &mut within);
        let size = protobuf::number(trace, &mut within) as usize;
        let packet = &trace[within..within + size];
        if packet.starts_with(&PACKED) {
            let mut from = PACKED.len();
            let length = protobuf::number(packet, &mut from) as usize;
            flate2::read::ZlibDecoder::new(&packet[from..from + length]).read_to_end(&mut out)?;
        } else {
            out.extend_from_slice(&trace[at..within + size]);
        }
        at = within + size;
    }
    Ok(out)
}

fn of_protobuf(name: &str, paths: &'static [Field]) -> std::io::Result<Sample> {
    let (message, times) = widened(&unpacked(&bytes(name)?)?, paths);
    Ok(Sample { body: Body::new(&message, times), ..Sample::default() })
}

/// Perfetto's packets: traces of it that are written one behind the other are one.
fn perfetto(paths: &'static [Field]) -> Result<Sample, Box<dyn std::error::Error>> {
    let mut sample = of_protobuf("perfetto.pftrace", paths)?;
    let (mut first_ns, mut last_ns) = (u64::MAX, 0);
    read_perfetto(&bytes("perfetto.pftrace")?[..], &Markers::default(), |event| {
        if event.at_ns > 0 {
            (first_ns, last_ns) = (first_ns.min(event.at_ns), last_ns.max(event.at_ns));
        }
    })?;
    // By its own clock: its snapshots tell the time of day, too.
    sample.body.lasts_ns = Some(last_ns - first_ns);
    Ok(sample)
}

fn made(name: &str, megabytes: u64) -> Result<Sample, Box<dyn std::error::Error>> {
    const PERFETTO: &[Field] = &[Field::Within(
        1,
        &[
            Field::Within(
                1,
                &[Field::Within(2, &[Field::Time(1)]), Field::Within(4, &[Field::First(1), Field::First(7)])],
            ),
            Field::Within(6, &[Field::Within(1, &[Field::Time(2)])]),
            Field::Time(8),
        ],
    )];
    const OTLP: &[Field] =
        &[Field::Within(1, &[Field::Within(2, &[Field::Within(2, &[Field::Time(7), Field::Time(8)])])])];
    Ok(match name {
        "perf-data" => perf_data(megabytes)?,
        "ctf" => ctf()?,
        "jfr" => jfr()?,
        "perfetto" => perfetto(PERFETTO)?,
        "otlp-protobuf" => of_protobuf("otlp.pb", OTLP)?,
        "otlp-json" => otlp_json()?,
        "chrome-json" => chrome_json()?,
        "ftrace-text" => {
            let words = [("[000]  ", Form::Seconds), ("[001]  ", Form::Seconds)];
            Sample { body: Body::of_text(&bytes("perf.script.txt.gz")?, &words), ..Sample::default() }
        }
        "lines" => lines(),
        _ => return Err(format!("one of {}", NAMES.join(", ")).into()),
    })
}

/// A folder that is removed at the end, also where the disk is full.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} stays behind: {error}", self.0.display());
        }
    }
}

/// The user and system time of this thread so far, seconds, and the most memory that the process has had, MiB.
fn used() -> (f64, f64, i64) {
    // SAFETY: the call fills in what is all zeros before, which is a value of the type.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime), usage.ru_maxrss >> 10)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, megabytes, folder] = &arguments[..] else { return Err("imports NAME MEGABYTES FOLDER".into()) };
    let folder = Path::new(folder).join(name);
    std::fs::create_dir_all(folder.join("trace"))?;
    let _removed = Folder(folder.clone());
    let megabytes: u64 = megabytes.parse()?;
    let trace = if name == "trace-dat" { Sample::default() } else { made(name, megabytes)? };
    let mut options = Options::default();
    if name == "lines" {
        options.lines = Some(r"^(?<time_ns>\d+) (?<event>\w+) (?<task>\d+) (?<id>\d+)".parse()?);
        options.markers = Markers::new("begin/id".parse()?, "end/id".parse()?);
    }
    let (path, pipe): (PathBuf, _) = if FILES.contains(&name.as_str()) {
        let stream = folder.join("trace/stream");
        let mut file = BufWriter::new(File::create(&stream)?);
        if name == "trace-dat" {
            trace_dat::write(megabytes, &mut file)?;
        } else {
            trace.write(megabytes << 20, file)?;
        }
        if name == "ctf" {
            std::fs::write(folder.join("trace/metadata"), bytes("ctf-perf/metadata.gz")?)?;
        }
        (if name == "ctf" { folder.join("trace") } else { stream }, None)
    } else {
        let (reader, writer) = std::io::pipe()?;
        // As large as an unprivileged process may have it: the pipe is not what is measured.
        // SAFETY: the descriptor is open.
        unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_SETPIPE_SZ, 1 << 20) };
        let writing = std::thread::spawn(move || trace.write(megabytes << 20, writer));
        (format!("/proc/self/fd/{}", reader.as_raw_fd()).into(), Some((reader, writing)))
    };
    let (user_before_s, system_before_s, _) = used();
    let imported = import(&path, &folder.join("run"), &options, &Made { version: "bench", command: Vec::new() })?;
    let (user_s, system_s, most_mib) = used();
    let (user_s, cpu_s) = (user_s - user_before_s, user_s + system_s - user_before_s - system_before_s);
    if let Some((_reader, writing)) = pipe {
        writing.join().map_err(|_| "the thread that writes the trace has ended early")??;
    }
    let events: u64 = imported.counts.events.values().sum::<u64>() + imported.counts.of_further_names;
    let of = |seconds: f64| events as f64 / seconds.max(0.01) / 1e6;
    println!(
        "{name}: {megabytes} MiB, {events} events, {:.2} million a second of CPU time ({:.2} of user time), {most_mib} MiB; \
         {} records, late {:?}",
        of(cpu_s),
        of(user_s),
        imported.records,
        imported.counts.skipped.get(&weir_formats::Skipped::Late),
    );
    Ok(())
}
