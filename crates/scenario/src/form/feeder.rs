//! Data that users are given: rows of a CSV file (RFC 4180) or of a JSON list.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most bytes of a file.
pub(crate) const FILE_BYTES_MAX: u64 = 256 << 20;
/// The most rows.
const ROWS_MAX: usize = 5_000_000;

/// Rows and how they are given out; shared by all users.
#[derive(Debug)]
pub struct Feeder {
    /// Its name, which stands before those of its columns.
    pub name: String,
    columns: Vec<String>,
    rows: Vec<Box<[String]>>,
    order: Order,
    end: End,
    next: AtomicU64,
}

/// In which order rows are given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One after the other, each iteration the next one.
    InOrder,
    /// Any row, again and again.
    Random,
    /// Each user has one of its own for all of its iterations.
    Unique,
}

/// What follows the last row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The first one.
    Wrap,
    /// Nothing: iterations without a row are not run.
    Stop,
}

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FeederError {
    /// It has no names of columns, or no row.
    #[error("there is no row: the first line of CSV names the columns, and rows follow; JSON is a list of objects")]
    Empty,
    /// A row is longer or shorter than the first.
    #[error("row {row} has {has} fields, and the first line names {wanted}: quote fields that hold a comma")]
    Fields {
        /// The row, from 1, the line of names apart.
        row: usize,
        /// Its fields.
        has: usize,
        /// Those of the first line.
        wanted: usize,
    },
    /// A quote without an end.
    #[error("row {row}: a quote has no end; write a quote within quotes twice")]
    Quote {
        /// The row.
        row: usize,
    },
    /// A name of a column that cannot stand in `${...}`.
    #[error("column {name:?}: its name has letters, digits, _, - and . only")]
    Column {
        /// The name.
        name: String,
    },
    /// No JSON, or no list of objects.
    #[error("{cause}: JSON is a list of objects, such as [{{\"name\": \"a\"}}]")]
    Json {
        /// What is wrong.
        cause: String,
    },
    /// A row of JSON that is no object, or lacks a name.
    #[error("row {row}: {cause}")]
    Row {
        /// The row, from 1.
        row: usize,
        /// What is wrong.
        cause: String,
    },
    /// There are too many.
    #[error("more than {ROWS_MAX} rows: give fewer")]
    Many,
}

impl Feeder {
    /// A feeder of these columns and rows.
    pub(crate) fn new(name: &str, (columns, rows): (Vec<String>, Vec<Box<[String]>>), order: Order, end: End) -> Self {
        Self { name: name.to_owned(), columns, rows, order, end, next: AtomicU64::new(0) }
    }

    /// The names of its values.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.columns.iter().map(|column| format!("{}.{column}", self.name))
    }

    /// Gives a row to an iteration of a user, `user` from 0; `false` where there is none.
    pub(crate) fn feed(&self, user: u64, random: &mut fastrand::Rng, values: &mut HashMap<String, String>) -> bool {
        let count = self.rows.len() as u64;
        let place = match self.order {
            Order::InOrder => self.next.fetch_add(1, Ordering::Relaxed),
            Order::Random => random.u64(0..count),
            Order::Unique => user,
        };
        if place >= count && self.end == End::Stop {
            return false;
        }
        let row = &self.rows[(place % count) as usize];
        for (name, value) in self.names().zip(row.iter()) {
            values.insert(name, value.clone());
        }
        true
    }
}

/// Columns and rows of a file.
pub type Rows = (Vec<String>, Vec<Box<[String]>>);

/// How a file of CSV is laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// What stands between fields.
    pub separator: char,
    /// The names of the columns; `None` = the first line has them.
    pub columns: Option<Vec<String>>,
    /// Lines at the begin that are passed over.
    pub skip: usize,
}

impl Default for Layout {
    fn default() -> Self {
        Self { separator: ',', columns: None, skip: 0 }
    }
}

/// Reads CSV whose first line names the columns.
///
/// # Errors
/// [`FeederError`], with the row.
pub fn csv(text: &str) -> Result<Rows, FeederError> {
    csv_in(text, &Layout::default())
}

/// Reads CSV of this layout.
///
/// # Errors
/// [`FeederError`], with the row.
pub fn csv_in(text: &str, layout: &Layout) -> Result<Rows, FeederError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut columns, mut rows, mut skip) = (layout.columns.clone(), Vec::new(), layout.skip);
    let (mut fields, mut field, mut quoted, mut was_quoted) = (Vec::new(), String::new(), false, false);
    let mut letters = text.chars().peekable();
    loop {
        let letter = letters.next();
        match letter {
            Some('"') if quoted && letters.peek() == Some(&'"') => {
                field.push('"');
                letters.next();
            }
            Some('"') if quoted => quoted = false,
            Some('"') if field.is_empty() && !was_quoted => (quoted, was_quoted) = (true, true),
            Some(other) if quoted => field.push(other),
            Some(letter) if letter == layout.separator => {
                fields.push(std::mem::take(&mut field));
                was_quoted = false;
            }
            Some('\r') if letters.peek() == Some(&'\n') => {}
            Some('\n') | None => {
                if quoted {
                    return Err(FeederError::Quote { row: rows.len() + usize::from(columns.is_some()) });
                }
                if fields.is_empty() && field.is_empty() && !was_quoted {
                    if letter.is_none() {
                        break;
                    }
                    continue;
                }
                fields.push(std::mem::take(&mut field));
                was_quoted = false;
                let row = std::mem::take(&mut fields);
                match &columns {
                    _ if skip > 0 => skip -= 1,
                    None => columns = Some(row.iter().map(|name| name.trim().to_owned()).collect()),
                    Some(names) if names.len() != row.len() => {
                        let (has, wanted) = (row.len(), names.len());
                        return Err(FeederError::Fields { row: rows.len() + 1, has, wanted });
                    }
                    Some(_) if rows.len() >= ROWS_MAX => return Err(FeederError::Many),
                    Some(_) => rows.push(row.into_boxed_slice()),
                }
                if letter.is_none() {
                    break;
                }
            }
            Some(other) => field.push(other),
        }
    }
    checked(columns.unwrap_or_default(), rows)
}

