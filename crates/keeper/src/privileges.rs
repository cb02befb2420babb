//! Gives up what the keeper does not need once its filters are attached (capabilities(7)).

use std::ffi::c_int;
use std::io;

/// Numbers of linux/capability.h.
const CAP_NET_BIND_SERVICE: u32 = 10;
const CAP_NET_ADMIN: u32 = 12;
/// No kernel has more; numbers that it does not have are refused, which does no harm.
const CAPABILITIES_MAX: u32 = 64;
/// The version of the structures of capset(2) (_LINUX_CAPABILITY_VERSION_3), which has two words for each set.
const CAPABILITIES_VERSION: u32 = 0x2008_0522;
/// Ports below this need a capability, where the kernel does not say another number.
const UNPRIVILEGED_PORT_START: u16 = 1024;

/// `struct __user_cap_header_struct` of linux/capability.h.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: c_int,
}

/// `struct __user_cap_data_struct`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilitySets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Keeps CAP_NET_ADMIN of all capabilities (and CAP_NET_BIND_SERVICE, if one of the ports needs it to be bound), becomes
/// another user if one is named, and makes sure that no program gains more, and that no memory of connections gets into
/// a core dump.
///
/// It is for the calling thread and the threads that it starts later.
///
/// # Errors
/// What was being done, and why it failed.
pub(crate) fn give_up(ports: &[u16], run_as: Option<(u32, u32)>) -> Result<(), (&'static str, io::Error)> {
    let first_free = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").ok();
    let first_free = first_free.and_then(|text| text.trim().parse().ok()).unwrap_or(UNPRIVILEGED_PORT_START);
    let mut kept = 1 << CAP_NET_ADMIN;
    if ports.iter().any(|port| *port < first_free) {
        kept |= 1 << CAP_NET_BIND_SERVICE;
    }
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel reads the structure, which lives through the call.
    done("forbidding core dumps", unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) })?;
    for capability in 0..CAPABILITIES_MAX {
        // It fails for numbers that this kernel does not have.
        let _ = control(libc::PR_CAPBSET_DROP, capability.into());
    }
    done("clearing ambient capabilities", control(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as _))?;
    if let Some((user, group)) = run_as {
        done("keeping capabilities", control(libc::PR_SET_KEEPCAPS, 1))?;
        // SAFETY: no groups are read, as there are none.
        done("leaving groups", unsafe { libc::setgroups(0, std::ptr::null()) })?;
        // SAFETY: the call takes numbers only.
        done("changing the group", unsafe { libc::setresgid(group, group, group) })?;
        // SAFETY: the call takes numbers only.
        done("changing the user", unsafe { libc::setresuid(user, user, user) })?;
    }
    keep_capabilities(kept).map_err(|error| ("dropping capabilities", error))?;
    done("forbidding new privileges", control(libc::PR_SET_NO_NEW_PRIVS, 1))?;
    done("hiding the process's memory", control(libc::PR_SET_DUMPABLE, 0))
}

fn control(option: c_int, value: libc::c_ulong) -> c_int {
    const NONE: libc::c_ulong = 0;
    // SAFETY: with these options the call takes numbers only.
    unsafe { libc::prctl(option, value, NONE, NONE, NONE) }
}

fn done(doing: &'static str, answer: c_int) -> Result<(), (&'static str, io::Error)> {
    if answer < 0 { Err((doing, io::Error::last_os_error())) } else { Ok(()) }
}

/// Has this thread have these capabilities (a bit each, of the first 32) and no others.
fn keep_capabilities(bits: u32) -> io::Result<()> {
    let header = CapabilityHeader { version: CAPABILITIES_VERSION, pid: 0 };
    let first = CapabilitySets { effective: bits, permitted: bits, inheritable: 0 };
    let sets = [first, CapabilitySets::default()];
    // SAFETY: the kernel reads a header and two structures, which this version has.
    match unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
