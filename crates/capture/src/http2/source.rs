//! The source of streams: reads the heads that the spine tells, and sets the probes at the edge of the TLS library.

use super::heads::Heads;
use crate::error::CaptureError;
use crate::event_source::EventSource;
use crate::kind_set::KindSet;
use crate::probes::Probes;
use crate::spine::{refusal, ring_mask};
use crate::trace_headers::{CHUNKS, MOST_BYTES, NAME, traceparent};
use crate::user_probes::{Binary, NoTlsEdge, Programs, Release, TlsPlace, TlsSite, tls_edge, without_query};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject, UprobeMultiOpts, UprobeOpts};
use rustc_hash::FxHashMap;
use skeleton::{StreamsSkel, StreamsSkelBuilder};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use weir_wire::probe::{ProbePoint, REQUEST};
use weir_wire::quic::{Quic, QuicEvent};
use weir_wire::stream::{Flow, StreamFrame, frame_type};
use weir_wire::trace_context::TraceOf;
use weir_wire::{Kind, Record, Slot};

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/streams.skel.rs"));
}

/// Dictionary ids: of the point that names requests, and of names, from there on.
const POINT: u32 = 0x4300_0000;
const FIRST_NAME: u32 = 0x4300_0001;
/// Names that are told apart; what comes after is one.
const MOST_NAMES: usize = 4096;
const OTHER: &str = "(other)";
/// The longest first line of a request, bytes.
const LINE_BYTES_MAX: usize = 512;
/// Kernels take many sites at a time since then.
const MULTI_SINCE: Release = Release(6, 6);
/// Libraries that are looked for, beside the programs themselves.
const LIBRARIES: [&str; 2] = ["libssl.so.3", "libssl.so.1.1"];
const GNUTLS: &str = "libgnutls.so.30";

/// What is still wanted of a request of HTTP/1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Its first line, for its name.
    Name,
    /// The lines behind it, for the trace that they may name.
    Trace,
}

/// A head of which the beginning is put together.
#[derive(Debug)]
struct Line {
    at_ns: u64,
    bytes: Vec<u8>,
    wanted: Wanted,
}

/// Whether the traces that requests name in their heads are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeadTraces {
    /// Its user has not allowed it.
    #[default]
    Left,
    /// They are.
    Read,
}

/// A request over HTTP/3 whose method and path are put together.
#[derive(Debug)]
struct QuicRequest {
    record: Record,
    bytes: Vec<u8>,
}

impl QuicRequest {
    /// Bytes of its method and of its path.
    fn lengths(&self) -> (usize, usize) {
        (usize::from(self.record.b as u16), usize::from((self.record.b >> 16) as u16))
    }
}

/// The source of streams and of names of requests over TLS.
pub struct Streams {
    heads: Heads,
    keep_queries: bool,
    traces: HeadTraces,
    /// The last look before this one: what is older has been told by all CPUs.
    looked_ns: u64,
    lines: FxHashMap<u32, Line>,
    requests: FxHashMap<u32, QuicRequest>,
    names: FxHashMap<String, u32>,
    point: String,
    tls: Option<Tls>,
    notes: Vec<String>,
}

struct Tls {
    skel: StreamsSkel<'static>,
    files: Vec<(PathBuf, Vec<TlsSite>)>,
    links: Vec<Link>,
}

impl Streams {
    /// Without probes: streams of connections in the clear, which the spine tells.
    #[must_use]
    pub fn in_the_clear(keep_queries: bool, traces: HeadTraces) -> Self {
        let heads = Heads::new(keep_queries);
        let point = ProbePoint { server: "tls".to_owned(), name: "request".to_owned(), roles: REQUEST };
        Self {
            heads: if traces == HeadTraces::Read { heads.with_traces() } else { heads },
            keep_queries,
            traces,
            looked_ns: 0,
            lines: FxHashMap::default(),
            requests: FxHashMap::default(),
            names: FxHashMap::default(),
            point: point.write(),
            tls: None,
            notes: Vec::new(),
        }
    }

    /// The same with probes at the TLS libraries that the server's processes map.
    ///
    /// # Errors
    /// [`CaptureError::Refused`] if the kernel does not take the program.
    pub fn load(
        probes: &mut Probes,
        programs: &Programs,
        keep_queries: bool,
        traces: HeadTraces,
    ) -> Result<Self, CaptureError> {
        let mut streams = Self::in_the_clear(keep_queries, traces);
        let mut files: Vec<(PathBuf, Vec<TlsSite>)> = Vec::new();
        for (path, is_library) in candidates(programs) {
            match Binary::open(&path).map(|binary| tls_edge(&binary, Release::running())) {
                Ok(Ok(edge)) => files.push((path, edge)),
                // Most programs hold no TLS library.
                Ok(Err(NoTlsEdge::None)) if !is_library => {}
                Ok(Err(error)) => streams.notes.push(format!(
                    "{}: {error}; requests over TLS have no names, and streams of HTTP/2 over TLS are not told apart",
                    path.display()
                )),
                // A program that cannot be read is known by its sockets alone.
                Err(_) => {}
            }
        }
        if let Some(path) = programs.file(GNUTLS).ok().filter(|_| files.is_empty()) {
            streams.notes.push(format!(
                "{}: GnuTLS is not probed: its functions begin with instructions that the kernel must single-step, 17 to 24 us a hit; if the server serves by it, requests over TLS have no names, and streams of HTTP/2 over TLS are not told apart",
                path.display()
            ));
        }
        let tells_quic = |site: &TlsSite| matches!(site.place, TlsPlace::MarkQuic(_));
        if files.iter().flat_map(|(_, sites)| sites).any(tells_quic) {
            probes.tell_datagrams();
        }
        if !files.is_empty() {
            streams.tls = Some(Tls::load(probes, files, traces)?);
        }
        Ok(streams)
    }

