//! Frames of HTTP/3 (RFC 9114 section 7): reads frames that arrive in pieces, and writes the heads of frames to send.

/// Kinds of frames (section 7.2).
pub(crate) mod kind {
    pub(crate) const DATA: u64 = 0x0;
    pub(crate) const HEADERS: u64 = 0x1;
    pub(crate) const CANCEL_PUSH: u64 = 0x3;
    pub(crate) const SETTINGS: u64 = 0x4;
    pub(crate) const PUSH_PROMISE: u64 = 0x5;
    pub(crate) const GOAWAY: u64 = 0x7;
    pub(crate) const MAX_PUSH_ID: u64 = 0xd;
}

/// Why a stream or a connection ends (section 8.1; RFC 9204 section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    NoError = 0x100,
    Internal = 0x102,
    StreamCreation = 0x103,
    ClosedCriticalStream = 0x104,
    FrameUnexpected = 0x105,
    Frame = 0x106,
    ExcessiveLoad = 0x107,
    Id = 0x108,
    Settings = 0x109,
    MissingSettings = 0x10a,
    RequestRejected = 0x10b,
    RequestCancelled = 0x10c,
    RequestIncomplete = 0x10d,
    Message = 0x10e,
    Decompression = 0x200,
    EncoderStream = 0x201,
    DecoderStream = 0x202,
}

/// Reads an integer (RFC 9000 section 16) and how many bytes it takes, if they are all there.
pub(crate) fn integer(input: &[u8]) -> Option<(u64, usize)> {
    let (&first, _) = input.split_first()?;
    let len = 1_usize << (first >> 6);
    let bytes = input.get(..len)?;
    let value = bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
    // The two highest bits tell the length.
    Some((value & (u64::MAX >> (64 - (8 * len - 2))), len))
}

/// Appends an integer in its shortest form; it is below 2^62.
pub(crate) fn put_integer(out: &mut Vec<u8>, value: u64) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Appends the head of a frame.
pub(crate) fn put_head(out: &mut Vec<u8>, kind: u64, len: u64) {
    put_integer(out, kind);
    put_integer(out, len);
}

/// Whether a frame of this kind has a place on no stream of a client's requests: those of the control stream, those
/// that only a server sends, and those of HTTP/2 that HTTP/3 has not (section 7.2.8).
pub(crate) fn is_misplaced_in_request(kind: u64) -> bool {
    is_of_http2(kind) || is_kept(kind) && kind != kind::HEADERS
}

/// Kinds that HTTP/2 has and HTTP/3 forbids.
pub(crate) fn is_of_http2(kind: u64) -> bool {
    matches!(kind, 0x2 | 0x6 | 0x8 | 0x9)
}

/// Kinds whose content is read as a whole.
pub(crate) fn is_kept(kind: u64) -> bool {
    matches!(
        kind,
        kind::HEADERS | kind::CANCEL_PUSH | kind::SETTINGS | kind::PUSH_PROMISE | kind::GOAWAY | kind::MAX_PUSH_ID
    )
}

/// What a stream of frames brings next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item<'i> {
    /// A frame of this kind and length begins. Its content follows as `Data` or `Whole`; of other kinds, and where it
    /// is longer than what is kept, it is passed over.
    Begun { kind: u64, len: u64 },
    /// Bytes of a body.
    Data(&'i [u8]),
    /// The content of a frame.
    Whole { kind: u64, content: &'i [u8] },
}

/// Takes frames off a stream, which may come in pieces of any size.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The beginning of a frame's head or content.
    saved: Vec<u8>,
    /// What was saved has been given out.
    is_used: bool,
    /// The frame whose content is gathered, and its length.
    gathered: Option<(u64, usize)>,
    /// Bytes that are left of a frame that is not gathered, and whether they are of a body.
    passed: (u64, bool),
}

impl Reader {
    /// Takes the next item off `input`; none = all of it is taken. Frames up to `kept_bytes_max` are gathered.
    #[expect(single_use_lifetimes, reason = "the input outlives the item, and is borrowed by the caller again")]
    pub(crate) fn next<'i, 'a: 'i>(&'i mut self, input: &mut &'a [u8], kept_bytes_max: usize) -> Option<Item<'i>> {
        if std::mem::take(&mut self.is_used) {
            self.saved.clear();
        }
        loop {
            if self.passed.0 > 0 {
                if input.is_empty() {
                    return None;
                }
                let taken = input.len().min(usize::try_from(self.passed.0).unwrap_or(usize::MAX));
                let (bytes, rest) = input.split_at(taken);
                *input = rest;
                self.passed.0 -= taken as u64;
                if self.passed.1 {
                    return Some(Item::Data(bytes));
                }
                continue;
            }
            if let Some((kind, len)) = self.gathered {
                if self.saved.is_empty()
                    && let Some((content, rest)) = input.split_at_checked(len)
                {
                    *input = rest;
                    self.gathered = None;
                    return Some(Item::Whole { kind, content });
                }
                let (more, rest) = input.split_at(input.len().min(len - self.saved.len()));
                self.saved.extend_from_slice(more);
                *input = rest;
                if self.saved.len() < len {
                    return None;
                }
                self.gathered = None;
                self.is_used = true;
                return Some(Item::Whole { kind, content: &self.saved });
            }
            let (kind, len) = self.head(input)?;
            match usize::try_from(len) {
                Ok(len) if is_kept(kind) && len <= kept_bytes_max => self.gathered = Some((kind, len)),
                _ => self.passed = (len, kind == kind::DATA),
            }
            return Some(Item::Begun { kind, len });
        }
    }

