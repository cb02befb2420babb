//! Fields as the lines that HTTP/1.1 has them in.

/// Names and values of lines that were checked before; anything that is no field is left away.
pub(crate) fn pairs(lines: &[u8]) -> impl Iterator<Item = (&str, &[u8])> {
    lines.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        let name = std::str::from_utf8(&line[..colon]).ok().filter(|name| !name.is_empty())?;
        Some((name, line[colon + 1..].trim_ascii()))
    })
}
