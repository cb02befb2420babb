//! Fields as the lines that HTTP/1.1 has them in.

/// Names and values of lines that were checked before; anything that is no field is left away.
pub(crate) fn pairs(lines: &[u8]) -> impl Iterator<Item = (&str, &[u8])> {
    let mut rest = lines;
    // Each request of an application passes here: byte by byte it would take as long as the rest of its way.
    let lines = std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        Some(line)
    });
    lines.filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        let name = std::str::from_utf8(&line[..colon]).ok().filter(|name| !name.is_empty())?;
        Some((name, line[colon + 1..].trim_ascii()))
    })
}
