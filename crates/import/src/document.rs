//! The written file: tables with their keys and comments.

use std::fmt::Write as _;

/// The most routes that a host may have.
pub(crate) const ROUTES_MAX: usize = 128;

/// A table of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) comments: Vec<String>,
    pub(crate) entries: Vec<(String, String)>,
}

impl Table {
    pub(crate) fn comment(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.comments.contains(&text) {
            self.comments.push(text);
        }
    }

    /// Sets a key to what is TOML already.
    pub(crate) fn raw(&mut self, key: &str, value: impl Into<String>) {
        self.entries.retain(|(own, _)| own != key);
        self.entries.push((key.to_owned(), value.into()));
    }

    pub(crate) fn text(&mut self, key: &str, value: &str) {
        self.raw(key, quoted(value));
    }

    pub(crate) fn list<T: AsRef<str>>(&mut self, key: &str, values: &[T]) {
        self.raw(key, list(values));
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(own, _)| own == key)
    }

    pub(crate) fn fields(&mut self, key: &str, fields: &[(String, String)]) {
        if !fields.is_empty() {
            self.raw(key, inline(fields.iter().map(|(name, value)| (name.clone(), quoted(value)))));
        }
    }
}

/// A `[[host]]` with its routes and paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) table: Table,
    pub(crate) routes: Vec<Table>,
    pub(crate) paths: Vec<Table>,
}

/// The whole file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Document {
    pub(crate) top: Table,
    /// `[tls]`, `[acme]` and the like.
    pub(crate) tables: Vec<(String, Table)>,
    pub(crate) hosts: Vec<Host>,
    /// Files beside it.
    pub(crate) beside: Vec<(String, String)>,
}

impl Document {
    /// The text, with comments at its head.
    pub(crate) fn text(&self, head: &[String]) -> String {
        let mut out = String::new();
        head.iter().for_each(|line| write_comment(&mut out, line));
        out.push('\n');
        write_table(&mut out, &self.top);
        for (name, table) in &self.tables {
            let _ = write!(out, "\n[{name}]\n");
            write_table(&mut out, table);
        }
        for host in &self.hosts {
            out.push('\n');
            write_headed(&mut out, "[[host]]", &host.table);
            for (head, tables) in [("[[host.route]]", &host.routes), ("[[host.path]]", &host.paths)] {
                for table in tables {
                    out.push('\n');
                    write_headed(&mut out, head, table);
                }
            }
        }
        out
    }
}

fn write_headed(out: &mut String, head: &str, table: &Table) {
    table.comments.iter().for_each(|line| write_comment(out, line));
    let _ = writeln!(out, "{head}");
    write_entries(out, table);
}

fn write_table(out: &mut String, table: &Table) {
    table.comments.iter().for_each(|line| write_comment(out, line));
    write_entries(out, table);
}

fn write_entries(out: &mut String, table: &Table) {
    for (key, value) in &table.entries {
        let _ = writeln!(out, "{key} = {value}");
    }
}

/// What stands in a comment may not end it.
fn write_comment(out: &mut String, line: &str) {
    let line: String = line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let _ = writeln!(out, "{}", format!("# {line}").trim_end());
}

/// A text as TOML.
pub(crate) fn quoted(text: &str) -> String {
    let is_literal = text.contains(['\\', '"']) && !text.contains('\'') && !text.contains(char::is_control);
    if is_literal {
        return format!("'{text}'");
    }
    let mut out = "\"".to_owned();
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            letter if letter.is_control() => drop(write!(out, "\\u{:04X}", u32::from(letter))),
            letter => out.push(letter),
        }
    }
    out + "\""
}

pub(crate) fn list<T: AsRef<str>>(values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(|value| quoted(value.as_ref())).collect();
    format!("[{}]", values.join(", "))
}

/// A table in one line; its values are TOML already.
pub(crate) fn inline(entries: impl Iterator<Item = (String, String)>) -> String {
    let is_bare =
        |key: &str| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let key = |key: &str| if is_bare(key) { key.to_owned() } else { quoted(key) };
    let entries: Vec<String> = entries.map(|(name, value)| format!("{} = {value}", key(&name))).collect();
    if entries.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", entries.join(", ")) }
}
