//! What runners tell their supervisor, by a pipe that all of them share.

use crate::descriptor::{self, Moved};
use crate::messages::StuckTold;
use serde::{Deserialize, Serialize};
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes that a pipe takes whole or not at all (PIPE_BUF of pipe(7)).
const LINE_BYTES_MAX: usize = 4096;
/// Bytes of a text within a line.
const TEXT_BYTES_MAX: usize = 1024;

/// What a runner tells.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Told {
    /// For the log.
    Notice(String),
    /// A script runs one request for too long.
    Stuck(StuckTold),
}

/// The end that runners write to.
#[derive(Debug)]
pub(crate) struct Telling {
    pipe: OwnedFd,
    /// Lines that the pipe had no room for.
    lost: u64,
}

impl Telling {
    pub(crate) fn new(pipe: OwnedFd) -> Self {
        Self { pipe, lost: 0 }
    }

    /// Tells it, if there is room; what was lost is told with the next line.
    pub(crate) fn tell(&mut self, told: &Told) {
        if self.lost > 0 && self.write(&Told::Notice(format!("{} lines of scripts' runners were lost", self.lost))) {
            self.lost = 0;
        }
        if !self.write(told) {
            self.lost += 1;
        }
    }

    fn write(&self, told: &Told) -> bool {
        let Ok(mut line) = serde_json::to_vec(told) else { return false };
        line.push(b'\n');
        line.len() <= LINE_BYTES_MAX && matches!(descriptor::write(self.pipe.as_raw_fd(), &line), Moved::Bytes(_))
    }
}

/// The start of a text, as long as a line may have it, without control characters.
pub(crate) fn short(text: &str) -> String {
    let mut short = String::new();
    for letter in text.chars() {
        if short.len() + letter.len_utf8() > TEXT_BYTES_MAX {
            break;
        }
        short.push(if letter.is_control() { ' ' } else { letter });
    }
    short
}
