//! A running server as the console sees it. How it is asked, and its token, stay with who implements [`LiveServer`].

use serde_json::Value;
use std::fmt::Debug;
use std::io::Read;

/// A running server that tells of itself.
pub trait LiveServer: Debug + Send + Sync {
    /// Where it tells, as the user wrote it.
    fn address(&self) -> &str;
    /// Categories of a watch: all of them, and the usual ones.
    fn categories(&self) -> (Vec<&'static str>, Vec<&'static str>);
    /// Asks; the answer is JSON.
    ///
    /// # Errors
    /// [`LiveError`].
    fn ask(&self, question: &Question<'_>) -> Result<Value, LiveError>;
    /// Ends connections or requests; how many it were is JSON.
    ///
    /// # Errors
    /// [`LiveError`].
    fn stop(&self, what: Ended<'_>) -> Result<Value, LiveError>;
    /// Watches requests: JSON, a line each, an empty line at least each second, and a last line where the server goes.
    ///
    /// # Errors
    /// [`LiveError`].
    fn watch(&self, filter: &str, show: &str) -> Result<Box<dyn Read + Send>, LiveError>;
}

/// What a server is asked.
#[derive(Debug, Clone, Copy)]
pub enum Question<'a> {
    /// What it did, in steps.
    Activity {
        /// Hours until now, 1 to 672.
        hours: u32,
        /// Steps at most, 1 to 1000.
        steps: u32,
    },
    /// Its last requests.
    Requests {
        /// Words of a filter, none for all.
        filter: &'a str,
        /// Requests at most.
        limit: usize,
    },
    /// What came a second within the last ten, and who is connected.
    Now,
    /// Who is connected.
    Connections {
        /// The address of a client, empty for all.
        client: &'a str,
    },
    /// Readings, forecasts, rules in force and decisions.
    Rules,
}

/// What is ended.
#[derive(Debug, Clone, Copy)]
pub enum Ended<'a> {
    /// A connection by its id.
    Connection(&'a str),
    /// A request by `ID/STREAM`.
    Request(&'a str),
    /// All connections of an address.
    Client(&'a str),
}

/// Why a server tells nothing. Its text is for a person.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// No server answers, it does not take the token, or its answer cannot be read.
    #[error("{0}")]
    Silent(String),
    /// The server refuses.
    #[error("{words}")]
    Refused {
        /// Its status.
        status: u16,
        /// Its words.
        words: String,
    },
}
