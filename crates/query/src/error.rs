//! Why a question has no answer.

use std::io;
use std::path::PathBuf;
use thiserror::Error;
use weir_trace::{OpenRunError, ReadError};

/// Why a question to a run has no answer.
#[derive(Debug, Error)]
pub enum QueryError {
    /// The run directory is not one.
    #[error(transparent)]
    Run(#[from] OpenRunError),
    /// A segment could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// There are segments, but no events in them.
    #[error("{0}: holds no events yet; `weir record --run DIR` writes them")]
    Empty(PathBuf),
    /// The directory holds the runs of several hosts, which are no single run.
    #[error(
        "{0}: holds the runs of several hosts; `weir sql` and `weir export` join them into one run on one clock: name \
         the directory there, or one host's run here"
    )]
    Several(PathBuf),
    /// The run was joined of several hosts' runs, whose names cannot be read.
    #[error("{run}: the names of its hosts cannot be read: {why}; remove the directory, it is made again")]
    Hosts {
        /// The run.
        run: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// The tables could not be written.
    #[error(
        "{path}: the tables cannot be written: {why}; they need about as much room as the run's segments, in its \
         folder `derived` or in the system's folder for temporary files"
    )]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A table that is not there.
    #[error("there is no table {name:?}{}; the tables are {tables}", meant(.nearest))]
    NoTable {
        /// What was asked for.
        name: String,
        /// The table whose name is most like it, if one is.
        nearest: Option<String>,
        /// All tables.
        tables: String,
    },
    /// A column that is not there.
    #[error("there is no column {name:?}{}; {columns}", meant(.nearest))]
    NoColumn {
        /// What was asked for.
        name: String,
        /// The column whose name is most like it, if one is.
        nearest: Option<String>,
        /// The columns of the tables that the question names.
        columns: String,
    },
    /// The question would change something.
    #[error("only questions are answered, and a run is never changed: {what} is refused; begin with SELECT or WITH")]
    Refused {
        /// What was asked for.
        what: String,
    },
    /// The question is none of SQL's.
    #[error("{message}; the question is SQL as SQLite has it, such as 'SELECT count(*) FROM requests'")]
    Sql {
        /// What is wrong, in SQLite's words.
        message: String,
    },
    /// There is no question of this name.
    #[error("there is no saved question {name:?}{}; `weir sql --list` lists them", meant(.nearest))]
    NotSaved {
        /// What was asked for.
        name: String,
        /// The name that is most like it, if one is.
        nearest: Option<String>,
    },
    /// The user wanted no more.
    #[error("stopped before the answer was whole")]
    Stopped,
}

impl QueryError {
    /// The tables could not be written.
    pub(crate) fn write(path: impl Into<PathBuf>, why: &io::Error) -> Self {
        Self::Write { path: path.into(), why: why.to_string() }
    }
}

fn meant(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |nearest| format!(" (did you mean {nearest}?)"))
}

/// Of some names the one that is most like another, if one is: a third of its letters may differ.
pub(crate) fn nearest(name: &str, names: &[&str]) -> Option<String> {
    /// A longer name is no slip of the pen.
    const LONGEST: usize = 64;
    if name.len() > LONGEST {
        return None;
    }
    let within = |one: &str| distance(name, one) <= one.len().max(name.len()).div_ceil(3);
    names.iter().filter(|one| within(one)).min_by_key(|one| distance(name, one)).map(|one| (*one).to_owned())
}

/// How many letters must be put in, left out or changed (Levenshtein's distance).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.bytes().enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (to, other_letter) in other.bytes().enumerate() {
            let change = before + usize::from(!letter.eq_ignore_ascii_case(&other_letter));
            before = row[to + 1];
            row[to + 1] = change.min(before + 1).min(row[to] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_told_and_another_word_is_not() {
        let names = ["response_ns", "status", "name"];
        assert_eq!(nearest("respone_ns", &names).as_deref(), Some("response_ns"));
        assert_eq!(nearest("STATUS", &names).as_deref(), Some("status"));
        assert_eq!(nearest("colour", &names), None);
        assert_eq!((distance("", "abc"), distance("abc", ""), distance("kitten", "sitting")), (3, 3, 3));
    }
}
