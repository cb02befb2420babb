//! What is decided, told to whoever records the server: a static probe that a recording attaches to. Nobody looking, a
//! decision costs its line of text and two instructions that do nothing.

use std::ffi::{CStr, CString};
use weir_adapt::Decision;

/// Decisions of a tick that are told one by one; what more there are is told as a number.
const TOLD_MAX: usize = 128;
/// Bytes of a line that a recording takes.
const LINE_BYTES_MAX: usize = 880;

/// Tells what a tick decided.
pub(crate) fn decided(decisions: &[Decision]) {
    for decision in decisions.iter().take(TOLD_MAX) {
        tell(&decision.to_string());
    }
    if let Some(more) = decisions.len().checked_sub(TOLD_MAX).filter(|more| *more > 0) {
        tell(&format!("{more} more decisions of this tick"));
    }
}

fn tell(text: &str) {
    let mut end = text.len().min(LINE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // A text ends at its first zero byte, so that one within is no part of any.
    if let Ok(line) = CString::new(text[..end].replace('\0', " ")) {
        mark(&line);
    }
}

/// The static probe `decision`, whose argument is the line.
#[inline(never)]
fn mark(line: &CStr) {
    weir_server::static_probe!("decision", line.as_ptr());
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    let _ = line;
}
