//! The probes of the spine: loaded into the kernel, with the rings and targets that other objects share.

use crate::bound;
use crate::boundary_source::BoundarySource;
use crate::error::CaptureError;
use crate::form::Form;
use crate::kernel_types::{has_structure, switch_tells_state};
use crate::per_cpu;
use crate::ring::Rings;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Map, MapCore, OpenMapMut, OpenObject};
use skeleton::{SpineSkel, SpineSkelBuilder};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/spine.skel.rs"));
}

/// Words (of 8 bytes) of a CPU's ring: 4 MiB, which hold 0.4 s of the busiest server seen, so that a collector that has
/// to wait for a CPU loses nothing. Half of that on kernels whose arrays have values of at most 4 MiB.
fn ring_words() -> u64 {
    match Form::here() {
        Form::Whole => 1 << 19,
        Form::WithoutFetch => 1 << 18,
    }
}

/// The same where only the events of some processes' own tasks are told: 1 MiB.
const TASK_RING_WORDS: u64 = 1 << 17;

/// What each object that shares the rings must have as its `ring_mask`.
pub(crate) fn ring_mask() -> u64 {
    ring_words() - 1
}

/// System calls that may send something: data, the end of a connection, or that there is room again for data.
const SENDING: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwritev2,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_close,
    libc::SYS_io_uring_enter,
    libc::SYS_exit_group,
];

/// The map of sockets' numbers, which only one of the objects' forms has.
pub(crate) const NUMBERS: &str = "numbers";

/// What is being done when a tracepoint turns out to be missing.
const LOADING: &str = "loading them";

/// The number of rings, and with it of a recording's streams: one for each CPU that the system may ever have.
#[must_use]
pub fn streams() -> usize {
    libbpf_rs::num_possible_cpus().unwrap_or(1).max(1)
}

/// What the spine is to tell.
#[derive(Clone, Copy)]
pub(crate) enum Scope {
    /// Everything, with request boundaries from this source.
    Host(BoundarySource),
    /// What happens to traced tasks.
    Tasks,
}

/// The loaded spine, not yet attached.
pub(crate) struct Spine {
    pub(crate) skel: SpineSkel<'static>,
    ring_words: u64,
}

