//! A load generator's sockets, watched from outside: when it sent, when the answer had arrived, when it was read.
//!
//! It is a program of its own (`bpf/generator.bpf.c`), beside the recording of servers. It sees TCP without kernel TLS;
//! an exchange is what was sent and then read until the next send, so several requests at a time on one connection
//! (pipelining, HTTP/2) are one exchange, and handshakes of TLS are exchanges too.

use crate::error::CaptureError;
use crate::spine::{quiet_libbpf, refusal};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, OpenObject, RingBufferBuilder};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::time::Duration;

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/generator.skel.rs"));
}

/// The kernel's ring is emptied so often: it holds what comes in 250 ms at 700,000 exchanges a second.
const LOOK: Duration = Duration::from_millis(20);
/// An exchange as the kernel's program tells it: five times (`bpf/generator.h`).
const EXCHANGE_BYTES: usize = 40;

/// A request and its answer at the generator's socket, in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneratorExchange {
    /// The first send of the request.
    pub sent_ns: u64,
    /// The last segment of the answer, of those that were read, arrived; 0 if none was seen to arrive.
    pub arrived_ns: u64,
    /// The last read of the answer.
    pub read_ns: u64,
}

/// What was not told as an exchange.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GeneratorCounts {
    /// Connections that the generator began to make.
    pub begun: u64,
    /// Requests whose connection was closed before anything of an answer was read.
    pub unanswered: u64,
    /// Exchanges that found no room on their way.
    pub dropped: u64,
    /// Sends on connections beyond the 65,536 that are followed.
    pub untracked: u64,
}

impl GeneratorExchange {
    fn read(bytes: &[u8]) -> Option<Self> {
        let time = |place: usize| Some(u64::from_ne_bytes(bytes.get(place * 8..place * 8 + 8)?.try_into().ok()?));
        Some(Self { sent_ns: time(0)?, arrived_ns: time(2)?, read_ns: time(4)? })
    }

    /// What the generator felt, in nanoseconds: from its first send to its last read.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.read_ns.saturating_sub(self.sent_ns)
    }

    /// How long the whole answer lay in the socket before the generator read the last of it, in nanoseconds.
    #[must_use]
    pub fn unread_ns(&self) -> u64 {
        match self.arrived_ns {
            0 => 0,
            arrived_ns => self.read_ns.saturating_sub(arrived_ns.max(self.sent_ns)),
        }
    }
}

/// How sends are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sends {
    /// By a tracepoint, when they are over (Linux 6.3 and later).
    Tracepoint,
    /// By a probe at TCP's function (Linux 5.10 and later, not in lockdown).
    Function,
}

/// Loads the programs.
fn load<'o>(
    object: &'o mut MaybeUninit<OpenObject>,
    sends: Sends,
    listening: &BTreeSet<u16>,
) -> libbpf_rs::Result<skeleton::GeneratorSkel<'o>> {
    let mut open = skeleton::GeneratorSkelBuilder::default().open(object)?;
    open.progs.on_send_begin.set_autoload(sends == Sends::Function);
    open.progs.on_send_end.set_autoload(sends == Sends::Tracepoint);
    open.progs.on_call.set_autoload(sends == Sends::Tracepoint);
    if let Some(variables) = open.maps.bss_data.as_deref_mut() {
        listening.iter().for_each(|port| variables.listening[usize::from(port >> 3)] |= 1 << (port & 7));
    }
    open.load()
}

/// Watches the sockets of processes that ask others, until `go_on` returns false; it is given what has come since its
/// last call, 50 times a second. `listening` are ports on which they are asked themselves.
///
/// # Errors
/// If the kernel cannot be observed ([`CaptureError`]).
pub fn watch_generator(
    pids: &BTreeSet<u32>,
    listening: &BTreeSet<u16>,
    mut go_on: impl FnMut(&[GeneratorExchange]) -> bool,
) -> Result<GeneratorCounts, CaptureError> {
    crate::bound::check()?;
    quiet_libbpf();
    if let Some(namespace) = crate::pids::own_namespace() {
        return Err(CaptureError::PidNamespace { namespace });
    }
    let refused = |error: libbpf_rs::Error| refusal("watching the generator's sockets", &error);
    let (mut by_tracepoint, mut by_function) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let mut skel = match load(&mut by_tracepoint, Sends::Tracepoint, listening) {
        Ok(skel) => skel,
        Err(error) => {
            tracing::debug!(%error, "no tracepoint tells sends");
            load(&mut by_function, Sends::Function, listening).map_err(refused)?
        }
    };
    for pid in pids {
        skel.maps.generators.update(&pid.to_ne_bytes(), &[1], MapFlags::ANY).map_err(refused)?;
    }
    let come = RefCell::new(Vec::new());
    let mut builder = RingBufferBuilder::new();
    let take = |bytes: &[u8]| {
        come.borrow_mut().extend(GeneratorExchange::read(bytes));
        0
    };
    builder.add(&skel.maps.exchanges, take).map_err(refused)?;
    let ring = builder.build().map_err(refused)?;
    skel.attach().map_err(refused)?;
    loop {
        std::thread::sleep(LOOK);
        ring.consume().map_err(refused)?;
        let goes_on = go_on(&come.borrow());
        come.borrow_mut().clear();
        if !goes_on {
            break;
        }
    }
    drop(ring);
    // Exchanges that are over, but for the next request that would say so.
    for key in skel.maps.connections.keys() {
        let Ok(Some(connection)) = skel.maps.connections.lookup(&key, MapFlags::ANY) else { continue };
        let exchange = connection.get(..EXCHANGE_BYTES).and_then(GeneratorExchange::read);
        come.borrow_mut().extend(exchange.filter(|exchange| exchange.read_ns > 0));
    }
    go_on(&come.borrow());
    let counts = skel.maps.bss_data.as_deref();
    Ok(counts.map_or_else(GeneratorCounts::default, |counts| GeneratorCounts {
        begun: counts.begun,
        unanswered: counts.unanswered,
        dropped: counts.dropped,
        untracked: counts.untracked,
    }))
}
