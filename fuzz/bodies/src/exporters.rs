//! What exporters read: answers of receivers, requests of scrapers.

use weir_agent::export::{Content, fields, rejected, request_line};

/// An answer of an OTLP receiver, and a scraper's request.
pub fn exporter_answers(input: &[u8]) {
    let (_, words) = rejected(input);
    assert!(!words.contains('\n') && words.chars().count() <= 200);
    let mut bytes = 0;
    for (number, content) in fields(input) {
        assert!(number != 0);
        bytes += match content {
            Content::Bytes(bytes) => 1 + bytes.len(),
            Content::Fixed64(_) => 8,
            Content::Fixed32(_) => 4,
            Content::Varint(_) => 1,
        };
    }
    assert!(bytes <= input.len(), "nothing is read that is not there");
    if let Some((method, path)) = request_line(input) {
        assert!(path.starts_with('/') && !method.contains(['\r', ' ']) && !path.contains(['\r', ' ']));
    }
}
