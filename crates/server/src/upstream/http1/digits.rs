//! Numbers and addresses as text, written without a formatter: every proxied request has some.

use std::io::Write as _;
use std::net::IpAddr;

/// Digits of the largest number.
const DECIMALS_MAX: usize = 20;
const HEXADECIMALS_MAX: usize = 16;

pub(crate) fn decimal(mut number: u64, out: &mut Vec<u8>) {
    let (mut digits, mut at) = ([0; DECIMALS_MAX], DECIMALS_MAX);
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

pub(super) fn hexadecimal(mut number: u64, out: &mut Vec<u8>) {
    let (mut digits, mut at) = ([0; HEXADECIMALS_MAX], HEXADECIMALS_MAX);
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Two hexadecimal digits for each byte.
pub(crate) fn of_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let digit = |value: u8| b"0123456789abcdef"[usize::from(value & 15)];
    out.extend(bytes.iter().flat_map(|&byte| [digit(byte >> 4), digit(byte)]));
}

/// An address without brackets; one of IPv4 that a socket of IPv6 has accepted is written as what it is.
pub(crate) fn address(address: IpAddr, out: &mut Vec<u8>) {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            for (at, byte) in address.octets().into_iter().enumerate() {
                if at > 0 {
                    out.push(b'.');
                }
                decimal(u64::from(byte), out);
            }
        }
        IpAddr::V6(address) => {
            // Writing to memory does not fail.
            let _ = write!(out, "{address}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_and_addresses_are_what_the_formatter_writes(number: u64, shift in 0_u32..64, v4: [u8; 4], v6: [u8; 16]) {
            let number = number >> shift;
            let text = |write: &dyn Fn(&mut Vec<u8>)| {
                let mut out = Vec::new();
                write(&mut out);
                String::from_utf8(out).expect("text")
            };
            prop_assert_eq!(text(&|out| decimal(number, out)), number.to_string());
            prop_assert_eq!(text(&|out| hexadecimal(number, out)), format!("{number:x}"));
            for ip in [IpAddr::from(v4), IpAddr::from(v6)] {
                prop_assert_eq!(text(&|out| address(ip, out)), ip.to_canonical().to_string());
            }
        }
    }
}
