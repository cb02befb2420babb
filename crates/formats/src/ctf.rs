//! CTF, the Common Trace Format: a directory of streams, with a description of their own form in `metadata`.
//!
//! Version 1.8: <https://diamon.org/ctf/v1.8.3/>, as LTTng and `perf data convert --to-ctf` write it. Version 2:
//! <https://diamon.org/ctf/files/CTF2-SPEC-2.0.html>, read by its text and tried on no writer's output.

mod bits;
mod ctf2;
mod decode;
mod stream;
mod tokens;
mod tsdl;
mod types;

use crate::earliest::earliest;
use crate::fields::meaning;
use crate::{Counts, Event, Markers, ReadError, Skipped, Task, What};
use decode::Told;
use std::fs::File;
use std::path::{Path, PathBuf};
use stream::{Stream, number};
use types::Metadata;

/// Folders that are looked into, and how deep.
const FOLDERS_MAX: usize = 4096;
const DEPTH_MAX: usize = 8;
/// Streams of a trace that are read at once; each is an open file.
const STREAMS_MAX: usize = 4096;
/// Bytes of metadata.
const METADATA_MAX: u64 = 64 << 20;
/// A packet of metadata: its magic, and the bytes of its head, in which the sizes stand at bytes 24 and 28 (bits).
const PACKET_MAGIC: [u8; 4] = [0x57, 0x1d, 0xd1, 0x75];
const PACKET_HEAD: usize = 37;

/// Whether a directory holds a trace.
pub(crate) fn is_ctf(folder: &Path) -> bool {
    !traces(folder).is_empty()
}

/// The folders below one that have metadata.
fn traces(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut open, mut looked_at) = (Vec::new(), vec![(folder.to_owned(), 0)], 0);
    while let Some((folder, depth)) = open.pop() {
        looked_at += 1;
        if looked_at > FOLDERS_MAX {
            break;
        }
        if folder.join("metadata").is_file() {
            found.push(folder.clone());
        }
        let below = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
        open.extend(below.filter(|path| depth < DEPTH_MAX && path.is_dir()).map(|path| (path, depth + 1)));
    }
    found.sort();
    found
}

