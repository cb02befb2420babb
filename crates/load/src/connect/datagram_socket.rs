//! How a UDP socket of QUIC is set up.

use std::os::fd::RawFd;

/// What is asked for of the kernel's receive buffer; `net.core.rmem_max` may make it less.
const KERNEL_BYTES: libc::c_int = 2 << 20;
/// The traffic class by which a sender says that it heeds congestion bits (RFC 3168 5).
const ECN_CAPABLE: libc::c_int = 2;

/// Prepares a UDP socket: what each option does is of use, and nothing depends on it, so that an older kernel may refuse
/// it.
pub(crate) fn prepare(fd: RawFd, is_v6: bool) {
    let set = |level, option, value: libc::c_int| {
        // SAFETY: `value` outlives the call and its size is given.
        unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), size_of_val(&value) as u32) };
    };
    set(libc::SOL_SOCKET, libc::SO_RCVBUF, KERNEL_BYTES);
    set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
    set(libc::SOL_UDP, libc::UDP_GRO, 1);
    // QUIC finds out what size of datagram the way takes, for which none may be taken apart (RFC 9000 14).
    if is_v6 {
        set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
        set(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1);
        set(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, ECN_CAPABLE);
    } else {
        set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
        set(libc::IPPROTO_IP, libc::IP_RECVTOS, 1);
        set(libc::IPPROTO_IP, libc::IP_TOS, ECN_CAPABLE);
    }
}

/// Calls that [`prepare`] makes.
pub(crate) const PREPARE_CALLS: u64 = 6;
