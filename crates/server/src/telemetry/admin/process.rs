//! What the process uses: CPU time and memory.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

/// A process as it sees itself. What needs a file is opened at the start: later on the server may open no more.
#[derive(Debug)]
pub(crate) struct Process {
    statm: Option<File>,
}

/// What it uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub(super) struct Usage {
    /// Time on a CPU, of all threads.
    pub(super) cpu_s: f64,
    /// Memory that is there.
    pub(super) resident_bytes: Option<u64>,
    /// Open descriptors, and as many as there may be.
    pub(super) open_files: Option<u64>,
    pub(super) open_files_max: Option<u64>,
}

impl Process {
    pub(crate) fn open() -> Self {
        Self { statm: File::open("/proc/self/statm").ok() }
    }

    pub(super) fn usage(&self) -> Usage {
        Usage {
            cpu_s: cpu_s(),
            resident_bytes: self.resident_bytes(),
            // From Linux 6.2 on the directory's size is the number of its entries; before it is 0.
            open_files: std::fs::metadata("/proc/self/fd")
                .ok()
                .map(|metadata| metadata.size())
                .filter(|&count| count > 0),
            open_files_max: open_files_max(),
        }
    }

    fn resident_bytes(&self) -> Option<u64> {
        let mut text = [0; 128];
        let count = self.statm.as_ref()?.read_at(&mut text, 0).ok()?;
        let pages: u64 = std::str::from_utf8(&text[..count]).ok()?.split(' ').nth(1)?.parse().ok()?;
        // SAFETY: the call takes no pointers.
        let page_bytes = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        Some(pages * page_bytes)
    }
}

fn cpu_s() -> f64 {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills the structure, which lives over it.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn open_files_max() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills the structure, which lives over it.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    (result == 0).then_some(limit.rlim_cur)
}
