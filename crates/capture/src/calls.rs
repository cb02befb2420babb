//! The server's system calls on sockets.

use crate::error::CaptureError;
use crate::spine::{Spine, refusal, ring_mask};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject};
use skeleton::{CallsSkel, CallsSkelBuilder};
use std::mem::MaybeUninit;

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/calls.skel.rs"));
}

/// The loaded program.
pub(crate) struct Calls {
    skel: CallsSkel<'static>,
}

impl Calls {
    pub(crate) fn load(spine: &Spine) -> Result<Self, CaptureError> {
        let refused = |error: libbpf_rs::Error| refusal("loading the probe of system calls", &error);
        // As for the spine: once a run, and it lives as long as the process.
        let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = CallsSkelBuilder::default().open(object).map_err(refused)?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.ring_mask = ring_mask();
        }
        spine.share(&mut open.maps.rings, Some(&mut open.maps.bss_targets))?;
        spine.share_numbers(open.open_object_mut())?;
        Ok(Self { skel: open.load().map_err(refused)? })
    }

    pub(crate) fn attach(&self) -> Result<Link, CaptureError> {
        self.skel.progs.on_call.attach().map_err(|error| refusal("attaching the probe of system calls", &error))
    }
}