    /// What is worth saying: which libraries are probed, and which are not, and why.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let probed = self.tls.iter().flat_map(|tls| &tls.files).map(|(path, sites)| {
            format!(
                "TLS: {} places in {}, about 1.1 to 1.6 us for each record that is received or sent, 0.6 to 1.0 of it in every process that uses it (--no-tls-probes does without)",
                sites.len(),
                path.display()
            )
        });
        probed.chain(self.notes.iter().cloned()).collect()
    }

    /// Takes bytes of a request's head; tells its name when its first line is whole, and its trace when that is.
    fn line(&mut self, record: &Record, bytes: &[u8], tell: &mut dyn FnMut(Record, (u32, &str))) {
        let Some(line) = self.lines.get_mut(&record.lane).filter(|line| line.at_ns == record.time_ns) else { return };
        if line.bytes.len() < MOST_BYTES {
            line.bytes.extend_from_slice(bytes);
        }
        if line.wanted == Wanted::Name {
            self.name(record, tell);
        }
        let line = self.lines.get(&record.lane).filter(|line| line.wanted == Wanted::Trace);
        if let Some(trace) = line.and_then(|line| traceparent(&line.bytes)) {
            trace.write(TraceOf::Task, record.time_ns, record.lane).into_iter().for_each(|record| tell(record, NAME));
            self.lines.remove(&record.lane);
        }
    }

    /// Tells the name of the request whose head is put together on a lane, if its first line is whole.
    fn name(&mut self, record: &Record, tell: &mut dyn FnMut(Record, (u32, &str))) {
        let Some(line) = self.lines.get_mut(&record.lane) else { return };
        let end = line.bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let Some(end) = end.or_else(|| (line.bytes.len() >= LINE_BYTES_MAX).then_some(line.bytes.len())) else {
            return;
        };
        let text = String::from_utf8_lossy(&line.bytes[..end]).into_owned();
        match self.traces {
            HeadTraces::Read => line.wanted = Wanted::Trace,
            HeadTraces::Left => drop(self.lines.remove(&record.lane)),
        }
        let name = if self.keep_queries { text.trim_end_matches(" HTTP/1.1").to_owned() } else { without_query(&text) };
        let id = self.id_of(&name);
        let name = if id == FIRST_NAME + MOST_NAMES as u32 { OTHER } else { &name };
        let told = Record { flags: 0, slots: 0, ..*record };
        tell(Record { kind: Kind::ProbeHit as u16, a: 1, b: u64::from(POINT), ..told }, (POINT, &self.point));
        tell(Record { kind: Kind::ProbeText as u16, a: 0, b: u64::from(id), ..told }, (id, name));
    }
}

impl Streams {
    fn id_of(&mut self, name: &str) -> u32 {
        match self.names.get(name) {
            Some(id) => *id,
            None if self.names.len() < MOST_NAMES => {
                let id = FIRST_NAME + self.names.len() as u32;
                self.names.insert(name.to_owned(), id);
                id
            }
            None => FIRST_NAME + MOST_NAMES as u32,
        }
    }

    /// Takes bytes of the request over HTTP/3 just told on a lane; tells the request when its name is whole.
    fn of_request(&mut self, record: &Record, bytes: &[u8], tell: &mut dyn FnMut(Record, (u32, &str))) {
        let Some(request) = self.requests.get_mut(&record.lane) else { return };
        if request.record.time_ns != record.time_ns {
            return;
        }
        request.bytes.extend_from_slice(bytes);
        let (method, path) = request.lengths();
        if request.bytes.len() < method + path {
            return;
        }
        let Some(QuicRequest { record, bytes }) = self.requests.remove(&record.lane) else { return };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (method, path) = bytes.split_at(method);
        let name = format!("{} {}", text(method), text(path));
        let name = if self.keep_queries { name } else { without_query(&name) };
        let id = self.id_of(&name);
        let name = if id == FIRST_NAME + MOST_NAMES as u32 { OTHER } else { &name };
        tell(Record { b: record.b >> 32 << 32 | u64::from(id), ..record }, (id, name));
    }
}

