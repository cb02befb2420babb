//! What a handler can spend its time on, and how a process presents itself.

use std::ffi::CStr;
use std::io;
use std::time::Duration;

/// How a handler passes the time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    /// On the CPU, counted in CPU time, so that it is the same amount on a busy machine.
    Burn(Duration),
    /// In clock_nanosleep.
    Sleep(Duration),
}

impl Work {
    /// The work that the option `--sleep` decides on.
    pub(crate) fn new(length: Duration, sleep: bool) -> Self {
        if sleep { Self::Sleep(length) } else { Self::Burn(length) }
    }

    pub(crate) fn run(self) {
        match self {
            Self::Burn(length) => {
                let end = thread_cpu_time() + length;
                while thread_cpu_time() < end {
                    std::hint::spin_loop();
                }
            }
            Self::Sleep(length) => sleep_until(monotonic() + length),
        }
    }
}

/// CLOCK_MONOTONIC.
pub(crate) fn monotonic() -> Duration {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// Sleeps to a point of CLOCK_MONOTONIC, so that signals and late wake-ups do not add up.
pub(crate) fn sleep_until(end: Duration) {
    let end = libc::timespec { tv_sec: end.as_secs() as libc::time_t, tv_nsec: libc::c_long::from(end.subsec_nanos()) };
    // SAFETY: `end` lives through the call; with an absolute time nothing is written back.
    while unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &end, std::ptr::null_mut()) }
        == libc::EINTR
    {}
}

/// Names the calling thread; for the main thread that is the name of the process.
pub(crate) fn set_name(name: &CStr) {
    // SAFETY: the kernel copies at most 16 bytes of the string, which lives through the call.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Binds the calling thread, and those that it starts, to one CPU.
pub(crate) fn pin_to(cpu: u64) -> io::Result<()> {
    let cpu = usize::try_from(cpu).ok().filter(|cpu| *cpu < libc::CPU_SETSIZE as usize);
    let cpu = cpu.ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: an all-zero cpu_set_t is the empty set; the index was checked above.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn thread_cpu_time() -> Duration {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read_clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux and `time` is ours to be written.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
