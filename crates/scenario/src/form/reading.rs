//! Reads a file of scenarios.

use crate::behaviour::Tags;
use crate::executors::{Keeps, Planned};
use crate::form::document::{Document, Table, Value};
use crate::form::feeder::{self, End, Feeder, Layout, Order};
use crate::form::place::{Defaults, Place, text_of};
use crate::form::program::{Program, Scenarios};
use crate::form::scopes::Known;
use crate::form::slo::Slo;
use crate::form::step::template;
use crate::form::steps::program;
use crate::form::template::{Values, is_name};
use crate::form::timing::executor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toml::de::DeTable;
use weir_diagnostic::{Mistake, nearest};
use weir_load::Url;

/// The most bytes of a file of scenarios.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Why a file of scenarios cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FormError {
    /// The file cannot be read.
    #[error("{path}: {source}; give a file that can be read", path = path.display())]
    Unreadable {
        /// The file as given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file says what cannot be done; in the order of its lines, at least one.
    #[error("{}", .mistakes.iter().map(|mistake| format!("{}:{mistake}", path.display())).collect::<Vec<_>>().join("\n"))]
    Mistaken {
        /// The file as given.
        path: PathBuf,
        /// What is wrong with it.
        mistakes: Vec<Mistake>,
    },
}

/// Reads a file; `base` takes the place of its own, if it is given.
///
/// # Errors
/// [`FormError`], with all mistakes.
pub fn read(path: &Path, base: Option<&Url>) -> Result<Scenarios, FormError> {
    let text =
        text_of(path, FILE_BYTES_MAX).map_err(|source| FormError::Unreadable { path: path.to_owned(), source })?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    parse(&text, folder, base).map_err(|mistakes| FormError::Mistaken { path: path.to_owned(), mistakes })
}

/// The same of a text whose relative paths start at `folder`.
///
/// # Errors
/// All mistakes, in the order of the lines.
pub fn parse(text: &str, folder: &Path, base: Option<&Url>) -> Result<Scenarios, Vec<Mistake>> {
    let document = Document::new(text);
    let (parsed, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        for error in errors {
            let at = error.span().map_or(0, |span| span.start);
            document.wrong(at, error.message().replace('\n', ", "), "mend the TOML here first");
        }
        return Err(document.into_mistakes());
    }
    let table = Table::new(&document, parsed.get_ref(), 0, "the file");
    let known = Known::new();
    let whole = Whole { text, folder, known: &known, table: &table };
    let scenarios = whole.read(base);
    table.finish();
    for (name, at) in known.unknown() {
        let names = known.names();
        let remedy = match nearest(&name, names.iter().map(String::as_str)) {
            Some(near) => format!("${{{near}}} is meant?"),
            None => format!("values are: {}", names.join(", ")),
        };
        document.wrong(at, format!("no step, data or table gives a value for ${{{name}}}"), remedy);
    }
    let mistakes = document.into_mistakes();
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    Ok(Scenarios { scopes: known.into_scopes(), ..scenarios })
}

/// The file, while it is read.
struct Whole<'w, 't> {
    text: &'w str,
    folder: &'w Path,
    known: &'w Known,
    table: &'w Table<'w, 't>,
}

