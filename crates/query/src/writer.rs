//! Rows into a table of a file.

use crate::schema::Table;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Result, Statement};

/// Writes the rows of one table.
pub(crate) struct TableWriter<'c> {
    insert: Statement<'c>,
    columns: usize,
}

impl<'c> TableWriter<'c> {
    /// Makes the table.
    pub(crate) fn new(connection: &'c Connection, table: &str) -> Result<Self> {
        let table = Table::of(table).ok_or(rusqlite::Error::InvalidQuery)?;
        connection.execute_batch(&table.declaration())?;
        let places = vec!["?"; table.columns.len()].join(",");
        let insert = connection.prepare(&format!("INSERT INTO {} VALUES ({places})", table.name))?;
        Ok(Self { insert, columns: table.columns.len() })
    }

    /// Adds a row: a value for each column.
    pub(crate) fn push<const N: usize>(&mut self, row: [ValueRef<'_>; N]) -> Result<()> {
        if N != self.columns {
            return Err(rusqlite::Error::InvalidParameterCount(N, self.columns));
        }
        for (index, value) in row.into_iter().enumerate() {
            self.insert.raw_bind_parameter(index + 1, ToSqlOutput::Borrowed(value))?;
        }
        self.insert.raw_execute().map(drop)
    }
}
