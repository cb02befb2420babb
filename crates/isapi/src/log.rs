//! Lines on standard error, which the runner puts into the server's log.

use crate::streams::write_all;

/// Bytes of a line, at most.
const LINE_BYTES: usize = 4096;

/// Writes a line in one call. Control characters of the text are shown as `?`.
pub(crate) fn line(script: &[u8], text: &[u8]) {
    let mut line = Vec::with_capacity(script.len() + text.len() + 10);
    line.extend_from_slice(b"isapi: ");
    for part in [script, if script.is_empty() { b"" } else { b": " }, text] {
        line.extend(part.iter().map(|&byte| if byte < b' ' || byte == 127 { b'?' } else { byte }));
    }
    line.truncate(LINE_BYTES);
    line.push(b'\n');
    // A log that cannot be written must not fail a request.
    let _ = write_all(2, &line);
}
