//! Attaches a BPF program to what comes in at an interface (tc-bpf(8)), in place of the one that stands there.
//!
//! A filter outlives the process that attached it. A successor takes its maps over, so that a restart forgets no
//! connection.

use libbpf_rs::{MapCore, MapHandle, OpenMapMut, Program, TC_INGRESS, TcHook, libbpf_sys};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Where in the order of an interface's filters ours stand. Others may stand before and behind.
const PRIORITY: u32 = 0x7765;
/// A program of ours has fewer maps.
const MAPS_MAX: usize = 16;

/// Why a filter cannot be attached, or its tables not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// There is no such interface.
    #[error("no network interface {name:?} ({source}); `ip link` lists those of this network namespace")]
    Interface {
        /// As it was named.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// It has no Ethernet addresses.
    #[error("the network interface {name:?} has no Ethernet address; name one of the network that clients come by")]
    NotEthernet {
        /// As it was named.
        name: String,
    },
    /// A capability is missing.
    #[error("no privilege for {doing}; run as root, or with CAP_BPF and CAP_NET_ADMIN")]
    NoPrivilege {
        /// What was being done.
        doing: &'static str,
    },
    /// The kernel refused for another reason.
    #[error("the kernel refuses {doing}: {reason}; Linux 5.18 or later with CONFIG_NET_CLS_BPF is needed")]
    Refused {
        /// What was being done.
        doing: &'static str,
        /// What the kernel or libbpf said.
        reason: String,
    },
    /// A node's number is too large.
    #[error("a node has the number {0}; numbers are below {max}", max = crate::maglev::NODES_MAX)]
    NodeNumber(u16),
    /// The flow table does not know the node.
    #[error("no node has the number {0}; enter it in the nodes of the flow table first")]
    UnknownNode(u16),
    /// The flow is not one of the service.
    #[error("the connection {0} is not one of the service's address; ask the director of that service")]
    OtherService(crate::flow::Flow),
    /// The order is of a director that is none any more.
    #[error("the order is of epoch {asked}, and epoch {newest} has begun; ask the director of the newest epoch")]
    OldEpoch {
        /// The order's.
        asked: u64,
        /// The newest that was seen.
        newest: u64,
    },
    /// There are too many connections.
    #[error("the flow table is full; remove idle connections, or refuse new ones")]
    TableFull,
}

/// Makes an error of what libbpf said.
pub(crate) fn refusal(doing: &'static str, error: &libbpf_rs::Error) -> FilterError {
    match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => FilterError::NoPrivilege { doing },
        _ => FilterError::Refused { doing, reason: format!("{error:#}") },
    }
}

/// A network interface of the thread's network namespace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interface {
    pub(crate) index: i32,
    /// Its Ethernet address.
    pub(crate) mac: [u8; 6],
}

impl Interface {
    /// Finds one by its name.
    ///
    /// # Errors
    /// [`FilterError::Interface`], [`FilterError::NotEthernet`].
    pub(crate) fn find(name: &str) -> Result<Self, FilterError> {
        let missing = |source| FilterError::Interface { name: name.to_owned(), source };
        let text = CString::new(name).map_err(|_| missing(io::ErrorKind::InvalidInput.into()))?;
        // SAFETY: the text ends with a zero and lives through the call.
        let index = unsafe { libc::if_nametoindex(text.as_ptr()) };
        if index == 0 {
            return Err(missing(io::Error::last_os_error()));
        }
        // SAFETY: plain numbers, for which zeros are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // A name that the kernel knows fits, with a zero behind it.
        for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *place = byte as libc::c_char;
        }
        let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0)).map_err(missing)?;
        // SAFETY: the kernel reads and writes the structure, which lives through the call.
        if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) } < 0 {
            return Err(missing(io::Error::last_os_error()));
        }
        // SAFETY: the kernel has filled in this variant, which is plain numbers.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        if address.sa_family != libc::ARPHRD_ETHER {
            return Err(FilterError::NotEthernet { name: name.to_owned() });
        }
        let mut mac = [0; 6];
        for (byte, told) in mac.iter_mut().zip(address.sa_data) {
            *byte = told.cast_unsigned();
        }
        Ok(Self { index: index.cast_signed(), mac })
    }

    fn hook(self, program: BorrowedFd<'_>, handle: u32) -> TcHook {
        let mut hook = TcHook::new(program);
        hook.ifindex(self.index).attach_point(TC_INGRESS).handle(handle).priority(PRIORITY);
        hook
    }

    /// Attaches a program, in place of the one with the same handle.
    ///
    /// # Errors
    /// [`FilterError`].
    pub(crate) fn attach(self, program: BorrowedFd<'_>, handle: u32) -> Result<(), FilterError> {
        let mut hook = self.hook(program, handle);
        let attached = hook.create().and_then(|_| hook.replace(true).attach());
        attached.map(drop).map_err(|error| refusal("attaching a filter to the interface", &error))
    }

    /// Takes the program with this handle away.
    ///
    /// # Errors
    /// [`FilterError`].
    pub(crate) fn detach(self, program: BorrowedFd<'_>, handle: u32) -> Result<(), FilterError> {
        let detached = self.hook(program, handle).detach();
        detached.map_err(|error| refusal("taking a filter away from the interface", &error))
    }

    /// The maps of the program that stands there with this handle; none without one, or without CAP_SYS_ADMIN.
    pub(crate) fn maps(self, handle: u32) -> Vec<MapHandle> {
        let Ok(socket) = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0)) else { return Vec::new() };
        // A query needs a descriptor of no program, and does not use the one that it gets.
        let Ok(program) = self.hook(socket.as_fd(), handle).query() else { return Vec::new() };
        let Ok(program) = Program::fd_from_id(program) else { return Vec::new() };
        let ids = map_ids(&program);
        ids.into_iter().filter_map(|id| MapHandle::from_map_id(id).ok()).collect()
    }
}

fn map_ids(program: &OwnedFd) -> Vec<u32> {
    let mut ids = vec![0u32; MAPS_MAX];
    let mut info = libbpf_sys::bpf_prog_info { nr_map_ids: MAPS_MAX as u32, ..Default::default() };
    info.map_ids = ids.as_mut_ptr() as u64;
    let mut bytes = size_of::<libbpf_sys::bpf_prog_info>() as u32;
    // SAFETY: the kernel writes at most `bytes` to `info`, and at most `nr_map_ids` numbers to `ids`; both are that long
    // and live through the call.
    let answer = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut bytes) };
    ids.truncate(if answer == 0 { info.nr_map_ids as usize } else { 0 });
    ids
}

/// Has a program that is not loaded yet use a map of its predecessor, if one of this name and form is there.
///
/// # Errors
/// [`FilterError`].
pub(crate) fn reuse(map: &mut OpenMapMut<'_>, of: &[MapHandle]) -> Result<(), FilterError> {
    let same = of.iter().find(|old| {
        old.name() == map.name()
            && (old.key_size(), old.value_size(), old.max_entries())
                == (map.key_size(), map.value_size(), map.max_entries())
    });
    same.map_or(Ok(()), |old| map.reuse_fd(old.as_fd()).map_err(|error| refusal("using a map again", &error)))
}

/// Passes on what libbpf says, for people who debug.
pub(crate) fn pass_messages_on() {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Debug, |level, text| {
        let text = text.trim_end();
        match level {
            libbpf_rs::PrintLevel::Warn => tracing::debug!("libbpf warns: {text}"),
            _ => tracing::trace!("{text}"),
        }
    })));
}

/// CLOCK_MONOTONIC, which the filters read as well.
pub(crate) fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the structure, which lives through the call. This clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
