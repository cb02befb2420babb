//! Disk, by option: the file that a task of the server waits for, and requests to block devices (`bpf/disk.bpf.c`).

use crate::error::CaptureError;
use crate::kernel_types::{has_tracepoint, switch_tells_state, tracepoint_arguments};
use crate::probes::Probes;
use crate::programs::Programs;
use crate::spine::{refusal, ring_mask, set_calls};
use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::MaybeUninit;

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/disk.skel.rs"));
}

/// System calls whose first argument is the descriptor of the file that they work on.
const BY_DESCRIPTOR: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_syncfs,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_splice,
    libc::SYS_copy_file_range,
    libc::SYS_getdents64,
    libc::SYS_ioctl,
    libc::SYS_close,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
];

/// Loads its programs.
pub(crate) fn load(probes: &Probes) -> Result<Programs, CaptureError> {
    let refused = |error: libbpf_rs::Error| refusal("loading the source `disk`", &error);
    // As for the spine: once a recording, for as long as the process lives.
    let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = skeleton::DiskSkelBuilder::default().open(object).map_err(refused)?;
    probes.share(&mut open.maps.rings, Some(&mut open.maps.bss_targets))?;
    open.progs.on_fault.set_autoload(has_tracepoint("mm_filemap_fault"));
    open.progs.on_switch.set_autoload(switch_tells_state());
    open.progs.on_switch_without_state.set_autoload(!switch_tells_state());
    // Before Linux 5.11 the queue comes first.
    let of_queue = tracepoint_arguments("block_rq_issue") == Some(2);
    open.progs.on_issue.set_autoload(!of_queue);
    open.progs.on_issue_of_queue.set_autoload(of_queue);
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.ring_mask = ring_mask();
        constants.sendfile_call = libc::SYS_sendfile as u32;
        set_calls(&mut constants.by_descriptor, BY_DESCRIPTOR);
    }
    Ok(Programs::new(open.load().map_err(refused)?))
}
