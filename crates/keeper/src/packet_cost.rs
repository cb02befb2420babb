//! What a packet costs in a filter, as the kernel measures it (`BPF_PROG_TEST_RUN`): the program alone, without a network
//! card, a driver or a queue.

use crate::filter::{FilterError, pass_messages_on, refusal};
use libbpf_rs::libbpf_sys;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use skeleton::PlainSkelBuilder;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/plain.skel.rs"));
}

/// `TC_ACT_REDIRECT` of uapi/linux/pkt_cls.h.
const REDIRECTED: u32 = 7;

/// A filter that sends each packet back, and does nothing else.
#[derive(Debug)]
pub struct PlainRedirect(OwnedFd);

impl PlainRedirect {
    /// Loads it; it is attached nowhere.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn load() -> Result<Self, FilterError> {
        pass_messages_on();
        let mut object = MaybeUninit::uninit();
        let loading = |error: libbpf_rs::Error| refusal("loading a plain filter", &error);
        let loaded = PlainSkelBuilder::default().open(&mut object).and_then(OpenSkel::load).map_err(loading)?;
        let fd = loaded.progs.plain.as_fd().try_clone_to_owned();
        Ok(Self(fd.map_err(|error| loading(error.into()))?))
    }

    /// The mean time of a run over a frame of Ethernet; none if the filter does not send it on.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn cost(&self, frame: &[u8], runs: u32) -> Result<Option<Duration>, FilterError> {
        cost(self.0.as_fd(), frame, runs)
    }
}

/// The mean time of a run of a program over a frame; none if it does not send it on.
pub(crate) fn cost(program: BorrowedFd<'_>, frame: &[u8], runs: u32) -> Result<Option<Duration>, FilterError> {
    // SAFETY: plain numbers, for which zeros are valid.
    let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
    options.sz = size_of_val(&options) as _;
    options.data_in = frame.as_ptr().cast();
    options.data_size_in = frame.len() as u32;
    options.repeat = runs.cast_signed();
    // SAFETY: the kernel reads the frame, which lives over the call, and writes numbers into the structure.
    let answer = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if answer < 0 {
        return Err(refusal("measuring a filter", &std::io::Error::last_os_error().into()));
    }
    Ok((options.retval == REDIRECTED).then(|| Duration::from_nanos(options.duration.into())))
}
