//! A configuration of a script server as its parts take it, and what is told of it.

use crate::serve_scripts;
use std::io::Write;
use std::path::Path;
use weir_script_server::{Mount, Settings, TlsFiles};
use weir_scripts::Pool;
use weir_server::{Mistake, ScriptMount, ScriptServerOptions, ScriptServerTls};

/// Descriptors besides those of connections.
const OTHER_DESCRIPTORS: u64 = 64;

/// The settings of a configuration.
pub(super) fn settings(options: &ScriptServerOptions) -> Settings {
    let tls = |ScriptServerTls { certificate, key, ca, names }: &ScriptServerTls| TlsFiles {
        certificate: certificate.clone(),
        key: key.clone(),
        ca: ca.clone(),
        names: names.clone(),
    };
    let mount = |ScriptMount { prefix, endings, pool }: &ScriptMount| Mount {
        prefix: prefix.clone(),
        root: pool.root.clone(),
        endings: endings.clone(),
        socket: pool.socket(serve_scripts::folder()),
        requests_max: pool.workers as usize + usize::try_from(pool.queue).unwrap_or(usize::MAX / 2),
    };
    Settings {
        listen: options.listen,
        tls: options.tls.as_ref().map(tls),
        connections_max: options.connections,
        idle: options.idle,
        accept: options.accept.clone(),
        mounts: options.mounts.iter().map(mount).collect(),
    }
}

/// Tells of the server itself.
pub(super) fn notice(line: &str) {
    tell(&format!("weir script-server: {line}"));
}

/// Writes a line to the log; that it cannot be written, as on a full disk, is no reason to end.
pub(super) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The pools of all tables.
pub(super) fn pools(options: &ScriptServerOptions) -> Vec<Pool> {
    let mut pools = Vec::new();
    for mount in &options.mounts {
        let pool = serve_scripts::pool(&mount.pool);
        if !pools.contains(&pool) {
            pools.push(pool);
        }
    }
    pools
}

/// Tells what is accepted in a file, and seldom meant.
pub(super) fn warn(file: &Path, options: &ScriptServerOptions) {
    for Mistake { line, column, what, remedy } in &options.warnings {
        tell(&format!("{}:{line}:{column}: warning: {what}; {remedy}", file.display()));
    }
}

/// Has the system give as many descriptors as connections may need, and tells if it does not.
pub(super) fn need_descriptors(options: &ScriptServerOptions) {
    let wanted = options.connections as u64 * 2 + OTHER_DESCRIPTORS;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a structure of ours that lives over the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 || limit.rlim_cur >= wanted {
        return;
    }
    limit.rlim_cur = wanted.min(limit.rlim_max);
    // SAFETY: likewise, and the call only reads it.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    if limit.rlim_cur < wanted {
        let limit = limit.rlim_cur;
        notice(&format!(
            "only {limit} descriptors are allowed, fewer than `connections` may need; raise RLIMIT_NOFILE"
        ));
    }
}
