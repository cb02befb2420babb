//! Tables as files of CSV.

use crate::error::ExportError;
use crate::rows::{csv_head, csv_row};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use weir_query::{Queries, Table};

/// A table that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its name.
    pub table: &'static str,
    /// Its rows.
    pub rows: u64,
}

/// Writes tables into a new or empty folder, each as `TABLE.csv` with its columns' names on top.
///
/// # Errors
/// [`ExportError`].
pub fn csv(queries: &mut Queries, tables: &[&'static Table], folder: &Path) -> Result<Vec<Written>, ExportError> {
    let wrong = |source| ExportError::Write { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(wrong)?;
    if fs::read_dir(folder).map_err(wrong)?.next().is_some() {
        return Err(ExportError::NotEmpty(folder.to_owned()));
    }
    tables.iter().map(|table| one(queries, table, folder)).collect()
}

fn one(queries: &mut Queries, table: &'static Table, folder: &Path) -> Result<Written, ExportError> {
    let path = folder.join(format!("{}.csv", table.name));
    let wrong = |source| ExportError::Write { path: path.clone(), source };
    let mut file = BufWriter::new(File::create(&path).map_err(wrong)?);
    let (mut line, mut rows) = (String::new(), 0);
    let mut outcome: io::Result<()> = Ok(());
    let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
    csv_head(&names, &mut line);
    outcome = outcome.and_then(|()| file.write_all(line.as_bytes()));
    let sql = format!("SELECT {} FROM {}", names.join(", "), table.name);
    queries.ask(&sql, &mut |_| {}, &mut |row| {
        line.clear();
        csv_row(row, &mut line);
        outcome = file.write_all(line.as_bytes());
        rows += 1;
        outcome.is_ok()
    })?;
    outcome.and_then(|()| file.flush()).map_err(wrong)?;
    Ok(Written { table: table.name, rows })
}
