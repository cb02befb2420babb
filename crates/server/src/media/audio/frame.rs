//! Parses the head of one frame.

/// Bytes by which a frame is known: the longest head with a checksum, and where the side information begins.
pub(crate) const HEAD_BYTES: usize = 9;
/// Bytes of a tag's head (ID3v2.4 section 3.1), and of its footer.
pub(crate) const TAG_HEAD_BYTES: usize = 10;

/// Kilobits a second by the index of a Layer III head; 0 stands for what is refused: the free format and the value that
/// is none.
const KBPS: [[u32; 16]; 2] = [
    [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0],
    [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0],
];
/// Samples a second of AAC by the index of a head.
const AAC_HZ: [u32; 13] =
    [96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350];

/// What decoders must be set up for: a stream goes on only with the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) codec: Codec,
    /// Samples a second of each channel.
    pub(crate) rate_hz: u32,
    /// 1 to 8; of Layer III 1 or 2.
    pub(crate) channels: u8,
}

/// How sound is coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    /// Layer III of MPEG-1.
    Mpeg1,
    /// Layer III of MPEG-2, with half of the sampling rates and of the samples in a frame.
    Mpeg2,
    /// The same with a quarter of the rates, which the standard does not have.
    Mpeg25,
    /// AAC of this profile.
    Aac(u8),
}

/// A frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) format: Format,
    /// All of it, its head included; from 8 to 8191.
    pub(crate) bytes: usize,
    /// Before the sound's own bytes: the head, its checksum and the side information.
    pub(crate) side_end: usize,
    /// Bytes of the frames before it that it needs (the bit reservoir of Layer III).
    pub(crate) reservoir_bytes: usize,
}

/// Reads the frame at the beginning; none if there is none, or it is of no form that is taken: another layer, the free
/// format, several blocks of AAC in a frame, channels that are laid out within.
pub(crate) fn parse(bytes: &[u8]) -> Option<Frame> {
    let head: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
    if head[0] != 0xff || head[1] & 0xe0 != 0xe0 {
        return None;
    }
    if head[1] & 0xf6 == 0xf0 { aac(head) } else { layer3(head) }
}

fn layer3(head: &[u8; HEAD_BYTES]) -> Option<Frame> {
    let (codec, shift) = match head[1] >> 3 & 3 {
        0 => (Codec::Mpeg25, 2),
        2 => (Codec::Mpeg2, 1),
        3 => (Codec::Mpeg1, 0),
        _ => return None,
    };
    let (is_layer3, emphasis) = (head[1] >> 1 & 3 == 1, head[3] & 3);
    let rate_hz = *[44_100, 48_000, 32_000].get(usize::from(head[2] >> 2 & 3))? >> shift;
    let channels = if head[3] >> 6 == 3 { 1 } else { 2 };
    let bytes = layer3_bytes(codec, rate_hz, head[2] >> 4)? + usize::from(head[2] >> 1 & 1);
    if !is_layer3 || emphasis == 2 {
        return None;
    }
    let side_start = if head[1] & 1 == 0 { 6 } else { 4 };
    let side = match (codec, channels) {
        (Codec::Mpeg1, 1) => 17,
        (Codec::Mpeg1, _) => 32,
        (_, 1) => 9,
        _ => 17,
    };
    let word = u16::from_be_bytes([head[side_start], head[side_start + 1]]);
    let reservoir_bytes = usize::from(if codec == Codec::Mpeg1 { word >> 7 } else { word >> 8 });
    let side_end = side_start + side;
    let format = Format { codec, rate_hz, channels };
    (bytes >= side_end).then_some(Frame { format, bytes, side_end, reservoir_bytes })
}

/// Bytes of a frame of Layer III without padding; none for indices that say no rate.
pub(crate) fn layer3_bytes(codec: Codec, rate_hz: u32, index: u8) -> Option<usize> {
    let is_half = codec != Codec::Mpeg1;
    let kbps = KBPS[usize::from(is_half)][usize::from(index & 15)];
    // At most 320 kbit/s, so that it fits.
    let bytes = if is_half { 72_000 } else { 144_000 } * kbps / rate_hz;
    (kbps > 0).then_some(bytes as usize)
}

fn aac(head: &[u8; HEAD_BYTES]) -> Option<Frame> {
    let rate_hz = *AAC_HZ.get(usize::from(head[2] >> 2 & 15))?;
    let channels = match (head[2] & 1) << 2 | head[3] >> 6 {
        0 => return None,
        7 => 8,
        channels => channels,
    };
    let bytes = usize::from(head[3] & 3) << 11 | usize::from(head[4]) << 3 | usize::from(head[5] >> 5);
    let side_end = if head[1] & 1 == 0 { 9 } else { 7 };
    if head[6] & 3 != 0 || bytes < side_end {
        return None;
    }
    let format = Format { codec: Codec::Aac(head[2] >> 6), rate_hz, channels };
    Some(Frame { format, bytes, side_end, reservoir_bytes: 0 })
}