impl Spine {
    /// Loads the probes for what they are to tell.
    pub(crate) fn load(scope: Scope) -> Result<Self, CaptureError> {
        bound::check()?;
        quiet_libbpf();
        let refused = |doing| move |error: libbpf_rs::Error| refusal(doing, &error);
        let (source, words) = match scope {
            Scope::Host(source) => (Some(source), ring_words()),
            Scope::Tasks => (None, TASK_RING_WORDS),
        };
        // The skeleton borrows its object for as long as it lives, which is until the process ends: once a run.
        let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = SpineSkelBuilder::default().open(object).map_err(refused("opening them"))?;
        let cpus = libbpf_rs::num_possible_cpus().map_err(refused("counting CPUs"))?;
        let rings = &mut open.maps.rings;
        rings.set_max_entries(cpus as u32).map_err(refused("sizing the rings"))?;
        rings.set_value_size(Rings::stride(words, Form::here()) as u32).map_err(refused("sizing the rings"))?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.ring_mask = words - 1;
            constants.possible_cpus = cpus as u32;
            constants.by_descriptor = source.is_some_and(BoundarySource::finds_by_descriptor);
            constants.targets_only = source.is_none();
            set_calls(&mut constants.sending, SENDING);
            constants.from_run_queue = per_cpu::to_preempt_count().unwrap_or(0);
        }
        // A kernel without these tracepoints refuses the whole object for them.
        let progs = &mut open.progs;
        for program in [&mut progs.on_ready, &mut progs.on_recv, &mut progs.on_send] {
            program.set_autoload(source == Some(BoundarySource::SocketTracepoints));
        }
        progs.on_switch.set_autoload(switch_tells_state());
        progs.on_switch_without_state.set_autoload(!switch_tells_state());
        // Unix sockets are listed since Linux 5.15; before, a connection is told when it is first used.
        progs.census_unix.set_autoload(has_structure("bpf_iter__unix"));
        if source.is_none() {
            for program in [&mut progs.on_state, &mut progs.census, &mut progs.census_unix, &mut progs.census_tasks] {
                program.set_autoload(false);
            }
        }
        Ok(Self { skel: open.load().map_err(refused(LOADING))?, ring_words: words })
    }

    /// The rings, mapped for reading.
    ///
    /// # Errors
    /// [`CaptureError::Refused`] if the map cannot be mapped.
    pub(crate) fn rings(&self) -> Result<Rings, CaptureError> {
        let cpus = self.skel.maps.rings.info().map_err(|error| refusal("sizing the rings", &error))?.info.max_entries;
        Rings::map(self.skel.maps.rings.as_fd(), cpus as usize, self.ring_words, Form::here())
            .map_err(|error| CaptureError::Refused { doing: "mapping the rings", reason: error.to_string() })
    }

    /// Gives another object these rings and targets in place of its own; its `ring_mask` must be [`ring_mask`].
    ///
    /// # Errors
    /// [`CaptureError::Refused`] if the kernel does not let maps be shared.
    pub(crate) fn share(
        &self,
        rings: &mut OpenMapMut<'_>,
        targets: Option<&mut OpenMapMut<'_>>,
    ) -> Result<(), CaptureError> {
        let refused = |error: libbpf_rs::Error| refusal("sharing the rings", &error);
        rings.reuse_fd(self.skel.maps.rings.as_fd()).map_err(refused)?;
        targets.map_or(Ok(()), |targets| self.share_targets(targets))
    }

    /// The map of sockets' numbers, where those are our own.
    fn numbers(&self) -> Option<Map<'_>> {
        self.skel.object().maps().find(|map| map.name() == NUMBERS)
    }

    /// Gives another object the numbers of sockets, where those are our own.
    ///
    /// # Errors
    /// [`CaptureError::Refused`] if the kernel does not let maps be shared.
    pub(crate) fn share_numbers(&self, object: &mut OpenObject) -> Result<(), CaptureError> {
        let Some(numbers) = self.numbers() else { return Ok(()) };
        let Some(mut theirs) = object.maps_mut().find(|map| map.name() == NUMBERS) else { return Ok(()) };
        theirs.reuse_fd(numbers.as_fd()).map_err(|error| refusal("sharing the numbers of sockets", &error))
    }

    /// Forgets the numbers of sockets, where those are our own; for while no probe is attached: sockets that close then
    /// are not seen to.
    pub(crate) fn forget_numbers(&self) {
        let Some(numbers) = self.numbers() else { return };
        for socket in numbers.keys().collect::<Vec<_>>() {
            // One that is gone already needs no forgetting.
            let _ = numbers.delete(&socket);
        }
    }

    /// Gives another object these targets alone: one that tells by other ways than the rings.
    ///
    /// # Errors
    /// [`CaptureError::Refused`] if the kernel does not let maps be shared.
    pub(crate) fn share_targets(&self, targets: &mut OpenMapMut<'_>) -> Result<(), CaptureError> {
        let shared = targets.reuse_fd(self.skel.maps.bss_targets.as_fd());
        shared.map_err(|error| refusal("sharing the targets", &error))
    }
}

/// Sets the bits of these system calls, of those that the map has room for.
pub(crate) fn set_calls(bits: &mut [u8], calls: &[libc::c_long]) {
    for call in calls {
        if let Some(byte) = bits.get_mut(*call as usize / 8) {
            *byte |= 1 << (call % 8);
        }
    }
}

/// Has libbpf write nothing on standard error: it goes to the developers' log.
pub(crate) fn quiet_libbpf() {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Debug, |level, text| tell_of_libbpf(level, &text))));
}

/// Passes on what libbpf says, such as the verifier's reasons, to people who debug; errors reach users by other ways.
fn tell_of_libbpf(level: libbpf_rs::PrintLevel, text: &str) {
    let text = text.trim_end();
    match level {
        libbpf_rs::PrintLevel::Warn => tracing::debug!(target: "weir_capture::libbpf", "{text}"),
        libbpf_rs::PrintLevel::Info | libbpf_rs::PrintLevel::Debug => {
            tracing::trace!(target: "weir_capture::libbpf", "{text}");
        }
    }
}

/// Puts an error of libbpf in our words.
pub(crate) fn refusal(doing: &'static str, error: &libbpf_rs::Error) -> CaptureError {
    let reason = format!("{error:#}");
    tracing::debug!(doing, reason, "the kernel refused");
    // A missing tracepoint is told by libbpf as ESRCH when the program that names it is loaded.
    let is_missing = error.kind() == libbpf_rs::ErrorKind::NotFound || reason.contains("os error 3)");
    if is_missing && doing == LOADING {
        let tracepoint = "sock:sk_data_ready, sock:sock_recv_length or sock:sock_send_length".to_owned();
        return CaptureError::NoSocketTracepoints { release: bound::release(), tracepoint };
    }
    CaptureError::Refused { doing, reason }
}
