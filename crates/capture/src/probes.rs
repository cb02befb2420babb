//! Loading, attaching and detaching the probes.

use crate::boundaries::Boundaries;
use crate::boundary_source::BoundarySource;
use crate::error::CaptureError;
use crate::namespaces::Listed;
use crate::pids::Pids;
use crate::ring::Rings;
use crate::spine::{Scope, Spine, refusal};
use libbpf_rs::{Iter, Link, OpenMapMut, OpenObject};
use std::cell::RefCell;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU8, Ordering};
use weir_wire::Record;

/// The loaded probes, not yet attached.
pub struct Probes {
    spine: Spine,
    boundaries: Boundaries,
    /// The thread groups that were named as the server's.
    named: Vec<u32>,
    keep_addresses: bool,
    listed: Listed,
    /// The host's numbers, where this process has others.
    pids: Option<RefCell<Pids>>,
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
        Self::load_source(BoundarySource::SocketTracepoints)
    }

    /// Loads the probes with request boundaries from one source of the ladder.
    ///
    /// # Errors
    /// [`CaptureError`] says what is missing and the remedy; sources without probes are refused.
    pub fn load_source(source: BoundarySource) -> Result<Self, CaptureError> {
        let spine = Spine::load(Scope::Host(source))?;
        let boundaries = Boundaries::load(source, &spine)?;
        Self::of(spine, boundaries)
    }

    /// Loads the scheduler's probes alone. They tell only of the tasks of traced processes: no sockets, no requests,
    /// and of other tasks not who they are. A process that runs another program is traced no more.
    ///
    /// # Errors
    /// [`CaptureError`] says what is missing and the remedy.
    pub(crate) fn load_tasks() -> Result<Self, CaptureError> {
        Self::of(Spine::load(Scope::Tasks)?, Boundaries::InTheSpine)
    }

    fn of(spine: Spine, boundaries: Boundaries) -> Result<Self, CaptureError> {
        let (named, listed) = (Vec::new(), Listed::default());
        Ok(Self { spine, boundaries, named, keep_addresses: false, listed, pids: Pids::here()?.map(RefCell::new) })
    }

    /// The number by which the kernel knows a task.
    fn hosts(&self, tgid: u32) -> u32 {
        self.pids.as_ref().map_or(tgid, |pids| pids.borrow_mut().hosts(tgid))
    }

    /// A new look at the rings begins: numbers that are not known by now are looked for once more.
    pub(crate) fn look(&self) {
        if let Some(pids) = &self.pids {
            pids.borrow_mut().look();
        }
    }

    /// A record of the kernel's with the numbers that this process has for tasks.
    pub(crate) fn translate(&self, record: Record) -> Record {
        self.pids.as_ref().map_or(record, |pids| pids.borrow_mut().translate(&record))
    }

    /// The source that request boundaries come from.
    #[must_use]
    pub fn source(&self) -> BoundarySource {
        self.boundaries.source()
    }

    /// The rings, mapped for reading.
    ///
    /// # Errors
    /// [`CaptureError::Refused`] if the map cannot be mapped.
    pub(crate) fn rings(&self) -> Result<Rings, CaptureError> {
        self.spine.rings()
    }

    /// Gives another object these rings and targets in place of its own; its `ring_mask` must be that of the spine.
    ///
    /// # Errors
    /// [`CaptureError::Refused`] if the kernel does not let maps be shared.
    pub fn share(&self, rings: &mut OpenMapMut<'_>, targets: Option<&mut OpenMapMut<'_>>) -> Result<(), CaptureError> {
        self.spine.share(rings, targets)
    }

    /// Gives another object the numbers of sockets, where those are our own.
    ///
    /// # Errors
    /// [`CaptureError::Refused`] if the kernel does not let maps be shared.
    pub(crate) fn share_numbers(&self, object: &mut OpenObject) -> Result<(), CaptureError> {
        self.spine.share_numbers(object)
    }

    /// Gives another object these targets alone: one that tells by other ways than the rings.
    ///
    /// # Errors
    /// [`CaptureError::Refused`] if the kernel does not let maps be shared.
    pub fn share_targets(&self, targets: &mut OpenMapMut<'_>) -> Result<(), CaptureError> {
        self.spine.share_targets(targets)
    }

    /// Marks a thread group as the server's.
    pub fn trace(&mut self, tgid: u32) {
        if !self.named.contains(&tgid) {
            self.named.push(tgid);
        }
        let tgid = self.hosts(tgid);
        if let Some(state) = self.spine.skel.maps.bss_targets_data.as_deref_mut() {
            set(&mut state.traced, tgid);
        }
    }

    /// Tells the wake-ups of a thread group that is not the server's: the load generator's.
    pub fn tell_wakeups_of(&mut self, tgid: u32) {
        let tgid = self.hosts(tgid);
        if let Some(state) = self.spine.skel.maps.bss_targets_data.as_deref_mut() {
            set(&mut state.woken_too, tgid);
        }
    }

    /// Whether a thread group is the server's: given to [`Probes::trace`], or a descendant since.
    #[must_use]
    pub fn is_traced(&self, tgid: u32) -> bool {
        let tgid = self.hosts(tgid);
        let state = self.spine.skel.maps.bss_targets_data.as_deref();
        state.and_then(|state| state.traced.get(tgid as usize / 8)).is_some_and(|byte| byte >> (tgid % 8) & 1 == 1)
    }

    /// Forgets whose processes and ports the server's are; for while no probe is attached.
    pub(crate) fn forget_targets(&mut self) {
        self.named.clear();
        if let Some(state) = self.spine.skel.maps.bss_targets_data.as_deref_mut() {
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
        let state = self.spine.skel.maps.bss_targets_data.as_deref();
        state.and_then(|state| state.ports.get(usize::from(port) / 8)).is_some_and(|byte| byte >> (port % 8) & 1 == 1)
    }

    /// Marks a local TCP port as the server's.
    pub fn watch_port(&mut self, port: u16) {
        if let Some(state) = self.spine.skel.maps.bss_targets_data.as_deref_mut() {
            set(&mut state.ports, u32::from(port));
        }
    }

    /// Has the first bytes of questions and answers told, of each call at most so many chunks of 56: of connections to what the server
    /// asks. A source must take them, for the recorder keeps none.
    pub(crate) fn tell_questions(&mut self, question_chunks: u32, answer_chunks: u32) {
        if let Some(state) = self.spine.skel.maps.bss_data.as_deref_mut() {
            (state.question_chunks, state.answer_chunks) = (question_chunks, answer_chunks);
        }
    }

    /// Has the first bytes told that the server takes from its clients, of each call at most so many chunks of 56. A source
    /// must take them, for the recorder keeps none.
    pub(crate) fn tell_heads(&mut self, chunks: u32) {
        if let Some(state) = self.spine.skel.maps.bss_data.as_deref_mut() {
            state.head_chunks = chunks;
        }
    }

    /// Has datagrams told that arrive at the server's ports: its marks tell which requests they brought.
    pub(crate) fn tell_datagrams(&mut self) {
        if let Some(state) = self.spine.skel.maps.bss_data.as_deref_mut() {
            state.tells_datagrams = 1;
        }
    }

    /// Attaches all probes: from here on the server pays for them.
    ///
    /// # Errors
    /// [`CaptureError::Refused`].
    pub fn attach(&self) -> Result<Attached, CaptureError> {
        self.spine.forget_numbers();
        let progs = &self.spine.skel.progs;
        // Scheduler first: a socket's event is worth little while the running task is not known.
        let order = [
            &progs.on_fork,
            &progs.on_exec,
            &progs.on_rename,
            &progs.on_exit,
            &progs.on_switch,
            &progs.on_switch_without_state,
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
        tracing::debug!(programs = links.len(), rung = self.source().name(), "spine attached");
        Ok(Attached { _links: links })
    }

    /// Asks the kernel for the sockets that are older than the recording, in this network namespace and in those of the
    /// server's processes, and for what its tasks are at. Returns what could not be listed, a sentence each.
    ///
    /// # Errors
    /// [`CaptureError::Refused`].
    pub fn census(&mut self) -> Result<Vec<String>, CaptureError> {
        if let Some(state) = self.spine.skel.maps.bss_data.as_deref_mut() {
            state.strangers = 0;
        }
        self.listed.clear();
        let refused = |reason: String| CaptureError::Refused { doing: "listing open sockets and tasks", reason };
        let progs = &self.spine.skel.progs;
        let all = [&progs.census, &progs.census_unix, &progs.census_tasks];
        for program in all.into_iter().filter(|program| program.autoload()) {
            let link = program.attach().map_err(|error| refused(format!("{error:#}")))?;
            list(&link).map_err(|error| refused(error.to_string()))?;
        }
        Ok(self.census_elsewhere(self.named.clone()))
    }

    /// The same for the sockets of these processes' network namespaces that were not listed yet in this window.
    pub(crate) fn census_elsewhere(&mut self, pids: impl IntoIterator<Item = u32>) -> Vec<String> {
        let mut unseen = Vec::new();
        let progs = &self.spine.skel.progs;
        for namespace in self.listed.fresh(pids) {
            let of_sockets = [&progs.census, &progs.census_unix].into_iter().filter(|program| program.autoload());
            let links: Vec<_> = of_sockets.map(|program| program.attach().map_err(io::Error::other)).collect();
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

/// Sets a bit, if there is one of that number.
fn set(bits: &mut [u8], index: u32) {
    if let Some(byte) = bits.get_mut(index as usize / 8) {
        // SAFETY: the byte is ours for as long as the borrow; attached probes write to its neighbours' bits, atomically.
        unsafe { AtomicU8::from_ptr(byte) }.fetch_or(1 << (index % 8), Ordering::Relaxed);
    }
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
