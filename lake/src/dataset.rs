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

/// A host of a run, as its folder is called: with the rows that are of it.
struct OfHost {
    folder: PathBuf,
    /// What chooses its rows among those of several hosts; all are of a single one.
    filter: Option<String>,
}

/// The folders below a table's for each host that was recorded. Rows of no known host among several have one, too.
fn hosts(names: &[String], day: &str, run: &str) -> Vec<OfHost> {
    let folder = |host: &str| PathBuf::from(format!("host={}/day={day}/run={}", escaped(host), escaped(run)));
    let [.., _, _] = names else {
        return vec![OfHost { folder: folder(names.first().map_or(UNKNOWN, String::as_str)), filter: None }];
    };
    let quoted = |name: &String| format!("host_name = '{}'", name.replace('\'', "''"));
    let known = names.iter().map(|name| OfHost { folder: folder(name), filter: Some(quoted(name)) });
    let unknown = OfHost { folder: folder(UNKNOWN), filter: Some("host_name IS NULL".to_owned()) };
    known.chain([unknown]).collect()
}

/// Stands for the name of a host that is not told.
const UNKNOWN: &str = "unknown";

/// Writes tables of a run, none named: all, into a data set.
pub(crate) fn write(
    queries: &mut Queries,
    lake: &Path,
    name: &str,
    tables: &[String],
) -> Result<Vec<Written>, LakeError> {
    let tables = chosen(tables)?;
    let begun = queries.rows("SELECT coalesce(begin_unix_ns, 0) FROM run")?;
    let begin_unix_ns = begun.first().and_then(|row| row.first()).and_then(|ns| ns.parse().ok());
    let hosts = hosts(queries.hosts(), &day::of_unix_ns(begin_unix_ns.unwrap_or(0)), name);
    let pairs = tables.into_iter().flat_map(|table| hosts.iter().map(move |host| (table, host)));
    let places: Vec<_> = pairs.map(|(table, host)| (table, host, lake.join(table.name).join(&host.folder))).collect();
    if let Some((.., there)) = places.iter().find(|(.., folder)| folder.exists()) {
        return Err(LakeError::There(there.clone()));
    }
    let mut written = Vec::new();
    for (table, host, folder) in places {
        let wrong = |error: std::io::Error| LakeError::Write { path: folder.clone(), why: error.to_string() };
        fs::create_dir_all(&folder).map_err(wrong)?;
        let (part, path) = (folder.join(".part-0.parquet"), folder.join("part-0.parquet"));
        // Readers leave files alone whose names begin with a dot, so that none reads half a file.
        let rows = table_file::write(queries, table, host.filter.as_deref(), &part)?;
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
    use super::{escaped, hosts};

    #[test]
    fn each_of_several_hosts_has_its_rows_and_a_single_one_all() {
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let told = hosts(&names, "2026-11-30", "shop").into_iter();
            told.map(|one| (one.folder.display().to_string(), one.filter)).collect::<Vec<_>>()
        };
        assert_eq!(of(&["web"]), [("host=web/day=2026-11-30/run=shop".to_owned(), None)]);
        assert_eq!(of(&[]), [("host=unknown/day=2026-11-30/run=shop".to_owned(), None)]);
        let [web, other, unknown] = &of(&["web", "o'x"])[..] else { panic!("three folders") };
        assert_eq!((&web.0[..], web.1.as_deref()), ("host=web/day=2026-11-30/run=shop", Some("host_name = 'web'")));
        assert_eq!(other.1.as_deref(), Some("host_name = 'o''x'"));
        assert_eq!(unknown.1.as_deref(), Some("host_name IS NULL"));
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        assert_eq!(["a-1.b", "a/b", "..", "", "ü=x"].map(escaped), ["a-1.b", "a%2Fb", "_..", "_", "%C3%BC%3Dx"]);
    }
}
