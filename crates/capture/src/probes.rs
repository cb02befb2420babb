//! Loading, attaching and detaching the probes.

use crate::bound::{self, Rung};
use crate::boundaries::Boundaries;
use crate::error::CaptureError;
use crate::namespaces::Listed;
use crate::per_cpu;
use crate::ring::Rings;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapCore, OpenMapMut, OpenObject};
use skeleton::{SpineSkel, SpineSkelBuilder};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU8, Ordering};

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/spine.skel.rs"));
}

/// Words (of 8 bytes) of a CPU's ring: 4 MiB, which hold 0.4 s of the busiest server seen, so that a collector that has
/// to wait for a CPU loses nothing.
const RING_WORDS: u64 = 1 << 19;
/// The same where only the events of some processes' own tasks are told: 1 MiB.
const TASK_RING_WORDS: u64 = 1 << 17;
/// What each object that shares the rings must have as its `ring_mask`.
pub(crate) const RING_MASK: u64 = RING_WORDS - 1;

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

/// What is being done when a tracepoint turns out to be missing.
const LOADING: &str = "loading them";

/// The number of rings, and with it of a recording's streams: one for each CPU that the system may ever have.
#[must_use]
pub fn streams() -> usize {
    libbpf_rs::num_possible_cpus().unwrap_or(1).max(1)
}

/// The loaded probes, not yet attached.
pub struct Probes {
    skel: SpineSkel<'static>,
    boundaries: Boundaries,
    ring_words: u64,
    /// The thread groups that were named as the server's.
    named: Vec<u32>,
    keep_addresses: bool,
    listed: Listed,
}

/// Attached probes; dropping it detaches them.
pub struct Attached {
    _links: Vec<Link>,
}

impl Probes {
    /// Loads the probes into the kernel, with request boundaries from the sockets' tracepoints.
    ///
    /// # Errors
    /// [`CaptureError`] says what is missing and the remedy.
    pub fn load() -> Result<Self, CaptureError> {
        Self::load_rung(Rung::SocketTracepoints)
    }

    /// Loads the probes with request boundaries from one rung of the ladder.
    ///
    /// # Errors
    /// [`CaptureError`] says what is missing and the remedy; rungs without probes are refused.
    pub fn load_rung(rung: Rung) -> Result<Self, CaptureError> {
        let skel = load_spine(Scope::Host(rung))?;
        let (boundaries, named) = (Boundaries::InTheSpine, Vec::new());
        let mut probes =
            Self { skel, boundaries, ring_words: RING_WORDS, named, keep_addresses: false, listed: Listed::default() };
        probes.boundaries = Boundaries::load(rung, &probes)?;
        Ok(probes)
    }

    /// Loads the scheduler's probes alone. They tell only of the tasks of traced processes: no sockets, no requests,
    /// and of other tasks not who they are. A process that runs another program is traced no more.
    ///
    /// # Errors
    /// [`CaptureError`] says what is missing and the remedy.
    pub(crate) fn load_tasks() -> Result<Self, CaptureError> {
        let skel = load_spine(Scope::Tasks)?;
        let (boundaries, named) = (Boundaries::InTheSpine, Vec::new());
        Ok(Self {
            skel,
            boundaries,
            ring_words: TASK_RING_WORDS,
            named,
            keep_addresses: false,
            listed: Listed::default(),
        })
    }

    /// The rung that request boundaries come from.
    #[must_use]
    pub fn rung(&self) -> Rung {
        self.boundaries.rung()
    }

    /// The rings, mapped for reading.
    ///
    /// # Errors
    /// [`CaptureError::Refused`] if the map cannot be mapped.
    pub(crate) fn rings(&self) -> Result<Rings, CaptureError> {
        let cpus = self.skel.maps.rings.info().map_err(|error| refusal("sizing the rings", &error))?.info.max_entries;
        Rings::map(self.skel.maps.rings.as_fd(), cpus as usize, self.ring_words)
            .map_err(|error| CaptureError::Refused { doing: "mapping the rings", reason: error.to_string() })
    }

    /// Gives another object these rings and targets in place of its own; its `ring_mask` must be [`RING_MASK`].
    ///
    /// # Errors
    /// [`CaptureError::Refused`] if the kernel does not let maps be shared.
    pub fn share(&self, rings: &mut OpenMapMut<'_>, targets: Option<&mut OpenMapMut<'_>>) -> Result<(), CaptureError> {
        let refused = |error: libbpf_rs::Error| refusal("sharing the rings", &error);
        rings.reuse_fd(self.skel.maps.rings.as_fd()).map_err(refused)?;
        targets.map_or(Ok(()), |targets| self.share_targets(targets))
    }

