//! The service's address at an interface of the director: there while the director is active, and told to the network.
//!
//! It is added and removed by rtnetlink(7). Neighbours learn the new place at once by gratuitous ARP (RFC 5227, section
//! 3) or an unsolicited neighbour advertisement (RFC 4861, section 7.2.6), sent by packet(7).

use crate::filter::{FilterError, Interface};
use socket2::{Domain, Protocol, Socket, Type};
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// How long the kernel may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);
const BROADCAST: [u8; 6] = [0xff; 6];
/// All nodes of the link, and their group in Ethernet (RFC 4291, section 2.7.1; RFC 2464, section 7).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];
const TYPE_ARP: [u8; 2] = [0x08, 0x06];
const TYPE_IPV6: [u8; 2] = [0x86, 0xdd];
/// Ethernet and IPv4, with addresses of 6 and 4 bytes.
const ARP_HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_REQUEST: u8 = 1;
const ARP_REPLY: u8 = 2;
const PROTOCOL_ICMPV6: u8 = 58;
/// Type 136, no code, no sum yet; "override" (RFC 4861, section 4.4).
const ADVERTISEMENT: [u8; 8] = [136, 0, 0, 0, 0x20, 0, 0, 0];
/// linux/if_addr.h: the address is used at once, without a search for doubles. The other director may have it still.
const IFA_F_NODAD: u32 = 0x02;
const NETLINK_HEAD_BYTES: usize = 16;

/// The address cannot be added, removed or told.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// There is no such interface.
    #[error(transparent)]
    Interface(#[from] FilterError),
    /// The kernel refuses.
    #[error("{doing} {address} fails ({source}); run as root, or with CAP_NET_ADMIN and CAP_NET_RAW")]
    System {
        /// What was being done.
        doing: &'static str,
        /// The address.
        address: IpAddr,
        /// What the kernel said.
        source: io::Error,
    },
}

/// An address of the service at an interface of the thread's network namespace.
#[derive(Debug, Clone)]
pub struct ServiceAddress {
    name: String,
    interface: Interface,
    address: IpAddr,
}

impl ServiceAddress {
    /// Looks for the interface; nothing is changed.
    ///
    /// # Errors
    /// [`AddressError::Interface`].
    pub fn at(interface: &str, address: IpAddr) -> Result<Self, AddressError> {
        let found = Interface::find(interface)?;
        Ok(Self { name: interface.to_owned(), interface: found, address: address.to_canonical() })
    }

