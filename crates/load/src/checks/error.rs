//! Why a text is no check.

use crate::requests::{ScopeError, StatusesError};
use std::path::PathBuf;

/// Why a text is no check.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// It begins with nothing that can be checked.
    #[error(
        "{given:?} is no check; write status=200, 'header content-type~json', 'body~REGEX', body=sha256:HEX, \
         'size<1MB', 'json .items[0].id', 'json .ok=true' or schema=FILE, with 'GET /path: ' before it for some of the requests only"
    )]
    Form {
        /// What was given.
        given: String,
    },
    /// The file of a JSON schema cannot be read.
    #[error("cannot read the schema {}: {cause}", file.display())]
    SchemaFile {
        /// The file.
        file: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The file of a JSON schema is too long.
    #[error("{}: a schema has at most {bytes_max} bytes; split it, and refer to the parts by $ref", file.display())]
    LongSchema {
        /// The file.
        file: PathBuf,
        /// The bound.
        bytes_max: u64,
    },
    /// The file of a JSON schema holds no JSON.
    #[error("{}, line {line}: no JSON ({cause}); a schema is one JSON value", file.display())]
    SchemaJson {
        /// The file.
        file: PathBuf,
        /// The line of the mistake, from 1.
        line: usize,
        /// What is wrong.
        cause: serde_json::Error,
    },
    /// The file holds no JSON schema, or one that refers to what cannot be read.
    #[error(
        "{}: no JSON schema{}: {cause}; schemas that it names by $ref are read from files beside it",
        file.display(),
        if place.is_empty() { String::new() } else { format!(" at {place}") }
    )]
    Schema {
        /// The file.
        file: PathBuf,
        /// Where in it, as a JSON pointer (RFC 6901); empty for the whole.
        place: String,
        /// What is wrong.
        cause: String,
    },
    /// The requests that it is of are no such.
    #[error(transparent)]
    Scope(#[from] ScopeError),
    /// The statuses are none.
    #[error(transparent)]
    Statuses(#[from] StatusesError),
    /// No name of a header where one belongs.
    #[error(
        "{given:?}: behind header stands its name, alone or with = != ~ !~ and a value: 'header content-type~json'"
    )]
    Header {
        /// What was given.
        given: String,
    },
    /// The regular expression cannot be used.
    #[error("{given:?} is no regular expression: {cause}; a \\ before a character takes it as it is")]
    Regex {
        /// The expression.
        given: String,
        /// What is wrong with it, in one line.
        cause: String,
    },
    /// A digest that is none.
    #[error("{given:?}: a digest is sha256: and its 64 hexadecimal digits, as sha256sum prints them")]
    Digest {
        /// What was given.
        given: String,
    },
    /// A size that is none.
    #[error("{given:?}: a size goes with < <= > >= or = and a number of bytes: size<1MB, size=512, size>=2KiB")]
    Size {
        /// What was given.
        given: String,
    },
    /// A path within JSON that is none.
    #[error("{given:?}: a path in JSON is made of .name, [0] and [\"any name\"], such as .items[0].id; . is the whole")]
    Path {
        /// What was given.
        given: String,
    },
}