    /// Gives another object these targets alone: one that tells by other ways than the rings.
    ///
    /// # Errors
    /// [`CaptureError::Refused`] if the kernel does not let maps be shared.
    pub fn share_targets(&self, targets: &mut OpenMapMut<'_>) -> Result<(), CaptureError> {
        let shared = targets.reuse_fd(self.skel.maps.bss_targets.as_fd());
        shared.map_err(|error| refusal("sharing the targets", &error))
    }

    /// Marks a thread group as the server's.
    pub fn trace(&mut self, tgid: u32) {
        if !self.named.contains(&tgid) {
            self.named.push(tgid);
        }
        if let Some(state) = self.skel.maps.bss_targets_data.as_deref_mut() {
            set(&mut state.traced, tgid);
        }
    }

    /// Tells the wake-ups of a thread group that is not the server's: the load generator's.
    pub fn tell_wakeups_of(&mut self, tgid: u32) {
        if let Some(state) = self.skel.maps.bss_targets_data.as_deref_mut() {
            set(&mut state.woken_too, tgid);
        }
    }

    /// Whether a thread group is the server's: given to [`Probes::trace`], or a descendant since.
    #[must_use]
    pub fn is_traced(&self, tgid: u32) -> bool {
        let state = self.skel.maps.bss_targets_data.as_deref();
        state.and_then(|state| state.traced.get(tgid as usize / 8)).is_some_and(|byte| byte >> (tgid % 8) & 1 == 1)
    }

    /// Forgets whose processes and ports the server's are; for while no probe is attached.
    pub(crate) fn forget_targets(&mut self) {
        self.named.clear();
        if let Some(state) = self.skel.maps.bss_targets_data.as_deref_mut() {
            state.traced.fill(0);
            state.ports.fill(0);
        }
    }

    /// Has the addresses of clients written as they are; without it, keyed hashes take their place.
    pub fn keep_addresses(&mut self) {
        self.keep_addresses = true;
    }

    pub(crate) fn keeps_addresses(&self) -> bool {
        self.keep_addresses
    }

    /// Whether a local port is the server's: given to [`Probes::watch_port`], or opened by it since.
    pub(crate) fn is_watched(&self, port: u16) -> bool {
        let state = self.skel.maps.bss_targets_data.as_deref();
        state.and_then(|state| state.ports.get(usize::from(port) / 8)).is_some_and(|byte| byte >> (port % 8) & 1 == 1)
    }

    /// Marks a local TCP port as the server's.
    pub fn watch_port(&mut self, port: u16) {
        if let Some(state) = self.skel.maps.bss_targets_data.as_deref_mut() {
            set(&mut state.ports, u32::from(port));
        }
    }

    /// Attaches all probes: from here on the server pays for them.
    ///
    /// # Errors
    /// [`CaptureError::Refused`].
    pub fn attach(&self) -> Result<Attached, CaptureError> {
        let progs = &self.skel.progs;
        // Scheduler first: a socket's event is worth little while the running task is not known.
        let order = [
            &progs.on_fork,
            &progs.on_exec,
            &progs.on_rename,
            &progs.on_exit,
            &progs.on_switch,
            &progs.on_waking,
            &progs.on_state,
            &progs.on_ready,
            &progs.on_recv,
            &progs.on_send,
        ];
        let mut links = Vec::with_capacity(order.len());
        for program in order.into_iter().filter(|program| program.autoload()) {
            links.push(program.attach().map_err(|error| refusal("attaching them", &error))?);
        }
        self.boundaries.attach(&self.named, &mut links)?;
        tracing::debug!(programs = links.len(), rung = self.rung().name(), "spine attached");
        Ok(Attached { _links: links })
    }

