//! The runs of several hosts written as one run, on one clock and with numbers that no two hosts share, for readers that
//! know a single run.

use crate::hosts::Hosts;
use crate::phases;
use anyhow::Context;
use std::path::{Path, PathBuf};
use weir_report::HostRun;
use weir_trace::{Entry, JoinedHost, JoinedHosts, Limits, Run, Source, StreamWriter};

/// What was written.
#[derive(Debug)]
pub struct Joined {
    /// The hosts, in the order of their numbers, and how their clocks were put together.
    pub hosts: Vec<HostRun>,
    /// What a reader should know before trusting it.
    pub warnings: Vec<String>,
}

/// Writes the runs of these hosts into a directory as one run, which takes about as many bytes as they do. `go_on` is
/// told from time to time how many records were read; it ends it by false, and then there is no result.
///
/// # Errors
/// The runs cannot be read, share no connection, or cannot be put on one clock; the new run cannot be written.
pub fn joined(
    directories: &[PathBuf],
    into: &Path,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> anyhow::Result<Option<Joined>> {
    let mut hosts = Hosts::open(directories).context("runs of several hosts")?;
    let run = Run::create(into)?;
    for entry in hosts.reader()?.entries {
        if matches!(entry, Entry::Source { .. } | Entry::End { .. }) {
            run.note(&entry)?;
        }
    }
    let mut streams = Streams { run, open: Vec::new() };
    let (mut records, mut outcome) = (0u64, Ok(true));
    let mut merge = hosts.merge();
    merge.each(|sourced| {
        records += 1;
        if records.is_multiple_of(1 << 16) && !go_on(records) {
            outcome = Ok(false);
            return false;
        }
        let stream = streams.of(sourced.run, sourced.source);
        let name = phases::name_id_of(&sourced);
        if let Some((id, text)) = name.and_then(|id| Some((id, sourced.name(id)?))) {
            stream.define(id, text);
        }
        hosts.each(&sourced, |record, payload| {
            if let Err(error) = stream.push(*record, payload, name) {
                outcome = Err(error);
            }
        });
        outcome.is_ok()
    });
    let damage = merge.damage();
    if let Some((_, _, first)) = streams.open.first_mut() {
        first.lose(damage.lost);
    }
    let whole = outcome?;
    for (_, _, stream) in streams.open {
        stream.finish()?;
    }
    if !whole {
        return Ok(None);
    }
    let (hosts, mut warnings) = (hosts.report(), hosts.warnings());
    if damage.bytes > 0 || damage.cut_segments > 0 {
        let (bytes, cut) = (damage.bytes, damage.cut_segments);
        warnings.push(format!("{bytes} bytes of the hosts' runs could not be read; segments that are cut: {cut}"));
    }
    warnings.extend_from_slice(&damage.refused);
    let host = |host: &HostRun| JoinedHost { name: host.name.clone(), clock_error_ns: host.clock_error_ns as u64 };
    let told = JoinedHosts {
        hosts: hosts.iter().map(host).collect(),
        warnings: warnings.clone(),
        damaged_bytes: damage.bytes,
        cut_segments: damage.cut_segments,
    };
    told.write(into).with_context(|| format!("cannot write in {}", into.display()))?;
    Ok(Some(Joined { hosts, warnings }))
}

/// A stream for each source of each run: texts have numbers of their own in each.
struct Streams {
    run: Run,
    open: Vec<(usize, Source, StreamWriter)>,
}

impl Streams {
    fn of(&mut self, run: usize, source: Source) -> &mut StreamWriter {
        let known = self.open.iter().position(|(of, is, _)| (*of, *is) == (run, source));
        let place = known.unwrap_or_else(|| {
            // The runs are bounded, and so are their streams together.
            let limits = Limits { stream_bytes: u64::MAX >> 2, ..Limits::default() };
            self.open.push((run, source, self.run.stream(source, run as u32, limits)));
            self.open.len() - 1
        });
        &mut self.open[place].2
    }
}
