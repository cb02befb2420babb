//! PostgreSQL: static probes, which distributions build in.
//!
//! `statement__status` tells the statement by all ways in which one may come (simple and extended protocol), and its end.
//! `lock__wait__start` and `lock__wait__done` lie around each wait for a lock of its own, as of a row.
//! `parse`, `rewrite`, `plan`, `execute`, then `finish`: commit, the log's fsync, the reply.

use super::{Entry, Pack, Place, Reads};
use crate::user_probes::Dialect;
use weir_wire::probe::{END, LOCK, PHASE, QUERY};

const PROVIDER: &str = "postgresql";

pub(super) static PACK: Pack = Pack {
    name: "postgresql",
    programs: &["postgres", "postmaster"],
    dialect: Some(Dialect::PostgreSql),
    entries: &[
        Entry::mark("statement", QUERY, &[Place::Static(PROVIDER, "statement__status")]).reading(Reads::Text(1)),
        Entry::mark("lock", LOCK, &[Place::Static(PROVIDER, "lock__wait__start")]),
        Entry::mark("lock", LOCK | END, &[Place::Static(PROVIDER, "lock__wait__done")]),
        Entry::mark("parse", PHASE, &[Place::Static(PROVIDER, "query__parse__start")]),
        Entry::mark("rewrite", PHASE, &[Place::Static(PROVIDER, "query__rewrite__start")]),
        Entry::mark("plan", PHASE, &[Place::Static(PROVIDER, "query__plan__start")]),
        Entry::mark("execute", PHASE, &[Place::Static(PROVIDER, "query__execute__start")]),
        Entry::mark("finish", PHASE, &[Place::Static(PROVIDER, "query__execute__done")]),
    ],
};
