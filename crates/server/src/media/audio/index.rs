//! The positions of the frames of a file: searched as far as a caller asks, and kept within a bound.

use super::Bytes;
use super::frame::{self, Format, Frame, HEAD_BYTES, TAG_HEAD_BYTES};
use std::io;

/// Places that are kept; with more of them every other one is dropped.
const MARKS_MAX: usize = 4096;
/// Frames from one place that is kept to the next, at first.
const STRIDE: u64 = 64;
/// Bytes that are read at once while frames are looked for.
const WINDOW_BYTES: usize = 32 << 10;
/// Tags before the sound.
const TAGS_MAX: usize = 8;

/// Where the frames of a file lie.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) format: Format,
    /// The first frame of sound, behind tags and what tells of the frames.
    pub(crate) start: u64,
    /// Where each frame lies whose number is a multiple of `stride`.
    marks: Vec<u64>,
    stride: u64,
    /// The frame up to which all are known, and where it would lie.
    known: (u64, u64),
}

/// Where a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// At this byte.
    At(u64),
    /// Further than was looked this time.
    Later,
    /// Behind the last frame.
    Beyond,
}

impl Index {
    /// Looks at the beginning of a file; none if it does not begin with tags and then two frames of one format.
    ///
    /// # Errors
    ///
    /// What the file system answers.
    pub(crate) fn open(bytes: &(impl Bytes + ?Sized)) -> io::Result<Option<Self>> {
        let mut start = 0;
        for _ in 0..TAGS_MAX {
            let mut head = [0; TAG_HEAD_BYTES];
            let read = bytes.read_at(start, &mut head)?;
            match frame::tag_bytes(&head[..read]) {
                0 => break,
                tag => start += tag,
            }
        }
        // The longest side information and a word behind it.
        let mut first = [0; 48];
        let read = bytes.read_at(start, &mut first)?;
        let Some(found) = frame::parse(&first[..read]) else { return Ok(None) };
        if frame::is_information(&found, &first[..read]) {
            start += found.bytes as u64;
        }
        let mut index = Self { format: found.format, start, marks: vec![start], stride: STRIDE, known: (0, start) };
        let is_sound = index.find(bytes, 1, u64::MAX)? != Place::Beyond;
        Ok(is_sound.then_some(index))
    }

    /// Looks for a frame, reading no more than `bytes_max` bytes beyond what is known.
    ///
    /// # Errors
    ///
    /// What the file system answers.
    pub(crate) fn find(&mut self, bytes: &(impl Bytes + ?Sized), wanted: u64, bytes_max: u64) -> io::Result<Place> {
        let limit = self.known.1.saturating_add(bytes_max);
        let (mut number, mut at) = self.known;
        if wanted <= number {
            let mark = (wanted / self.stride) as usize;
            // Of all marks up to the frame that is known there are some.
            number = mark as u64 * self.stride;
            at = self.marks[mark];
        }
        let mut window = Window::default();
        while number < wanted {
            if at >= limit {
                return Ok(Place::Later);
            }
            let Some(frame) = window.frame(bytes, at)?.filter(|frame| frame.format == self.format) else {
                return Ok(Place::Beyond);
            };
            number += 1;
            at += frame.bytes as u64;
            if number > self.known.0 {
                self.note(number, at);
            }
        }
        let is_there = window.frame(bytes, at)?.is_some_and(|frame| frame.format == self.format);
        Ok(if is_there { Place::At(at) } else { Place::Beyond })
    }

    fn note(&mut self, number: u64, at: u64) {
        self.known = (number, at);
        if !number.is_multiple_of(self.stride) {
            return;
        }
        if self.marks.len() == MARKS_MAX {
            let mut is_kept = false;
            self.marks.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.stride *= 2;
        }
        if number == self.marks.len() as u64 * self.stride {
            self.marks.push(at);
        }
    }
}

/// The bytes around where frames are looked for.
#[derive(Debug, Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The whole frame at a place.
    fn frame(&mut self, of: &(impl Bytes + ?Sized), at: u64) -> io::Result<Option<Frame>> {
        let offset = at.checked_sub(self.start).and_then(|offset| usize::try_from(offset).ok());
        let is_here = offset.is_some_and(|offset| offset + HEAD_BYTES <= self.bytes.len());
        if !is_here {
            self.bytes.resize(WINDOW_BYTES, 0);
            let read = of.read_at(at, &mut self.bytes)?;
            self.bytes.truncate(read);
            self.start = at;
        }
        let offset = (at - self.start) as usize;
        let frame = frame::parse(&self.bytes[offset..]);
        Ok(frame.filter(|frame| at + frame.bytes as u64 <= of.size()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file of so many frames of 417 and 418 bytes behind a tag.
    fn file(frames: u64) -> Vec<u8> {
        let mut file = b"ID3\x04\0\0\0\0\0\x05hello".to_vec();
        for number in 0..frames {
            let padding = (number % 3 == 0) as usize;
            let mut frame = vec![0xff, 0xfb, 0x90 | (padding as u8) << 1, 0];
            frame.resize(417 + padding, 0);
            file.extend(frame);
        }
        file
    }

    fn place(number: u64) -> u64 {
        15 + 417 * number + number.div_ceil(3)
    }

    #[test]
    fn every_frame_is_found_in_any_order_within_the_bound() {
        let file = file(1000);
        let mut index = Index::open(&file[..]).expect("reads").expect("sound");
        assert_eq!(index.start, 15);
        assert_eq!(index.find(&file[..], 900, 10_000).expect("reads"), Place::Later);
        for number in [5, 900, 0, 63, 64, 65, 999, 500] {
            assert_eq!(index.find(&file[..], number, u64::MAX).expect("reads"), Place::At(place(number)), "{number}");
        }
        assert_eq!(index.find(&file[..], 1000, u64::MAX).expect("reads"), Place::Beyond);
        assert!(Index::open(&b"no sound"[..]).expect("reads").is_none());
        assert!(Index::open(&file[..500]).expect("reads").is_none(), "one frame alone");
    }

    #[test]
    fn places_that_are_kept_are_bounded() {
        let mut index = Index::open(&file(2)[..]).expect("reads").expect("sound");
        for number in 2..3_000_000 {
            index.note(number, 400 * number);
        }
        assert!(index.marks.len() <= MARKS_MAX);
        let last = index.marks.len() as u64 - 1;
        assert_eq!(index.marks[last as usize], 400 * last * index.stride);
    }

    proptest! {
        #[test]
        fn damage_is_an_end_and_never_a_panic(
            cut in 0_usize..20_000, at in 0_usize..20_000, byte in any::<u8>(), number in 0_u64..60,
        ) {
            let mut bytes = file(50);
            if let Some(byte_at) = bytes.get_mut(at) {
                *byte_at = byte;
            }
            bytes.truncate(bytes.len().saturating_sub(cut));
            if let Some(mut index) = Index::open(&bytes[..]).expect("reads")
                && let Place::At(at) = index.find(&bytes[..], number, u64::MAX).expect("reads")
            {
                let frame = frame::parse(&bytes[at as usize..]).expect("a frame");
                prop_assert!(at as usize + frame.bytes <= bytes.len());
            }
        }
    }
}
