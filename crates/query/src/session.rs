//! A run that is asked: plans a question, makes the tables that it needs, hands its rows over.

use crate::cell::Cell;
use crate::derived::{Derived, Recording};
use crate::error::{QueryError, nearest};
use crate::progress::{Progress, Watch};
use crate::schema::{Group, Origin, TABLES, Table};
use crate::stream;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, Error, ErrorCode, Statement};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use weir_objects::Table as Rules;
use weir_tiles::Places;

/// Steps of SQLite's machine between two looks at whether to go on.
const LOOK_STEPS: i32 = 50_000;

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All rows were handed over; so many.
    Whole {
        /// Rows.
        rows: u64,
    },
    /// The caller wanted no more.
    ByCaller,
}

/// A run that is asked.
pub struct Queries {
    recording: Recording,
    derived: Derived,
    /// Knows all tables, but has no rows of derived ones: here questions are planned.
    planner: Connection,
    planned: Arc<Mutex<Planned>>,
    /// Has the rows.
    connection: Connection,
    attached: BTreeSet<Group>,
    watch: Watch,
}

impl fmt::Debug for Queries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Queries").field("attached", &self.attached).finish_non_exhaustive()
    }
}

/// What a question was seen to need.
#[derive(Debug, Default)]
struct Planned {
    tables: BTreeSet<String>,
    refused: Option<String>,
}

impl Queries {
    /// Opens a run; its objects are found by our own rules.
    ///
    /// # Errors
    /// [`QueryError`].
    pub fn open(run: &Path, watch: Watch) -> Result<Self, QueryError> {
        Self::with_rules(run, Rules::ours(), watch)
    }

    /// Opens a run; its objects are found by these rules.
    ///
    /// # Errors
    /// [`QueryError`].
    pub fn with_rules(run: &Path, rules: Rules, watch: Watch) -> Result<Self, QueryError> {
        let (recording, places) = Recording::open(run, rules)?;
        let derived = Derived::new(run, places.fingerprint(), &recording.rules);
        let places = Arc::new(places);
        let planned = Arc::default();
        let planner = planner(&places, &recording, &watch, &planned).map_err(|error| other(&error))?;
        let connection = Connection::open_in_memory().map_err(|error| other(&error))?;
        stream::add(&connection, TABLES, &places, &recording, &watch).map_err(|error| other(&error))?;
        let seen = Arc::clone(&watch);
        connection
            .progress_handler(LOOK_STEPS, Some(move || !seen(Progress::Asking { events: 0 })))
            .map_err(|error| other(&error))?;
        Ok(Self { recording, derived, planner, planned, connection, attached: BTreeSet::new(), watch })
    }

    /// The names of the recorded hosts, in the order of their numbers; none where the recording tells none.
    #[must_use]
    pub fn hosts(&self) -> &[String] {
        self.recording.hosts.names()
    }

