//! Texts and lists as C gives them.

use crate::outcome::{Outcome, Verdict};
use std::ffi::c_char;

/// Characters of a name, at most.
pub(crate) const NAME: usize = 127;
/// Characters of a property's value.
pub(crate) const VALUE: usize = 255;
/// Characters of a metric's text.
pub(crate) const METRIC: usize = 31;
/// Characters of a diagnosis' details and of a URI.
pub(crate) const LONG: usize = 4095;

/// The bytes of a text, cut behind so many characters; `None` for null.
///
/// # Safety
/// `text` is null, or points to bytes of which one within three times as many is NUL or all of which may be read.
pub(crate) unsafe fn text<'a>(text: *const c_char, most: usize, verdict: &mut Verdict) -> Option<&'a [u8]> {
    if text.is_null() {
        return None;
    }
    // SAFETY: as the caller promises; no more than that is looked at.
    let bytes = unsafe {
        let length = libc::strnlen(text, 3 * most + 1);
        std::slice::from_raw_parts(text.cast::<u8>(), length)
    };
    if bytes.len() <= most {
        return Some(bytes);
    }
    // Continuation bytes of UTF-8 begin no character.
    let begins = bytes.iter().enumerate().filter(|(_, byte)| **byte & 0xc0 != 0x80);
    let end = begins.map(|(at, _)| at).nth(most).unwrap_or(bytes.len()).min(3 * most);
    if end < bytes.len() {
        verdict.note(Outcome::Cut);
    }
    Some(&bytes[..end])
}

/// A list of at most so many entries; empty for null.
///
/// # Safety
/// `array` is null or has `count` entries.
pub(crate) unsafe fn list<'a, T>(array: *const T, count: i32, most: usize, verdict: &mut Verdict) -> &'a [T] {
    let count = usize::try_from(count).unwrap_or(0);
    if array.is_null() || count == 0 {
        return &[];
    }
    if count > most {
        verdict.note(Outcome::LeftOut);
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(array, count.min(most)) }
}
