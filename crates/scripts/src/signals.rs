//! Signals of a runner: they come only while it waits.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

static CHILDREN: AtomicU32 = AtomicU32::new(0);
static END: AtomicBool = AtomicBool::new(false);

extern "C" fn note(signal: libc::c_int) {
    if signal == libc::SIGCHLD {
        CHILDREN.fetch_add(1, Ordering::Relaxed);
    } else {
        END.store(true, Ordering::Relaxed);
    }
}

/// Holds SIGCHLD, SIGTERM and SIGINT back but for [`wait`].
pub(crate) fn install() -> io::Result<()> {
    // SAFETY: the structures are plain data that the kernel and these calls fill; the handler only stores a flag.
    unsafe {
        let mut held: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut held);
        for signal in [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT] {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as extern "C" fn(libc::c_int) as usize;
            if libc::sigaction(signal, &raw const action, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            libc::sigaddset(&raw mut held, signal);
        }
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const held, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// How often children have ended so far: a number that differs from an earlier one says that some have.
pub(crate) fn children_ended() -> u32 {
    CHILDREN.load(Ordering::Relaxed)
}

/// Whether this process is to end.
pub(crate) fn is_to_end() -> bool {
    END.load(Ordering::Relaxed)
}

/// Waits for descriptors or a signal; whether one of the descriptors is ready.
pub(crate) fn wait(fds: &mut [libc::pollfd], patience: Option<Duration>) -> bool {
    let time = patience.map(|patience| libc::timespec {
        tv_sec: libc::time_t::try_from(patience.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the kernel writes to the descriptors' entries and reads the time and the set, which all live on.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, time, &raw const none) > 0
    }
}
