//! The `weir sql` command: questions to a recorded run in SQL.

use crate::table::cut;
use crate::{joined_hosts, object_rules};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use weir_export::{csv_head, csv_row, json_row};
use weir_query::{Cell, Ended, Progress, Queries, QueryError, SAVED, TABLES, Watch, saved};
use weir_terminal::output;
use weir_terminal::progress::Line;
use weir_terminal::stop::Stop;

const EXAMPLES: &str = "\
Examples:
  weir sql --list
      questions that people ask, each with a name
  weir sql runs/a --saved slowest-requests
      which requests were slowest, and why?
  weir sql runs/a 'SELECT class, count(*), avg(response_ns) FROM requests
      GROUP BY class ORDER BY 3 DESC'
      your own question, in SQL as SQLite has it
  weir sql runs/shop 'SELECT host_name, sum(run_ns) FROM tasks GROUP BY 1'
      a directory of `weir record --host`: all hosts on one clock
  weir sql runs/a --objects mine.toml 'SELECT * FROM objects'
      objects by rules of your own (`weir objects --table` prints ours)
  weir sql --tables
      the tables and their columns
  weir sql runs/a --csv 'SELECT * FROM parts' > parts.csv
      for a spreadsheet; --json for programs
  weir sql runs/a 'SELECT kind, a, b FROM events
      WHERE at_ns BETWEEN 1000000000 AND 1001000000'
      raw tables are read at once, and only for the time that is asked for

Derived tables are made once of the whole recording and kept in RUN/derived,
which may be removed at any time. A run is never changed.

Exit status: 0 with an answer, 1 if the run cannot be read, 2 for a question
that cannot be answered, 130 if it was stopped.";

/// Ask a recorded run questions in SQL: requests, parts, waits, locks, samples, events
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run directory, or that of the runs of several hosts, which are asked as one on one clock
    #[arg(value_name = "RUN", required_unless_present_any = ["list", "tables"])]
    run: Option<PathBuf>,

    /// The question, in SQL
    #[arg(value_name = "SELECT", conflicts_with = "saved", required_unless_present_any = ["list", "tables", "saved"])]
    question: Option<String>,

    /// The run of another host, recorded at the same time, to be asked together with RUN; repeated for several
    #[arg(long = "with", value_name = "RUN", requires = "run")]
    others: Vec<PathBuf>,

    /// More rules for the tables objects and interactions, as `weir objects --objects` takes them
    #[arg(long, value_name = "FILE", requires = "run")]
    objects: Option<PathBuf>,

    /// Ask a question that is saved under this name
    #[arg(long, value_name = "NAME")]
    saved: Option<String>,

    /// List the saved questions; with --json with their SQL
    #[arg(long, conflicts_with_all = ["run", "question", "saved", "csv"])]
    list: bool,

    /// List the tables and their columns
    #[arg(long, conflicts_with_all = ["run", "question", "saved", "csv", "json", "list"])]
    tables: bool,

    /// The answer as JSON: an array with an object for each row
    #[arg(long)]
    json: bool,

    /// The answer as CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

/// Rows of an answer whose widths decide those of all.
const MEASURED: usize = 500;
/// Characters of a value that are shown on a terminal.
const WIDEST: usize = 60;
/// Bytes of output that are written at a time.
const PIECE: usize = 1 << 16;

