//! Questions in SQL, and rows as JSON.

use crate::opened::Opened;
use crate::refusal::Refusal;
use serde_json::{Map, Value, json};
use weir_query::{Cell, Ended, Queries, QueryError, SAVED, TABLES};

/// Rows of an answer to a question of the user's.
const MOST_ROWS: usize = 1000;
/// Bytes of texts in such an answer.
const MOST_BYTES: usize = 4 << 20;
/// The largest whole number that a script holds exactly (2^53 - 1).
const EXACT: i64 = 9_007_199_254_740_991;

/// A value as JSON; whole numbers that a script would round are texts.
pub(crate) fn value(cell: &Cell<'_>) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Integer(number) if number.abs_diff(0) > EXACT.unsigned_abs() => number.to_string().into(),
        Cell::Integer(number) => (*number).into(),
        // JSON has no infinity: it becomes null.
        Cell::Real(number) => (*number).into(),
        Cell::Text(text) => (*text).into(),
        Cell::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned().into(),
    }
}

/// Rows as objects, at most so many.
pub(crate) fn objects(tables: &mut Queries, sql: &str, most: usize) -> Result<Vec<Value>, QueryError> {
    let names = std::cell::RefCell::new(Vec::new());
    let mut rows = Vec::new();
    tables.ask(
        sql,
        &mut |told| *names.borrow_mut() = told.iter().map(|&name| name.to_owned()).collect(),
        &mut |row| {
            let fields: Map<String, Value> = names.borrow().iter().cloned().zip(row.iter().map(value)).collect();
            rows.push(Value::Object(fields));
            rows.len() < most
        },
    )?;
    Ok(rows)
}

/// Answers a question of the user's; it can only read.
pub(crate) fn asked(opened: &Opened, sql: &str) -> Result<Value, Refusal> {
    opened.ask(|tables| {
        let mut columns = Vec::new();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let ended = tables.ask(
            sql,
            &mut |told| columns = told.iter().map(|&name| Value::from(name)).collect(),
            &mut |row| {
                if rows.len() >= MOST_ROWS || bytes > MOST_BYTES {
                    return false;
                }
                let cells = row.iter().map(value);
                let cells: Vec<Value> = cells.inspect(|cell| bytes += cell.as_str().map_or(8, str::len)).collect();
                rows.push(Value::Array(cells));
                true
            },
        )?;
        Ok(json!({ "columns": columns, "rows": rows, "is_cut": ended == Ended::ByCaller }))
    })
}

/// The tables with their columns, and the saved questions.
pub(crate) fn known() -> Value {
    let columns = |table: &weir_query::Table| -> Vec<Value> {
        let of = |column: &weir_query::Column| json!({ "name": column.name, "kind": column.kind.name().to_lowercase(), "doc": column.doc });
        table.columns.iter().map(of).collect()
    };
    let tables = TABLES.iter().map(|table| json!({ "name": table.name, "doc": table.doc, "columns": columns(table) }));
    let saved = SAVED.iter().map(|one| json!({ "name": one.name, "asks": one.asks, "sql": one.sql.trim() }));
    json!({ "tables": tables.collect::<Vec<_>>(), "saved": saved.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_a_script_would_round_are_texts() {
        assert_eq!(value(&Cell::Integer(EXACT)), json!(9_007_199_254_740_991_i64));
        assert_eq!(value(&Cell::Integer(EXACT + 1)), json!("9007199254740992"));
        assert_eq!(value(&Cell::Integer(i64::MIN)), json!("-9223372036854775808"));
        assert_eq!(value(&Cell::Real(f64::INFINITY)), Value::Null);
    }
}
