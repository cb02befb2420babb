//! Reads descriptions and recordings of other tools and writes what they say as a scenario of `weir scenario`.
//!
//! Each form has a folder: `openapi`, `postman`, `curl`, `jmeter`, and `har`. It reads its files with the line of each
//! part (`tree` for JSON and YAML), and makes one model of a scenario (`model`), which is written as TOML. A part is
//! carried over, or listed as a loss with its line; a file that cannot be read is refused with all its mistakes.

mod curl;
mod error;
mod files;
mod har;
mod jmeter;
mod kind;
mod model;
mod openapi;
mod postman;
mod report;
mod told;
mod tree;
mod wanted;

pub use error::DescriptionError;
pub use files::{Files, NoFiles};
pub use kind::Kind;
pub use report::Draft;
pub use told::Told;
pub use wanted::{Load, Selection, Wanted};

use report::Report;

/// The most bytes of a file that is read.
pub const BYTES_MAX: usize = 32 << 20;

/// Makes a scenario of a file of this name and text; `files` has what it names.
///
/// # Errors
/// [`DescriptionError`]: it cannot be read as `kind`, or nothing of it can be carried over.
pub fn draft(
    kind: Kind,
    name: &str,
    text: &str,
    wanted: &Wanted,
    files: &dyn Files,
) -> Result<Draft, DescriptionError> {
    if text.len() > BYTES_MAX {
        return Err(DescriptionError::TooLarge { name: name.to_owned() });
    }
    let report = Report::default();
    let plan = match kind {
        Kind::OpenApi => openapi::plan(text, wanted, &report),
        Kind::Postman => postman::plan(text, wanted, files, &report),
        Kind::Curl => curl::plan(text, files, &report),
        Kind::Jmeter => jmeter::plan(text, wanted, files, &report),
        Kind::Har => har::plan(text, &report),
    };
    report.finish(plan, (kind, name), wanted)
}

#[cfg(test)]
mod tests;