impl Whole<'_, '_> {
    fn read(&self, base: Option<&Url>) -> Scenarios {
        let table = self.table;
        let own_base = table.text("base").and_then(|(text, at)| match Url::parse(text) {
            Ok(url) => Some(url),
            Err(error) => {
                table.document.wrong(at, format!("base = {text:?}"), error.to_string());
                None
            }
        });
        let base = base.cloned().or(own_base);
        let values = self.values();
        let feeders = self.feeders();
        let defaults = self.defaults(Vec::new());
        let around = |key: &'static str| {
            let inner = table.table(key, "setup and teardown")?;
            let program = program(&inner.list("steps"), &self.place(&defaults));
            inner.finish();
            Some(Arc::new(program))
        };
        let (setup, teardown) = (around("setup"), around("teardown"));
        let mut list = Vec::new();
        let given = table.list("scenario");
        if given.is_empty() {
            table.wrong("there is no scenario", "write [[scenario]] with users, duration and [[scenario.steps]]");
        }
        for (number, value) in given.iter().enumerate() {
            list.extend(self.scenario(*value, number));
        }
        let slos = table.texts("slo").into_iter().filter_map(|(text, at)| self.slo(text, at)).collect();
        Scenarios {
            base,
            list,
            setup,
            teardown,
            around_max: table.duration("setup_timeout").unwrap_or(Duration::from_secs(60)),
            feeders,
            values,
            scopes: Vec::new(),
            slos,
            seed: table.number("seed", 0, u64::MAX).unwrap_or(1),
        }
    }

    fn place<'p>(&'p self, defaults: &'p Defaults) -> Place<'p> {
        Place { known: self.known, defaults, text: self.text, folder: self.folder, group: "".into(), depth: 0 }
    }

    fn values(&self) -> Values {
        let mut values = Values::new();
        if let Some(inner) = self.table.table("vars", "vars") {
            for (name, value) in inner.entries() {
                if !is_name(&name) {
                    value.wrong(format!("{name:?} is no name of a value"), "a name has letters, digits, _, - and .");
                }
                self.known.define(&name);
                values.extend(value.scalar(&name).map(|text| (name, text)));
            }
        }
        values.extend(self.environment());
        values
    }

    /// Values that variables of the environment have.
    fn environment(&self) -> Values {
        let mut values = Values::new();
        let Some(inner) = self.table.table("env", "env") else { return values };
        for (name, value) in inner.entries() {
            if !is_name(&name) {
                value.wrong(format!("{name:?} is no name of a value"), "a name has letters, digits, _, - and .");
            }
            self.known.define(&name);
            let Some(variable) = value.text(&name) else { continue };
            match std::env::var(variable) {
                Ok(text) => drop(values.insert(name, text)),
                Err(_) => value.wrong(
                    format!("the environment variable {variable:?} has no text, which ${{{name}}} is to be"),
                    format!("set it: export {variable}=..."),
                ),
            }
        }
        values
    }

    fn defaults(&self, tags: Vec<(String, String)>) -> Defaults {
        let table = self.table;
        let mut defaults =
            Defaults { headers: Vec::new(), timeout: Duration::from_secs(60), redirects_max: 10, ok: None, tags };
        defaults.timeout = table.duration("timeout").unwrap_or(defaults.timeout);
        defaults.redirects_max = table.number("redirects", 0, 100).map_or(defaults.redirects_max, |most| most as u32);
        defaults.ok = table.text("ok").and_then(|(text, at)| match text.parse() {
            Ok(statuses) => Some(Arc::new(statuses)),
            Err(error) => {
                table.document.wrong(at, format!("ok = {text:?}"), format!("{error}"));
                None
            }
        });
        if let Some(inner) = table.table("headers", "headers") {
            let place = self.place(&defaults);
            let read = |(name, value): (String, Value<'_, '_>)| {
                let text = value.scalar(&name)?;
                Some((name, template(value, &text, &place)))
            };
            let headers = inner.entries().filter_map(read).collect();
            defaults.headers = headers;
        }
        defaults
    }

    fn feeders(&self) -> Vec<Arc<Feeder>> {
        let Some(all) = self.table.table("data", "data") else { return Vec::new() };
        let mut feeders = Vec::new();
        for (name, value) in all.entries() {
            let Some(table) = value.table(&name, "data") else { continue };
            let order = one_of(
                &table,
                "order",
                &[("in-order", Order::InOrder), ("random", Order::Random), ("unique", Order::Unique)],
            );
            let end = one_of(&table, "end", &[("wrap", End::Wrap), ("stop", End::Stop)]);
            if let Some(rows) = self.rows(&table) {
                let feeder = Feeder::new(&name, rows, order.unwrap_or(Order::InOrder), end.unwrap_or(End::Wrap));
                feeder.names().for_each(|name| self.known.define(&name));
                feeders.push(Arc::new(feeder));
            }
            table.finish();
        }
        feeders
    }

    fn rows(&self, table: &Table<'_, '_>) -> Option<feeder::Rows> {
        // Its keys are known, whether the file can be read or not.
        let layout = layout(table);
        let Some((file, at)) = table.text("file") else {
            table.wrong("data without a file", "write file = \"users.csv\" or file = \"users.json\"");
            return None;
        };
        let wrong = |what: String, remedy: &str| {
            table.document.wrong(at, format!("{file}: {what}"), remedy);
            None
        };
        let text = match text_of(&self.folder.join(file), feeder::FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) => return wrong(error.to_string(), "give a file that can be read, relative to this one"),
        };
        let is_json = Path::new(file).extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
        if is_json && layout != Layout::default() {
            return wrong("separator, columns and skip are of CSV".to_owned(), "leave them out");
        }
        let rows = if is_json { feeder::json(&text) } else { feeder::csv_in(&text, &layout) };
        match rows {
            Ok(rows) => Some(rows),
            Err(error) => wrong(error.to_string(), "mend the file of data"),
        }
    }

    fn scenario(&self, value: Value<'_, '_>, number: usize) -> Option<(Planned, Arc<Program>)> {
        let table = value.table("scenario", "a scenario")?;
        let executor = executor(&table);
        let name = table.text("name").map_or_else(|| format!("scenario {}", number + 1), |(name, _)| name.to_owned());
        let mut own_tags: Vec<(String, String)> = Vec::new();
        if let Some(inner) = table.table("tags", "tags") {
            own_tags.extend(inner.entries().filter_map(|(tag, value)| Some((tag.clone(), value.scalar(&tag)?))));
        }
        let defaults = self.defaults(own_tags.clone());
        let steps = table.list("steps");
        if steps.is_empty() {
            table.wrong(format!("{name} has no steps"), "write [[scenario.steps]] with get = \"/path\"");
        }
        let program = program(&steps, &self.place(&defaults));
        let mut tags: Vec<(Arc<str>, Arc<str>)> = vec![("scenario".into(), name.as_str().into())];
        tags.extend(own_tags.iter().map(|(tag, value)| (tag.as_str().into(), value.as_str().into())));
        tags.sort();
        let keeps = keeps(&table);
        let start = table.duration("start").unwrap_or_default();
        let graceful_stop = table.duration("graceful_stop").unwrap_or(Duration::from_secs(30));
        table.finish();
        let planned =
            Planned { name: name.into(), executor: executor?, start, graceful_stop, keeps, tags: Tags::from(tags) };
        if let Err(error) = planned.executor.check() {
            value.wrong(error.to_string(), "change it");
        }
        Some((planned, Arc::new(program)))
    }

    fn slo(&self, text: &str, at: usize) -> Option<Slo> {
        match Slo::parse(text, &self.known.scopes()) {
            Ok(slo) => Some(slo),
            Err(error) => {
                self.table.document.wrong(at, format!("slo {text:?}"), error.to_string());
                None
            }
        }
    }
}

