//! The sampler's programs in the kernel, and what they write.

use super::php::Places;
use super::space::Registers;
use crate::error::CaptureError;
use crate::probes::Probes;
use crate::spine::refusal;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject};
use skeleton::{SamplesSkel, SamplesSkelBuilder};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/samples.skel.rs"));
}

/// Frames of the kernel in an event, as WEIR_KERNEL_FRAMES in samples.h.
const KERNEL_FRAMES: usize = 48;
/// Bytes of a stack that are copied, as WEIR_STACK_BYTES in samples.h.
pub(super) const STACK_BYTES: usize = 32768;
/// Bytes of the ring for each CPU: samples of half a second at 99 Hz.
const RING_BYTES: u32 = 1 << 21;
const MOST_RING: u32 = 1 << 26;

/// An event's words as they stand in samples.h; all are multiples of four bytes.
const SORT_CPU: u32 = 1;
const SORT_PHP: u32 = 2;

/// A task that had a CPU.
#[derive(Debug)]
pub(super) struct OnCpu<'a> {
    pub(super) pid: u32,
    pub(super) tgid: u32,
    pub(super) time_ns: u64,
    pub(super) registers: Registers,
    /// Addresses, the innermost first.
    pub(super) kernel: Vec<u64>,
    /// The stack from its pointer on.
    pub(super) stack: &'a [u8],
}

/// A function of PHP of the sample before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PhpFunction {
    pub(super) pid: u32,
    pub(super) index: u32,
    pub(super) name: String,
}

/// A task that is blocked.
#[derive(Debug)]
pub(super) struct Blocked {
    pub(super) pid: u32,
    pub(super) tgid: u32,
    /// When it was met.
    pub(super) time_ns: u64,
    /// How often it has had a CPU.
    pub(super) runs: u64,
    pub(super) registers: Registers,
    pub(super) kernel: Vec<u64>,
}

/// What the ring holds.
#[derive(Debug)]
pub(super) enum Event<'a> {
    OnCpu(OnCpu<'a>),
    Php(PhpFunction),
}

/// Takes bytes apart, from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }

    fn registers(&mut self) -> Option<Registers> {
        Some(Registers { ip: self.u64()?, sp: self.u64()?, fp: self.u64()?, lr: self.u64()? })
    }

    /// The kernel's addresses, of which `bytes` are there.
    fn addresses(&mut self, bytes: u64) -> Option<Vec<u64>> {
        let count = (bytes / 8).min(KERNEL_FRAMES as u64) as usize;
        let mut all = Bytes(self.take(8 * KERNEL_FRAMES)?);
        (0..count).map(|_| all.u64()).collect()
    }

    /// Text that a zero ends.
    fn text(&mut self, size: usize) -> Option<String> {
        let bytes = self.take(size)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(size);
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

impl<'a> Event<'a> {
    /// Reads `struct weir_sample` or `struct weir_php_frame`.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut bytes = Bytes(bytes);
        match bytes.u32()? {
            SORT_CPU => {
                let (pid, tgid, kernel_bytes) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
                let (time_ns, registers, stack_bytes) = (bytes.u64()?, bytes.registers()?, bytes.u64()?);
                let kernel = bytes.addresses(u64::from(kernel_bytes))?;
                let stack = bytes.0.get(..usize::try_from(stack_bytes).ok()?.min(STACK_BYTES))?;
                Some(Self::OnCpu(OnCpu { pid, tgid, time_ns, registers, kernel, stack }))
            }
            SORT_PHP => {
                let (pid, index, kind, line) = (bytes.u32()?, bytes.u32()?, bytes.u32()?, bytes.u32()?);
                bytes.u32()?;
                let (name, scope, file) = (bytes.text(64)?, bytes.text(64)?, bytes.text(128)?);
                Some(Self::Php(PhpFunction { pid, index, name: super::php::called(&name, &scope, &file, line, kind) }))
            }
            _ => None,
        }
    }
}

impl Blocked {
    /// Bytes of `struct weir_blocked`.
    pub(super) const BYTES: usize = 4 + 4 + 8 + 8 + 32 + 8 + 8 * KERNEL_FRAMES;

    /// Reads `struct weir_blocked`.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut bytes = Bytes(bytes);
        let (pid, tgid, time_ns, runs) = (bytes.u32()?, bytes.u32()?, bytes.u64()?, bytes.u64()?);
        let (registers, kernel_bytes) = (bytes.registers()?, bytes.u64()?);
        Some(Self { pid, tgid, time_ns, runs, registers, kernel: bytes.addresses(kernel_bytes)? })
    }
}

/// The loaded programs.
pub(super) struct Programs {
    skel: SamplesSkel<'static>,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Programs").finish_non_exhaustive()
    }
}

/// Counters of the programs, ever since they were loaded.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    /// Samples of running tasks that found no room.
    pub(super) dropped: u64,
    /// Blocked tasks that were met anew.
    pub(super) fresh: u64,
    /// Of these, those passed over.
    pub(super) passed: u64,
}

impl Programs {
    /// Loads them, with the spine's targets.
    pub(super) fn load(probes: &Probes) -> Result<Self, CaptureError> {
        let refused = |error: libbpf_rs::Error| refusal("loading the sampler", &error);
        // The skeleton borrows its object for as long as it lives, which is until the process ends: once a run.
        let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = SamplesSkelBuilder::default().open(object).map_err(refused)?;
        probes.share_targets(&mut open.maps.bss_targets)?;
        let cpus = libbpf_rs::num_possible_cpus().map_err(refused)? as u32;
        let bytes = cpus.saturating_mul(RING_BYTES).next_power_of_two().clamp(2 * RING_BYTES, MOST_RING);
        open.maps.samples.set_max_entries(bytes).map_err(refused)?;
        Ok(Self { skel: open.load().map_err(refused)? })
    }

