//! What proxies in front of the server say of clients.

use crate::http::client_address::{ClientField, TrustedProxies, client_address as address_of};
use crate::http::proxy_protocol::{Beginning, Passed, read};
use std::net::{IpAddr, Ipv4Addr};

/// Reads any bytes as the beginning of a connection: what is said of a part holds for all that it can become.
pub fn proxy_protocol(input: &[u8]) {
    let whole = read(input);
    for cut in 0..input.len().min(300) {
        let part = read(&input[..cut]);
        assert!(part == Ok(Beginning::Partial) || part == whole, "{cut} {part:?} {whole:?}");
    }
    if let Ok(Beginning::Header(bytes, passed)) = whole {
        assert!((15..=input.len()).contains(&bytes));
        assert_eq!(read(&[input, b"x"].concat()), whole);
        if let Passed::Between { client, local } = passed {
            assert_eq!(client.is_ipv4(), local.is_ipv4());
        }
    }
}

/// Reads any lines of fields, behind which a trusted proxy writes the address that it sees: that one counts.
pub fn client_address(input: &[u8]) {
    let seen = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));
    let networks = ["10.0.0.0/8", "fd00::/8"].into_iter().filter_map(|text| text.parse().ok()).collect::<Vec<_>>();
    let peer = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    for (field, name, last) in [
        (ClientField::XForwardedFor, "x-forwarded-for", &b"198.51.100.7"[..]),
        (ClientField::Forwarded, "forwarded", b"for=198.51.100.7"),
    ] {
        let trusted = TrustedProxies { networks: networks.clone(), field };
        let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
        let fields = || lines.iter().map(|line| (name, *line));
        address_of(peer, fields(), &trusted);
        let appended = address_of(peer, fields().chain([(name, last)]), &trusted);
        assert_eq!(appended.address, seen);
        let joined = [lines.last().copied().unwrap_or_default(), b", ", last].concat();
        let joined = fields().take(lines.len() - 1).chain([(name, joined.as_slice())]);
        assert_eq!(address_of(peer, joined, &trusted).address, seen);
    }
}