    /// Asks a question: `columns` takes the names of the answer's columns, `take` a row after the other until it says
    /// false.
    ///
    /// # Errors
    /// [`QueryError`].
    pub fn ask(
        &mut self,
        sql: &str,
        columns: &mut dyn FnMut(&[&str]),
        take: &mut dyn FnMut(&[Cell<'_>]) -> bool,
    ) -> Result<Ended, QueryError> {
        let groups = self.plan(sql)?;
        self.attach(&groups)?;
        let mut statement = self.connection.prepare(sql).map_err(|error| wrong(&error, sql))?;
        answer(&mut statement, columns, take).map_err(|error| wrong(&error, sql))
    }

    /// All rows of an answer in words, for small ones: values as SQL writes them, NULL as nothing.
    ///
    /// # Errors
    /// [`QueryError`].
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Vec<String>>, QueryError> {
        let mut rows = Vec::new();
        let words = |cell: &Cell<'_>| match cell {
            Cell::Null => String::new(),
            Cell::Integer(number) => number.to_string(),
            Cell::Real(number) => number.to_string(),
            Cell::Text(text) => (*text).to_owned(),
            Cell::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        };
        self.ask(sql, &mut |_| {}, &mut |row| {
            rows.push(row.iter().map(words).collect());
            true
        })?;
        Ok(rows)
    }

    /// The groups of tables that a question needs.
    fn plan(&self, sql: &str) -> Result<BTreeSet<Group>, QueryError> {
        *lock(&self.planned) = Planned::default();
        let outcome = self.planner.prepare(sql);
        let planned = lock(&self.planned);
        if let Some(what) = &planned.refused {
            return Err(QueryError::Refused { what: what.clone() });
        }
        let statement = match outcome {
            Ok(statement) => statement,
            Err(Error::MultipleStatement) => {
                return Err(QueryError::Refused { what: "more than one statement".to_owned() });
            }
            Err(error) => return Err(wrong(&error, sql)),
        };
        if statement.column_count() == 0 {
            return Err(QueryError::Refused { what: "a statement that asks nothing".to_owned() });
        }
        let groups = planned.tables.iter().filter_map(|name| match Table::of(name)?.origin {
            Origin::Derived(group) => Some(group),
            Origin::Raw(_) => None,
        });
        Ok(groups.collect())
    }

    /// Makes the tables of groups where they are not there, and adds them.
    fn attach(&mut self, groups: &BTreeSet<Group>) -> Result<(), QueryError> {
        let missing: BTreeSet<Group> = groups.difference(&self.attached).copied().collect();
        for (group, file) in self.derived.files(&missing, &self.recording, &self.watch)? {
            // The schema's name is never seen: tables are found in all schemas by their own names.
            let attached = self
                .connection
                .execute(&format!("ATTACH ?1 AS made_{}", group.name()), [file.to_string_lossy().as_ref()]);
            attached.map_err(|error| QueryError::Write { path: file.clone(), why: error.to_string() })?;
            self.attached.insert(group);
        }
        Ok(())
    }
}

/// A connection that knows all tables, and notes what a question needs. It lets nothing be done but reading.
fn planner(
    places: &Arc<Places>,
    recording: &Recording,
    watch: &Watch,
    planned: &Arc<Mutex<Planned>>,
) -> rusqlite::Result<Connection> {
    let planner = Connection::open_in_memory()?;
    for table in TABLES.iter().filter(|table| matches!(table.origin, Origin::Derived(_))) {
        planner.execute_batch(&table.declaration())?;
    }
    stream::add(&planner, TABLES, places, recording, watch)?;
    // A raw table declares its columns when it is used first, which the authorizer would take for a change.
    for table in TABLES.iter().filter(|table| matches!(table.origin, Origin::Raw(_))) {
        planner.prepare(&format!("SELECT 1 FROM {}", table.name))?;
    }
    let planned = Arc::clone(planned);
    planner.authorizer(Some(move |context: AuthContext<'_>| match context.action {
        AuthAction::Read { table_name, .. } => {
            lock(&planned).tables.insert(table_name.to_owned());
            Authorization::Allow
        }
        AuthAction::Select | AuthAction::Recursive | AuthAction::Function { .. } => Authorization::Allow,
        refused => {
            lock(&planned).refused.get_or_insert_with(|| sort_of(&refused));
            Authorization::Deny
        }
    }))?;
    Ok(planner)
}

fn lock(planned: &Mutex<Planned>) -> std::sync::MutexGuard<'_, Planned> {
    // What is noted is whole after each step.
    planned.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What sort of statement it is, in a word.
fn sort_of(action: &AuthAction<'_>) -> String {
    let words = format!("{action:?}");
    words.split([' ', '{', '(']).next().unwrap_or_default().to_uppercase()
}

fn answer(
    statement: &mut Statement<'_>,
    columns: &mut dyn FnMut(&[&str]),
    take: &mut dyn FnMut(&[Cell<'_>]) -> bool,
) -> rusqlite::Result<Ended> {
    columns(&statement.column_names());
    let width = statement.column_count();
    let mut rows = statement.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let cells = (0..width).map(|index| row.get_ref(index).map(Cell::from)).collect::<rusqlite::Result<Vec<_>>>()?;
        if !take(&cells) {
            return Ok(Ended::ByCaller);
        }
        count += 1;
    }
    Ok(Ended::Whole { rows: count })
}

/// What cannot be told better than SQLite does.
fn other(error: &Error) -> QueryError {
    QueryError::Sql { message: error.to_string() }
}

/// An error in words of ours: which table or column, and which would be right.
fn wrong(error: &Error, sql: &str) -> QueryError {
    if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) {
        return QueryError::Stopped;
    }
    let message = match error {
        Error::SqliteFailure(_, Some(message)) => message.clone(),
        error => error.to_string(),
    };
    if let Some(name) = message.strip_prefix("no such table: ") {
        let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        return QueryError::NoTable { name: name.to_owned(), nearest: nearest(name, &names), tables: names.join(", ") };
    }
    if let Some(name) = message.strip_prefix("no such column: ") {
        return no_column(name, sql);
    }
    QueryError::Sql { message }
}

/// Says which columns there are in the tables that a question names.
fn no_column(name: &str, sql: &str) -> QueryError {
    let bare = name.rsplit('.').next().unwrap_or(name);
    let words = || sql.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let named = || TABLES.iter().filter(|table| words().any(|word| word.eq_ignore_ascii_case(table.name)));
    let names: Vec<&str> = named().flat_map(|table| table.columns).map(|column| column.name).collect();
    let nearest = nearest(bare, &names);
    let of = |table: &Table| {
        let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        format!("{} has {}", table.name, columns.join(", "))
    };
    let mut columns = named().map(of).collect::<Vec<_>>().join("; ");
    if columns.is_empty() {
        columns = "`weir sql --tables` lists the columns of all tables".to_owned();
    }
    QueryError::NoColumn { name: name.to_owned(), nearest, columns }
}
