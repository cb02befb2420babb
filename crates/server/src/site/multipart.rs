//! A response with several ranges (RFC 9110 section 15.3.7.2).

/// What stands between the ranges, and the fields of the head.
pub(super) struct Multipart {
    /// `Content-Type`, the coding, and `Content-Length`, line ends included.
    pub(super) fields: String,
    /// What stands before each range.
    pub(super) between: Vec<String>,
    /// What stands behind the last.
    pub(super) end: String,
}

impl Multipart {
    /// Of ranges of a content of a size, each from its first byte to one past its last.
    pub(super) fn of(
        ranges: &[(u64, u64)],
        size: u64,
        (content_type, coding_field): (&str, &str),
        boundary: &str,
    ) -> Self {
        let between: Vec<String> = ranges
            .iter()
            .map(|(start, end)| {
                let range = content_range((*start, *end), size);
                format!("\r\n--{boundary}\r\nContent-Type: {content_type}\r\n{range}\r\n")
            })
            .collect();
        let end = format!("\r\n--{boundary}--\r\n");
        let literal: usize = between.iter().map(String::len).sum::<usize>() + end.len();
        let content: u64 = ranges.iter().map(|(start, end)| end - start).sum();
        let fields = format!(
            "Content-Type: multipart/byteranges; boundary={boundary}\r\n{coding_field}Content-Length: {}\r\n",
            content + literal as u64
        );
        Self { fields, between, end }
    }
}

/// The field that says which range it is, with its line end.
pub(super) fn content_range((start, end): (u64, u64), size: u64) -> String {
    format!("Content-Range: bytes {start}-{}/{size}\r\n", end - 1)
}
