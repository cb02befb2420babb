//! Rows as text: CSV (RFC 4180) and JSON.

use std::fmt::Write;
use weir_query::Cell;

/// Appends the names of columns as a line of CSV.
pub fn csv_head(names: &[&str], out: &mut String) {
    let cells: Vec<Cell<'_>> = names.iter().map(|name| Cell::Text(name)).collect();
    csv_row(&cells, out);
}

/// Appends a row as a line of CSV. NULL is nothing, an empty text is a pair of quotes.
pub fn csv_row(cells: &[Cell<'_>], out: &mut String) {
    for (index, cell) in cells.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        match cell {
            Cell::Null => {}
            Cell::Integer(number) => drop(write!(out, "{number}")),
            Cell::Real(number) => drop(write!(out, "{number}")),
            Cell::Text(text) => csv_text(text, out),
            Cell::Bytes(bytes) => csv_text(&String::from_utf8_lossy(bytes), out),
        }
    }
    out.push('\n');
}

fn csv_text(text: &str, out: &mut String) {
    let plain =
        !text.is_empty() && !text.contains([',', '"', '\n', '\r']) && !text.starts_with(' ') && !text.ends_with(' ');
    if plain {
        out.push_str(text);
        return;
    }
    out.push('"');
    for letter in text.chars() {
        if letter == '"' {
            out.push('"');
        }
        out.push(letter);
    }
    out.push('"');
}

/// Appends a row as an object of JSON, without an end of line. Bytes that are no text have marks in place of them.
pub fn json_row(names: &[String], cells: &[Cell<'_>], out: &mut String) {
    let text = |text: &str| serde_json::to_string(text).unwrap_or_default();
    out.push('{');
    for (index, (name, cell)) in names.iter().zip(cells).enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        let _ = write!(out, "{}: ", text(name));
        match cell {
            Cell::Null => out.push_str("null"),
            Cell::Integer(number) => drop(write!(out, "{number}")),
            // JSON has no infinity.
            Cell::Real(number) if !number.is_finite() => out.push_str("null"),
            Cell::Real(number) => out.push_str(&serde_json::Value::from(*number).to_string()),
            Cell::Text(words) => out.push_str(&text(words)),
            Cell::Bytes(bytes) => out.push_str(&text(&String::from_utf8_lossy(bytes))),
        }
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads a line of CSV as RFC 4180 has it; quoted fields are told from bare ones.
    fn read(line: &str) -> Vec<Option<String>> {
        let mut fields = Vec::new();
        let mut letters = line.strip_suffix('\n').expect("an end").chars().peekable();
        loop {
            let mut field = String::new();
            let quoted = letters.next_if_eq(&'"').is_some();
            if quoted {
                while let Some(letter) = letters.next() {
                    if letter == '"' && letters.next_if_eq(&'"').is_none() {
                        break;
                    }
                    field.push(letter);
                }
            } else {
                while let Some(letter) = letters.next_if(|letter| *letter != ',') {
                    field.push(letter);
                }
            }
            fields.push((quoted || !field.is_empty()).then_some(field));
            if letters.next().is_none() {
                return fields;
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_comes_back_from_csv_and_json(texts in proptest::collection::vec(proptest::option::of(".*"), 1..6)) {
            let cells: Vec<Cell<'_>> =
                texts.iter().map(|text| text.as_deref().map_or(Cell::Null, Cell::Text)).collect();
            let mut line = String::new();
            csv_row(&cells, &mut line);
            prop_assert_eq!(read(&line), texts.clone());
            let names: Vec<String> = (0..texts.len()).map(|index| format!("c{index}")).collect();
            let mut object = String::new();
            json_row(&names, &cells, &mut object);
            let value: serde_json::Value = serde_json::from_str(&object).expect("JSON");
            for (name, text) in names.iter().zip(&texts) {
                prop_assert_eq!(value[name].as_str().map(str::to_owned), text.clone());
            }
        }
    }

    #[test]
    fn numbers_and_nothing_are_themselves() {
        let mut line = String::new();
        csv_row(&[Cell::Integer(-7), Cell::Real(0.5), Cell::Null, Cell::Text("")], &mut line);
        assert_eq!(line, "-7,0.5,,\"\"\n");
        let mut object = String::new();
        json_row(&["a".to_owned(), "b".to_owned()], &[Cell::Real(f64::INFINITY), Cell::Integer(i64::MIN)], &mut object);
        assert_eq!(object, "{\"a\": null, \"b\": -9223372036854775808}");
    }
}
