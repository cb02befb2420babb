//! A loop's side of the history of requests.

use super::entry::Noted;
use super::kept::{BLOCK_BYTES, Block, Recent};
use super::past::now_ns;
use crate::http::request::Request;
use crate::telemetry::activity::durations::Durations;
use std::net::IpAddr;
use std::sync::Arc;

/// Bytes that a loop keeps while the ring is being read; beyond them requests are missed, and counted.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// What a loop has noted and not yet handed over.
#[derive(Debug)]
pub(crate) struct RecentNotes {
    recent: Arc<Recent>,
    durations: Arc<Durations>,
    block: Block,
}

impl RecentNotes {
    pub(crate) fn new(recent: Arc<Recent>, durations: Arc<Durations>) -> Self {
        Self { recent, durations, block: Block::default() }
    }

    /// Notes what is known when a response begins. Without a request its head was unreadable.
    pub(crate) fn begin(&mut self, noted: &mut Noted, request: Option<&Request<'_>>, client: IpAddr, status: u16) {
        noted.begin(request, client, status, now_ns());
    }

    /// Notes the end of a response.
    pub(crate) fn end(&mut self, noted: &mut Noted, sent_bytes: u64) {
        if noted.is_empty() {
            return;
        }
        if self.block.bytes.len() >= KEPT_BYTES_MAX {
            self.recent.miss(1);
            return noted.clear();
        }
        let is_success = noted.is_success();
        let took_us = noted.end(sent_bytes, now_ns(), &mut self.block.bytes);
        noted.clear();
        // A refusal is fast: among the times it would make a server look well that turns its clients away.
        if is_success {
            self.durations.count(took_us);
        }
        self.block.entries += 1;
        if self.block.bytes.len() >= BLOCK_BYTES {
            self.hand_over();
        }
    }

    /// Whether everything was handed over.
    pub(crate) fn is_empty(&self) -> bool {
        self.block.bytes.is_empty()
    }

    /// Gives what there is to the ring, if that is not being read.
    pub(crate) fn hand_over(&mut self) {
        if self.is_empty() {
            return;
        }
        match self.recent.try_put(std::mem::take(&mut self.block)) {
            Ok(spare) => self.block.bytes = spare,
            Err(block) => self.block = block,
        }
    }
}
