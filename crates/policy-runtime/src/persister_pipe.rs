//! What is to be kept or told elsewhere goes over a pipe to a process of its own, the persister: a server that has given up
//! files, connections and programs can do none of it, and must not wait for who can.

use crate::persister::{PersisterJob, Report};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::process::ChildStdin;
use std::time::{Duration, Instant};

/// Bytes that wait for the pipe; lines beyond them are dropped and counted.
const WAITING_MAX: usize = 4 << 20;

/// The ends of the two pipes to the persister and back, both non-blocking.
#[derive(Debug)]
pub struct PersisterEnds {
    /// The pipe that carries requests to the persister.
    pub asks: ChildStdin,
    /// The pipe that carries its reports.
    pub reports: File,
    /// The number of its process.
    pub pid: u32,
}

/// The way to the persister.
#[derive(Debug)]
pub(crate) struct PersisterPipe {
    ends: Option<PersisterEnds>,
    waiting: VecDeque<u8>,
    /// Lines of the recording that were queued, those without room, and other lines without room.
    lines_put: u64,
    lines_dropped: u64,
    others_dropped: u64,
    /// The persister's last report, and the part of the next one that has come.
    pub(crate) report: Report,
    half: Vec<u8>,
    /// The process of a persister that has ended: from then on nothing is recorded, and no alert is sent.
    pub(crate) gone: Option<u32>,
}

impl PersisterPipe {
    /// To this persister; without one nothing is sent, and nothing counts as lost.
    pub(crate) fn new(ends: Option<PersisterEnds>) -> Self {
        Self {
            ends,
            waiting: VecDeque::new(),
            lines_put: 0,
            lines_dropped: 0,
            others_dropped: 0,
            report: Report::default(),
            half: Vec::new(),
            gone: None,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.ends.is_some()
    }

    /// Lines of the recording that are in no file and will be in none. When the persister has been killed a few of them may
    /// be in the file nevertheless: those of one tick, of which it did not say so any more.
    pub(crate) fn lines_lost(&self) -> u64 {
        let Report { lines_taken, lines_waiting, lines_lost, .. } = self.report;
        let under_way =
            if self.gone.is_some() { self.lines_put.saturating_sub(lines_taken) + lines_waiting } else { 0 };
        self.lines_dropped + lines_lost + under_way
    }

    /// Looks, decisions and alerts for which there was no room, or no persister.
    pub(crate) fn others_lost(&self) -> u64 {
        self.others_dropped
    }

    /// Puts a line into the queue. `false`: there was no room for it, or there is no persister any more.
    pub(crate) fn put(&mut self, job: PersisterJob, line: &str) -> bool {
        if self.gone.is_some() || (self.ends.is_some() && self.waiting.len() + line.len() + 2 > WAITING_MAX) {
            match job {
                PersisterJob::Line => self.lines_dropped += 1,
                // What only says that something begins or is over is no loss.
                PersisterJob::Header | PersisterJob::Flush => {}
                PersisterJob::Look | PersisterJob::Decision | PersisterJob::Alert => self.others_dropped += 1,
            }
            return false;
        }
        if self.ends.is_none() {
            return true;
        }
        self.lines_put += u64::from(job == PersisterJob::Line);
        self.waiting.push_back(job as u8);
        self.waiting.extend(line.as_bytes());
        self.waiting.push_back(b'\n');
        true
    }

    /// Writes what the pipe takes, and takes what the persister has told.
    pub(crate) fn send(&mut self) {
        while let (Some(ends), false) = (&mut self.ends, self.waiting.is_empty()) {
            match ends.asks.write(self.waiting.as_slices().0) {
                Ok(count) => drop(self.waiting.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The persister reads no more.
                Err(_) => self.lose(),
            }
        }
        self.listen();
    }

    /// Takes reports; the end of them is the persister's.
    fn listen(&mut self) {
        let mut bytes = [0; 4096];
        while let Some(ends) = &mut self.ends {
            match ends.reports.read(&mut bytes) {
                Ok(0) => self.lose(),
                Ok(count) => self.half.extend(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        while let Some(end) = self.half.iter().position(|byte| *byte == b'\n') {
            if let Ok(report) = serde_json::from_slice(&self.half[..end]) {
                self.report = report;
            }
            self.half.drain(..=end);
        }
    }

    /// The persister has gone; what it would have done is not done any more.
    fn lose(&mut self) {
        self.gone = self.ends.take().map(|ends| ends.pid);
        self.waiting.clear();
        self.report.failing.clear();
    }

    /// Writes what is left for so long, and closes the pipe.
    pub(crate) fn finish(&mut self, most: Duration) {
        let until = Instant::now() + most;
        self.send();
        while !self.waiting.is_empty() && self.is_open() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
            self.send();
        }
        self.ends = None;
    }
}
