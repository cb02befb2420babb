//! Runs of several hosts read as one.
//!
//! The runs are read three times: for the connections that they share (`ends.rs`), for the messages over these, which
//! bound the difference of the hosts' clocks (`messages.rs`, `clock.rs`), and, merged by one clock and with numbers
//! that no two hosts share (`numbers.rs`), for the requests. From there on they are a run like any other, in which some
//! connections lead from host to host.

mod clock;
mod ends;
mod messages;
mod numbers;

use anyhow::{Context, bail, ensure};
use clock::{Contradictions, HostClock, Unaligned};
use ends::{End, Ends, Shared};
use numbers::Numbers;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use weir_capture::BoundarySource;
use weir_report::{HostRun, nanoseconds};
use weir_trace::{Entry, Merge, RunReader, SegmentFile, Source, Sourced, ToClock};
use weir_wire::socket::{ACCEPTED, FAR, MOST_HOSTS};
use weir_wire::task::task_on_host;
use weir_wire::{Kind, Record, Slot};

/// Numbers of sockets that hosts have together.
const MOST_SOCKETS: u64 = 1 << 31;
/// A message is expected to be in order; of clocks that are right none is early.
const WORTH_WARNING_NS: f64 = 1e6;

/// Runs of several hosts, as one.
pub(super) struct Hosts {
    names: Vec<String>,
    readers: Vec<RunReader>,
    clocks: Vec<Rc<HostClock>>,
    numbers: Vec<Numbers>,
    contradictions: Vec<Contradictions>,
    connections: Vec<u64>,
    left_out: u64,
    /// The host whose windows count: the first one whose kernel was recorded.
    windows_of: usize,
    /// Of each socket with an end on another host, by their numbers among those of all: the other end, and whether the
    /// socket is the one that was accepted.
    far: HashMap<u32, (u32, bool)>,
    told: HashSet<u32>,
}

impl Hosts {
    /// Opens the runs, whose first one's clock is the common one unless another run has the client.
    ///
    /// # Errors
    /// A run cannot be read, the runs share no connection, or it cannot be told how their clocks differ.
    pub(super) fn open(directories: &[PathBuf]) -> anyhow::Result<Self> {
        ensure!(directories.len() <= MOST_HOSTS as usize, "at most {MOST_HOSTS} runs can be explained together");
        let mut readers: Vec<RunReader> =
            directories.iter().map(|directory| RunReader::open(directory)).collect::<Result<_, _>>()?;
        for (index, reader) in readers.iter().enumerate() {
            let again = readers[..index].iter().find(|other| other.directory() == reader.directory());
            ensure!(again.is_none(), "{} is named twice", reader.directory().display());
            check(reader)?;
        }
        // The requests are explained as their client has seen them: the run that has it leads.
        if let Some(client) = readers.iter().position(|reader| has_source(reader, Source::Client)) {
            readers[..=client].rotate_right(1);
        }
        let names = names(&readers);
        let ends: Vec<Ends> = readers.iter().map(Ends::of).collect();
        for (reader, ends) in readers.iter().zip(&ends) {
            ensure!(
                ends.windows <= 1,
                "{} was recorded in windows with pauses between them, in which connections come and go unseen: \
                 explain it alone, or record the hosts without --always",
                reader.directory().display()
            );
        }
        let shared = ends::shared(&ends);
        let messages = messages::between(&readers, &shared);
        let clocks = clock::align(readers.len(), &messages).map_err(|why| unaligned(why, &names, &ends, &readers))?;
        let contradictions = (0..readers.len()).map(|host| clock::contradictions(&clocks, host, &messages)).collect();
        let connections = (0..readers.len())
            .map(|host| shared.iter().filter(|one| one.server.0 == host || one.client.0 == host).count() as u64)
            .collect();
        let numbers = numbered(&names, &ends, &clocks)?;
        let far = far(&shared, &numbers);
        let windows_of = readers.iter().position(|reader| has_source(reader, Source::Kernel)).unwrap_or(0);
        let (left_out, told) = (ends.iter().map(|ends| ends.left_out).sum(), HashSet::new());
        Ok(Self { names, readers, clocks, numbers, contradictions, connections, left_out, windows_of, far, told })
    }

    /// All records by the common clock; each is still to be taken by [`Hosts::each`].
    pub(super) fn merge(&self) -> Merge<SegmentFile> {
        let run = |(reader, clock): (&RunReader, &Rc<HostClock>)| {
            let clock = Rc::clone(clock);
            let to_common: ToClock = Box::new(move |own_ns| clock.at(own_ns));
            (reader.streams().to_vec(), to_common)
        };
        Merge::of_runs(self.readers.iter().zip(&self.clocks).map(run).collect())
    }

