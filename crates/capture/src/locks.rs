//! Locks, by option: which lock a task of the server waits for, and who has it (`bpf/locks.bpf.c`).

use crate::error::CaptureError;
use crate::kernel_types::{has_tracepoint, switch_tells_state};
use crate::probes::Probes;
use crate::programs::Programs;
use crate::spine::{refusal, ring_mask};
use crate::symbols::Symbols;
use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::MaybeUninit;

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/locks.skel.rs"));
}

/// Loads its programs; where the kernel's symbols cannot be read, its own locks stay without a name.
pub(crate) fn load(probes: &Probes, symbols: &Symbols) -> Result<Programs, CaptureError> {
    let refused = |error: libbpf_rs::Error| refusal("loading the source `locks`", &error);
    // As for the spine: once a recording, for as long as the process lives.
    let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = skeleton::LocksSkelBuilder::default().open(object).map_err(refused)?;
    probes.share(&mut open.maps.rings, Some(&mut open.maps.bss_targets))?;
    open.progs.on_switch.set_autoload(switch_tells_state());
    open.progs.on_switch_without_state.set_autoload(!switch_tells_state());
    // Since Linux 5.19; before, the kernel's own locks are not told.
    let contention = has_tracepoint("contention_begin");
    open.progs.on_contention.set_autoload(contention);
    open.progs.on_contention_end.set_autoload(contention);
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.ring_mask = ring_mask();
        constants.futex_call = libc::SYS_futex as u32;
        constants.lock_text = symbols.range("__lock_text_start", "__lock_text_end").unwrap_or_default();
        constants.sched_text = symbols.range("__sched_text_start", "__sched_text_end").unwrap_or_default();
    }
    Ok(Programs::new(open.load().map_err(refused)?))
}
