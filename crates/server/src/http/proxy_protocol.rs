//! The header by which a proxy in front says whose connection it passes on: the PROXY protocol, versions 1 and 2
//! (<https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt>).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of a header of version 1, its line end included (section 2.1).
const LINE_BYTES_MAX: usize = 107;
const LINE_BEGIN: &[u8] = b"PROXY ";
/// The first bytes of version 2 (section 2.2).
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The signature, version and command, family and protocol, and the length of what follows.
const FIXED_BYTES: usize = 16;
/// Bytes of addresses and further values that follow. The protocol allows 65,535, and its senders stay below 1 KiB
/// unless they pass on certificates.
const BLOCK_BYTES_MAX: usize = 4096;
/// Bytes of both addresses of Unix sockets.
const UNIX_BYTES: usize = 216;

/// What the beginning of a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// A part of a header.
    Partial,
    /// A header of so many bytes.
    Header(usize, Passed),
}

/// Whose connection is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    /// The proxy's own, or one that it does not know (LOCAL, UNKNOWN, AF_UNSPEC): the socket's addresses hold.
    Own,
    /// One of a Unix socket: there is no address.
    Unix,
    /// One of these addresses.
    Between { client: SocketAddr, local: SocketAddr },
}

/// Why the beginning of a connection is no header; the connection is closed without a word (section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoHeader {
    /// The first bytes are those of neither version.
    #[error("it does not begin with a header of the PROXY protocol")]
    Missing,
    /// A line that is not as version 1 has it.
    #[error("its PROXY line cannot be read")]
    Line,
    /// A version, command or family that version 2 does not have.
    #[error("its PROXY header has a version, command or family that is not known")]
    Unknown,
    /// Addresses that are longer than the block that has them.
    #[error("its PROXY header is too short for its addresses")]
    Short,
    /// More than is read.
    #[error("its PROXY header has more than {BLOCK_BYTES_MAX} bytes")]
    TooLarge,
}

/// Reads the beginning of a connection. What it says of a part holds for all that it can become: a header, or none.
pub(crate) fn read(input: &[u8]) -> Result<Beginning, NoHeader> {
    let begins = |with: &[u8]| {
        let bytes = with.len().min(input.len());
        with[..bytes] == input[..bytes]
    };
    if begins(SIGNATURE) {
        return if input.len() < FIXED_BYTES { partial_block(input) } else { block(input) };
    }
    if begins(LINE_BEGIN) { line(input) } else { Err(NoHeader::Missing) }
}

fn line(input: &[u8]) -> Result<Beginning, NoHeader> {
    let within = &input[..input.len().min(LINE_BYTES_MAX)];
    let Some(end) = memchr::memchr(b'\r', within) else {
        return if within.len() < LINE_BYTES_MAX { Ok(Beginning::Partial) } else { Err(NoHeader::Line) };
    };
    match within.get(end + 1) {
        Some(b'\n') => {}
        Some(_) => return Err(NoHeader::Line),
        None if within.len() < LINE_BYTES_MAX => return Ok(Beginning::Partial),
        None => return Err(NoHeader::Line),
    }
    let text = std::str::from_utf8(&within[LINE_BEGIN.len().min(end)..end]).map_err(|_| NoHeader::Line)?;
    let passed = if text == "UNKNOWN" || text.starts_with("UNKNOWN ") { Passed::Own } else { addresses(text)? };
    Ok(Beginning::Header(end + 2, passed))
}

/// `TCP4 192.0.2.1 192.0.2.2 1000 80`, with single spaces.
fn addresses(text: &str) -> Result<Passed, NoHeader> {
    let mut words = text.split(' ');
    let mut word = || words.next().ok_or(NoHeader::Line);
    let (family, client, local, client_port, local_port) = (word()?, word()?, word()?, word()?, word()?);
    if words.next().is_some() {
        return Err(NoHeader::Line);
    }
    let address = |text: &str| -> Result<IpAddr, NoHeader> {
        match family {
            "TCP4" => text.parse::<Ipv4Addr>().map(IpAddr::V4).map_err(|_| NoHeader::Line),
            "TCP6" => text.parse::<Ipv6Addr>().map(IpAddr::V6).map_err(|_| NoHeader::Line),
            _ => Err(NoHeader::Line),
        }
    };
    let port = |text: &str| {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        text.parse::<u16>().ok().filter(|_| is_plain).ok_or(NoHeader::Line)
    };
    let client = SocketAddr::new(address(client)?, port(client_port)?);
    Ok(Passed::Between { client, local: SocketAddr::new(address(local)?, port(local_port)?) })
}