/// The streams of a trace.
fn streams(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let is_metadata = path.file_name().is_some_and(|name| name == "metadata");
        if path.is_file() && !is_hidden && !is_metadata {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Hands out the events of all traces below a directory, in the order of time.
///
/// # Errors
/// [`ReadError`], with the byte of the metadata or of the stream; what was handed out before stays true.
pub fn read_ctf(folder: &Path, markers: &Markers, take: impl FnMut(Event<'_>)) -> Result<Counts, ReadError> {
    let io = |source| ReadError::Io { at: 0, source };
    let mut described = Vec::new();
    for folder in traces(folder) {
        let file = File::open(folder.join("metadata")).map_err(io)?;
        let whole = file.metadata().map_err(io)?.len();
        if whole > METADATA_MAX {
            return Err(ReadError::wrong(0, format!("metadata has {whole} bytes; at most {METADATA_MAX} are read")));
        }
        let bytes = std::fs::read(folder.join("metadata")).map_err(io)?;
        described.push((metadata(&bytes)?, streams(&folder).map_err(io)?));
    }
    let mut open = Vec::new();
    for (metadata, paths) in &described {
        for path in paths {
            if open.len() >= STREAMS_MAX {
                return Err(ReadError::wrong(0, format!("it has more than {STREAMS_MAX} streams")));
            }
            let file = File::open(path).map_err(io)?;
            // A stream to which nothing was written is an empty file.
            if file.metadata().map_err(io)?.len() > 0 {
                open.push(Stream::new(metadata, file).map_err(|error| within(path, error))?);
            }
        }
    }
    let metadata: Vec<&Metadata> = described.iter().map(|(metadata, _)| metadata).collect();
    read_streams(&metadata, open, markers, take)
}

/// The same of metadata and streams in memory.
///
/// # Errors
/// [`ReadError`].
pub fn read_ctf_bytes(
    described: &[u8],
    streams: &[&[u8]],
    markers: &Markers,
    take: impl FnMut(Event<'_>),
) -> Result<Counts, ReadError> {
    let metadata = metadata(described)?;
    let open = streams.iter().map(|bytes| Stream::new(&metadata, std::io::Cursor::new(*bytes)));
    let open = open.collect::<Result<Vec<_>, _>>()?;
    read_streams(&[&metadata], open, markers, take)
}

/// An error's words, with the stream that it is of.
fn within(path: &Path, error: ReadError) -> ReadError {
    match error {
        ReadError::Wrong { at, what } => ReadError::wrong(at, format!("{}: {what}", path.display())),
        other => other,
    }
}

fn metadata(bytes: &[u8]) -> Result<Metadata, ReadError> {
    let text = unpacked(bytes)?;
    // CTF 2's metadata are JSON texts, each behind a record separator (RFC 7464).
    if text.first() == Some(&0x1e) {
        return ctf2::metadata(&text);
    }
    tsdl::metadata(&String::from_utf8_lossy(&text))
}

/// Metadata may lie in packets.
fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, ReadError> {
    let is_little = bytes.starts_with(&PACKET_MAGIC);
    let reversed: Vec<u8> = PACKET_MAGIC.iter().rev().copied().collect();
    if !is_little && !bytes.starts_with(&reversed) {
        return Ok(bytes.to_vec());
    }
    let (mut text, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let cut = ReadError::Cut { at: at as u64, within: "a packet of the metadata" };
        let Some(head) = bytes.get(at..at + PACKET_HEAD) else { return Err(cut) };
        let size = |from: usize| crate::section::unsigned(&head[from..from + 4], !is_little) as usize / 8;
        let (content, whole) = (size(24), size(28));
        if content < PACKET_HEAD || whole < content {
            return Err(ReadError::wrong(at as u64, "a packet of the metadata says that it is longer than it is"));
        }
        let Some(own) = bytes.get(at + PACKET_HEAD..at + content) else { return Err(cut) };
        text.extend_from_slice(own);
        at += whole;
    }
    Ok(text)
}

fn read_streams<R: std::io::Read + std::io::Seek>(
    metadata: &[&Metadata],
    mut streams: Vec<Stream<'_, R>>,
    markers: &Markers,
    mut take: impl FnMut(Event<'_>),
) -> Result<Counts, ReadError> {
    let clock = metadata.iter().find_map(|metadata| metadata.clock.clone());
    let host = metadata.iter().find_map(|metadata| metadata.host.clone());
    let mut counts = Counts { clock, host, ..Counts::default() };
    for stream in &mut streams {
        stream.advance()?;
    }
    let at_ns = |stream: &Stream<'_, R>| stream.next.as_ref().map(|next| next.at_ns.unwrap_or(0));
    while let Some((first, others_ns)) = earliest(streams.iter().map(at_ns)) {
        loop {
            let stream = &mut streams[first];
            tell(stream, markers, &mut counts, &mut take);
            stream.advance()?;
            if at_ns(stream).is_none_or(|at_ns| at_ns >= others_ns) {
                break;
            }
        }
    }
    Ok(counts.told())
}

fn tell<R: std::io::Read + std::io::Seek>(
    stream: &mut Stream<'_, R>,
    markers: &Markers,
    counts: &mut Counts,
    take: &mut impl FnMut(Event<'_>),
) {
    let lost = std::mem::take(&mut stream.lost);
    let Some(next) = &stream.next else { return };
    let (cpu, Some(class)) = (next.cpu, next.class) else { return };
    if lost > 0 {
        counts.lost += lost;
        let what = What::Lost(lost);
        take(Event { at_ns: next.at_ns.unwrap_or(0), cpu, task: None, process: None, what });
    }
    counts.event(&class.name);
    if let Some(cpu) = cpu {
        counts.on_cpu(cpu);
    }
    let Some(at_ns) = next.at_ns else { return counts.skip(Skipped::NoTime) };
    let told = Told { values: &stream.values, bytes: stream.bytes() };
    let of = |names: &[&str]| names.iter().find_map(|name| number(stream.values.find(name)));
    let name = class.name.rsplit_once(':').map_or(&*class.name, |(_, name)| name);
    let what = meaning(name, &told).counted(&class.name, counts);
    let mut task = of(&["vtid", "perf_tid", "common_pid"]);
    let process = of(&["vpid", "perf_pid"]);
    if let What::Switch { from, .. } = what {
        task = Some(from.number);
    }
    // A tool that has the name at each event tells no events of names.
    if let (Some(number), Some(name)) = (task, crate::fields::Fields::text(&told, "procname")) {
        let named = What::Named { task: Task { number, name }, process };
        take(Event { at_ns, cpu, task, process, what: named });
    }
    let event = Event { at_ns, cpu, task, process, what };
    take(event);
    if markers.may_mark(&class.name) {
        let field = |name: &str| told.shown(name);
        markers.told(&class.name, field, |mark| take(Event { what: What::Mark(mark), ..event }));
    }
}
