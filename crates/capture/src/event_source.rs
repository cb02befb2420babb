//! The seam for sources of events beside the spine: disk, locks, interrupts, stacks, user probes.

use crate::error::CaptureError;
use crate::kind_set::KindSet;
use crate::target::Target;
use weir_wire::{Record, Slot};

/// Takes a record with its slots, and the text of the dictionary that it names, with its id.
pub type TellNamed<'t> = dyn FnMut(Record, &[Slot], (u32, &str)) + 't;

/// A further source, a triplet of files of one name: program, `bpf/NAME.bpf.c`, shared `bpf/NAME.h`.
///
/// Its object shares the spine's rings and targets ([`crate::Probes::share`]), so that its events come in the order of
/// time with all others and go the same way: rings, expander, streams.
/// All calls come from the collector's thread.
pub trait EventSource: Send + std::fmt::Debug {
    /// Its name in options and reports.
    fn name(&self) -> &'static str;

    /// Attaches its programs: from here on the server pays for them.
    ///
    /// # Errors
    /// [`CaptureError`]; what is attached then stays so until [`EventSource::detach`].
    fn attach(&mut self) -> Result<(), CaptureError>;

    /// Detaches its programs; it may be attached again.
    fn detach(&mut self);

    /// Who the server is from now on, told while nothing is attached: it may have been restarted.
    fn retarget(&mut self, target: &Target) {
        let _ = target;
    }

    /// The kinds that [`EventSource::see`] is called for; the same from the first call on.
    fn sees(&self) -> KindSet {
        KindSet::NONE
    }

    /// The kinds that [`EventSource::rewrite`] is called for; the same from the first call on.
    fn rewrites(&self) -> KindSet {
        KindSet::NONE
    }

    /// Sees each record of its kinds on its way to the run, in the order of time on each CPU.
    fn see(&mut self, record: &Record, slots: &[Slot]) {
        let _ = (record, slots);
    }

    /// Takes a record of its own that is not yet what a run should keep, and tells what to keep in its place, each with
    /// the dictionary id and text that it names. False, and nothing told, for all other records.
    fn rewrite(&mut self, record: &Record, tell: &mut dyn FnMut(Record, (u32, &str))) -> bool {
        let _ = (record, tell);
        false
    }

    /// At each look at the rings (20 ms), after the events: hands over what the source has to tell from user space, such
    /// as names. The records get the look's time.
    fn look(&mut self, now_ns: u64, tell: &mut dyn FnMut(Record, &[Slot])) {
        let _ = (now_ns, tell);
    }

    /// The same for records that name a text of the dictionary: its id, and the text.
    fn look_named(&mut self, now_ns: u64, tell: &mut TellNamed<'_>) {
        let _ = (now_ns, tell);
    }

    /// CPU time that it has spent in threads of its own, nanoseconds: part of what observing costs.
    fn cpu_ns(&self) -> u64 {
        0
    }
}
