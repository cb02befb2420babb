//! The first byte of a script's output, as a step of its request (`steps.rs`).

use std::rc::Rc;
use weir_wire::static_probe;

/// Bytes of output that are looked at for the status.
const HEAD_BYTES_MAX: usize = 4096;

/// The first byte of the output has come.
pub(crate) fn output_begins(told: Option<&Rc<str>>, output: &[u8]) {
    static_probe!("script_output");
    if let Some(id) = told {
        let status = status_of(output);
        tracing::debug!(request = &**id, status, "head comes");
    }
}

/// The status that the head of a response names, as far as it has come; 200 if it names none, as RFC 3875 section 6.3.3
/// has it.
pub fn status_of(output: &[u8]) -> u16 {
    let start = &output[..output.len().min(HEAD_BYTES_MAX)];
    let mut lines = start.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).take_while(|line| !line.is_empty());
    let named = lines.find_map(|line| {
        let is_named = |name: &[u8]| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        let behind = if is_named(b"status:") {
            &line[7..]
        } else {
            line.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(1..))?
        };
        let digits = behind.trim_ascii_start().get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    });
    named.unwrap_or(200)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_head_names_its_status() {
        for (head, status) in [
            (&b"Content-Type: text/plain\n\nStatus: 404\n"[..], 200),
            (b"Content-Type: text/plain\r\nstatus: 404 Not Found\r\n\r\n", 404),
            (b"Status:503\n\n", 503),
            (b"HTTP/1.1 203 Fine\r\n\r\n", 203),
            (b"HTTP/1.", 200),
            (b"Status: x", 200),
            (b"Status: +12\n\n", 200),
            (b"", 200),
        ] {
            assert_eq!(status_of(head), status, "{}", String::from_utf8_lossy(head));
        }
    }

    proptest! {
        #[test]
        fn any_head_has_a_status_and_what_stands_behind_it_has_none(
            head in "(Status|status|HTTP/1\\.1|A)?:? ?[0-9a+]{0,4}\r?\n", behind in "(Status: 404|[a\r\n]){0,5}",
        ) {
            prop_assert!(status_of(head.as_bytes()) <= 999);
            let whole = format!("{head}\n{behind}");
            prop_assert_eq!(status_of(whole.as_bytes()), status_of(head.as_bytes()));
        }

        #[test]
        fn any_bytes_have_a_status(output in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(status_of(&output) <= 999);
        }
    }
}