/// Files that may hold a TLS library: libraries by their names, and the programs.
fn candidates(programs: &Programs) -> Vec<(PathBuf, bool)> {
    let libraries = LIBRARIES.iter().filter_map(|name| programs.file(name).ok()).map(|path| (path, true));
    libraries.chain(programs.programs().map(|(path, _)| (path.to_owned(), false))).collect()
}

impl Tls {
    fn load(probes: &Probes, files: Vec<(PathBuf, Vec<TlsSite>)>, traces: HeadTraces) -> Result<Self, CaptureError> {
        let refused = |doing| move |error: libbpf_rs::Error| refusal(doing, &error);
        // As for the user probes: once a run, and it lives as long as the process.
        let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = StreamsSkelBuilder::default().open(object).map_err(refused("opening the probes of TLS"))?;
        probes.share(&mut open.maps.rings, Some(&mut open.maps.bss_targets))?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.ring_mask = ring_mask();
            if traces == HeadTraces::Read {
                constants.line_chunks = CHUNKS;
            }
        }
        let one_by_one = Release::running() < MULTI_SINCE;
        open.progs.on_records.set_autoload(!one_by_one);
        open.progs.on_record.set_autoload(one_by_one);
        let skel = open.load().map_err(refused("loading the probes of TLS"))?;
        Ok(Self { skel, files, links: Vec::new() })
    }

    fn attach(&mut self) -> libbpf_rs::Result<Vec<Link>> {
        let mut links = Vec::new();
        for (file, sites) in &self.files {
            if Release::running() < MULTI_SINCE {
                for site in sites {
                    links.push(attach_one(&self.skel, file, *site)?);
                }
                continue;
            }
            let options = UprobeMultiOpts {
                offsets: sites.iter().map(|site| site.offset as usize).collect(),
                cookies: sites.iter().map(|site| site.place.cookie()).collect(),
                ..UprobeMultiOpts::default()
            };
            links.push(self.skel.progs.on_records.attach_uprobe_multi_with_opts(-1, file, "", options)?);
        }
        Ok(links)
    }
}

fn attach_one(skel: &StreamsSkel<'static>, file: &Path, site: TlsSite) -> libbpf_rs::Result<Link> {
    let options = UprobeOpts { cookie: site.place.cookie(), ..UprobeOpts::default() };
    skel.progs.on_record.attach_uprobe_with_opts(-1, file, site.offset as usize, options)
}

impl EventSource for Streams {
    fn name(&self) -> &'static str {
        "streams"
    }

    fn attach(&mut self) -> Result<(), CaptureError> {
        if let Some(tls) = &mut self.tls {
            tls.links = tls.attach().map_err(|error| refusal("attaching the probes of TLS", &error))?;
        }
        Ok(())
    }

    fn detach(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.links.clear();
        }
    }

    fn sees(&self) -> KindSet {
        KindSet::of(&[Kind::SocketState])
    }

    fn rewrites(&self) -> KindSet {
        KindSet::of(&[Kind::StreamFrame, Kind::StreamBytes, Kind::Quic])
    }

    fn see(&mut self, record: &Record, _slots: &[Slot]) {
        if record.kind == Kind::SocketState as u16 {
            self.heads.close(record.time_ns, Flow::Socket(record.a as u32));
        }
    }

    fn rewrite(&mut self, record: &Record, tell: &mut dyn FnMut(Record, (u32, &str))) -> bool {
        if let Some(frame) = StreamFrame::read(record) {
            if frame.kind == frame_type::REQUEST_LINE {
                let line = Line { at_ns: record.time_ns, bytes: Vec::new(), wanted: Wanted::Name };
                self.lines.insert(record.lane, line);
                if self.traces == HeadTraces::Read {
                    tell(TraceOf::Task.none(record.time_ns, record.lane), NAME);
                }
                return true;
            }
            self.heads.frame(record.time_ns, record.lane, frame);
            return false;
        }
        if Quic::read(record).is_some_and(|told| told.event == QuicEvent::Request) {
            self.requests.insert(record.lane, QuicRequest { record: *record, bytes: Vec::new() });
            return true;
        }
        if record.kind != Kind::StreamBytes as u16 {
            return false;
        }
        let bytes = record.a.to_le_bytes();
        let bytes = &bytes[..usize::from(record.flags).min(bytes.len())];
        self.line(record, bytes, tell);
        self.of_request(record, bytes, tell);
        self.heads.bytes(record.time_ns, record.lane, bytes);
        true
    }

    fn look(&mut self, now_ns: u64, tell: &mut dyn FnMut(Record, &[Slot])) {
        self.heads.read(self.looked_ns, &mut |head, trace| {
            let of = TraceOf::Stream(head.flow, head.stream);
            trace.iter().flat_map(|trace| trace.write(of, now_ns, 0)).for_each(|record| tell(record, &[]));
            let (record, slots) = head.write(now_ns, 0);
            tell(record, &slots);
        });
        self.looked_ns = now_ns;
    }
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Streams").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}