    /// The manifest of all, as the first run's.
    ///
    /// # Errors
    /// The first run cannot be read again.
    pub(super) fn reader(&self) -> anyhow::Result<RunReader> {
        let mut all = RunReader::open(self.readers[0].directory())?;
        for (host, reader) in self.readers.iter().enumerate().skip(1) {
            all.entries.extend(reader.entries.iter().cloned().map(|entry| on_host(entry, host as u32)));
            all.manifest_cut += reader.manifest_cut;
            all.manifest_later += reader.manifest_later;
        }
        Ok(all)
    }

    /// Gives a record on with the numbers of its host, and what is known of its connection to another host.
    pub(super) fn each(&mut self, sourced: &Sourced<'_>, mut take: impl FnMut(&Record, &[Slot])) {
        let Self { numbers, far, told, windows_of, .. } = self;
        if sourced.record.kind == Kind::Window as u16 && sourced.run != *windows_of {
            return;
        }
        let Some((record, payload)) = numbers[sourced.run].apply(&sourced.record, sourced.payload) else { return };
        take(&record, payload);
        if record.kind == Kind::SocketOpen as u16 {
            let (socket, _) = record.a_halves();
            if let Some((peer, is_server)) = far.get(&socket) {
                told.insert(socket);
                if told.contains(peer) {
                    let a = u64::from(socket) | u64::from(*peer) << 32;
                    let flags = FAR | if *is_server { ACCEPTED } else { 0 };
                    let (time_ns, lane) = (record.time_ns, record.lane);
                    take(&Record { time_ns, kind: Kind::SocketPeer as u16, flags, lane, a, ..Record::default() }, &[]);
                }
            }
        }
    }

    /// What is told of each host.
    pub(super) fn report(&self) -> Vec<HostRun> {
        let host = |host: usize| {
            let (clock, contradictions) = (&self.clocks[host], &self.contradictions[host]);
            HostRun {
                name: self.names[host].clone(),
                run: self.readers[host].directory().display().to_string(),
                clock_offset_ns: clock.offset_ns(),
                clock_error_ns: clock.error_ns as f64,
                clock_typical_error_ns: clock.typical_error_ns as f64,
                clock_rate_ppm: clock.rate_ppm,
                connections: self.connections[host],
                messages: contradictions.messages,
                contradicting: contradictions.contradicting,
                contradicting_ns_max: contradictions.worst_ns as f64,
            }
        };
        (0..self.readers.len()).map(host).collect()
    }

    /// What a reader should know before trusting the figures.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for host in self.report() {
            if host.contradicting > 0 {
                warnings.push(format!(
                    "{} of {} messages between {} and the other hosts arrived before they were sent, by up to {}: a clock was set or stood still meanwhile; times on the way between the hosts are not to be trusted",
                    host.contradicting, host.messages, host.name, nanoseconds(host.contradicting_ns_max)
                ));
            } else if host.clock_error_ns > WORTH_WARNING_NS {
                warnings.push(format!(
                    "the clock of {} is known to within {} only: so much of a wait for it may be on the way instead of at it, or the other way round",
                    host.name, nanoseconds(host.clock_error_ns)
                ));
            }
        }
        let stacks: u64 = self.numbers.iter().map(|numbers| numbers.stacks).sum();
        if stacks > 0 {
            warnings.push(format!(
                "{stacks} samples of stacks of other hosts than {} are left out: explain their runs alone for them",
                self.names[0]
            ));
        }
        if self.left_out > 0 {
            warnings.push(format!(
                "{} connections were more than can be looked at; over them no host was followed to another",
                self.left_out
            ));
        }
        warnings
    }
}

/// Refuses a run that says too little.
fn check(reader: &RunReader) -> anyhow::Result<()> {
    let rung = reader.rung().and_then(BoundarySource::of_name);
    if rung == Some(BoundarySource::ProcOnly) {
        bail!(
            "{} was recorded without probes, so that it tells of no connection; record it with privileges",
            reader.directory().display()
        );
    }
    Ok(())
}

fn has_source(reader: &RunReader, wanted: Source) -> bool {
    reader.entries.iter().any(|entry| matches!(entry, Entry::Source { source, .. } if source == wanted.name()))
}

