//! The folders of a data set.

use crate::day;
use crate::error::LakeError;
use crate::table_file;
use std::fs;
use std::path::{Path, PathBuf};
use weir_query::{Queries, TABLES, Table};

/// A file that was written.
#[derive(Debug)]
pub(crate) struct Written {
    /// It.
    pub(crate) path: PathBuf,
    /// Its rows.
    pub(crate) rows: u64,
}

/// The name of a run by its directory.
pub(crate) fn name_of(run: &Path) -> Option<String> {
    let whole = fs::canonicalize(run).ok()?;
    Some(whole.file_name()?.to_string_lossy().into_owned())
}

/// Writes tables of a run, none named: all, into a data set.
pub(crate) fn write(
    queries: &mut Queries,
    lake: &Path,
    name: &str,
    tables: &[String],
) -> Result<Vec<Written>, LakeError> {
    let tables = chosen(tables)?;
    let about = queries.rows("SELECT coalesce(host_name, 'unknown'), coalesce(begin_unix_ns, 0) FROM run")?;
    let of_run = |column: usize| about.first().and_then(|row| row.get(column)).map_or("", String::as_str);
    let day = day::of_unix_ns(of_run(1).parse().unwrap_or(0));
    let partition = format!("host={}/day={day}/run={}", escaped(of_run(0)), escaped(name));
    let folders: Vec<PathBuf> = tables.iter().map(|table| lake.join(table.name).join(&partition)).collect();
    if let Some(there) = folders.iter().find(|folder| folder.exists()) {
        return Err(LakeError::There(there.clone()));
    }
    let mut written = Vec::new();
    for (table, folder) in tables.into_iter().zip(folders) {
        let wrong = |error: std::io::Error| LakeError::Write { path: folder.clone(), why: error.to_string() };
        fs::create_dir_all(&folder).map_err(wrong)?;
        let (part, path) = (folder.join(".part-0.parquet"), folder.join("part-0.parquet"));
        // Readers leave files alone whose names begin with a dot, so that none reads half a file.
        let rows = table_file::write(queries, table, &part)?;
        fs::rename(&part, &path).map_err(wrong)?;
        written.push(Written { path, rows });
    }
    Ok(written)
}

fn chosen(names: &[String]) -> Result<Vec<&'static Table>, LakeError> {
    if names.is_empty() {
        return Ok(TABLES.iter().collect());
    }
    let all = || TABLES.iter().map(|table| table.name).collect::<Vec<_>>().join(", ");
    let of = |name: &String| Table::of(name).ok_or_else(|| LakeError::NoTable { name: name.clone(), tables: all() });
    names.iter().map(of).collect()
}

/// A value in a partition's name: what is no letter, digit, point, hyphen or underscore is written as Hive does.
fn escaped(value: &str) -> String {
    let mut text = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_') {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    // A folder of a dot or two would lead elsewhere.
    if text.is_empty() || text.chars().all(|letter| letter == '.') { format!("_{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn a_name_leads_nowhere_else() {
        assert_eq!(["a-1.b", "a/b", "..", "", "ü=x"].map(escaped), ["a-1.b", "a%2Fb", "_..", "_", "%C3%BC%3Dx"]);
    }
}
