//! What events mean for objects: our rules, and those of a user's file.

use std::path::{Path, PathBuf};
use weir_diagnostic::Mistake;
use weir_objects::Table;
use weir_terminal::text_file::TextFileError;

/// Bytes that a table of a user may have.
const TABLE_BYTES_MAX: u64 = 1 << 20;

/// Why a user's rules are not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RulesError {
    #[error("weir {command}: {}: {cause}; give a file with rules", path.display())]
    Unread { command: &'static str, path: PathBuf, cause: TextFileError },
    /// A line for each: FILE:LINE:COLUMN: what is wrong; what would be right.
    #[error("{}", lines(path, mistakes))]
    Wrong { path: PathBuf, mistakes: Vec<Mistake> },
}

fn lines(path: &Path, mistakes: &[Mistake]) -> String {
    let lines = mistakes.iter().map(|mistake| format!("{}:{mistake}", path.display()));
    lines.collect::<Vec<_>>().join("\n")
}

/// Our rules with those of a file.
pub(crate) fn with(command: &'static str, file: Option<&Path>) -> Result<Table, RulesError> {
    let mut table = Table::ours();
    let Some(path) = file else { return Ok(table) };
    let text = weir_terminal::text_file::read(path, TABLE_BYTES_MAX).map_err(|cause| RulesError::Unread {
        command,
        path: path.to_owned(),
        cause,
    })?;
    table.extend(&text).map_err(|mistakes| RulesError::Wrong { path: path.to_owned(), mistakes })?;
    Ok(table)
}