/// Answers.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.list {
        output::print(&if args.json { listed_as_json() } else { listed() })?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.tables {
        output::print(&tables())?;
        return Ok(ExitCode::SUCCESS);
    }
    let sql = match (&args.saved, &args.question) {
        (Some(name), _) => match saved(name) {
            Ok(saved) => saved.sql,
            Err(error) => return Ok(refused("sql", &error)),
        },
        (None, question) => question.as_deref().unwrap_or_default(),
    };
    let run = args.run.as_deref().unwrap_or(Path::new("."));
    let form = match (args.json, args.csv) {
        (true, _) => Form::Json,
        (_, true) => Form::Csv,
        _ => Form::Table,
    };
    let rules = match object_rules::with("sql", args.objects.as_deref()) {
        Ok(rules) => rules,
        Err(error) => {
            eprintln!("{error}");
            return Ok(ExitCode::from(2));
        }
    };
    let Some(one) = joined_hosts::one("sql", run, &args.others)? else { return Ok(ExitCode::from(130)) };
    let mut queries = match open(&one.directory, rules) {
        Ok(queries) => queries,
        Err(error) => return Ok(refused("sql", &error)),
    };
    let answer = Mutex::new(Answer::new(form));
    let both = || answer.lock().unwrap_or_else(PoisonError::into_inner);
    let ended = queries.ask(sql, &mut |names| both().begin(names), &mut |row| both().row(row));
    match ended {
        Ok(ended) => {
            both().end(ended)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            // What was printed so far is no whole answer; the exit status says so.
            both().flush()?;
            Ok(refused("sql", &error))
        }
    }
}

/// Opens a run for questions, its objects found by these rules, with a line of progress and an end on Ctrl-C.
pub(crate) fn open(run: &Path, rules: weir_objects::Table) -> Result<Queries, QueryError> {
    Queries::with_rules(run, rules, watch())
}

fn watch() -> Watch {
    // Without signals there is still an end: the second Ctrl-C's default.
    let stop = Stop::on_signals().ok();
    let line = Mutex::new(Line::new());
    Arc::new(move |progress| {
        let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
        line.show(|| match progress {
            Progress::Reading { events } => format!("making tables, once: {events} events read (Ctrl-C stops)"),
            Progress::Asking { events: 0 } => "answering (Ctrl-C stops)".to_owned(),
            Progress::Asking { events } => format!("answering: {events} events read (Ctrl-C stops)"),
        });
        !stop.as_ref().is_some_and(Stop::asked)
    })
}

/// Says what is wrong; the exit status.
pub(crate) fn refused(command: &str, error: &QueryError) -> ExitCode {
    eprintln!("weir {command}: {error}");
    ExitCode::from(match error {
        QueryError::Stopped => 130,
        QueryError::Run(_)
        | QueryError::Read(_)
        | QueryError::Empty(_)
        | QueryError::Several(_)
        | QueryError::Hosts { .. }
        | QueryError::Write { .. } => 1,
        QueryError::NoTable { .. }
        | QueryError::NoColumn { .. }
        | QueryError::Refused { .. }
        | QueryError::Sql { .. }
        | QueryError::NotSaved { .. } => 2,
    })
}

fn listed() -> String {
    let width = SAVED.iter().map(|one| one.name.len()).max().unwrap_or(0);
    SAVED.iter().map(|one| format!("{:<width$}  {}\n", one.name, one.asks)).collect()
}

fn listed_as_json() -> String {
    let one = |saved: &weir_query::Saved| {
        let sql = saved.sql.trim();
        serde_json::json!({"name": saved.name, "asks": saved.asks, "sql": sql})
    };
    format!("{:#}\n", serde_json::Value::Array(SAVED.iter().map(one).collect()))
}

fn tables() -> String {
    let mut text = String::new();
    for table in TABLES {
        text.push_str(&format!("{}: {}\n", table.name, table.doc));
        for column in table.columns {
            text.push_str(&format!("  {:<20} {:<8} {}\n", column.name, column.kind.name().to_lowercase(), column.doc));
        }
        text.push('\n');
    }
    text
}

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Table,
    Csv,
    Json,
}

/// An answer while it is printed.
struct Answer {
    form: Form,
    names: Vec<String>,
    /// Rows of a table whose widths are not decided yet; numbers are told from texts.
    first: Vec<Vec<(String, bool)>>,
    widths: Option<Vec<usize>>,
    rows: u64,
    text: String,
    outcome: Result<bool, output::PrintError>,
}

impl Answer {
    fn new(form: Form) -> Self {
        let (names, first) = (Vec::new(), Vec::new());
        Self { form, names, first, widths: None, rows: 0, text: String::new(), outcome: Ok(true) }
    }

