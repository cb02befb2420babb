//! Numbers, addresses and texts of bytes in messages: big-endian, each behind the other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes that are no encoding of what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They end too early.
    #[error("the bytes end too early; send the whole message")]
    Short,
    /// More bytes follow than belong to it.
    #[error("bytes follow the end of the message; send one message at a time")]
    Long,
    /// A field has a value that is not known.
    #[error("the field {0} has a value that is not known; run the same version of weir on both sides")]
    Unknown(&'static str),
}

pub(crate) fn put_u32(number: u32, out: &mut Vec<u8>) {
    out.extend(number.to_be_bytes());
}

pub(crate) fn put_u64(number: u64, out: &mut Vec<u8>) {
    out.extend(number.to_be_bytes());
}

/// Its length in four bytes goes before.
pub(crate) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    // Messages are bounded far below 4 GiB before they are sent.
    put_u32(bytes.len() as u32, out);
    out.extend_from_slice(bytes);
}

/// Without a flow label and a scope: services have global addresses.
pub(crate) fn put_address(address: SocketAddr, out: &mut Vec<u8>) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend(ip.octets());
        }
    }
    out.extend(address.port().to_be_bytes());
}

pub(crate) fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], DecodeError> {
    let (first, rest) = bytes.split_first_chunk::<N>().ok_or(DecodeError::Short)?;
    *bytes = rest;
    Ok(*first)
}

pub(crate) fn take_u8(bytes: &mut &[u8]) -> Result<u8, DecodeError> {
    take::<1>(bytes).map(|[byte]| byte)
}

pub(crate) fn take_u32(bytes: &mut &[u8]) -> Result<u32, DecodeError> {
    take(bytes).map(u32::from_be_bytes)
}

pub(crate) fn take_u64(bytes: &mut &[u8]) -> Result<u64, DecodeError> {
    take(bytes).map(u64::from_be_bytes)
}

/// What [`put_bytes`] wrote; nothing is reserved for bytes that are not there.
pub(crate) fn take_bytes(bytes: &mut &[u8]) -> Result<Vec<u8>, DecodeError> {
    let length = take_u32(bytes)? as usize;
    let (first, rest) = bytes.split_at_checked(length).ok_or(DecodeError::Short)?;
    *bytes = rest;
    Ok(first.to_vec())
}

pub(crate) fn take_address(bytes: &mut &[u8]) -> Result<SocketAddr, DecodeError> {
    let ip = match take_u8(bytes)? {
        4 => IpAddr::V4(Ipv4Addr::from(take::<4>(bytes)?)),
        6 => IpAddr::V6(Ipv6Addr::from(take::<16>(bytes)?)),
        _ => return Err(DecodeError::Unknown("address family")),
    };
    Ok(SocketAddr::new(ip, take(bytes).map(u16::from_be_bytes)?))
}

/// What an error may be about, so that it can be sent itself.
const FIELDS: [&str; 10] = [
    "address family",
    "step",
    "error of a repair",
    "request",
    "reply",
    "refusal",
    "words of the filter",
    "version",
    "error of a message",
    "count",
];

impl DecodeError {
    /// Its number in a message.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Short => 1,
            Self::Long => 2,
            // The list is short.
            Self::Unknown(field) => 3 + FIELDS.iter().position(|known| *known == field).unwrap_or(0) as u8,
        }
    }

    /// The error of a number.
    ///
    /// # Errors
    /// [`DecodeError::Unknown`], if there is none.
    pub(crate) fn of_number(number: u8) -> Result<Self, Self> {
        match number {
            1 => Ok(Self::Short),
            2 => Ok(Self::Long),
            _ => {
                let at = usize::from(number).checked_sub(3);
                let field = at.and_then(|at| FIELDS.get(at)).ok_or(Self::Unknown("error of a message"))?;
                Ok(Self::Unknown(field))
            }
        }
    }
}
