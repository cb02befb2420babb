//! Interrupts, by option: what hard and soft interrupts took of the server's time on the CPU (`bpf/interrupts.bpf.c`).

use crate::error::CaptureError;
use crate::kernel_types::has_tracepoint;
use crate::per_cpu;
use crate::probes::Probes;
use crate::programs::Programs;
use crate::spine::{refusal, ring_mask};
use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::MaybeUninit;

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/interrupts.skel.rs"));
}

/// Loads its programs.
pub(crate) fn load(probes: &Probes) -> Result<Programs, CaptureError> {
    let refused = |error: libbpf_rs::Error| refusal("loading the source `interrupts`", &error);
    // As for the spine: once a recording, for as long as the process lives.
    let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = skeleton::InterruptsSkelBuilder::default().open(object).map_err(refused)?;
    probes.share(&mut open.maps.rings, Some(&mut open.maps.bss_targets))?;
    let ticks = has_tracepoint("local_timer_entry");
    open.progs.on_tick_entry.set_autoload(ticks);
    open.progs.on_tick_exit.set_autoload(ticks);
    let stolen = per_cpu::to_steal_time();
    open.progs.on_stolen.set_autoload(stolen.is_some());
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.ring_mask = ring_mask();
        constants.stolen_from_run_queue = stolen.unwrap_or(0);
    }
    Ok(Programs::new(open.load().map_err(refused)?))
}