    fn begin(&mut self, names: &[&str]) {
        self.names = names.iter().map(|&name| name.to_owned()).collect();
        match self.form {
            Form::Csv => csv_head(names, &mut self.text),
            Form::Json => self.text.push('['),
            Form::Table => {}
        }
    }

    /// Takes a row; false if the reader wants no more.
    fn row(&mut self, cells: &[Cell<'_>]) -> bool {
        self.rows += 1;
        match self.form {
            Form::Csv => csv_row(cells, &mut self.text),
            Form::Json => {
                self.text.push_str(if self.rows == 1 { "\n" } else { ",\n" });
                json_row(&self.names, cells, &mut self.text);
            }
            Form::Table => {
                let row: Vec<(String, bool)> = cells.iter().map(shown).collect();
                match &self.widths {
                    Some(widths) => line(&row, widths, &mut self.text),
                    None => self.first.push(row),
                }
                if self.first.len() >= MEASURED {
                    self.measure();
                }
            }
        }
        if self.text.len() >= PIECE {
            self.write();
        }
        matches!(self.outcome, Ok(true))
    }

    /// Decides the widths, and prints the names and the rows so far.
    fn measure(&mut self) {
        let first = std::mem::take(&mut self.first);
        let mut widths: Vec<usize> = self.names.iter().map(|name| name.chars().count()).collect();
        for row in &first {
            for (width, (cell, _)) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count()).min(WIDEST.max(*width));
            }
        }
        // A column is named where its values stand: to the right if they are numbers.
        let names = self.names.iter().enumerate();
        let is_number = |at: usize| first.first().is_some_and(|row| row[at].1);
        let head: Vec<(String, bool)> = names.map(|(at, name)| (name.clone(), is_number(at))).collect();
        line(&head, &widths, &mut self.text);
        first.iter().for_each(|row| line(row, &widths, &mut self.text));
        self.widths = Some(widths);
    }

    fn write(&mut self) {
        if matches!(self.outcome, Ok(true)) {
            self.outcome = output::print_while_read(&self.text);
        }
        self.text.clear();
    }

    fn flush(&mut self) -> Result<(), output::PrintError> {
        if self.form == Form::Table && self.widths.is_none() && self.rows > 0 {
            self.measure();
        }
        self.write();
        std::mem::replace(&mut self.outcome, Ok(true)).map(drop)
    }

    fn end(&mut self, ended: Ended) -> Result<(), output::PrintError> {
        if self.form == Form::Table && self.widths.is_none() {
            self.measure();
        }
        if self.form == Form::Json && ended != Ended::ByCaller {
            self.text.push_str(if self.rows == 0 { "]\n" } else { "\n]\n" });
        }
        self.write();
        std::mem::replace(&mut self.outcome, Ok(true)).map(drop)
    }
}

/// A value in a table, and whether it is a number.
fn shown(cell: &Cell<'_>) -> (String, bool) {
    match cell {
        Cell::Null => (String::new(), false),
        Cell::Integer(number) => (number.to_string(), true),
        Cell::Real(number) => (format!("{number:.1}"), true),
        Cell::Text(text) => (cut(&text.replace(['\n', '\r', '\t'], " "), WIDEST), false),
        Cell::Bytes(bytes) => (format!("{} bytes", bytes.len()), false),
    }
}

fn line(row: &[(String, bool)], widths: &[usize], out: &mut String) {
    let mut line = String::new();
    for (at, ((cell, is_number), width)) in row.iter().zip(widths).enumerate() {
        if at > 0 {
            line.push_str("  ");
        }
        line.push_str(&if *is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") });
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use weir_capture::BoundarySource;
    use weir_query::MISSING_ARRIVALS;

    #[test]
    fn the_tables_know_which_rungs_miss_arrivals() {
        let missing = BoundarySource::ALL.into_iter().filter(|source| source.misses_arrivals());
        assert_eq!(missing.map(BoundarySource::name).collect::<Vec<_>>(), MISSING_ARRIVALS);
    }
}
