//! From names to addresses.

use crate::LoadError;
use crate::requests::host;
use crate::requests::url::port_of;
use std::ffi::CString;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

/// Which addresses of a name are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// All.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// Whether names are resolved again while a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Again {
    /// Once, when the run begins.
    #[default]
    Never,
    /// For each connection.
    Each,
    /// For the first connection behind this time since the last answer.
    After(Duration),
}

/// Which of a name's addresses a connection goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Select {
    /// All of the first one's version of IP in turn.
    #[default]
    InTurn,
    /// Any of these.
    Random,
    /// The first, as long as it can be reached.
    First,
}

impl Again {
    /// For how long an answer counts, in nanoseconds.
    pub(crate) fn ttl_ns(self) -> u64 {
        match self {
            Self::Never => u64::MAX,
            Self::Each => 0,
            Self::After(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

/// A host and a port that stand for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// A name, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Addresses that a name is said to have, in the place of those that the resolver knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Which name, and for which port.
    pub place: Place,
    /// Its addresses; connections go to those of the first one's version of IP in turn.
    pub addresses: Vec<IpAddr>,
}

/// A text that is none of these.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// No host and port.
    #[error("{given}: not HOST:PORT, such as localhost:8080 or [::1]:8080")]
    Place {
        /// What was given.
        given: String,
    },
    /// No host, port and addresses.
    #[error("{given}: not HOST:PORT:ADDRESS[,ADDRESS…], such as example.org:443:127.0.0.1")]
    Resolved {
        /// What was given.
        given: String,
    },
}

impl FromStr for Place {
    type Err = ResolveError;

    fn from_str(given: &str) -> Result<Self, ResolveError> {
        match host_and_port(given) {
            Some((host, Some(port))) => Ok(Self { host, port }),
            _ => Err(ResolveError::Place { given: given.to_owned() }),
        }
    }
}

impl FromStr for Resolved {
    type Err = ResolveError;

    fn from_str(given: &str) -> Result<Self, ResolveError> {
        let read = || {
            // A host in brackets has colons of its own.
            let from = if given.starts_with('[') { given.find(']')? } else { 0 };
            let port_at = from + given[from..].find(':')?;
            let end = port_at + 1 + given[port_at + 1..].find(':')?;
            let place = given[..end].parse().ok()?;
            let address = |text: &str| text.trim_start_matches('[').trim_end_matches(']').parse().ok();
            let addresses = given[end + 1..].split(',').map(address).collect::<Option<Vec<_>>>()?;
            Some(Self { place, addresses })
        };
        read().ok_or_else(|| ResolveError::Resolved { given: given.to_owned() })
    }
}

/// Splits `host`, `host:port` or `[v6]:port`.
pub(crate) fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(in_brackets) => {
            let (host, after) = in_brackets.split_once(']')?;
            let host = host::bracketed(host).ok()?;
            if after.is_empty() { (host, None) } else { (host, Some(after.strip_prefix(':')?)) }
        }
        None => {
            let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
            (host::named(host).ok()?, port)
        }
    };
    match port {
        None => Some((host, None)),
        Some(port) => Some((host, Some(port_of(port)?))),
    }
}

/// Whether a resolver is asked for a host, and may answer otherwise later.
pub(crate) fn is_asked(host: &str, port: u16, overrides: &[Resolved]) -> bool {
    let is_said = overrides.iter().any(|said| said.place.port == port && host::is_same(&said.place.host, host));
    !is_said && host.parse::<IpAddr>().is_err() && !host.contains('%')
}

/// The addresses of a host, in the order in which they are tried.
pub(crate) fn addresses(
    host: &str,
    port: u16,
    family: Family,
    overrides: &[Resolved],
) -> Result<Vec<SocketAddr>, LoadError> {
    let unknown = |cause| LoadError::UnknownHost { host: host.to_owned(), cause };
    let said = overrides.iter().find(|said| said.place.port == port && host::is_same(&said.place.host, host));
    let all: Vec<SocketAddr> = match said {
        Some(said) => said.addresses.iter().map(|address| SocketAddr::new(*address, port)).collect(),
        None => match with_interface(host, port) {
            Some(address) => vec![address.map_err(unknown)?],
            None => (host, port).to_socket_addrs().map_err(unknown)?.collect(),
        },
    };
    let of_family: Vec<_> = all
        .iter()
        .copied()
        .filter(|address| match family {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        })
        .collect();
    match (of_family.is_empty(), family) {
        (false, _) => Ok(of_family),
        (true, Family::V4) if !all.is_empty() => Err(unknown(io::Error::other("it has no IPv4 address"))),
        (true, Family::V6) if !all.is_empty() => Err(unknown(io::Error::other("it has no IPv6 address"))),
        (true, _) => Err(unknown(io::ErrorKind::NotFound.into())),
    }
}

