//! Times within messages of protobuf: where they are, and messages in which each has ten bytes.

use crate::sample::{Form, varint};

/// A field that is looked at, and what it is.
#[derive(Debug)]
pub(crate) enum Path {
    /// A message.
    Within(u32, &'static [Path]),
    /// A time.
    Time(u32),
    /// Packed differences, of which the first is a time.
    First(u32),
}

/// The places of times in a message.
pub(crate) type Times = Vec<(usize, usize, Form, u64)>;

pub(crate) fn number(bytes: &[u8], at: &mut usize) -> u64 {
    let mut number = 0;
    for index in 0.. {
        let byte = bytes[*at];
        *at += 1;
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

pub(crate) fn write_number(to: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        to.push(number as u8 & 0x7f | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// A message with longer times, and where these are. Samples are sound: what is not ends the program.
pub(crate) fn widened(message: &[u8], paths: &[Path]) -> (Vec<u8>, Times) {
    let (mut out, mut times, mut at) = (Vec::new(), Times::new(), 0);
    while at < message.len() {
        let begin = at;
        let key = number(message, &mut at);
        let path = paths.iter().find(|path| {
            let (Path::Within(field, _) | Path::Time(field) | Path::First(field)) = path;
            u64::from(*field) == key >> 3
        });
        let mut length = match key & 7 {
            0 => {
                let from = at;
                let at_ns = number(message, &mut at);
                if matches!(path, Some(Path::Time(_))) {
                    out.extend_from_slice(&message[begin..from]);
                    times.push((out.len(), 10, Form::Varint, at_ns));
                    out.extend_from_slice(&varint(at_ns));
                    continue;
                }
                0
            }
            1 => {
                if matches!(path, Some(Path::Time(_))) {
                    let value = u64::from_le_bytes(message[at..at + 8].try_into().expect("eight bytes"));
                    times.push((out.len() + at - begin, 8, Form::Little, value));
                }
                8
            }
            5 => 4,
            _ => number(message, &mut at) as usize,
        };
        let inner = match path {
            Some(Path::Within(_, paths)) => Some(widened(&message[at..at + length], paths)),
            Some(Path::First(_)) => {
                let mut behind = at;
                let at_ns = number(message, &mut behind);
                let rest = &message[behind..at + length];
                Some(([&varint(at_ns)[..], rest].concat(), vec![(0, 10, Form::Varint, at_ns)]))
            }
            _ => None,
        };
        if let Some((inner, within)) = inner {
            write_number(&mut out, key);
            write_number(&mut out, inner.len() as u64);
            times.extend(
                within.into_iter().map(|(place, length, form, at_ns)| (out.len() + place, length, form, at_ns)),
            );
            out.extend_from_slice(&inner);
            (at, length) = (at + length, 0);
        } else {
            out.extend_from_slice(&message[begin..at + length]);
        }
        at += length;
    }
    (out, times)
}
