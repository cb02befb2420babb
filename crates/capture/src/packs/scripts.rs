//! The processes in which our own server has scripts run, by static probes: each has one request at a time.
//!
//! `activation` (the request was taken, and the script's process begins or one that was kept is chosen), `run` (until the
//! first byte of the script's output), `output` (until its end). They last while the script's own processes work.

use super::{Entry, Pack, Place};
use weir_wire::probe::{END, PHASE, SPANNING};

const PROVIDER: &str = "weir";

/// It is recorded without being asked for: a request of a script costs far more than the four probes.
pub(super) static PACK: Pack = Pack {
    name: "scripts",
    programs: &["weir"],
    dialect: None,
    entries: &[
        Entry::mark("activation", PHASE | SPANNING, &[Place::Static(PROVIDER, "script_activation")]),
        Entry::mark("run", PHASE | SPANNING, &[Place::Static(PROVIDER, "script_run")]),
        Entry::mark("output", PHASE | SPANNING, &[Place::Static(PROVIDER, "script_output")]),
        Entry::mark("end", END | SPANNING, &[Place::Static(PROVIDER, "script_end")]),
    ],
};
