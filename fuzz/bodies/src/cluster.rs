//! Messages between the members of a cluster, what they gossip, requests to join it, tokens, and events files.

use weir_adapt::nodes::{Heeded, Wished};
use weir_cluster::fuzzing::{
    Pieces, SigningRequest, Slot, Whole, answer_any, introduction_text, read_any_certificate, sites_text,
};
use weir_cluster::{MESSAGE_BYTES_MAX, Message, Reading, Token, read_events};

/// Reads any bytes as a message: what is read is written as the same bytes, within the bound that was told before.
pub fn cluster_message(input: &[u8]) {
    let Ok(message) = Message::decode(input) else { return };
    let mut again = Vec::new();
    message.encode(&mut again);
    assert_eq!(again, input);
    if let Message::Record(record) = &message {
        assert!(input.len() <= record.encoded_bytes() + 2);
        let spans: u64 = record.spans.iter().map(weir_cluster::Span::len).sum();
        assert_eq!(spans, u64::from(record.tcp.unacknowledged_bytes));
        assert!(record.tcp.unsent_bytes <= record.tcp.unacknowledged_bytes);
        assert!(input.len() <= MESSAGE_BYTES_MAX);
    }
}

/// Reads any bytes as a request to join, and as a token: what is read is written as the same.
pub fn cluster_join(input: &[u8]) {
    if let Ok(request) = SigningRequest::decode(input) {
        assert_eq!(*request.encode(), input);
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(token) = Token::parse(text) {
        assert_eq!(*token.to_text(), text.trim());
    }
}

/// Reads any bytes as a certificate and as a list of revoked ones: what is read has its times.
pub fn cluster_certificate(input: &[u8]) {
    let Some(validity) = read_any_certificate(input) else { return };
    // Years of four digits end before that.
    assert!(validity.begins_unix_s.max(validity.ends_unix_s) < 253_402_300_800);
}

/// Reads any bytes as a question of DNS: its answer is bounded, and can be read.
pub fn cluster_names(input: &[u8]) {
    answer_any(input);
}

/// Reads any bytes as an events file: what is read is written as lines that are read as the same.
pub fn cluster_events(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let read = read_events(&text);
    let lines = |part: &weir_cluster::EventPart| {
        let header = part.header.as_ref().map_or_else(String::new, weir_cluster::EventHeader::line);
        header + &part.entries.iter().map(weir_cluster::EventEntry::line).collect::<String>()
    };
    let again = read_events(&read.parts.iter().map(lines).collect::<String>());
    assert_eq!((again.parts, again.unreadable), (read.parts, 0));
}

/// Reads any bytes as pieces of gossip, and any text as what members gossip of themselves: what is read is written as
/// the same text.
pub fn cluster_gossip(input: &[u8]) {
    let mut pieces = Pieces::default();
    for piece in input.chunks(1_206) {
        if let Whole::Message(message) = pieces.take(piece) {
            assert!(!message.is_empty() && message.len() <= input.len());
        }
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(reading) = Reading::parse(text) {
        assert_eq!(reading.to_text(), text);
        assert!((0.0..=1.0).contains(&reading.cpu_share) && reading.requests_per_s.is_finite());
    }
    if let Ok(slot) = Slot::parse(text) {
        assert_eq!(slot.to_text(), text);
    }
    if let Some(introduction) = introduction_text(text) {
        assert_eq!(introduction, text);
    }
    if let Ok(wished) = Wished::parse(text) {
        assert_eq!(wished.to_text(), text);
    }
    if let Ok(heeded) = Heeded::parse(text) {
        assert_eq!(heeded.to_text(), text);
    }
    if let Some(sites) = sites_text(text) {
        assert_eq!(sites_text(&sites), Some(sites));
    }
}
