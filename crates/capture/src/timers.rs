//! Timers, by option: which wake-ups of the server's tasks came from a timer (`bpf/timers.bpf.c`).

use crate::error::CaptureError;
use crate::probes::Probes;
use crate::programs::Programs;
use crate::spine::{refusal, ring_mask};
use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::MaybeUninit;

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/timers.skel.rs"));
}

/// Loads its programs.
pub(crate) fn load(probes: &Probes) -> Result<Programs, CaptureError> {
    let refused = |error: libbpf_rs::Error| refusal("loading the source `timers`", &error);
    // As for the spine: once a recording, for as long as the process lives.
    let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = skeleton::TimersSkelBuilder::default().open(object).map_err(refused)?;
    probes.share(&mut open.maps.rings, Some(&mut open.maps.bss_targets))?;
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.ring_mask = ring_mask();
    }
    Ok(Programs::new(open.load().map_err(refused)?))
}