    /// Lets a clock interrupt each CPU so many times a second; dropping the links ends it.
    pub(super) fn attach_clocks(&self, period_ns: u64) -> Result<Vec<Clock>, CaptureError> {
        let mut clocks = Vec::new();
        for cpu in 0..libbpf_rs::num_possible_cpus().unwrap_or(1) {
            let Some(event) = open_clock(cpu, period_ns)? else { continue };
            let link = self.skel.progs.on_clock.attach_perf_event(event.as_raw_fd());
            clocks.push(Clock(link.map_err(|error| refusal("attaching the sampler", &error))?));
            // The link closes it with itself (`bpf_link_perf_detach` of libbpf).
            let _ = event.into_raw_fd();
        }
        Ok(clocks)
    }

    /// The iterator over blocked tasks.
    pub(super) fn attach_look(&self) -> Result<Link, CaptureError> {
        self.skel.progs.blocked.attach().map_err(|error| refusal("attaching the sampler", &error))
    }

    /// The ring of samples.
    pub(super) fn ring(&self) -> &impl MapCore {
        &self.skel.maps.samples
    }

    /// Tells where a process's interpreter keeps its frames.
    pub(super) fn interpret(&self, tgid: u32, places: &Places) {
        let mut value = Vec::with_capacity(size_of::<Places>());
        value.extend(places.current.to_ne_bytes());
        for place in [
            places.function,
            places.previous,
            places.name,
            places.scope,
            places.scope_name,
            places.file,
            places.line,
            places.text,
        ] {
            value.extend(place.to_ne_bytes());
        }
        // With too many of them the last ones' functions are not read: the samples stay, without PHP's frames.
        let _ = self.skel.maps.interpreters.update(&tgid.to_ne_bytes(), &value, MapFlags::ANY);
    }

    /// A process has no interpreter any more.
    pub(super) fn interpret_no_more(&self, tgid: u32) {
        // It may never have had one.
        let _ = self.skel.maps.interpreters.delete(&tgid.to_ne_bytes());
    }

    /// The counters.
    pub(super) fn counters(&self) -> Counters {
        let counters = self.skel.maps.bss_data.as_deref();
        counters.map_or_else(Counters::default, |all| Counters {
            dropped: all.dropped,
            fresh: all.fresh,
            passed: all.passed,
        })
    }
}

/// A clock of one CPU with its program; dropping it ends both.
#[derive(Debug)]
pub(super) struct Clock(#[expect(dead_code, reason = "it ends when it is dropped")] Link);

/// Opens the software clock of a CPU; `None` for one that is not there.
fn open_clock(cpu: usize, period_ns: u64) -> Result<Option<OwnedFd>, CaptureError> {
    const PERF_TYPE_SOFTWARE: u32 = 1;
    const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
    const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
    /// `struct perf_event_attr` as far as it had come by Linux 2.6 (perf_event_open(2)): type, size, config, period,
    /// and zeros.
    const ATTRIBUTE_BYTES: usize = 64;
    let mut attributes = [0u64; ATTRIBUTE_BYTES / 8];
    attributes[0] = u64::from(PERF_TYPE_SOFTWARE) | (ATTRIBUTE_BYTES as u64) << 32;
    attributes[1] = PERF_COUNT_SW_CPU_CLOCK;
    attributes[2] = period_ns;
    // SAFETY: the pointer is to attributes of the size that they state; the call reads them and nothing else.
    let descriptor = unsafe {
        libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), -1, cpu as libc::c_int, -1, PERF_FLAG_FD_CLOEXEC)
    };
    let Some(descriptor) = i32::try_from(descriptor).ok().filter(|descriptor| *descriptor >= 0) else {
        let error = std::io::Error::last_os_error();
        // A CPU that may come later, or was taken away.
        if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EINVAL)) {
            return Ok(None);
        }
        let reason = format!("{error}; CAP_PERFMON is needed");
        return Err(CaptureError::Refused { doing: "opening a CPU's clock", reason });
    };
    // SAFETY: the descriptor is new, and nothing else owns it.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sample_is_read_as_the_program_writes_it() {
        let mut bytes = Vec::new();
        for word in [SORT_CPU, 11, 10, 16] {
            bytes.extend(word.to_ne_bytes());
        }
        for word in [5u64, 100, 200, 300, 400, 24] {
            bytes.extend(word.to_ne_bytes());
        }
        for address in 0..KERNEL_FRAMES as u64 {
            bytes.extend((1000 + address).to_ne_bytes());
        }
        bytes.extend([7u8; STACK_BYTES]);
        let Some(Event::OnCpu(sample)) = Event::read(&bytes) else { panic!("a sample") };
        assert_eq!((sample.pid, sample.tgid, sample.time_ns), (11, 10, 5));
        assert_eq!((sample.registers.ip, sample.registers.lr), (100, 400));
        assert_eq!((sample.kernel, sample.stack), (vec![1000, 1001], &[7u8; 24][..]));
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_readers(mut bytes in proptest::collection::vec(any::<u8>(), 0..20_000), sort in 0u32..4) {
            if let Some(first) = bytes.get_mut(..4) {
                first.copy_from_slice(&sort.to_ne_bytes());
            }
            if let Some(Event::OnCpu(sample)) = Event::read(&bytes) {
                prop_assert!(sample.kernel.len() <= KERNEL_FRAMES && sample.stack.len() <= STACK_BYTES);
            }
            let _ = Blocked::read(&bytes);
        }
    }
}
