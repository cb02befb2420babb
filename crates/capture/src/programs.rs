//! The programs of an optional source: attached and detached together, their time measured by the kernel.

use crate::error::CaptureError;
use crate::spine::refusal;
use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, libbpf_sys};
use std::os::fd::{AsFd, AsRawFd};

/// Programs of one object.
pub(crate) struct Programs {
    // Before the object: links refer to its programs.
    links: Vec<Link>,
    skel: Box<dyn Skel<'static> + Send>,
}

/// What programs have taken while the kernel measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RunTime {
    pub(crate) cpu_ns: u64,
    pub(crate) runs: u64,
}

impl Programs {
    /// The programs of a loaded object.
    pub(crate) fn new(skel: impl Skel<'static> + Send + 'static) -> Self {
        Self { links: Vec::new(), skel: Box::new(skel) }
    }

    /// Attaches all that were loaded.
    pub(crate) fn attach(&mut self) -> Result<(), CaptureError> {
        let refused = |error: libbpf_rs::Error| refusal("attaching an optional source", &error);
        self.detach();
        for program in self.skel.object().progs_mut().filter(|program| program.autoload()) {
            self.links.push(program.attach().map_err(refused)?);
        }
        Ok(())
    }

    /// Detaches them.
    pub(crate) fn detach(&mut self) {
        self.links.clear();
    }

    /// What they have taken since they were loaded, in all times that the kernel measured.
    pub(crate) fn run_time(&self) -> RunTime {
        let mut sum = RunTime::default();
        for program in self.skel.object().progs() {
            let mut info = libbpf_sys::bpf_prog_info::default();
            let mut length = size_of::<libbpf_sys::bpf_prog_info>() as u32;
            let fd = program.as_fd().as_raw_fd();
            // SAFETY: the kernel writes at most `length` bytes to `info`, which is that long and lives through the call.
            let answer = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd, &raw mut info, &raw mut length) };
            if answer == 0 {
                sum.cpu_ns += info.run_time_ns;
                sum.runs += info.run_cnt;
            }
        }
        sum
    }
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Programs").field("links", &self.links.len()).finish_non_exhaustive()
    }
}
