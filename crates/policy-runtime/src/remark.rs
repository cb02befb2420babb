//! Tells decisions to a recording of the server, which attaches to a static probe. Without a recording, a decision
//! costs its line of text and two instructions that do nothing.

use std::ffi::{CStr, CString};
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use weir_adapt::{Decision, Subject};

/// Decisions of a tick that are told one by one; what more there are is told as a number.
const TOLD_MAX: usize = 128;
/// Bytes of a line that a recording takes.
const LINE_BYTES_MAX: usize = 880;

/// Tells what a tick decided.
pub(crate) fn decided(decisions: &[Decision]) {
    decisions.iter().take(TOLD_MAX).for_each(|decision| tell(&remark_text(decision, hashed)));
    if let Some(more) = decisions.len().checked_sub(TOLD_MAX).filter(|more| *more > 0) {
        tell(&format!("{more} more decisions of this tick"));
    }
}

/// A decision in its own words, as a run has them: in place of a client's name stands what `client_name` makes of it.
pub fn remark_text(decision: &Decision, client_name: impl FnOnce(&str) -> String) -> String {
    match &decision.subject {
        Subject::Client { client, atoms } => {
            let subject = Subject::Client { client: client_name(client), atoms: atoms.clone() };
            Decision { subject, ..decision.clone() }.to_string()
        }
        _ => decision.to_string(),
    }
}

/// A run names no addresses; what stands in their place is the same for the same one as long as the server runs.
fn hashed(client: &str) -> String {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    format!("h{:016x}", KEY.get_or_init(RandomState::new).hash_one(client))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_told_no_address_and_the_same_name_for_the_same_client() {
        let [one, again, other] = ["192.0.2.7", "192.0.2.7", "192.0.2.8"].map(hashed);
        assert!(one == again && one != other && !one.contains("192"), "{one}");
    }
}