/// The address of a host that names its interface behind a `%`; resolvers know interfaces of link-local addresses only.
fn with_interface(host: &str, port: u16) -> Option<io::Result<SocketAddr>> {
    let (address, interface) = host.split_once('%')?;
    let address: Ipv6Addr = address.parse().ok()?;
    let index = interface.parse().ok().or_else(|| {
        let name = CString::new(interface).ok()?;
        // SAFETY: the name ends with a NUL byte and outlives the call.
        Some(unsafe { libc::if_nametoindex(name.as_ptr()) }).filter(|index| *index != 0)
    });
    Some(match index {
        Some(index) => Ok(SocketAddrV6::new(address, port, 0, index).into()),
        None => Err(io::Error::other(format!("there is no network interface {interface}; `ip link` lists them"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn places_and_addresses() {
        let resolved: Resolved = "h:443:127.0.0.1,[::1]".parse().expect("both");
        assert_eq!((resolved.place.host.as_str(), resolved.place.port, resolved.addresses.len()), ("h", 443, 2));
        let resolved: Resolved = "[::1]:80:::1".parse().expect("an address for an address");
        assert_eq!((resolved.place.host.as_str(), resolved.addresses[0].is_ipv6()), ("::1", true));
        for wrong in ["", "h", "h:80", "h:80:", "h:80:name", "h:0:::1", ":80:::1", "[::1]80:::1", "[h"] {
            assert!(wrong.parse::<Resolved>().is_err(), "{wrong}");
        }
        let place: Place = "B\u{fc}cher.example:80".parse().expect("a name");
        assert_eq!(place.host, "xn--bcher-kva.example");
        assert_eq!("[::1]:8080".parse(), Ok(Place { host: "::1".into(), port: 8080 }));
        for wrong in ["", "h", ":80", "h:", "h:x", "h:65536", "h:+80", "[]:80", "h h:80", "::1:80"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_resolved_as_was_said() {
        let said = ["h.test:80:192.0.2.1,::1".parse().expect("addresses")];
        let of = |port, family| addresses("H.test", port, family, &said);
        assert_eq!(of(80, Family::Any).expect("both").len(), 2);
        assert_eq!(addresses("h.test.", 80, Family::Any, &said).expect("both").len(), 2);
        assert_eq!(of(80, Family::V6).expect("one"), ["[::1]:80".parse().expect("an address")]);
        assert!(of(81, Family::Any).is_err(), "said of another port");
        let zoned = addresses("fe80::1%lo", 80, Family::Any, &[]).expect("the loopback interface");
        assert!(matches!(zoned[0], SocketAddr::V6(address) if address.scope_id() > 0), "{zoned:?}");
        let nowhere = addresses("fe80::1%nowhere0", 80, Family::Any, &[]).expect_err("no such interface").to_string();
        assert!(nowhere.contains("no network interface nowhere0"), "{nowhere}");
        let none = addresses("127.0.0.1", 80, Family::V6, &[]).expect_err("version 4").to_string();
        assert!(none.contains("no IPv6 address"), "{none}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = text.parse::<Place>();
            let _ = text.parse::<Resolved>();
        }

        #[test]
        fn addresses_come_back(host in "[a-z][a-z0-9.-]{0,20}", port in 1..u16::MAX, bits: u128) {
            let address = IpAddr::from(Ipv6Addr::from(bits));
            let read = format!("{host}:{port}:[{address}]").parse();
            prop_assert_eq!(read, Ok(Resolved { place: Place { host, port }, addresses: vec![address] }));
        }
    }
}
