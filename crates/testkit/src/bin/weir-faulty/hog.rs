//! Requests wait for the CPU: another process wants it all the time.

use std::io;
use std::time::Duration;

use crate::options::{Failure, Options};
use crate::work::{Work, pin_to, set_name};
use crate::{blocking, http};

pub(crate) fn run(mut options: Options) -> Result<(), Failure> {
    let cpu = options.number("cpu")?;
    let cpu = cpu.ok_or_else(|| Failure::Usage("--cpu is missing".to_owned()))?;
    let hogs = options.number("hogs")?.unwrap_or(1).clamp(1, 16);
    let nice = options.number("nice")?.unwrap_or(19).min(19);
    pin_to(cpu)?;
    // Before there are threads, of which a fork would copy only one, and before the server listens.
    for _ in 0..hogs {
        fork_hog()?;
    }
    be_nice(nice as i32)?;
    let listener = options.listen()?;
    // A thread for each connection, so that each request waits for the CPU by itself and none
    // behind another request in the same worker.
    blocking::serve(&listener, || http::ok)?;
    Ok(())
}

/// Steps back behind the hogs, as far as needs no privilege. Among equals the kernel favours tasks
/// that have slept, as servers do, and the hog would hardly be felt.
fn be_nice(nice: i32) -> io::Result<()> {
    // SAFETY: setpriority touches no memory; 0 is the calling thread, from which others inherit.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn fork_hog() -> io::Result<()> {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => burn_while_parent_lives(),
        _ => Ok(()),
    }
}

fn burn_while_parent_lives() -> ! {
    set_name(c"weir-hog");
    // SAFETY: neither call touches memory.
    let parent = unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::getppid()
    };
    // The question ends the hog also where the parent died before the request above.
    // SAFETY: getppid has no preconditions.
    while unsafe { libc::getppid() } == parent {
        Work::Burn(Duration::from_millis(10)).run();
    }
    std::process::exit(0)
}