/// Reads a JSON list of objects; the first names the columns.
///
/// # Errors
/// [`FeederError`], with the row.
pub fn json(text: &str) -> Result<Rows, FeederError> {
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| FeederError::Json { cause: error.to_string() })?;
    let no_list = || FeederError::Json { cause: "it is no list".to_owned() };
    let list = value.as_array().ok_or_else(no_list)?;
    if list.len() > ROWS_MAX {
        return Err(FeederError::Many);
    }
    let columns: Vec<String> =
        list.first().and_then(|row| row.as_object()).map(|row| row.keys().cloned().collect()).unwrap_or_default();
    let mut rows = Vec::with_capacity(list.len());
    for (place, row) in list.iter().enumerate() {
        let wrong = |cause: String| FeederError::Row { row: place + 1, cause };
        let object = row.as_object().ok_or_else(|| wrong("it is no object".to_owned()))?;
        let field = |name: &String| match object.get(name) {
            Some(serde_json::Value::String(text)) => Ok(text.clone()),
            Some(other) => Ok(other.to_string()),
            None => Err(wrong(format!("it has no {name:?}, which the first row has"))),
        };
        rows.push(columns.iter().map(field).collect::<Result<Box<[String]>, _>>()?);
    }
    checked(columns, rows)
}

fn checked(columns: Vec<String>, rows: Vec<Box<[String]>>) -> Result<Rows, FeederError> {
    if columns.is_empty() || rows.is_empty() {
        return Err(FeederError::Empty);
    }
    match columns.iter().find(|name| !crate::form::template::is_name(name)) {
        Some(name) => Err(FeederError::Column { name: name.clone() }),
        None => Ok((columns, rows)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_are_read_and_mistakes_named() {
        let (columns, rows) = csv("name,word\r\na,\"x, \"\"y\"\"\n z\"\n\nb,\n").expect("two rows");
        assert_eq!(columns, ["name", "word"]);
        let told: Vec<Vec<&str>> = rows.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
        assert_eq!(told, [vec!["a", "x, \"y\"\n z"], vec!["b", ""]]);
        assert_eq!(csv("a,b\n1,2\n3\n"), Err(FeederError::Fields { row: 2, has: 1, wanted: 2 }));
        assert_eq!(csv("a,b\n1,\"2\n"), Err(FeederError::Quote { row: 1 }));
        assert_eq!(csv("a b\n1\n"), Err(FeederError::Column { name: "a b".into() }));
        assert_eq!(csv("a,b\n"), Err(FeederError::Empty));
        let layout = Layout { separator: ';', columns: Some(vec!["x".into(), "y".into()]), skip: 1 };
        let (columns, rows) = csv_in("name;word\n1;2,3\n", &layout).expect("a row");
        assert_eq!((columns.len(), &*rows[0]), (2, &["1".to_owned(), "2,3".to_owned()][..]));
        let (columns, rows) = json(r#"[{"id": 1, "n": "x"}, {"n": "y", "id": 2}]"#).expect("two rows");
        assert_eq!((columns.len(), &*rows[1]), (2, &["2".to_owned(), "y".to_owned()][..]));
        assert!(matches!(json(r#"[{"id": 1}, {"x": 2}]"#), Err(FeederError::Row { row: 2, .. })));
        assert!(matches!(json("{}"), Err(FeederError::Json { .. })));
    }

    #[test]
    fn rows_are_given_out_as_asked() {
        let rows = || csv("v\n1\n2\n").expect("rows");
        let mut random = fastrand::Rng::with_seed(1);
        let mut take = |feeder: &Feeder, user| {
            let mut values = HashMap::new();
            feeder.feed(user, &mut random, &mut values).then(|| values["d.v"].clone())
        };
        let stop = Feeder::new("d", rows(), Order::InOrder, End::Stop);
        assert_eq!([0, 0, 0].map(|user| take(&stop, user)), [Some("1".into()), Some("2".into()), None]);
        let wrap = Feeder::new("d", rows(), Order::InOrder, End::Wrap);
        assert_eq!([0, 0, 0].map(|user| take(&wrap, user)), [Some("1".into()), Some("2".into()), Some("1".into())]);
        let own = Feeder::new("d", rows(), Order::Unique, End::Stop);
        assert_eq!([1, 1, 2].map(|user| take(&own, user)), [Some("2".into()), Some("2".into()), None]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a,\"\r\n ]{0,40}") {
            if let Ok((columns, rows)) = csv(&text) {
                prop_assert!(rows.iter().all(|row| row.len() == columns.len()));
            }
        }
    }
}
