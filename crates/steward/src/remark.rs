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

/// The static probe `decision` of the provider `weir`, whose argument is the line: two nops, as those of the server are,
/// and a note in the program's file that tells where they and the argument are. On other processors than x86-64 there is
/// none.
#[inline(never)]
fn mark(line: &CStr) {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    // SAFETY: two nops, which leave the register and what it points to alone; the rest describes them in sections that are
    // not loaded, or (the base) hold one unused byte.
    unsafe {
        core::arch::asm!(
            "990: nop",
            ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
            ".pushsection .note.stapsdt, \"?\", \"note\"",
            ".balign 4",
            ".4byte 992f-991f, 994f-993f, 3",
            "991: .asciz \"stapsdt\"",
            "992: .balign 4",
            "993: .8byte 990b",
            ".8byte _.stapsdt.base",
            ".8byte 0",
            ".asciz \"weir\"",
            ".asciz \"decision\"",
            ".asciz \"8@%rdi\"",
            "994: .balign 4",
            ".popsection",
            ".ifndef _.stapsdt.base",
            ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat",
            ".weak _.stapsdt.base",
            ".hidden _.stapsdt.base",
            "_.stapsdt.base: .space 1",
            ".size _.stapsdt.base, 1",
            ".popsection",
            ".endif",
            in("rdi") line.as_ptr(),
            options(att_syntax, readonly, nostack, preserves_flags)
        );
    }
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    let _ = line;
}
