//! TCP's own functions, where probes may be attached to the kernel's functions.

use crate::error::CaptureError;
use crate::form::Form;
use crate::kernel_types::{function_arguments, has_function};
use crate::spine::{NUMBERS, Spine, refusal, ring_mask, streams};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, OpenObject};
use skeleton::{FunctionsSkel, FunctionsSkelBuilder, OpenFunctionsSkel};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

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
        let skel = load(|open| {
            spine.share(&mut open.maps.rings, Some(&mut open.maps.bss_targets))?;
            spine.share_numbers(open.open_object_mut())
        })?;
        let functions = Self { skel };
        functions.attach()?;
        Ok(functions)
    }

    pub(crate) fn attach(&self) -> Result<Vec<Link>, CaptureError> {
        match Form::here() {
            Form::Whole => attach(&self.skel),
            // Before Linux 5.13 a program at a function can be attached but once: each time others are loaded.
            Form::WithoutFetch => attach(&self.load_again()?),
        }
    }

    /// The same programs once more, with the same maps.
    fn load_again(&self) -> Result<FunctionsSkel<'static>, CaptureError> {
        let refused = |error: libbpf_rs::Error| refusal("loading the probes of functions again", &error);
        load(|open| {
            open.maps.rings.reuse_fd(self.skel.maps.rings.as_fd()).map_err(refused)?;
            open.maps.bss_targets.reuse_fd(self.skel.maps.bss_targets.as_fd()).map_err(refused)?;
            for mut map in open.open_object_mut().maps_mut().filter(|map| map.name() == NUMBERS) {
                if let Some(own) = self.skel.object().maps().find(|own| own.name() == NUMBERS) {
                    map.reuse_fd(own.as_fd()).map_err(refused)?;
                }
            }
            Ok(())
        })
    }
}

/// Loads the programs with maps that `share` gives them.
fn load(
    share: impl FnOnce(&mut OpenFunctionsSkel<'static>) -> Result<(), CaptureError>,
) -> Result<FunctionsSkel<'static>, CaptureError> {
    // As for the spine: once a run or a window, and it lives as long as the process.
    let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
    let opened = FunctionsSkelBuilder::default().open(object);
    let mut open = opened.map_err(|error| refusal("loading the probes of functions", &error))?;
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.ring_mask = ring_mask();
        constants.possible_cpus = streams() as u32;
        constants.receive_arguments = function_arguments("tcp_recvmsg").unwrap_or_default() as u32;
    }
    share(&mut open)?;
    // Gone since Linux 6.5.
    open.progs.on_tcp_page.set_autoload(has_function("tcp_sendpage"));
    open.load().map_err(|error| refused_functions(&error))
}

fn attach(skel: &FunctionsSkel<'static>) -> Result<Vec<Link>, CaptureError> {
    let progs = &skel.progs;
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

fn refused_functions(error: &libbpf_rs::Error) -> CaptureError {
    CaptureError::NoFunctionProbes { reason: format!("{error:#}") }
}