/// What is there of a header whose length is not known yet.
fn partial_block(input: &[u8]) -> Result<Beginning, NoHeader> {
    if let Some(&command) = input.get(12) {
        command_of(command)?;
        if let (true, Some(&family)) = (command & 0xf == 1, input.get(13)) {
            address_bytes(family)?;
        }
    }
    Ok(Beginning::Partial)
}

/// Whether a connection is passed on; LOCAL otherwise.
fn command_of(byte: u8) -> Result<bool, NoHeader> {
    match byte {
        0x20 => Ok(false),
        0x21 => Ok(true),
        _ => Err(NoHeader::Unknown),
    }
}

fn address_bytes(family: u8) -> Result<usize, NoHeader> {
    match family {
        0x00 => Ok(0),
        0x11 | 0x12 => Ok(12),
        0x21 | 0x22 => Ok(36),
        0x31 | 0x32 => Ok(UNIX_BYTES),
        _ => Err(NoHeader::Unknown),
    }
}

fn block(input: &[u8]) -> Result<Beginning, NoHeader> {
    let is_passed_on = command_of(input[12])?;
    // The family of LOCAL is ignored (section 2.2).
    let family = if is_passed_on { input[13] } else { 0 };
    let needed = address_bytes(family)?;
    let length = usize::from(u16::from_be_bytes([input[14], input[15]]));
    if length > BLOCK_BYTES_MAX {
        return Err(NoHeader::TooLarge);
    }
    if length < needed {
        return Err(NoHeader::Short);
    }
    let Some(block) = input.get(FIXED_BYTES..FIXED_BYTES + length) else { return Ok(Beginning::Partial) };
    // Values behind the addresses (section 2.2.7) are skipped.
    let passed = match family >> 4 {
        1 => of_family::<4>(block).unwrap_or(Passed::Own),
        2 => of_family::<16>(block).unwrap_or(Passed::Own),
        3 => Passed::Unix,
        _ => Passed::Own,
    };
    Ok(Beginning::Header(FIXED_BYTES + length, passed))
}

