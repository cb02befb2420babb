//! MariaDB: functions that the server exports for its plugins, by their C++ names.
//!
//! `command` (a packet was read), `parse`, `execute`, `finish` (the slow log, cleaning up). A statement's text is told
//! where it comes as text; one that was prepared at the server and is executed by number has none.

use super::{Entry, Pack, Place, Reads};
use crate::user_probes::Dialect;
use weir_wire::probe::{END, PHASE, QUERY, QUERY_END};

pub(super) static PACK: Pack = Pack {
    name: "mariadb",
    programs: &["mariadbd", "mysqld"],
    dialect: Some(Dialect::MySql),
    entries: &[
        Entry::mark("command", PHASE, &[Place::Function("_Z16dispatch_command19enum_server_commandP3THDPcjb")]),
        Entry::mark("parse", PHASE | QUERY, &[Place::Function("_Z11mysql_parseP3THDPcjP12Parser_state")])
            .reading(Reads::Text(2)),
        Entry::mark("execute", PHASE, &[Place::Function("_Z21mysql_execute_commandP3THDb")]),
        Entry::mark("finish", PHASE | QUERY_END, &[Place::Function("_Z18log_slow_statementP3THD")]),
        Entry::mark("idle", END | QUERY_END, &[Place::Function("_Z10do_commandP3THDb")]),
    ],
};
