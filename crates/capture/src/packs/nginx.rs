//! nginx: a worker is at many requests at a time, so that its marks are for the one that it is at.
//!
//! Few marks, for its requests are short: `process request` (its phases up to the content), `upstream` (asking another
//! server), `finish`. What comes before, reading the head, has no mark.

use super::{Entry, Pack, Place};
use weir_wire::probe::{INTERLEAVED, PHASE};

pub(super) static PACK: Pack = Pack {
    name: "nginx",
    programs: &["nginx"],
    dialect: None,
    entries: &[
        Entry::mark("process request", PHASE | INTERLEAVED, &[Place::Function("ngx_http_process_request")]),
        Entry::mark("upstream", PHASE | INTERLEAVED, &[Place::Function("ngx_http_upstream_init")]),
        Entry::mark("finish", PHASE | INTERLEAVED, &[Place::Function("ngx_http_finalize_request")]),
    ],
};
