//! PostgreSQL: static probes, which distributions build in.
//!
//! `statement__status` tells the statement by all ways in which one may come (simple and extended protocol), and its end.
//! `parse`, `rewrite`, `plan`, `execute`, then `finish`: commit, the log's fsync, the reply.

use super::{Entry, Pack, Place, Reads};
use crate::user_probes::Dialect;
use weir_wire::probe::{PHASE, QUERY};

const PROVIDER: &str = "postgresql";

pub(super) static PACK: Pack = Pack {
    name: "postgresql",
    programs: &["postgres", "postmaster"],
    dialect: Some(Dialect::PostgreSql),
    entries: &[
        Entry::mark("statement", QUERY, &[Place::Static(PROVIDER, "statement__status")]).reading(Reads::Text(1)),
        Entry::mark("parse", PHASE, &[Place::Static(PROVIDER, "query__parse__start")]),
        Entry::mark("rewrite", PHASE, &[Place::Static(PROVIDER, "query__rewrite__start")]),
        Entry::mark("plan", PHASE, &[Place::Static(PROVIDER, "query__plan__start")]),
        Entry::mark("execute", PHASE, &[Place::Static(PROVIDER, "query__execute__start")]),
        Entry::mark("finish", PHASE, &[Place::Static(PROVIDER, "query__execute__done")]),
    ],
};
