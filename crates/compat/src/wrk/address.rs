//! The addresses of servers, as scripts look them up and try them.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, TcpStream};
use std::time::Duration;

/// How long a trial of an address may take.
const TRIAL_MAX: Duration = Duration::from_secs(10);

/// Why a name has no addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to resolve {host}:{service} {cause}")]
pub(super) struct Unresolved {
    host: String,
    service: String,
    cause: String,
}

/// All addresses of a host for a service, which is a port or a name such as `http`.
pub(super) fn lookup(host: &str, service: &str) -> Result<Vec<SocketAddr>, Unresolved> {
    let failed = |cause: String| Unresolved { host: host.to_owned(), service: service.to_owned(), cause };
    let (Ok(name), Ok(port)) = (CString::new(host), CString::new(service)) else {
        return Err(failed("a name holds no zero byte".to_owned()));
    };
    // SAFETY: an all-zero `addrinfo` is a value of it: no address, and hints of nothing.
    let mut hints: libc::addrinfo = unsafe { MaybeUninit::zeroed().assume_init() };
    hints.ai_family = libc::AF_UNSPEC;
    hints.ai_socktype = libc::SOCK_STREAM;
    let mut first = std::ptr::null_mut();
    // SAFETY: both names end with a zero byte, and all four outlive the call.
    let code = unsafe { libc::getaddrinfo(name.as_ptr(), port.as_ptr(), &raw const hints, &raw mut first) };
    if code != 0 {
        // SAFETY: the C library gives a constant text for each number.
        let cause = unsafe { CStr::from_ptr(libc::gai_strerror(code)) };
        return Err(failed(cause.to_string_lossy().into_owned()));
    }
    let mut found = Vec::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: the list is the resolver's, whose entries are valid until it is freed below.
        let entry = unsafe { &*next };
        // SAFETY: the entry's address is as long as its family says.
        found.extend(unsafe { socket_address(entry.ai_addr) });
        next = entry.ai_next;
    }
    // SAFETY: the list came from getaddrinfo, and nothing of it is used any more.
    unsafe { libc::freeaddrinfo(first) };
    Ok(found)
}

/// An address of the kernel's form; none of a family that is not of the Internet.
///
/// # Safety
/// It is null, or valid and as long as its family says.
unsafe fn socket_address(address: *const libc::sockaddr) -> Option<SocketAddr> {
    // SAFETY: the caller says that it is null or valid.
    match i32::from(unsafe { address.as_ref() }?.sa_family) {
        libc::AF_INET => {
            // SAFETY: an address of this family has this form.
            let address = unsafe { &*address.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family has this form.
            let address = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(address.sin6_port), 0, address.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Tries to connect, and hangs up.
pub(super) fn connect(address: SocketAddr) -> std::io::Result<()> {
    TcpStream::connect_timeout(&address, TRIAL_MAX).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_services_are_looked_up() {
        assert_eq!(lookup("127.0.0.1", "8080"), Ok(vec!["127.0.0.1:8080".parse().expect("an address")]));
        assert_eq!(lookup("::1", "80"), Ok(vec!["[::1]:80".parse().expect("an address")]));
        let unknown = lookup("127.0.0.1", "no-such-service").expect_err("no service").to_string();
        assert!(unknown.starts_with("unable to resolve 127.0.0.1:no-such-service "), "{unknown}");
        assert!(lookup("a\0b", "80").is_err());
    }

    #[test]
    fn an_address_is_tried() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        assert!(connect(address).is_ok());
        drop(listener);
        assert!(connect(address).is_err());
    }
}
