//! Our own server: static probes, on nops that new kernels turn into calls.
//!
//! `handle` (the head is read: routing, cache), `send`; then the loop is at something else.

use super::{Entry, Pack, Place};
use weir_wire::probe::{END, INTERLEAVED, PHASE};

const PROVIDER: &str = "weir";

pub(super) static PACK: Pack = Pack {
    name: "weir",
    programs: &["weir"],
    dialect: None,
    entries: &[
        Entry::mark("handle", PHASE | INTERLEAVED, &[Place::Static(PROVIDER, "request")]),
        Entry::mark("send", PHASE | INTERLEAVED, &[Place::Static(PROVIDER, "send")]),
        Entry::mark("done", END | INTERLEAVED, &[Place::Static(PROVIDER, "done")]),
    ],
};
