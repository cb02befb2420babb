//! The stream of variables of a process that runs extensions.

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
