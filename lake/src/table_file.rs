//! A table as a file of Parquet.

use crate::error::LakeError;
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use weir_query::{Cell, ColumnKind, Queries, Table};

/// Rows of a row group: what is held in memory at a time.
const GROUP_ROWS: usize = 1 << 16;

/// The values of a column that wait to be written; 1 stands for a value, 0 for NULL.
enum Values {
    Integers(Vec<i64>, Vec<i16>),
    Texts(Vec<ByteArray>, Vec<i16>),
}

impl Values {
    fn push(&mut self, cell: &Cell<'_>) {
        match (self, cell) {
            (Self::Integers(values, levels), Cell::Integer(number)) => {
                values.push(*number);
                levels.push(1);
            }
            (Self::Texts(values, levels), Cell::Text(text)) => {
                values.push(ByteArray::from(*text));
                levels.push(1);
            }
            (Self::Texts(values, levels), Cell::Bytes(bytes)) => {
                values.push(ByteArray::from(String::from_utf8_lossy(bytes).into_owned().into_bytes()));
                levels.push(1);
            }
            // The tables say which columns hold numbers; another value there is none.
            (Self::Integers(_, levels) | Self::Texts(_, levels), _) => levels.push(0),
        }
    }
}

/// Writes the rows of a table that a condition chooses, or all; how many.
pub(crate) fn write(queries: &mut Queries, table: &Table, filter: Option<&str>, path: &Path) -> Result<u64, LakeError> {
    let wrong = |why: String| LakeError::Write { path: path.to_owned(), why };
    let file = File::create(path).map_err(|error| wrong(error.to_string()))?;
    let mut writer = TableWriter::new(file, table).map_err(|error| wrong(error.to_string()))?;
    let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
    let mut outcome = Ok(());
    let chosen = filter.map_or_else(String::new, |filter| format!(" WHERE {filter}"));
    let sql = format!("SELECT {} FROM {}{chosen}", names.join(", "), table.name);
    queries.ask(&sql, &mut |_| {}, &mut |row| {
        outcome = writer.row(row);
        outcome.is_ok()
    })?;
    outcome.and_then(|()| writer.finish()).map_err(|error| wrong(error.to_string()))
}

struct TableWriter {
    file: SerializedFileWriter<File>,
    columns: Vec<Values>,
    rows: u64,
}

impl TableWriter {
    fn new(file: File, table: &Table) -> Result<Self, ParquetError> {
        let column = |column: &weir_query::Column| match column.kind {
            ColumnKind::Integer => format!("optional int64 {};", column.name),
            ColumnKind::Text => format!("optional binary {} (UTF8);", column.name),
        };
        let columns: String = table.columns.iter().map(column).collect();
        let schema = Arc::new(parse_message_type(&format!("message {} {{ {columns} }}", table.name))?);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let file = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
        let empty = |column: &weir_query::Column| match column.kind {
            ColumnKind::Integer => Values::Integers(Vec::new(), Vec::new()),
            ColumnKind::Text => Values::Texts(Vec::new(), Vec::new()),
        };
        Ok(Self { file, columns: table.columns.iter().map(empty).collect(), rows: 0 })
    }

    fn row(&mut self, row: &[Cell<'_>]) -> Result<(), ParquetError> {
        self.columns.iter_mut().zip(row).for_each(|(column, cell)| column.push(cell));
        self.rows += 1;
        if self.rows.is_multiple_of(GROUP_ROWS as u64) { self.group() } else { Ok(()) }
    }

    fn group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        let mut columns = self.columns.iter_mut();
        while let Some(mut writer) = group.next_column()? {
            match (writer.untyped(), columns.next()) {
                (ColumnWriter::Int64ColumnWriter(writer), Some(Values::Integers(values, levels))) => {
                    writer.write_batch(values, Some(levels), None)?;
                    values.clear();
                    levels.clear();
                }
                (ColumnWriter::ByteArrayColumnWriter(writer), Some(Values::Texts(values, levels))) => {
                    writer.write_batch(values, Some(levels), None)?;
                    values.clear();
                    levels.clear();
                }
                _ => return Err(ParquetError::General("a column of another type than its schema's".to_owned())),
            }
            writer.close()?;
        }
        group.close().map(drop)
    }

    fn finish(mut self) -> Result<u64, ParquetError> {
        // A table without rows has a row group without rows, so that its columns are known.
        if !self.rows.is_multiple_of(GROUP_ROWS as u64) || self.rows == 0 {
            self.group()?;
        }
        self.file.close()?;
        Ok(self.rows)
    }
}
