//! What servers take from their sockets by splice(2), of which the tracepoint of receiving does not tell: another one of
//! TCP's tells of it (`bpf/splices.bpf.c`), at some cost for all that receive, and is attached once a server splices.

use crate::error::CaptureError;
use crate::event_source::EventSource;
use crate::kernel_types::has_tracepoint;
use crate::kind_set::KindSet;
use crate::probes::Probes;
use crate::programs::Programs;
use crate::spine::{refusal, ring_mask, streams};
use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::MaybeUninit;
use weir_wire::task::Switch;
use weir_wire::{Kind, Record, Slot};

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/splices.skel.rs"));
}

/// So many arrivals without a fourth as many receptions are a server that takes its data by another way.
const WORTH_LOOKING: u64 = 8;
/// A server's beginning says nothing of it an hour later: arrivals and receptions are counted over so long.
const COUNTED_NS: u64 = 1_000_000_000;

/// Whether the server was seen to splice since the window began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// No probe of the spine's is attached.
    Off,
    /// Not yet: arrivals and receptions of this stretch, which began then.
    Watching { arrivals: u64, receptions: u64, since_ns: u64, blocked: bool },
    /// It was, and the program is attached.
    Told,
    /// It was, and the program could not be attached.
    Refused,
}

/// The source.
#[derive(Debug)]
pub(crate) struct Splices {
    programs: Programs,
    sight: Sight,
}

impl Splices {
    /// Loads it; `None` where the kernel has no such tracepoint.
    ///
    /// # Errors
    /// [`CaptureError::Refused`] if the kernel does not take the program.
    pub(crate) fn load(probes: &Probes) -> Result<Option<Self>, CaptureError> {
        if !has_tracepoint("tcp_rcv_space_adjust") {
            return Ok(None);
        }
        let refused = |error: libbpf_rs::Error| refusal("loading the probe of splices", &error);
        // As for the spine: once a recording, for as long as the process lives.
        let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = skeleton::SplicesSkelBuilder::default().open(object).map_err(refused)?;
        probes.share(&mut open.maps.rings, Some(&mut open.maps.bss_targets))?;
        probes.share_numbers(open.open_object_mut())?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.ring_mask = ring_mask();
            constants.possible_cpus = streams() as u32;
        }
        Ok(Some(Self { programs: Programs::new(open.load().map_err(refused)?), sight: Sight::Off }))
    }
}

impl Sight {
    fn new(now_ns: u64) -> Self {
        Self::Watching { arrivals: 0, receptions: 0, since_ns: now_ns, blocked: false }
    }

    fn see(&mut self, record: &Record) {
        let Self::Watching { arrivals, receptions, blocked, .. } = self else { return };
        if let Some(switch) = Switch::read(record) {
            *blocked |= i64::from(switch.syscall) == libc::SYS_splice;
        }
        *arrivals += u64::from(record.kind == Kind::SocketReady as u16);
        *receptions += u64::from(record.kind == Kind::SocketRecv as u16);
    }

    /// Whether it splices, as far as is seen; begins to count anew after a while.
    fn splices(&mut self, now_ns: u64) -> bool {
        let Self::Watching { arrivals, receptions, since_ns, blocked } = *self else { return false };
        let splices = blocked || arrivals >= WORTH_LOOKING && receptions < arrivals / 4;
        if !splices && now_ns.saturating_sub(since_ns) >= COUNTED_NS {
            *self = Self::new(now_ns);
        }
        splices
    }
}

impl EventSource for Splices {
    fn name(&self) -> &'static str {
        "splices"
    }

    fn attach(&mut self) -> Result<(), CaptureError> {
        // The first look counts anew, from its time on.
        self.sight = Sight::new(0);
        Ok(())
    }

    fn detach(&mut self) {
        self.programs.detach();
        self.sight = Sight::Off;
    }

    fn sees(&self) -> KindSet {
        KindSet::of(&[Kind::SocketReady, Kind::SocketRecv, Kind::Switch])
    }

    fn see(&mut self, record: &Record, _: &[Slot]) {
        self.sight.see(record);
    }

    fn look(&mut self, now_ns: u64, _: &mut dyn FnMut(Record, &[Slot])) {
        if self.sight.splices(now_ns) {
            self.sight = match self.programs.attach() {
                Ok(()) => Sight::Told,
                Err(error) => {
                    tracing::warn!(%error, "what the server splices is not told");
                    Sight::Refused
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: Kind) -> Record {
        Record { kind: kind as u16, ..Record::default() }
    }

    #[test]
    fn a_server_that_receives_is_none_that_splices() {
        let mut sight = Sight::new(0);
        for now_ns in 0..1_000u64 {
            // A large request arrives in several segments.
            for kind in [Kind::SocketReady, Kind::SocketReady, Kind::SocketReady, Kind::SocketRecv] {
                sight.see(&record(kind));
                assert!(!sight.splices(now_ns * 5_000_000), "{sight:?}");
            }
        }
    }

    #[test]
    fn arrivals_without_receptions_or_a_task_in_the_call_are() {
        let mut sight = Sight::new(0);
        (0..WORTH_LOOKING).for_each(|_| sight.see(&record(Kind::SocketReady)));
        assert!(sight.splices(5));
        let mut sight = Sight::new(0);
        let syscall = libc::SYS_splice as u16;
        sight.see(&Switch { prev: 7, next: 0, prev_state: 1, syscall, descriptor: 4 }.write(1, 0));
        assert!(sight.splices(5));
        // Where no probe of the spine's is attached, none is of this one.
        let mut off = Sight::Off;
        off.see(&record(Kind::SocketReady));
        assert!(!off.splices(5));
    }
}
