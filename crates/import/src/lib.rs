//! Reads configurations of other web servers and writes what they say as a configuration of `weir serve`.
//!
//! Each dialect has a parser that keeps the place of every directive (`nginx/`, `caddy/`, `htaccess/`), and a
//! translation into one model of the written file (`document.rs`). A directive is carried over, named as one that weir
//! does without, or listed as a loss with its place: [`Imported`] has them all. A loss that would let clients in is
//! written as a refusal.

mod access;
mod caddy;
mod condition;
mod directive;
mod document;
mod files;
mod headers;
mod htaccess;
mod kind;
mod loss;
mod nginx;
mod patterns;
mod place;
mod report;
mod templates;
mod units;
mod upstreams;
mod users;

pub use files::{Entry, Files, NoFiles};
pub use kind::Kind;
pub use loss::{Idle, Loss};
pub use place::Place;

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

/// Translates a file of this name and text; `files` has what it includes and names.
///
/// # Errors
///
/// [`ImportError`]: it cannot be read.
pub fn import(kind: Kind, name: &str, text: &str, wanted: &Wanted, files: &dyn Files) -> Result<Imported, ImportError> {
    if text.len() > BYTES_MAX {
        let place = Place { file: name.into(), line: 1, column: 1 };
        return Err(ImportError::TooLarge { place, what: "the file is larger than 4 MiB" });
    }
    let (document, report) = match kind {
        Kind::Nginx => nginx::import(name, text, wanted, files)?,
        Kind::Caddy => caddy::import(name, text, wanted, files)?,
        Kind::Htaccess => htaccess::import(name, text, wanted, files)?,
    };
    Ok(report.finish(&document, name, kind))
}

#[cfg(test)]
mod tests;
