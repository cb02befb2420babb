//! What one server hands on to the one that it follows over HTTP/3, the names of the sockets for it, and the ids by which
//! a client's datagrams are told apart.

use crate::handed::{Handed, Name, address_of, head};

/// The first byte chooses what the rest is.
pub fn handed_on(input: &[u8]) {
    let Some((what, rest)) = input.split_first() else { return };
    match what % 3 {
        // What was read is written as the same, for any values of the unused bytes.
        0 => {
            let Handed::Datagram(meta, datagram) = Handed::read(rest) else { return };
            assert!(meta.len == datagram.len() && rest.ends_with(datagram));
            let message = [head(&meta).as_slice(), datagram].concat();
            let Handed::Datagram(again, same) = Handed::read(&message) else { panic!("it was a datagram") };
            assert!((again.addr, again.dst_ip, again.ecn) == (meta.addr, meta.dst_ip, meta.ecn) && same == datagram);
        }
        1 => {
            if let Some(name) = Name::parse(rest) {
                assert_eq!(Name::parse(name.to_string().as_bytes()), Some(name));
            }
        }
        _ => {
            if let Some((tag, _)) = address_of(rest) {
                assert!(tag < 1 << 24);
            }
        }
    }
}
