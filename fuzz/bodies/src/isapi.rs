//! The stream of variables of a process that runs extensions, and heads of what these answer.

use crate::isapi_heads::{end_of, is_status, is_url, status_of_line};
use weir_isapi::request_stream::{BLOCK_BYTES_MAX, Head, Variables, head};

/// Reads any bytes as a request in struct mode: what was found lies within the block, and is found by its name.
pub fn isapi_variables(input: &[u8]) {
    let block = match head(input) {
        Ok(Head::Line { line, block }) => {
            assert!(block <= BLOCK_BYTES_MAX && input[..line].ends_with(b"\n"));
            let rest = &input[line..];
            &rest[..block.min(rest.len())]
        }
        Ok(Head::Incomplete) => {
            assert!(!input.contains(&b'\n'));
            input
        }
        Err(_) => input,
    };
    let Ok(variables) = Variables::parse(block) else { return };
    let mut bytes = 2;
    for (name, value) in variables.iter() {
        bytes += name.len() + value.len() + 4;
        let first = variables.iter().find(|(other, _)| *other == name).map(|(_, value)| value);
        assert!(first.is_some() && variables.get(name) == first);
    }
    assert!(bytes <= block.len());
}

/// Reads any bytes as the head of an extension's response: it ends with an empty line, the first one, and a line with a
/// status says nothing else.
pub fn isapi_head(input: &[u8]) {
    match end_of(input) {
        Some(end) => {
            assert!(input[..end].ends_with(b"\n") && end_of(&input[..end - 1]).is_none());
            assert!(end_of(&input[..end]) == Some(end));
        }
        None => assert!(!input.windows(2).any(|two| two == b"\n\n")),
    }
    if let Some((status, fields)) = status_of_line(input) {
        assert!(is_status(status) && !status.contains(&b'\n') && input[..fields].ends_with(b"\n"));
    }
    assert!(!is_url(input) || !input.iter().any(u8::is_ascii_whitespace));
}