/// Both addresses, then both ports.
fn of_family<const BYTES: usize>(block: &[u8]) -> Option<Passed>
where
    IpAddr: From<[u8; BYTES]>,
{
    let (client, rest) = block.split_first_chunk::<BYTES>()?;
    let (local, rest) = rest.split_first_chunk::<BYTES>()?;
    let (client_port, rest) = rest.split_first_chunk::<2>()?;
    let (local_port, _) = rest.split_first_chunk::<2>()?;
    let address = |address: [u8; BYTES], port: [u8; 2]| SocketAddr::new(address.into(), u16::from_be_bytes(port));
    Some(Passed::Between { client: address(*client, *client_port), local: address(*local, *local_port) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn between(client: &str, local: &str) -> Passed {
        Passed::Between { client: client.parse().expect("an address"), local: local.parse().expect("an address") }
    }

    fn second(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
        let length = u16::try_from(block.len()).expect("short").to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, block].concat()
    }

    #[test]
    fn lines_are_as_version_1_has_them() {
        for (text, expected) in [
            ("PROXY TCP4 192.0.2.1 198.51.100.2 1000 80\r\n", between("192.0.2.1:1000", "198.51.100.2:80")),
            ("PROXY TCP6 2001:db8::1 ::1 65535 0\r\n", between("[2001:db8::1]:65535", "[::1]:0")),
            ("PROXY UNKNOWN\r\n", Passed::Own),
            ("PROXY UNKNOWN ffff::ffff anything 1\r\n", Passed::Own),
        ] {
            let input = [text.as_bytes(), b"GET / HTTP/1.1\r\n"].concat();
            assert_eq!(read(&input), Ok(Beginning::Header(text.len(), expected)), "{text}");
        }
        let longest = "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff \
                       65535 65535\r\n";
        assert!(matches!(read(longest.as_bytes()), Ok(Beginning::Header(..))));
        for bad in [
            "PROXY TCP4 192.0.2.1 198.51.100.2 1000 80 \r\n",
            "PROXY TCP4  192.0.2.1 198.51.100.2 1000 80\r\n",
            "PROXY TCP4 192.0.2.01 198.51.100.2 1000 80\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 01000 80\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 +1000 80\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 1000 65536\r\n",
            "PROXY TCP4 ::1 ::1 1000 80\r\n",
            "PROXY TCP6 192.0.2.1 198.51.100.2 1000 80\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.2 1000\r\n",
            "PROXY UDP4 192.0.2.1 198.51.100.2 1000 80\r\n",
            "PROXY UNKNOWNS\r\n",
            "PROXY UNKNOWN\rx",
            "proxy TCP4 192.0.2.1 198.51.100.2 1000 80\r\n",
            "GET / HTTP/1.1\r\n",
        ] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(read(&[b"PROXY UNKNOWN ", &[b'x'; 200][..]].concat()), Err(NoHeader::Line));
    }

    #[test]
    fn blocks_are_as_version_2_has_them() {
        let four = [192, 0, 2, 1, 198, 51, 100, 2, 3, 232, 0, 80];
        let six = [[0_u8; 15].as_slice(), &[1], &[0; 15], &[2], &[3, 232, 0, 80]].concat();
        for (command, family, block, expected) in [
            (0x21, 0x11, four.to_vec(), between("192.0.2.1:1000", "198.51.100.2:80")),
            // With values behind the addresses.
            (0x21, 0x12, [&four[..], &[4, 0, 1, 0]].concat(), between("192.0.2.1:1000", "198.51.100.2:80")),
            (0x21, 0x21, six, between("[::1]:1000", "[::2]:80")),
            (0x21, 0x31, vec![0; UNIX_BYTES], Passed::Unix),
            (0x21, 0x00, vec![1, 2, 3], Passed::Own),
            (0x20, 0x11, Vec::new(), Passed::Own),
            (0x20, 0xff, vec![1; 40], Passed::Own),
        ] {
            let header = second(command, family, &block);
            let input = [&header[..], b"GET"].concat();
            assert_eq!(read(&input), Ok(Beginning::Header(header.len(), expected)), "{command:x} {family:x}");
        }
        assert_eq!(read(&second(0x21, 0x11, &four[..11])), Err(NoHeader::Short));
        for (command, family) in [(0x11, 0x11), (0x22, 0x11), (0x21, 0x13), (0x21, 0x01), (0x21, 0x41)] {
            assert_eq!(read(&second(command, family, &[0; 300])), Err(NoHeader::Unknown), "{command:x} {family:x}");
        }
        assert_eq!(read(&second(0x21, 0x11, &[0; BLOCK_BYTES_MAX + 1])), Err(NoHeader::TooLarge));
    }

    proptest! {
        #[test]
        fn what_is_said_of_a_part_holds(
            choice in 0..3,
            command in 0x1e_u8..0x23,
            family in prop::sample::select(vec![0, 0x11, 0x12, 0x21, 0x31, 0x41]),
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            text in "(TCP4|TCP6|UNKNOWN|X) [0-9a-f:. \r\n]{0,90}\r\n",
        ) {
            let input = match choice {
                0 => second(command, family, &bytes),
                1 => [b"PROXY ", text.as_bytes()].concat(),
                _ => bytes,
            };
            let whole = read(&input);
            for cut in 0..input.len() {
                match read(&input[..cut]) {
                    Ok(Beginning::Partial) => {}
                    part => {
                        prop_assert!(part == whole, "{cut}: {part:?}, and of all {whole:?}");
                    }
                }
            }
            if let Ok(Beginning::Header(bytes, _)) = whole {
                prop_assert!(bytes <= input.len() && bytes <= FIXED_BYTES + BLOCK_BYTES_MAX);
            }
        }
    }
}
