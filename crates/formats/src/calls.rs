//! System calls by name and by number, as far as something is made of them.
//!
//! The numbers are those of the architecture that this weir was built for; a trace that names calls is read right on
//! any.

use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// What a call does with the descriptor that is its first argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Accepts a connection; what it returns is the new descriptor.
    Accept,
    /// Takes bytes; what it returns is their number.
    Receive,
    /// Gives bytes; what it returns is their number.
    Send,
    /// Closes it.
    Close,
    /// Nothing of these.
    Other,
}

struct Known {
    name: &'static str,
    number: i64,
    purpose: Purpose,
}

macro_rules! calls {
    ($($purpose:ident: $($(#[$attribute:meta])? $name:literal = $constant:ident),*;)*) => {
        const KNOWN: &[Known] = &[$($(
            $(#[$attribute])?
            Known { name: $name, number: libc::$constant, purpose: Purpose::$purpose },
        )*)*];
    };
}

// Those by which the time line tells what a task waits for, and those that move a connection's bytes.
calls! {
    Accept: "accept" = SYS_accept, "accept4" = SYS_accept4;
    Receive: "read" = SYS_read, "readv" = SYS_readv, "recvfrom" = SYS_recvfrom, "recvmsg" = SYS_recvmsg,
        "preadv2" = SYS_preadv2;
    Send: "write" = SYS_write, "writev" = SYS_writev, "sendto" = SYS_sendto, "sendmsg" = SYS_sendmsg,
        "sendfile" = SYS_sendfile, "sendfile64" = SYS_sendfile, "pwritev2" = SYS_pwritev2;
    Close: "close" = SYS_close;
    Other: "futex" = SYS_futex, "futex_waitv" = SYS_futex_waitv, "flock" = SYS_flock, "fcntl" = SYS_fcntl,
        "semop" = SYS_semop, "semtimedop" = SYS_semtimedop, "nanosleep" = SYS_nanosleep,
        "clock_nanosleep" = SYS_clock_nanosleep, "wait4" = SYS_wait4, "waitid" = SYS_waitid,
        "rt_sigsuspend" = SYS_rt_sigsuspend, "rt_sigtimedwait" = SYS_rt_sigtimedwait, "msgrcv" = SYS_msgrcv,
        "pread64" = SYS_pread64, "preadv" = SYS_preadv, "pwrite64" = SYS_pwrite64, "pwritev" = SYS_pwritev,
        "recvmmsg" = SYS_recvmmsg, "sendmmsg" = SYS_sendmmsg, "splice" = SYS_splice, "connect" = SYS_connect,
        "ppoll" = SYS_ppoll, "pselect6" = SYS_pselect6, "epoll_pwait" = SYS_epoll_pwait,
        "epoll_pwait2" = SYS_epoll_pwait2, "io_uring_enter" = SYS_io_uring_enter, "fsync" = SYS_fsync,
        "fdatasync" = SYS_fdatasync, "sync_file_range" = SYS_sync_file_range, "msync" = SYS_msync,
        "syncfs" = SYS_syncfs, "exit" = SYS_exit, "exit_group" = SYS_exit_group,
        #[cfg(target_arch = "x86_64")] "poll" = SYS_poll,
        #[cfg(target_arch = "x86_64")] "select" = SYS_select,
        #[cfg(target_arch = "x86_64")] "epoll_wait" = SYS_epoll_wait;
}

/// Numbers from here on are no system call's: a run has nine bits for them, and all ones say "none".
const NUMBERS: usize = 0x1ff;

/// What is known of each number: events of calls are the most frequent ones of a trace.
const BY_NUMBER: [(&str, Purpose); NUMBERS] = by_number();

const fn by_number() -> [(&'static str, Purpose); NUMBERS] {
    let mut table = [("", Purpose::Other); NUMBERS];
    let mut index = KNOWN.len();
    // Of two names for one number the first is the one that is told.
    while index > 0 {
        index -= 1;
        table[KNOWN[index].number as usize] = (KNOWN[index].name, KNOWN[index].purpose);
    }
    table
}

/// Numbers by names: a text names the call at each of its events.
static BY_NAME: LazyLock<FxHashMap<&'static str, u16>> = LazyLock::new(|| {
    // Of two numbers for one name the first is the one that is told.
    KNOWN.iter().rev().map(|known| (known.name, known.number as u16)).collect()
});

/// A call's number, by its name.
pub(crate) fn number_of(name: &str) -> Option<u16> {
    BY_NAME.get(name).copied()
}

/// A call's name, by its number; empty for one of which nothing is made.
pub(crate) fn name_of(number: u16) -> &'static str {
    BY_NUMBER.get(usize::from(number)).map_or("", |(name, _)| name)
}

/// A number as a run can hold it.
pub(crate) fn number(number: i64) -> Option<u16> {
    (0..NUMBERS as i64).contains(&number).then_some(number as u16)
}

/// What a call does with its descriptor.
pub(crate) fn purpose(number: u16) -> Purpose {
    BY_NUMBER.get(usize::from(number)).map_or(Purpose::Other, |(_, purpose)| *purpose)
}

/// Whether a call is for sockets alone and takes bytes from one.
pub(crate) fn takes_from_a_socket(number: u16) -> bool {
    [libc::SYS_recvfrom, libc::SYS_recvmsg].contains(&i64::from(number))
}

/// Whether a call waits until any of several descriptors is ready.
pub(crate) fn waits_for_any(number: u16) -> bool {
    let number = i64::from(number);
    #[cfg(target_arch = "x86_64")]
    if [libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_wait].contains(&number) {
        return true;
    }
    [libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2].contains(&number)
}

/// Whether a call asks for a connection.
pub(crate) fn connects(number: u16) -> bool {
    i64::from(number) == libc::SYS_connect
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_to_each_other() {
        for known in KNOWN {
            let found = number_of(known.name).expect("it is known");
            assert_eq!(number_of(name_of(found)), Some(found), "{}", known.name);
            assert_eq!(number(known.number), Some(found), "a run can hold it");
            assert_eq!(purpose(found), known.purpose, "{}", known.name);
        }
        assert_eq!((number_of("telepathy"), name_of(0x1fe), number(0x1ff), number(-1)), (None, "", None, None));
    }
}