/// A name for each run: its host's, or its directory's where two hosts have the same.
fn names(readers: &[RunReader]) -> Vec<String> {
    let host = |reader: &RunReader| {
        let name = reader.entries.iter().find_map(|entry| match entry {
            Entry::Source { host, .. } => Some(host.name.clone()),
            _ => None,
        });
        name.filter(|name| !name.is_empty())
    };
    let hosts: Vec<Option<String>> = readers.iter().map(host).collect();
    let is_only = |name: &Option<String>| name.is_some() && hosts.iter().filter(|other| *other == name).count() == 1;
    let directory = |path: &Path| {
        path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
    };
    let named = hosts.iter().zip(readers).map(|(name, reader)| match name {
        Some(own) if is_only(name) => own.clone(),
        _ => directory(reader.directory()),
    });
    let mut all: Vec<String> = named.collect();
    for index in 1..all.len() {
        if all[..index].contains(&all[index]) {
            all[index] = readers[index].directory().display().to_string();
        }
    }
    all
}

/// What each host's numbers become: sockets' numbers of one follow those of the other.
fn numbered(names: &[String], ends: &[Ends], clocks: &[Rc<HostClock>]) -> anyhow::Result<Vec<Numbers>> {
    let mut next = 1u64;
    let mut all = Vec::new();
    for (host, (name, ends)) in names.iter().zip(ends).enumerate() {
        let (first, last) = ends.numbers.unwrap_or((1, 1));
        all.push(Numbers::new(host as u32, name.clone(), Rc::clone(&clocks[host]), (first, next as u32)));
        next += u64::from(last - first) + 1;
        ensure!(
            next < MOST_SOCKETS,
            "the runs tell of sockets whose numbers lie too far apart to be read as one: record for a shorter time"
        );
    }
    Ok(all)
}

/// The other ends of sockets on other hosts.
fn far(shared: &[Shared], numbers: &[Numbers]) -> HashMap<u32, (u32, bool)> {
    let mut far = HashMap::new();
    for Shared { server, client, .. } in shared {
        if let ((server, End::Socket(at_server)), (client, End::Socket(at_client))) = (*server, *client) {
            let (at_server, at_client) = (numbers[server].socket(at_server), numbers[client].socket(at_client));
            far.insert(at_server, (at_client, true));
            far.insert(at_client, (at_server, false));
        }
    }
    far
}

/// An entry of another host's manifest: its process is another than one of the same number on the first host.
fn on_host(entry: Entry, host: u32) -> Entry {
    match entry {
        Entry::Source { source, pid, version, command, host: machine, monotonic_ns, realtime_ns, rung, seed } => {
            let pid = task_on_host(pid, host);
            Entry::Source { source, pid, version, command, host: machine, monotonic_ns, realtime_ns, rung, seed }
        }
        Entry::End { source, pid, monotonic_ns, realtime_ns, cost, notes } => {
            Entry::End { source, pid: task_on_host(pid, host), monotonic_ns, realtime_ns, cost, notes }
        }
        other => other,
    }
}

/// Why a host's clock cannot be known, with the remedy.
fn unaligned(why: Unaligned, names: &[String], ends: &[Ends], readers: &[RunReader]) -> anyhow::Error {
    let (host, words) = match why {
        Unaligned::Silent(host) => (
            host,
            "no message between it and the other runs was recorded: they share no connection, or were not recorded at the same time",
        ),
        Unaligned::OneWay(host) => (
            host,
            "messages between it and the other runs were recorded one way only, which does not tell how the clocks differ",
        ),
    };
    let of_client = ends.iter().any(|ends| ends.has_clients() && ends.requests > 0);
    let remedy = if of_client {
        "; the connections of `weir load` are found by their addresses: record the server with --keep-addresses, and load it without a proxy or address translation between"
    } else {
        "; record the process that asks on its host, and the one that answers on the other, at the same time and with no proxy between that is not recorded"
    };
    anyhow::anyhow!("{}: {words}{remedy}", names[host]).context(format!(
        "{} cannot be put on one clock with {}",
        readers[host].directory().display(),
        names[0]
    ))
}

/// Opens the runs of further hosts with the first one; `None` without any.
///
/// # Errors
/// As [`Hosts::open`].
pub(super) fn of(directory: &Path, others: &[PathBuf]) -> anyhow::Result<Option<Hosts>> {
    if others.is_empty() {
        return Ok(None);
    }
    let directories: Vec<PathBuf> = std::iter::once(directory.to_owned()).chain(others.iter().cloned()).collect();
    Hosts::open(&directories).context("runs of several hosts").map(Some)
}
