//! Fields as the lines that HTTP/1.1 has them in.

use memchr::memchr;

/// Names and values of the lines of a head that was checked before; lines that are no field are left away.
pub(crate) fn lines(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = lines;
    // Each request of an application passes here: byte by byte it would take as long as the rest of its way.
    let each = std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        Some(line)
    });
    each.filter_map(|line| {
        let colon = memchr(b':', line).filter(|colon| *colon > 0)?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// The same with names as text.
pub(crate) fn pairs(head: &[u8]) -> impl Iterator<Item = (&str, &[u8])> {
    lines(head).filter_map(|(name, value)| Some((std::str::from_utf8(name).ok()?, value)))
}
