//! A request as it is noted: some numbers, then its texts, cut to their bounds. It is written when its response begins, and
//! completed when that has ended.

use crate::http::request::Request;
use std::net::IpAddr;

/// Bytes of each text that are kept: method, host, path, query, user agent.
const TEXT_BYTES_MAX: [usize; 5] = [16, 64, 512, 256, 96];
/// Bytes before the texts.
pub(super) const HEAD_BYTES: usize = 64;
/// Bytes of an entry at most.
pub(super) const ENTRY_BYTES_MAX: usize = HEAD_BYTES + 16 + 64 + 512 + 256 + 96;

/// Places of the numbers.
pub(super) const LEN: usize = 0;
pub(super) const STATUS: usize = 4;
pub(super) const MINOR: usize = 6;
pub(super) const IS_V4: usize = 7;
pub(super) const BEGAN_NS: usize = 8;
pub(super) const TOOK_US: usize = 16;
pub(super) const SENT_BYTES: usize = 24;
pub(super) const CLIENT: usize = 32;
/// Five numbers of two bytes.
pub(super) const TEXT_LENS: usize = 48;

/// What was noted of a request; empty where nothing was. Its memory is used again.
#[derive(Debug, Default)]
pub(crate) struct Noted(Vec<u8>);

impl Noted {
    /// Notes what is known when a response begins. Without a request its head was unreadable; a status of 0 is not known
    /// yet.
    pub(super) fn begin(&mut self, request: Option<&Request<'_>>, client: IpAddr, status: u16, now_ns: u64) {
        let target = request.map_or("", |request| request.target);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let texts = [
            request.map_or(&b""[..], |request| request.method_text.as_bytes()),
            request.and_then(|request| request.host).unwrap_or_default(),
            path.as_bytes(),
            query.as_bytes(),
            request.and_then(|request| request.user_agent).unwrap_or_default(),
        ];
        let mut head = [0; HEAD_BYTES];
        head[STATUS..STATUS + 2].copy_from_slice(&status.to_le_bytes());
        // One that cannot be is that of no request.
        head[MINOR] = request.map_or(u8::MAX, |request| request.minor);
        head[BEGAN_NS..BEGAN_NS + 8].copy_from_slice(&now_ns.to_le_bytes());
        match client {
            IpAddr::V4(client) => {
                head[IS_V4] = 1;
                head[CLIENT..CLIENT + 4].copy_from_slice(&client.octets());
            }
            IpAddr::V6(client) => head[CLIENT..CLIENT + 16].copy_from_slice(&client.octets()),
        }
        self.0.clear();
        self.0.extend_from_slice(&head);
        for (number, (text, most)) in texts.into_iter().zip(TEXT_BYTES_MAX).enumerate() {
            let text = &text[..text.len().min(most)];
            self.0.extend_from_slice(text);
            // Below 2^16, as the bounds are.
            let len = (text.len() as u16).to_le_bytes();
            self.0[TEXT_LENS + 2 * number..][..2].copy_from_slice(&len);
        }
        // Below the bound of an entry.
        let len = (self.0.len() as u32).to_le_bytes();
        self.0[LEN..LEN + 4].copy_from_slice(&len);
    }

    /// The status is known by now.
    pub(crate) fn know_status(&mut self, status: u16) {
        if let Some(place) = self.0.get_mut(STATUS..STATUS + 2) {
            place.copy_from_slice(&status.to_le_bytes());
        }
    }

    /// Whether the response is a success: 2xx or 3xx, as for `weir load`.
    #[inline]
    pub(super) fn is_success(&self) -> bool {
        let status = self.0.get(STATUS..).and_then(<[u8]>::first_chunk).map_or(0, |&status| u16::from_le_bytes(status));
        (200..400).contains(&status)
    }

    /// Appends the completed entry; returns how long the request took, microseconds.
    #[inline]
    pub(super) fn end(&self, sent_bytes: u64, now_ns: u64, out: &mut Vec<u8>) -> u64 {
        let began_ns =
            self.0.get(BEGAN_NS..).and_then(<[u8]>::first_chunk).map_or(0, |&began| u64::from_le_bytes(began));
        let took_us = now_ns.saturating_sub(began_ns) / 1000;
        let at = out.len();
        out.extend_from_slice(&self.0);
        if let Some(entry) = out.get_mut(at..at + HEAD_BYTES) {
            entry[TOOK_US..TOOK_US + 8].copy_from_slice(&took_us.to_le_bytes());
            entry[SENT_BYTES..SENT_BYTES + 8].copy_from_slice(&sent_bytes.to_le_bytes());
        }
        took_us
    }

    /// Whether nothing was noted, as of a response that another server began.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets it once it was handed over: the response that has this memory next may be one of another server.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The entry so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}
