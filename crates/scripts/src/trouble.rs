//! What goes wrong with scripts: the status of the response, and what the log says.

use crate::exchange::Outcome;
use crate::fastcgi::{self, kind};
use crate::program::NotRun;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("{0}")]
    NotRun(NotRun),
    #[error("a variable of the request holds bytes that scripts cannot be told")]
    Variables,
    #[error("{0} was killed by {1} before its response was whole")]
    Killed(String, String),
    #[error("{0} ended with status {1} and wrote no response")]
    Silent(String, i32),
    #[error("{0} closed its output, wrote no response and ran on; it was ended")]
    Mute(String),
    #[error("{0} took longer than `timeout` allows, and was ended")]
    TimedOut(String),
    #[error("the response of {0} is longer than `output` allows; the script was ended")]
    TooMuch(String),
    #[error("a callout of {0} is longer than 4,096 bytes, or it reads no answers; the script was ended")]
    Callout(String),
    #[error("{0} ended a response that it had not begun; its process was ended")]
    Empty(String),
    #[error("{0} wrote something before it had read the request; its process was ended")]
    Early(String),
    #[error("the server has given the request up")]
    Gone,
}

impl Trouble {
    /// What is wrong with an outcome, if anything is.
    pub(crate) fn of(outcome: Outcome, script: &str, output: u64) -> Option<Self> {
        let script = script.to_owned();
        match outcome {
            Outcome::Whole => None,
            Outcome::Exited(status) if libc::WIFSIGNALED(status) => {
                Some(Self::Killed(script, signal_name(libc::WTERMSIG(status))))
            }
            Outcome::Exited(status) if output == 0 => Some(Self::Silent(script, libc::WEXITSTATUS(status))),
            Outcome::Closed if output == 0 => Some(Self::Mute(script)),
            Outcome::Exited(_) | Outcome::Closed => None,
            Outcome::Empty => Some(Self::Empty(script)),
            Outcome::Early => Some(Self::Early(script)),
            Outcome::TimedOut => Some(Self::TimedOut(script)),
            Outcome::TooMuch => Some(Self::TooMuch(script)),
            Outcome::Malformed => Some(Self::Callout(script)),
            Outcome::Gone | Outcome::Stopped => Some(Self::Gone),
        }
    }

    fn status(&self) -> (u16, &'static str) {
        match self {
            Self::NotRun(error) => match error.status() {
                403 => (403, "Forbidden"),
                404 => (404, "Not Found"),
                431 => (431, "Request Header Fields Too Large"),
                503 => (503, "Service Unavailable"),
                _ => (500, "Internal Server Error"),
            },
            Self::Variables => (400, "Bad Request"),
            Self::TimedOut(_) => (504, "Gateway Timeout"),
            _ => (502, "Bad Gateway"),
        }
    }

    /// Appends a line for the log.
    pub(crate) fn log(&self, number: u16, out: &mut Vec<u8>) {
        fastcgi::push(kind::STDERR, number, format!("weir: {self}\n").as_bytes(), out);
    }

    /// Appends that line and a whole response, which tells clients only the status.
    pub(crate) fn write(&self, number: u16, out: &mut Vec<u8>) {
        self.log(number, out);
        let (status, reason) = self.status();
        let text = format!("Status: {status} {reason}\r\nContent-Type: text/plain\r\n\r\n{status} {reason}\n");
        fastcgi::push(kind::STDOUT, number, text.as_bytes(), out);
        fastcgi::push_end(number, 0, out);
    }
}

/// The name of a signal (signal(7)).
fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGABRT => "SIGABRT (abort)",
        libc::SIGBUS => "SIGBUS (a fault of memory)",
        libc::SIGFPE => "SIGFPE (a fault of arithmetic)",
        libc::SIGILL => "SIGILL (an illegal instruction)",
        libc::SIGKILL => "SIGKILL (killed, perhaps for want of memory or by `cpu`)",
        libc::SIGSEGV => "SIGSEGV (a fault of memory)",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU (more CPU time than `cpu` allows)",
        libc::SIGXFSZ => "SIGXFSZ (a file longer than `files` allows)",
        libc::SIGPIPE => "SIGPIPE (a closed pipe)",
        libc::SIGSYS => "SIGSYS (a forbidden system call)",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}