    /// The address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Adds the address, of the whole length as prefix; false if the interface has it already.
    ///
    /// # Errors
    /// [`AddressError::System`].
    pub fn add(&self) -> Result<bool, AddressError> {
        let failed = |source| AddressError::System { doing: "adding the address", address: self.address, source };
        if !self.prefixes().map_err(failed)?.is_empty() {
            return Ok(false);
        }
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        match self.change(libc::RTM_NEWADDR, flags, if self.address.is_ipv4() { 32 } else { 128 }) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(false),
            changed => changed.map(|()| true).map_err(failed),
        }
    }

    /// Removes the address, with each prefix that it has; false if the interface does not have it.
    ///
    /// # Errors
    /// [`AddressError::System`].
    pub fn remove(&self) -> Result<bool, AddressError> {
        let failed = |source| AddressError::System { doing: "removing the address", address: self.address, source };
        let prefixes = self.prefixes().map_err(failed)?;
        for prefix in &prefixes {
            match self.change(libc::RTM_DELADDR, 0, *prefix) {
                Err(error) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => {}
                changed => changed.map_err(failed)?,
            }
        }
        Ok(!prefixes.is_empty())
    }

    /// Tells all neighbours that the address is at this interface.
    ///
    /// # Errors
    /// [`AddressError::System`], as where the interface is down.
    pub fn announce(&self) -> Result<(), AddressError> {
        let failed = |source| AddressError::System { doing: "announcing the address", address: self.address, source };
        let socket = Socket::new(Domain::from(libc::AF_PACKET), Type::from(libc::SOCK_RAW), None).map_err(failed)?;
        for frame in announcements(self.address, self.interface.mac) {
            self.send(&socket, &frame).map_err(failed)?;
        }
        Ok(())
    }

    fn send(&self, socket: &Socket, frame: &[u8]) -> io::Result<()> {
        // SAFETY: plain numbers, for which zeros are valid.
        let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = self.interface.index;
        to.sll_halen = 6;
        to.sll_addr[..6].copy_from_slice(&frame[..6]);
        let (bytes, length) = (frame.as_ptr().cast(), size_of_val(&to) as libc::socklen_t);
        // SAFETY: the kernel reads the frame and the address, which live through the call.
        let sent = unsafe {
            libc::sendto(socket.as_raw_fd(), bytes, frame.len(), libc::MSG_DONTWAIT, (&raw const to).cast(), length)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The lengths of the prefixes with which the interface has the address (getifaddrs(3)).
    fn prefixes(&self) -> io::Result<Vec<u8>> {
        let mut first = std::ptr::null_mut();
        // SAFETY: the call writes the pointer to a list, which is freed below.
        if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let (mut found, mut next) = (Vec::new(), first);
        while !next.is_null() {
            // SAFETY: the entries of the list are valid until it is freed; addresses may be missing.
            let entry = unsafe { &*next };
            next = entry.ifa_next;
            // SAFETY: names end with a zero.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            let is_here = name.to_bytes() == self.name.as_bytes();
            // SAFETY: the pointers are those of the list, or null.
            let ends = unsafe { (ip_of(entry.ifa_addr), ip_of(entry.ifa_netmask)) };
            if let (true, (Some(ip), Some(mask))) = (is_here && ends.0 == Some(self.address), ends) {
                let ones = match mask {
                    IpAddr::V4(mask) => mask.to_bits().count_ones(),
                    IpAddr::V6(mask) => mask.to_bits().count_ones(),
                };
                tracing::trace!(%ip, ones, "the interface has the address");
                // 128 at most.
                found.push(ones as u8);
            }
        }
        // SAFETY: the list is the one from above, and nothing points into it any more.
        unsafe { libc::freeifaddrs(first) };
        Ok(found)
    }

    /// Asks the kernel to add or remove the address, and waits for its answer.
    fn change(&self, kind: u16, flags: libc::c_int, prefix: u8) -> io::Result<()> {
        let netlink = Protocol::from(libc::NETLINK_ROUTE);
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::from(libc::SOCK_RAW), Some(netlink))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16;
        let message = address_message(kind, flags, (self.interface.index.cast_unsigned(), self.address, prefix));
        socket.send(&message)?;
        let mut answer = [0; 512];
        let bytes = io::Read::read(&mut &socket, &mut answer)?;
        let code = answer[..bytes].get(NETLINK_HEAD_BYTES..).and_then(<[u8]>::first_chunk);
        // An answer to a request with NLM_F_ACK is always NLMSG_ERROR, with 0 for success (netlink(7)).
        match code.map(|code| i32::from_ne_bytes(*code)) {
            Some(0) => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(-code)),
            None => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// The IP address of a socket address.
///
/// # Safety
/// The pointer is null, or points to an address that is as long as its family says.
unsafe fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: it is not null, and each address begins with its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says that it is this long.
            let ip = unsafe { (*address.cast::<libc::sockaddr_in>()).sin_addr.s_addr };
            Some(IpAddr::V4(Ipv4Addr::from(ip.to_ne_bytes())))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is this long.
            let ip = unsafe { (*address.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr };
            Some(IpAddr::V6(Ipv6Addr::from(ip)))
        }
        _ => None,
    }
}

