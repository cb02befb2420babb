//! php-fpm: a worker has one request at a time.
//!
//! `startup` (input, environment), `script` (with `compile` wherever a file is compiled and not found in the cache),
//! `shutdown` (output buffers, destructors, the log).

use super::{Entry, Pack, Place, Reads};
use weir_wire::probe::{PHASE, REQUEST};

pub(super) static PACK: Pack = Pack {
    name: "php-fpm",
    programs: &["php-fpm*"],
    dialect: None,
    entries: &[
        Entry::mark("startup", PHASE, &[Place::Function("php_request_startup")]),
        Entry::mark("request", REQUEST, &[Place::Static("php", "request__startup")]).reading(Reads::Text(2)).optional(),
        Entry::mark("script", PHASE, &[Place::Function("php_execute_script")]),
        Entry::mark("compile", PHASE, &[Place::Function("compile_file")]),
        Entry::mark("script", PHASE, &[Place::Return("compile_file")]),
        Entry::mark("shutdown", PHASE, &[Place::Function("php_request_shutdown")]),
    ],
};
