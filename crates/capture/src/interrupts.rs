//! Interrupts, by option: what hard and soft interrupts took of the server's time on the CPU (`bpf/interrupts.bpf.c`).

use crate::error::CaptureError;
use crate::probes::{Probes, RING_MASK, refusal};
use crate::programs::{Programs, has_tracepoint};
use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::fs::File;
use std::io::{BufRead, BufReader};
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
    open.progs.on_stolen.set_autoload(is_listed("steal_time"));
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.ring_mask = RING_MASK;
    }
    Ok(Programs::new(open.load().map_err(refused)?))
}

/// Whether the kernel lists a variable of its own by name: one built without CONFIG_KALLSYMS_ALL lists functions only.
fn is_listed(name: &str) -> bool {
    let Ok(file) = File::open("/proc/kallsyms") else { return false };
    BufReader::new(file).lines().map_while(Result::ok).any(|line| line.split_ascii_whitespace().nth(2) == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_lists_is_found_by_its_whole_name() {
        assert!(is_listed("_stext") && !is_listed("_stex") && !is_listed("no such symbol"));
    }
}