/// A message of rtnetlink(7) about an address of an interface: its head, `struct ifaddrmsg`, and attributes.
fn address_message(kind: u16, flags: u16, (index, address, prefix): (u32, IpAddr, u8)) -> Vec<u8> {
    let mut message = vec![0; 4];
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(1u32.to_ne_bytes());
    message.extend(0u32.to_ne_bytes());
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
    message.extend([family, prefix, 0, libc::RT_SCOPE_UNIVERSE]);
    message.extend(index.to_ne_bytes());
    let octets = match address {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let mut put = |kind: u16, value: &[u8]| {
        // All values are whole words, so that nothing is filled up.
        message.extend((4 + value.len() as u16).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(value);
    };
    put(libc::IFA_LOCAL, &octets);
    put(libc::IFA_ADDRESS, &octets);
    if address.is_ipv6() {
        put(libc::IFA_FLAGS, &IFA_F_NODAD.to_ne_bytes());
    }
    let bytes = message.len() as u32;
    message[..4].copy_from_slice(&bytes.to_ne_bytes());
    message
}

/// The frames that tell where an address is. Some systems take note of requests only, others of replies.
fn announcements(address: IpAddr, mac: [u8; 6]) -> Vec<Vec<u8>> {
    match address {
        IpAddr::V4(ip) => [ARP_REQUEST, ARP_REPLY].map(|operation| arp(ip, mac, operation)).to_vec(),
        IpAddr::V6(ip) => vec![advertisement(ip, mac)],
    }
}

fn arp(ip: Ipv4Addr, mac: [u8; 6], operation: u8) -> Vec<u8> {
    let target = if operation == ARP_REPLY { mac } else { [0; 6] };
    let parts: [&[u8]; 9] =
        [&BROADCAST, &mac, &TYPE_ARP, &ARP_HEAD, &[0, operation], &mac, &ip.octets(), &target, &ip.octets()];
    parts.concat()
}

fn advertisement(ip: Ipv6Addr, mac: [u8; 6]) -> Vec<u8> {
    let target_mac: [&[u8]; 2] = [&[2, 1], &mac];
    let mut told = [&ADVERTISEMENT[..], &ip.octets(), &target_mac.concat()].concat();
    // The pseudo-header of RFC 8200, section 8.1.
    let length = told.len() as u8;
    let pseudo = [&ip.octets()[..], &ALL_NODES.octets(), &[0, 0, 0, length, 0, 0, 0, PROTOCOL_ICMPV6], &told].concat();
    let sum = internet_checksum(&pseudo);
    told[2..4].copy_from_slice(&sum.to_be_bytes());
    let head = [0x60, 0, 0, 0, 0, length, PROTOCOL_ICMPV6, 255];
    [&ALL_NODES_MAC[..], &mac, &TYPE_IPV6, &head, &ip.octets(), &ALL_NODES.octets(), &told].concat()
}

/// RFC 1071, of whole words.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // It fits: the loop ends only then.
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];

    #[test]
    fn a_gratuitous_request_asks_for_its_own_address() {
        let frames = announcements("10.0.0.80".parse().expect("an address"), MAC);
        let expected = b"\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\x07\x08\x06\0\x01\x08\0\x06\x04\0\x01\x02\0\0\0\0\x07\x0a\0\0\x50\0\0\0\0\0\0\x0a\0\0\x50";
        assert_eq!(frames[0], expected);
        assert_eq!((frames[1][21], &frames[1][32..38]), (2, &MAC[..]));
    }

    #[test]
    fn an_advertisement_has_a_sum_that_fits() {
        let frame = announcements("fd00::80".parse().expect("an address"), MAC).remove(0);
        assert_eq!((frame.len(), &frame[..6]), (14 + 40 + 32, &ALL_NODES_MAC[..]));
        let (source_and_target, told) = (&frame[22..54], &frame[54..]);
        let pseudo = [source_and_target, &[0, 0, 0, 32, 0, 0, 0, PROTOCOL_ICMPV6], told].concat();
        assert_eq!(internet_checksum(&pseudo), 0);
        assert_eq!(&told[8..24], &"fd00::80".parse::<Ipv6Addr>().expect("an address").octets());
    }
}
