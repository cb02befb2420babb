//! Bounds of a runner's scripts, which they inherit from it (setrlimit(2)), but for those of memory and of CPU time: the
//! runner's own would count.

use crate::pool::Pool;
use std::io;

/// Sets them for this process and all that it starts. A bound above the hard one of the server is set to that.
pub(crate) fn set(pool: &Pool) -> io::Result<()> {
    for (resource, bound) in [
        // Of scripts of several users each has its own count (`fork.rs`).
        (libc::RLIMIT_NPROC, if pool.as_owner { 0 } else { pool.processes }),
        (libc::RLIMIT_FSIZE, pool.files),
        (libc::RLIMIT_CORE, 0),
    ] {
        if bound > 0 || resource == libc::RLIMIT_CORE {
            set_one(resource, bound)?;
        }
    }
    Ok(())
}

fn set_one(resource: libc::__rlimit_resource_t, bound: u64) -> io::Result<()> {
    let mut held = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one structure.
    if unsafe { libc::getrlimit(resource, &raw mut held) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let bound = bound.min(held.rlim_max);
    let wanted = libc::rlimit { rlim_cur: bound, rlim_max: bound };
    // SAFETY: the kernel reads one structure.
    match unsafe { libc::setrlimit(resource, &raw const wanted) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