/// Whether a frame is none of sound, but tells of the others: how many there are, where they lie (Xing, Info, VBRI).
pub(crate) fn is_information(frame: &Frame, bytes: &[u8]) -> bool {
    let is_at = |start: usize, word: &[u8]| bytes.get(start..).is_some_and(|rest| rest.starts_with(word));
    !matches!(frame.format.codec, Codec::Aac(_))
        && (is_at(frame.side_end, b"Xing") || is_at(frame.side_end, b"Info") || is_at(36, b"VBRI"))
}

/// Bytes of the tag at the beginning (ID3v2), its head and footer included; 0 if there is none.
pub(crate) fn tag_bytes(bytes: &[u8]) -> u64 {
    let Some(head) = bytes.first_chunk::<TAG_HEAD_BYTES>() else { return 0 };
    let size = &head[6..];
    if !head.starts_with(b"ID3") || size.iter().any(|byte| byte & 0x80 != 0) {
        return 0;
    }
    let size = size.iter().fold(0, |size, byte| size << 7 | u64::from(*byte));
    let ends = if head[5] & 0x10 == 0 { 1 } else { 2 };
    size + ends * TAG_HEAD_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn heads_say_what_the_standards_have() {
        let of = |codec, rate_hz, channels| Format { codec, rate_hz, channels };
        for (head, format, bytes, side_end, reservoir_bytes) in [
            // 128 kbit/s, 44.1 kHz, stereo; the reservoir is 9 bits.
            ([0xff, 0xfb, 0x90, 0x00, 0xff, 0x80, 0, 0, 0], of(Codec::Mpeg1, 44_100, 2), 417, 36, 511),
            // The same with padding and a checksum.
            ([0xff, 0xfa, 0x92, 0x00, 9, 9, 0x00, 0x80, 0], of(Codec::Mpeg1, 44_100, 2), 418, 38, 1),
            // 64 kbit/s, 22.05 kHz, one channel.
            ([0xff, 0xf3, 0x80, 0xc0, 7, 0, 0, 0, 0], of(Codec::Mpeg2, 22_050, 1), 208, 13, 7),
            // 8 kbit/s, 8 kHz, one channel.
            ([0xff, 0xe3, 0x18, 0xc0, 0, 0, 0, 0, 0], of(Codec::Mpeg25, 8_000, 1), 72, 13, 0),
            // AAC-LC, 44.1 kHz, stereo, 371 bytes.
            ([0xff, 0xf1, 0x50, 0x80, 0x2e, 0x7f, 0xfc, 0, 0], of(Codec::Aac(1), 44_100, 2), 371, 7, 0),
        ] {
            assert_eq!(parse(&head), Some(Frame { format, bytes, side_end, reservoir_bytes }), "{head:x?}");
        }
        for bad in [
            [0xff, 0xfb, 0x00, 0x00, 0, 0, 0, 0, 0], // The free format.
            [0xff, 0xfb, 0xf0, 0x00, 0, 0, 0, 0, 0],
            [0xff, 0xfb, 0x9c, 0x00, 0, 0, 0, 0, 0],
            [0xff, 0xfd, 0x90, 0x00, 0, 0, 0, 0, 0],          // Layer II.
            [0xff, 0xf1, 0x50, 0x80, 0x2e, 0x7f, 0xfd, 0, 0], // Two blocks.
            [0xff, 0xf1, 0x50, 0x00, 0x2e, 0x7f, 0xfc, 0, 0],
            [0; 9],
        ] {
            assert_eq!(parse(&bad), None, "{bad:x?}");
        }
        assert_eq!(tag_bytes(b"ID3\x04\0\0\0\0\x02\x01rest"), 267);
        assert_eq!(tag_bytes(b"ID3\x04\0\x10\0\0\x02\x01rest"), 277);
        assert_eq!(tag_bytes(b"ID3\x04\0\0\0\0\x82\x01rest"), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_make_no_frame_without_a_size(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let with_sync = [&[0xff, 0xfb][..], &bytes].concat();
            for bytes in [&bytes, &with_sync] {
                let _ = tag_bytes(bytes);
                if let Some(frame) = parse(bytes) {
                    prop_assert!((7..=8191).contains(&frame.bytes) && frame.side_end <= frame.bytes);
                    prop_assert!(frame.reservoir_bytes < 512 && frame.format.rate_hz >= 7_350);
                    let _ = is_information(&frame, bytes);
                }
            }
        }
    }
}
