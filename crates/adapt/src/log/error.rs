//! What is wrong with a line of a recording.

use thiserror::Error;

/// Why a line is not the JSON of a header or an entry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JsonError {
    /// It is longer than lines may be.
    #[error("more than {most} bytes")]
    TooLong {
        /// Bytes of a line at most.
        most: usize,
    },
    /// It breaks off.
    #[error("it ends in the middle")]
    Cut,
    /// It is no JSON, or has other fields; in words, without a place.
    #[error("{0}")]
    Form(String),
}

/// Why a line is no header.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// It is not the JSON of one.
    #[error("this line is no header of recorded readings ({0}); see weir replay --help")]
    Json(JsonError),
    /// It is one of another format, or of another version.
    #[error("{format} {version} is not known; {known} 1 is")]
    Format {
        /// The format that it names.
        format: String,
        /// The version that it names.
        version: u32,
        /// The format that is known.
        known: &'static str,
    },
    /// Its times are too large, or there is no time between ticks.
    #[error("tick_ms and valid_ms are milliseconds; write 1000 for a second")]
    Times,
}

/// Why a line is no entry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EntryError {
    /// It is not the JSON of one.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A time is beyond what times may be.
    #[error("a time is too large; write milliseconds")]
    Time,
    /// It tells of a decision and of lost lines.
    #[error("decided and lost stand in one line")]
    DecidedAndLost,
    /// It tells of a decision or of lost lines, and of something else.
    #[error("decided and lost stand alone")]
    DecidedOrLostAndMore,
    /// It tells of a look at a session, and of something else.
    #[error("look stands alone")]
    LookAndMore,
    /// It tells of sessions that passed, and of something that these do not have.
    #[error("passed stands with atom, bandwidth and rtt alone")]
    PassedAndMore,
    /// The number of sessions that passed is none, or they are of no atom.
    #[error("passed is a number of sessions of an atom, from 1 to {most}")]
    Passed {
        /// Sessions of a line at most.
        most: u32,
    },
    /// A link is told of without sessions that passed.
    #[error("bandwidth and rtt stand with passed alone; write \"read\":\"rtt\"")]
    LinkAlone,
    /// A reading has no subject, or several.
    #[error("a reading is of one of node, atom, session and client")]
    Owner,
    /// What repeats in readings is damaged.
    #[error("a season is one of 96 steps, of a resource with its unit, and has no value")]
    Season,
    /// A reading has no value.
    #[error("the reading has no value; write one such as \"93%\"")]
    NoValue,
    /// A value cannot be read.
    #[error("{0:?} is no value; write one such as \"93%\"")]
    Value(String),
    /// The word and the unit of a value do not go together.
    #[error("{word:?} with {unit:?} is not measured")]
    Resource {
        /// The word.
        word: String,
        /// The unit that values of this kind are kept in.
        unit: &'static str,
    },
    /// It is of no kind that is known.
    #[error("a line is one of read, begin (with atom), start, look, end, gone, passed, down, up and tick")]
    Kind,
    /// It is of several kinds.
    #[error("what belongs to several kinds of lines stands in one")]
    Kinds,
}