/// How a file of CSV is laid out.
fn layout(table: &Table<'_, '_>) -> Layout {
    let mut layout = Layout::default();
    if let Some((text, at)) = table.text("separator") {
        let mut letters = text.chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) if !['"', '\n', '\r'].contains(&letter) => layout.separator = letter,
            _ => {
                table.document.wrong(at, format!("separator = {text:?}"), "write one letter, such as \";\" or \"\\t\"");
            }
        }
    }
    if table.get("columns").is_some() {
        layout.columns = Some(table.texts("columns").into_iter().map(|(name, _)| name.to_owned()).collect());
    }
    layout.skip = table.number("skip", 0, 1000).map_or(0, |lines| lines as usize);
    layout
}

/// What a user keeps; nothing by default, as each iteration is another visitor.
fn keeps(table: &Table<'_, '_>) -> Keeps {
    let mut keeps = Keeps { cookies: false, connections: false };
    for (word, at) in table.texts("keep") {
        match word {
            "cookies" => keeps.cookies = true,
            "connections" => keeps.connections = true,
            _ => table.document.wrong(
                at,
                format!("{word:?} is nothing that users keep"),
                "write keep = [\"cookies\", \"connections\"], or one of them",
            ),
        }
    }
    keeps
}

fn one_of<T: Copy>(table: &Table<'_, '_>, key: &'static str, known: &[(&str, T)]) -> Option<T> {
    let (text, at) = table.text(key)?;
    let found = known.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    if found.is_none() {
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        table.document.wrong(at, format!("{key} = {text:?}"), format!("write one of {}", words.join(", ")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lines that belong into a file, in any order.
    const LINES: [&str; 20] = [
        "[[scenario]]",
        "[[scenario.steps]]",
        "[data.d]",
        "[setup]",
        "users = 3",
        "rate = \"0..5/1s\"",
        "ramp = \"1..9/2s, 3/1s\"",
        "duration = \"1s\"",
        "iterations = 5",
        "get = \"http://h/${user}?a=${x:url}\"",
        "if = \"${x} > 3\"",
        "else = [{ think = \"1s..2s\" }]",
        "repeat = 2",
        "choose = [{ weight = 2, steps = [{ get = \"/a\" }] }, { steps = [] }]",
        "take = { x = \"css a @href\", y = \"json .a[0]\" }",
        "check = [\"status=200\", \"json .a=1\"]",
        "json = { a = [1, 2.5, true, \"${x}\"], b = 1979-05-27 }",
        "slo = [\"p99<1s\", \"step a: errors<1%\", \"all: p\"]",
        "steps = [{ group = \"g\", steps = [{ head = \"/\" }] }]",
        "keep = [\"cookies\", \"things\"]",
    ];

    proptest! {
        #[test]
        fn any_lines_are_read_or_refused_with_their_place(places in prop::collection::vec(0usize..LINES.len(), 0..14)) {
            let text: String = places.iter().map(|place| format!("{}\n", LINES[*place])).collect();
            if let Err(mistakes) = parse(&text, Path::new("/nonexistent"), None) {
                prop_assert!(!mistakes.is_empty());
                for mistake in mistakes {
                    prop_assert!(mistake.line <= places.len() + 1 && !mistake.remedy.is_empty(), "{}", mistake);
                }
            }
        }
    }
}
