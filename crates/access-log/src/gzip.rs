//! Logs that gzip has compressed: one member after the other (RFC 1952 2.2), with zeros behind the last, as tapes and disks
//! that are written in blocks leave them.

use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, Read};

/// What each member begins with.
pub(crate) const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Reads what the members hold.
#[derive(Debug)]
pub(crate) enum Members<R> {
    Within(Box<GzDecoder<R>>),
    Ended,
}

impl<R: BufRead> Members<R> {
    pub(crate) fn new(compressed: R) -> Self {
        Self::Within(Box::new(GzDecoder::new(compressed)))
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Self::Within(decoder) = self else { return Ok(0) };
            let count = decoder.read(buffer).map_err(told)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Self::Within(decoder) = std::mem::replace(self, Self::Ended) else { return Ok(0) };
            let mut compressed = decoder.into_inner();
            let next = behind_zeros(&mut compressed)?;
            if next == Some(MAGIC[0]) {
                *self = Self::new(compressed);
            } else if next.is_some() {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "bytes that are not compressed follow the compressed part; read what is in front of them by `zcat FILE`",
                ));
            }
        }
    }
}

/// The first byte that is not 0, which stays there to be read.
fn behind_zeros(compressed: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        let read = compressed.fill_buf()?;
        if read.is_empty() {
            return Ok(None);
        }
        let zeros = read.iter().take_while(|byte| **byte == 0).count();
        if let Some(next) = read.get(zeros).copied() {
            compressed.consume(zeros);
            return Ok(Some(next));
        }
        compressed.consume(zeros);
    }
}

fn told(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(
            error.kind(),
            "its compressed part is cut; read what is whole of it by `zcat FILE`, and give that by a pipe and /dev/stdin",
        ),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            io::Error::new(error.kind(), format!("its compressed part is damaged ({error})"))
        }
        _ => error,
    }
}

#[cfg(test)]
pub(crate) fn compressed(text: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text).and_then(|()| gzip.finish()).expect("memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        Members::new(io::BufReader::with_capacity(7, bytes)).read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn members_zeros_and_damage_are_told_apart() {
        let (one, two) = (compressed(b"one\n"), compressed(b"two\n"));
        let both = [&one[..], &two].concat();
        assert_eq!(read(&both).expect("whole"), "one\ntwo\n");
        assert_eq!(read(&[&both[..], &[0; 600]].concat()).expect("whole"), "one\ntwo\n");
        assert_eq!(read(&[&one[..], &[0; 5], &two].concat()).expect("whole"), "one\ntwo\n");
        let said = |bytes: &[u8]| read(bytes).expect_err("it is damaged").to_string();
        assert!(said(&both[..both.len() - 3]).contains("is cut"));
        assert!(said(&[&one[..], b"more"].concat()).contains("not compressed"));
        let mut flipped = compressed(&[b'x'; 900]);
        let last = flipped.len() - 6;
        flipped[last] ^= 1;
        assert!(said(&flipped).contains("damaged"), "{}", said(&flipped));
    }
}
