//! Our own server: static probes, on nops that new kernels turn into calls.
//!
//! `read` (a head is parsed), `route` (host, rules, path), `cache` (the content is looked up and the head made), `file`
//! (it was not there, or has to be looked at: the file is opened, read, and the head made), `send`; then the loop is at
//! something else.

use super::{Entry, Pack, Place, Reads};
use weir_wire::probe::{END, INTERLEAVED, PHASE, REMARK};

const PROVIDER: &str = "weir";

pub(super) static PACK: Pack = Pack {
    name: "weir",
    programs: &["weir"],
    dialect: None,
    entries: &[
        Entry::mark("read", PHASE | INTERLEAVED, &[Place::Static(PROVIDER, "read")]),
        Entry::mark("route", PHASE | INTERLEAVED, &[Place::Static(PROVIDER, "route")]),
        Entry::mark("cache", PHASE | INTERLEAVED, &[Place::Static(PROVIDER, "cache")]),
        Entry::mark("file", PHASE | INTERLEAVED, &[Place::Static(PROVIDER, "file")]),
        Entry::mark("send", PHASE | INTERLEAVED, &[Place::Static(PROVIDER, "send")]),
        Entry::mark("done", END | INTERLEAVED, &[Place::Static(PROVIDER, "done")]),
    ],
};

/// What the rules of `weir serve --policy` decided: at most some hundred a tick, each with its text.
pub(super) static DECISIONS: Pack = Pack {
    name: "weir",
    programs: &["weir"],
    dialect: None,
    entries: &[Entry::mark("decision", REMARK, &[Place::Static(PROVIDER, "decision")]).reading(Reads::Text(1))],
};
