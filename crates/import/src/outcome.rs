//! What is asked for, and what comes of it.

use crate::loss::{Idle, Loss};
use crate::place::Place;

/// The largest configuration, with all that it includes.
pub const BYTES_MAX: usize = 4 << 20;

/// What the person who imports says beside the file.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The absolute path of the directory in which the file lies; relative paths start there.
    pub folder: String,
    /// The directory that `.htaccess` is about; without it `folder`.
    pub root: Option<String>,
    /// Where PHP answers for `.htaccess`, such as `unix:/run/php/php-fpm.sock`.
    pub php: Option<String>,
}

/// A configuration of weir, and what became of each directive.
#[derive(Debug)]
pub struct Imported {
    /// The text of `weir.toml`.
    pub text: String,
    /// Files that it names and that lie beside it: name and content.
    pub beside: Vec<(String, String)>,
    /// What was not carried over, in the order of the files.
    pub losses: Vec<Loss>,
    /// What weir does by itself, or does without.
    pub idle: Vec<Idle>,
}

/// Why a configuration cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// It breaks the grammar of its dialect.
    #[error("{place}: {what}; {remedy}")]
    Syntax {
        /// Where.
        place: Place,
        /// What is wrong.
        what: String,
        /// What would be right.
        remedy: &'static str,
    },
    /// It is larger, or deeper, than what is read.
    #[error("{place}: {what}; import parts of it")]
    TooLarge {
        /// Where the bound was met.
        place: Place,
        /// Which bound.
        what: &'static str,
    },
    /// It has no site.
    #[error("{name}: there is no site in it; give a file with {expected}")]
    Empty {
        /// The file.
        name: String,
        /// What makes a site in this dialect.
        expected: &'static str,
    },
}