    /// Asks the kernel for the sockets that are older than the recording, in this network namespace and in those of the
    /// server's processes, and for what its tasks are at. Returns what could not be listed, a sentence each.
    ///
    /// # Errors
    /// [`CaptureError::Refused`].
    pub fn census(&mut self) -> Result<Vec<String>, CaptureError> {
        if let Some(state) = self.skel.maps.bss_data.as_deref_mut() {
            state.strangers = 0;
        }
        self.listed.clear();
        let refused = |reason: String| CaptureError::Refused { doing: "listing open sockets and tasks", reason };
        let progs = &self.skel.progs;
        for program in [&progs.census, &progs.census_unix, &progs.census_tasks] {
            let link = program.attach().map_err(|error| refused(format!("{error:#}")))?;
            list(&link).map_err(|error| refused(error.to_string()))?;
        }
        Ok(self.census_elsewhere(self.named.clone()))
    }

    /// The same for the sockets of these processes' network namespaces that were not listed yet in this window.
    pub(crate) fn census_elsewhere(&mut self, pids: impl IntoIterator<Item = u32>) -> Vec<String> {
        let mut unseen = Vec::new();
        let progs = &self.skel.progs;
        for namespace in self.listed.fresh(pids) {
            let links = [&progs.census, &progs.census_unix].map(|program| program.attach().map_err(io::Error::other));
            // The iterator lists the namespace of the task that makes it.
            let listed = namespace.within(|| links.into_iter().try_for_each(|link| list(&link?)));
            if let Err(error) = listed {
                unseen.push(format!(
                    "in the network namespace {} of process {} the connections that are older than the recording could not be listed ({error}): what goes over them is not told; run weir as root",
                    namespace.name, namespace.pid
                ));
            }
        }
        unseen
    }
}

/// Runs an iterator to its end: its program writes to the rings, never to the reader.
fn list(link: &Link) -> io::Result<()> {
    Iter::new(link).map_err(io::Error::other)?.read_to_end(&mut Vec::new()).map(drop)
}

/// What the spine is to tell.
#[derive(Clone, Copy)]
enum Scope {
    /// Everything, with request boundaries from this rung.
    Host(Rung),
    /// What happens to traced tasks.
    Tasks,
}

fn load_spine(scope: Scope) -> Result<SpineSkel<'static>, CaptureError> {
    bound::check()?;
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Debug, |level, text| tell_of_libbpf(level, &text))));
    let refused = |doing| move |error: libbpf_rs::Error| refusal(doing, &error);
    let (rung, words) = match scope {
        Scope::Host(rung) => (Some(rung), RING_WORDS),
        Scope::Tasks => (None, TASK_RING_WORDS),
    };
    // The skeleton borrows its object for as long as it lives, which is until the process ends: once a run.
    let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = SpineSkelBuilder::default().open(object).map_err(refused("opening them"))?;
    let cpus = libbpf_rs::num_possible_cpus().map_err(refused("counting CPUs"))?;
    let rings = &mut open.maps.rings;
    rings.set_max_entries(cpus as u32).map_err(refused("sizing the rings"))?;
    rings.set_value_size(Rings::stride(words) as u32).map_err(refused("sizing the rings"))?;
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.ring_mask = words - 1;
        constants.by_descriptor = rung.is_some_and(Boundaries::by_descriptor);
        constants.targets_only = rung.is_none();
        set_calls(&mut constants.sending, SENDING);
        constants.from_run_queue = per_cpu::to_preempt_count().unwrap_or(0);
    }
    // A kernel without these tracepoints refuses the whole object for them.
    let progs = &mut open.progs;
    for program in [&mut progs.on_ready, &mut progs.on_recv, &mut progs.on_send] {
        program.set_autoload(rung == Some(Rung::SocketTracepoints));
    }
    if rung.is_none() {
        for program in [&mut progs.on_state, &mut progs.census, &mut progs.census_unix, &mut progs.census_tasks] {
            program.set_autoload(false);
        }
    }
    open.load().map_err(refused(LOADING))
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

/// Sets the bits of these system calls, of those that the map has room for.
pub(crate) fn set_calls(bits: &mut [u8], calls: &[libc::c_long]) {
    for call in calls {
        if let Some(byte) = bits.get_mut(*call as usize / 8) {
            *byte |= 1 << (call % 8);
        }
    }
}

/// Sets a bit, if there is one of that number.
fn set(bits: &mut [u8], index: u32) {
    if let Some(byte) = bits.get_mut(index as usize / 8) {
        // SAFETY: the byte is ours for as long as the borrow; attached probes write to its neighbours' bits, atomically.
        unsafe { AtomicU8::from_ptr(byte) }.fetch_or(1 << (index % 8), Ordering::Relaxed);
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

impl std::fmt::Debug for Probes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Probes").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Attached").finish_non_exhaustive()
    }
}
