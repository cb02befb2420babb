//! Messages of gRPC, each behind a flag and its length (gRPC over HTTP/2, Length-Prefixed-Message).

/// The flag and the length before each message.
pub(crate) const PREFIX_BYTES: usize = 5;

/// Appends a message with its prefix, not compressed.
pub fn prefixed(out: &mut Vec<u8>, message: &[u8]) {
    out.push(0);
    // Messages are at most `grpc::method::MESSAGES_BYTES_MAX` long, which fits.
    out.extend_from_slice(&(message.len() as u32).to_be_bytes());
    out.extend_from_slice(message);
}

/// The state between two pieces of what comes.
#[derive(Debug, Clone)]
pub struct Reader(Stage);

#[derive(Debug, Clone)]
enum Stage {
    /// So many bytes of a prefix have come.
    Prefix { have: u8, prefix: [u8; PREFIX_BYTES] },
    /// So many bytes of a message are still to come.
    Content { left: u32 },
}

/// What the next bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'b> {
    /// A message begins.
    Begin {
        /// 0; 1 if it is compressed.
        flag: u8,
        /// Its length in bytes.
        length: u32,
    },
    /// A piece of it.
    Content(&'b [u8]),
    /// It is whole.
    End,
}

impl Default for Reader {
    fn default() -> Self {
        Self(Stage::Prefix { have: 0, prefix: [0; PREFIX_BYTES] })
    }
}

impl Reader {
    /// Takes the next part off the beginning of `bytes`; `None` where more bytes are needed for one.
    pub fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Option<Part<'b>> {
        match &mut self.0 {
            Stage::Prefix { have, prefix } => {
                let begin = usize::from(*have);
                let taken = bytes.split_off(..bytes.len().min(PREFIX_BYTES - begin))?;
                prefix[begin..begin + taken.len()].copy_from_slice(taken);
                *have += taken.len() as u8;
                if usize::from(*have) < PREFIX_BYTES {
                    return None;
                }
                let [flag, length @ ..] = *prefix;
                let length = u32::from_be_bytes(length);
                self.0 = Stage::Content { left: length };
                Some(Part::Begin { flag, length })
            }
            Stage::Content { left: 0 } => {
                *self = Self::default();
                Some(Part::End)
            }
            Stage::Content { left } => {
                let most = usize::try_from(*left).unwrap_or(usize::MAX);
                let piece = bytes.split_off(..bytes.len().min(most))?;
                *left -= piece.len() as u32;
                (!piece.is_empty()).then_some(Part::Content(piece))
            }
        }
    }

    /// Whether no message has begun that is not whole.
    #[must_use]
    pub fn is_between(&self) -> bool {
        matches!(self.0, Stage::Prefix { have: 0, .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The messages in bytes that come in these pieces, and whether the last one is whole.
    fn read(pieces: &[&[u8]]) -> (Vec<(u8, Vec<u8>)>, bool) {
        let (mut reader, mut messages, mut current) = (Reader::default(), Vec::new(), (0, Vec::new()));
        for mut piece in pieces.iter().copied() {
            while let Some(part) = reader.next(&mut piece) {
                match part {
                    Part::Begin { flag, .. } => current.0 = flag,
                    Part::Content(content) => current.1.extend_from_slice(content),
                    Part::End => messages.push(std::mem::take(&mut current)),
                }
            }
            assert!(piece.is_empty());
        }
        (messages, reader.is_between())
    }

    #[test]
    fn messages_end_where_their_length_says() {
        let (messages, is_whole) = read(&[b"\0\0\0\0\x02ab\x01\0\0\0\0\0\0\0\0\x01"]);
        assert_eq!((messages, is_whole), (vec![(0, b"ab".to_vec()), (1, Vec::new())], false));
        assert_eq!(read(&[b"\0\0"]), (Vec::new(), false));
        assert_eq!(read(&[]), (Vec::new(), true));
    }

    proptest! {
        #[test]
        fn messages_come_as_they_went_in_any_pieces(
            sent in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..8),
            cut in 1usize..9,
        ) {
            let mut bytes = Vec::new();
            sent.iter().for_each(|message| prefixed(&mut bytes, message));
            let (came, is_whole) = read(&bytes.chunks(cut).collect::<Vec<_>>());
            prop_assert!(is_whole);
            prop_assert_eq!(came, sent.into_iter().map(|message| (0, message)).collect::<Vec<_>>());
        }
    }
}
