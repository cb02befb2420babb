//! Apache httpd 2.4: the five phases of Horikawa 2000, Fig. 9, as far as today's httpd has them.
//!
//! 1 preparing is `prepare`, 2 waiting for the accept lock is `accept lock` (prefork with several listeners only),
//! 3 accepting is `accept`, 5 closing is `close`. 4 processing is divided: `open connection`, `read request`,
//! `process request` (URL mapping, access), `handler` (content), `finish` (what is left to send, and the log).
//! The loop of prefork's children is a function without a name; its calls of the portable runtime are its marks.

use super::{Entry, Pack, Place, Reads};
use weir_wire::probe::{PHASE, REQUEST};

const PREFORK: &str = "mod_mpm_prefork.so";
/// Of `request_rec`: the request's first line. Public layout (httpd.h), the same in all of 2.4.
const THE_REQUEST: i32 = 48;

pub(super) static PACK: Pack = Pack {
    name: "apache",
    programs: &["apache2", "httpd"],
    dialect: None,
    entries: &[
        Entry::mark("prepare", PHASE, &[Place::Call(PREFORK, "apr_pool_clear")]).optional(),
        Entry::mark("accept lock", PHASE, &[Place::Call(PREFORK, "apr_proc_mutex_lock")]).optional(),
        Entry::mark("accept", PHASE, &[Place::Call(PREFORK, "apr_pollset_poll")]).optional(),
        Entry::mark("accept", PHASE, &[Place::Function("ap_unixd_accept")]),
        Entry::mark("open connection", PHASE, &[Place::Function("ap_run_create_connection")]),
        Entry::mark("read request", PHASE, &[Place::Function("ap_read_request")]),
        // Both ways of processing a request lead through it.
        Entry::mark("process request", PHASE | REQUEST, &[Place::Function("ap_process_async_request")])
            .reading(Reads::TextAt(1, THE_REQUEST)),
        Entry::mark("handler", PHASE, &[Place::Function("ap_invoke_handler")]),
        Entry::mark("finish", PHASE, &[Place::Function("ap_finalize_request_protocol")]),
        Entry::mark("close", PHASE, &[Place::Function("ap_start_lingering_close")]),
    ],
};
