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
mod outcome;
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
pub use outcome::{BYTES_MAX, ImportError, Imported, Wanted};
pub use place::Place;

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
