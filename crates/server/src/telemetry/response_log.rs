//! What a loop tells of each response: its line of the access log, and its entry in the history of requests.

use crate::http::request::Request;
use crate::io::clock::Clock;
use crate::telemetry::access_log::settings::AccessLog;
use crate::telemetry::access_log::{LogBuffer, LogLine};
use crate::telemetry::recent::RecentNotes;
use std::net::IpAddr;

/// Both, of which there is at least one: a loop without either has none of this.
#[derive(Debug)]
pub(crate) struct ResponseLog {
    lines: Option<LogBuffer>,
    notes: Option<RecentNotes>,
}

impl ResponseLog {
    /// None where nothing is to be told.
    pub(crate) fn new(lines: Option<LogBuffer>, notes: Option<RecentNotes>) -> Option<Self> {
        (lines.is_some() || notes.is_some()).then_some(Self { lines, notes })
    }

    /// Takes up another form of lines.
    pub(crate) fn change(&mut self, options: &AccessLog) {
        if let Some(lines) = &mut self.lines {
            lines.change(options);
        }
    }

    /// Writes everything that is known when a response begins. Without a request its head was unreadable.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        line: &mut LogLine,
        request: Option<&Request<'_>>,
        peer: IpAddr,
        status: u16,
        clock: &Clock,
    ) {
        if let Some(lines) = &mut self.lines {
            lines.begin(line, request, peer, status, clock);
        }
        if let Some(notes) = &mut self.notes {
            notes.begin(&mut line.noted, request, peer, status);
        }
    }

    /// Completes what is told; whether there was room for the line.
    #[inline]
    pub(crate) fn end(&mut self, line: &mut LogLine, body_bytes: u64, all_bytes: u64) -> bool {
        if let Some(notes) = &mut self.notes {
            notes.end(&mut line.noted, all_bytes);
        }
        self.lines.as_mut().is_none_or(|lines| lines.end(line, body_bytes, all_bytes))
    }

    /// Whether everything was handed over.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.as_ref().is_none_or(LogBuffer::is_empty) && self.notes.as_ref().is_none_or(RecentNotes::is_empty)
    }

    /// Gives what there is to those that take it, if they can now.
    pub(crate) fn hand_over(&mut self) {
        if let Some(lines) = &mut self.lines {
            lines.hand_over();
        }
        if let Some(notes) = &mut self.notes {
            notes.hand_over();
        }
    }

    /// The same of lines at the end, with some patience; returns how many of them are lost. The history ends with the
    /// server.
    pub(crate) fn finish(self) -> u64 {
        self.lines.map_or(0, LogBuffer::finish)
    }
}
