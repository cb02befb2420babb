//! A frame of silence that carries what the next one needs.
//!
//! A frame of Layer III may begin with bytes that lie in the frames before it, its reservoir. When a stream goes on in
//! another file, the frames before come from the old file, and decoders would read the wrong bytes. So the frame before
//! is replaced by a silent one that holds the right bytes at its end: the timing stays right, and the listener hears a
//! fade of one frame, 26 ms. The alternative, to wait for a frame without a reservoir, fails: encoders make hardly any.

use super::Bytes;
use super::frame::{self, Codec, Frame};
use std::io;

/// Frames before one that are looked at for its reservoir: with 24 bytes of sound in each it would be complete.
pub(crate) const BEFORE_MAX: u64 = 24;

/// A silent frame with `reservoir` at its end; `head` begins the frame whose place it takes. None if no rate is high
/// enough, which no reservoir asks for.
pub(crate) fn carrier(head: &[u8], frame: &Frame, reservoir: &[u8]) -> Option<Vec<u8>> {
    let Frame { format, .. } = *frame;
    let had_checksum = head.get(1)? & 1 == 0;
    let side_end = frame.side_end - if had_checksum { 2 } else { 0 };
    let own = head.get(2)? >> 4;
    let is_enough = |index: &u8| {
        frame::layer3_bytes(format.codec, format.rate_hz, *index)
            .is_some_and(|bytes| bytes >= side_end + reservoir.len())
    };
    let index = Some(own).filter(is_enough).or_else(|| (1..15).find(is_enough))?;
    let mut silent = vec![0; frame::layer3_bytes(format.codec, format.rate_hz, index)?];
    silent[..4].copy_from_slice(head.get(..4)?);
    silent[1] |= 1;
    // Without padding.
    silent[2] = silent[2] & 0x0d | index << 4;
    let at = silent.len() - reservoir.len();
    silent[at..].copy_from_slice(reservoir);
    Some(silent)
}

/// The last `wanted` bytes of sound in whole frames that lie at `places` one after the other; with zeros before them if
/// there are fewer.
///
/// # Errors
///
/// What the file system answers.
pub(crate) fn reservoir(bytes: &(impl Bytes + ?Sized), places: &[u64], wanted: usize) -> io::Result<Vec<u8>> {
    let mut sound = vec![0; wanted];
    for at in places {
        let mut whole = vec![0; 2048];
        let read = bytes.read_at(*at, &mut whole)?;
        let Some(frame) = frame::parse(&whole[..read]).filter(|frame| !matches!(frame.format.codec, Codec::Aac(_)))
        else {
            continue;
        };
        sound.extend_from_slice(whole[..read].get(frame.side_end..frame.bytes).unwrap_or_default());
    }
    Ok(sound.split_off(sound.len() - wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_carrier_is_a_frame_of_its_format_that_ends_with_what_it_carries(
            version in proptest::sample::select(vec![0xfb_u8, 0xfa, 0xf3, 0xf2, 0xe3]),
            index in 1_u8..15, rate in 0_u8..3, mode in 0_u8..4, bytes in 0_usize..512,
        ) {
            let head = [0xff, version, index << 4 | rate << 2 | 2, mode << 6, 0, 0, 0, 0, 0];
            let Some(frame) = frame::parse(&head) else { return Ok(()) };
            let bytes = if frame.format.codec == Codec::Mpeg1 { bytes } else { bytes / 2 };
            let reservoir: Vec<u8> = (0..bytes).map(|byte| byte as u8 | 1).collect();
            let silent = carrier(&head, &frame, &reservoir).expect("some rate is high enough");
            let made = frame::parse(&silent).expect("a frame");
            prop_assert_eq!(made.format, frame.format);
            prop_assert_eq!((made.bytes, made.reservoir_bytes), (silent.len(), 0));
            prop_assert!(silent.ends_with(&reservoir) && made.side_end + bytes <= silent.len());
            prop_assert!(silent[4..silent.len() - bytes].iter().all(|byte| *byte == 0));
        }
    }
}
