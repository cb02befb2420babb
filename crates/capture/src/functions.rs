//! TCP's own functions, where probes may be attached to the kernel's functions.

use crate::error::CaptureError;
use crate::spine::{RING_MASK, Spine, refusal};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject};
use skeleton::{FunctionsSkel, FunctionsSkelBuilder};
use std::mem::MaybeUninit;

#[allow(missing_docs, unused_qualifications, unreachable_pub, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks, clippy::needless_pass_by_value, clippy::semicolon_if_nothing_returned)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/functions.skel.rs"));
}

/// The loaded programs.
pub(crate) struct Functions {
    skel: FunctionsSkel<'static>,
}

impl Functions {
    /// Loads them, and tries whether they can be attached: some kernels refuse the one, some the other.
    pub(crate) fn load(spine: &Spine) -> Result<Self, CaptureError> {
        let refused = |error: libbpf_rs::Error| refusal("loading the probes of functions", &error);
        // As for the spine: once a run, and it lives as long as the process.
        let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = FunctionsSkelBuilder::default().open(object).map_err(refused)?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.ring_mask = RING_MASK;
        }
        spine.share(&mut open.maps.rings, Some(&mut open.maps.bss_targets))?;
        // Gone since Linux 6.5.
        open.progs.on_tcp_page.set_autoload(has_function("tcp_sendpage"));
        let functions = Self { skel: open.load().map_err(|error| refused_functions(&error))? };
        functions.attach()?;
        Ok(functions)
    }

    pub(crate) fn attach(&self) -> Result<Vec<Link>, CaptureError> {
        let progs = &self.skel.progs;
        let all = [
            &progs.on_readable,
            &progs.on_tcp_receive,
            &progs.on_tcp_splice,
            &progs.on_tcp_send,
            &progs.on_tcp_page,
            &progs.on_unix_receive,
            &progs.on_unix_send,
            &progs.on_udp_receive,
            &progs.on_udp_send,
        ];
        let loaded = all.into_iter().filter(|program| program.autoload());
        loaded.map(|program| program.attach().map_err(|error| refused_functions(&error))).collect()
    }
}

fn refused_functions(error: &libbpf_rs::Error) -> CaptureError {
    CaptureError::NoFunctionProbes { reason: format!("{error:#}") }
}

/// Whether the kernel has a function of that name.
fn has_function(name: &str) -> bool {
    use libbpf_rs::btf::{Btf, types::Func};
    Btf::from_vmlinux().is_ok_and(|btf| btf.type_by_name::<Func<'_>>(name).is_some())
}