    /// Whether the stream may end here: no frame is within.
    pub(crate) fn is_between_frames(&self) -> bool {
        (self.saved.is_empty() || self.is_used) && self.gathered.is_none() && self.passed.0 == 0
    }

    /// Takes a frame's head off the input.
    fn head(&mut self, input: &mut &[u8]) -> Option<(u64, u64)> {
        if self.saved.is_empty()
            && let Some((kind, len, taken)) = head(input)
        {
            *input = &input[taken..];
            return Some((kind, len));
        }
        // In pieces: at most 16 bytes.
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            self.saved.push(byte);
            if let Some((kind, len, _)) = head(&self.saved) {
                self.saved.clear();
                return Some((kind, len));
            }
        }
        None
    }
}

fn head(input: &[u8]) -> Option<(u64, u64, usize)> {
    let (kind, kind_bytes) = integer(input)?;
    let (len, len_bytes) = integer(&input[kind_bytes..])?;
    Some((kind, len, kind_bytes + len_bytes))
}

/// The one integer that is all the content of some frames.
pub(crate) fn only_integer(content: &[u8]) -> Result<u64, Code> {
    match integer(content) {
        Some((value, taken)) if taken == content.len() => Ok(value),
        _ => Err(Code::Frame),
    }
}

/// Checks settings (section 7.2.4). None of them changes what we send: it refers to no table, and heads are small.
pub(crate) fn check_settings(mut content: &[u8]) -> Result<(), Code> {
    let mut known = Vec::new();
    while !content.is_empty() {
        let (id, id_bytes) = integer(content).ok_or(Code::Frame)?;
        let (value, value_bytes) = integer(&content[id_bytes..]).ok_or(Code::Frame)?;
        content = &content[id_bytes + value_bytes..];
        let is_flag = matches!(id, 0x8 | 0x33);
        // Those of HTTP/2 that have no meaning here are forbidden (section 7.2.4.1).
        if matches!(id, 0x0 | 0x2..=0x5) || known.contains(&id) || (is_flag && value > 1) {
            return Err(Code::Settings);
        }
        known.push(id);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_are_as_the_standard_has_them() {
        // RFC 9000 appendix A.1.
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            assert_eq!(integer(bytes), Some((value, bytes.len())));
            assert_eq!(integer(&bytes[..bytes.len() - 1]), None);
            let mut out = Vec::new();
            put_integer(&mut out, value);
            assert_eq!(out, bytes);
        }
        assert_eq!(integer(&[0x40, 0x25]), Some((37, 2)));
    }

    /// What frames lead to; a body is one number for each frame, however many pieces it came in.
    fn items(input: &[u8], piece: usize) -> (Vec<(u64, u64, Vec<u8>)>, bool) {
        let (mut reader, mut out) = (Reader::default(), Vec::<(u64, u64, Vec<u8>)>::new());
        for mut piece in input.chunks(piece) {
            while let Some(item) = reader.next(&mut piece, 20) {
                match item {
                    Item::Begun { kind, len } => out.push((kind, len, Vec::new())),
                    Item::Data(bytes) => {
                        let (kind, _, content) = out.last_mut().expect("it was begun");
                        assert_eq!(*kind, kind::DATA);
                        content.extend_from_slice(bytes);
                    }
                    Item::Whole { kind, content } => {
                        let last = out.last_mut().expect("it was begun");
                        assert_eq!((last.0, last.1), (kind, content.len() as u64));
                        last.2 = content.to_vec();
                    }
                }
            }
            assert!(piece.is_empty());
        }
        (out, reader.is_between_frames())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn frames_mean_the_same_in_any_pieces(
            frames in proptest::collection::vec((0_u64..40, 0_usize..40), 0..12),
            cut in 0_usize..6,
            piece in 1_usize..30,
        ) {
            let mut input = Vec::new();
            for (kind, len) in &frames {
                put_head(&mut input, *kind, *len as u64);
                input.extend(std::iter::repeat_n(0, *len));
            }
            let whole = items(&input, usize::MAX);
            prop_assert!(whole.1 && whole.0.len() == frames.len());
            prop_assert_eq!(&items(&input, piece), &whole);
            input.truncate(input.len().saturating_sub(cut));
            prop_assert_eq!(items(&input, piece), items(&input, usize::MAX));
        }
    }

    #[test]
    fn settings_are_checked() {
        let settings = |pairs: &[(u64, u64)]| {
            let mut out = Vec::new();
            for (id, value) in pairs {
                put_integer(&mut out, *id);
                put_integer(&mut out, *value);
            }
            out
        };
        assert_eq!(check_settings(&settings(&[(1, 4096), (6, 10_000), (7, 16), (0x21, 5), (0x33, 1)])), Ok(()));
        for wrong in [&[(2, 0)][..], &[(4, 1)], &[(0, 1)], &[(6, 1), (6, 1)], &[(8, 2)]] {
            assert_eq!(check_settings(&settings(wrong)), Err(Code::Settings), "{wrong:?}");
        }
        assert_eq!(check_settings(&[6]), Err(Code::Frame));
    }
}
