//! A run as a trace of requests' visits, of which `weir-predict` makes predictions.
//!
//! 1. `cpus.rs` adds up what each task had of the CPUs while requests were under way.
//! 2. `ways.rs` keeps what each request did: whose time it was, what part, and what it was called.
//! 3. `pools.rs` finds out which tasks serve together, how, and how many they are.
//! 4. `locks.rs` finds the work under a lock that others wait for.
//! 5. `disks.rs` finds the disks that had a queue, and how many requests each works on at once.
//! 6. `made.rs` puts the trace together.

mod cpus;
mod disks;
mod load;
mod locks;
mod made;
mod pools;
#[cfg(test)]
mod tests;
mod ways;

use crate::from_sockets::View;
use crate::phases;
use anyhow::Context;
use cpus::Cpus;
use disks::Disks;
use load::Load;
use std::path::Path;
use ways::Ways;
use weir_measure::class::Grouping;
use weir_predict::Trace;
use weir_timeline::Unjoinable;
use weir_trace::{Entry, RunReader, Source};
use weir_wire::{Kind, Record};

/// A run, as what its requests did.
///
/// # Errors
/// The run cannot be read, or no request in it was followed through the server.
pub fn trace_of(directory: &Path, grouping: Grouping, view: &View) -> anyhow::Result<Trace> {
    let reader = RunReader::open(directory)?;
    let mut joiner = view.joiner(&reader);
    let is_server_side = view.is_server_side(&reader);
    let mut ways = Ways::new(grouping);
    let (mut cpus, mut disks) = (Cpus::default(), Disks::default());
    let mut left_out = 0u64;
    reader.merge().each(|sourced| {
        let name = phases::name_of(&sourced);
        joiner.push(&sourced.record, sourced.payload, name, &mut |joiner, response| {
            match response.unjoinable {
                None => ways.push(joiner, response),
                // An edge cuts long and short requests, which is no fault of the server.
                Some(Unjoinable::Edge) => {}
                Some(_) => left_out += 1,
            }
        });
        if sourced.source == Source::Kernel {
            cpus.push(&joiner, &sourced.record);
            disks.push(&sourced.record, sourced.payload);
        }
        let is_request = if is_server_side { ways.last_ns() } else { client_end_ns(&sourced.record) };
        cpus.until(is_request);
        true
    });
    joiner.finish(&mut |joiner, response| match response.unjoinable {
        None => ways.push(joiner, response),
        Some(Unjoinable::Edge) => {}
        Some(_) => left_out += 1,
    });
    let statistics = joiner.statistics();
    left_out += statistics.failed.iter().sum::<u64>();
    if ways.is_empty() {
        return Err(anyhow::anyhow!(
            "none of its {} requests was followed through the server; weir explain says why",
            statistics.requests
        ))
        .with_context(|| format!("no prediction from {}", directory.display()));
    }
    let (load, host_cpus) = load_of(&reader);
    Ok(made::trace(ways, &cpus, &disks.queued(), load, host_cpus, left_out, is_server_side))
}

/// When a request was over for the client, if a record says so.
fn client_end_ns(record: &Record) -> u64 {
    if record.kind == Kind::ClientRequest as u16 { record.time_ns } else { 0 }
}

/// How the load was made, and how many CPUs the host has.
fn load_of(reader: &RunReader) -> (Load, u32) {
    let (mut load, mut cpus) = (Load::default(), 1);
    for entry in &reader.entries {
        let Entry::Source { command, host, .. } = entry else { continue };
        cpus = host.cpus.max(1);
        let own = command.iter().position(|word| word == "--").unwrap_or(command.len());
        for (at, word) in command[..own].iter().enumerate() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, value),
                _ => (word.as_str(), command[..own].get(at + 1).map_or("", String::as_str)),
            };
            match name {
                "--rate" | "-R" | "--qps" | "--rps" => load.is_open = true,
                "-c" | "--connections" => load.connections = value.parse().ok().or(load.connections),
                _ => {
                    let attached = word.strip_prefix("-c").and_then(|rest| rest.parse().ok());
                    load.connections = attached.or(load.connections);
                }
            }
        }
    }
    (load, cpus)
}
