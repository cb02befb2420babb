//! What events mean for objects: our rules, and those of a user's file.

use std::path::Path;
use weir_objects::Table;

/// Bytes that a table of a user may have.
const TABLE_BYTES_MAX: u64 = 1 << 20;

/// Our rules with those of a file; its mistakes as FILE:LINE:COLUMN: what is wrong; what would be right.
pub(crate) fn with(command: &str, file: Option<&Path>) -> Result<Table, String> {
    let mut table = Table::ours();
    let Some(path) = file else { return Ok(table) };
    let text = weir_terminal::text_file::read(path, TABLE_BYTES_MAX)
        .map_err(|error| format!("weir {command}: {}: {error}; give a file with rules", path.display()))?;
    table.extend(&text).map_err(|mistakes| {
        let lines = mistakes.iter().map(|mistake| format!("{}:{mistake}", path.display()));
        lines.collect::<Vec<_>>().join("\n")
    })?;
    Ok(table)
}
