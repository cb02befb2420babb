//! A plan as TOML, as `weir scenario` reads it.

use crate::model::plan::{Ask, Body, Data, Does, Group, Plan, Step};
use crate::model::text::{DOLLAR, Text};
use crate::wanted::{Load, Wanted};
use std::fmt::Write;

/// The users where neither the file nor the user says how many.
const DEFAULT_LOAD: (&str, &str) = ("10", "\"10s\"");

/// The text of a plan, with lines of comment at its head.
pub(crate) fn written(plan: &Plan, head: &[String], wanted: &Wanted) -> String {
    let mut out = String::new();
    for line in head {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{}", format!("# {line}").trim_end());
    }
    out.push('\n');
    let common = if plan.base.is_none() { plan.common_origin() } else { None };
    if let Some(base) = wanted.base.as_ref().or(plan.base.as_ref()).or(common.as_ref()) {
        let _ = writeln!(out, "base = {}\n", quoted(base));
    }
    let mut vars = plan.vars.clone();
    let mut needs_dollar = false;
    plan.steps().for_each(|step| step.each(&mut |ask| needs_dollar |= ask.texts().any(Text::needs_dollar)));
    if needs_dollar {
        vars.push((DOLLAR.to_owned(), "$".to_owned()));
    }
    table(&mut out, "vars", &vars);
    table(&mut out, "env", &plan.env);
    plan.data.iter().for_each(|data| self::data(&mut out, data, wanted));
    let own_base = plan.base.as_deref().or(common.as_deref());
    let mut writer = Writer { out, base: own_base };
    for (name, steps) in [("setup", &plan.setup), ("teardown", &plan.teardown)] {
        writer.steps(&format!("{name}.steps"), steps);
    }
    plan.groups.iter().for_each(|group| writer.group(group, wanted.load.as_ref()));
    writer.out
}

fn table(out: &mut String, name: &str, entries: &[(String, String)]) {
    if entries.is_empty() {
        return;
    }
    let _ = writeln!(out, "[{name}]");
    for (key, value) in entries {
        let _ = writeln!(out, "{} = {}", self::key(key), quoted(value));
    }
    out.push('\n');
}

fn data(out: &mut String, data: &Data, wanted: &Wanted) {
    let file = match &wanted.folder {
        Some(folder) if !data.file.starts_with('/') => format!("{folder}/{}", data.file),
        _ => data.file.clone(),
    };
    let _ = writeln!(out, "[data.{}]\nfile = {}", key(&data.name), quoted(&file));
    for (name, value) in &data.keys {
        let _ = writeln!(out, "{name} = {value}");
    }
    out.push('\n');
}

struct Writer<'b> {
    out: String,
    base: Option<&'b str>,
}

impl Writer<'_> {
    fn line(&mut self, key: &str, value: &str) {
        let _ = writeln!(self.out, "{key} = {value}");
    }

    fn group(&mut self, group: &Group, load: Option<&Load>) {
        let _ = writeln!(self.out, "# line {}\n[[scenario]]", group.line);
        self.line("name", &quoted(&group.name));
        match load {
            Some(Load::Users(users, duration)) => {
                self.line("users", &users.to_string());
                self.line("duration", &quoted(duration));
            }
            Some(Load::Iterations(users, iterations)) => {
                self.line("users", &users.to_string());
                self.line("iterations", &iterations.to_string());
            }
            Some(Load::Rate(rate, duration)) => {
                self.line("rate", &quoted(rate));
                self.line("duration", &quoted(duration));
            }
            None if group.load.is_empty() => {
                self.line("users", DEFAULT_LOAD.0);
                self.line("duration", DEFAULT_LOAD.1);
            }
            None => group.load.iter().for_each(|(key, value)| self.line(key, value)),
        }
        if !group.keep.is_empty() {
            let words: Vec<_> = group.keep.iter().map(|word| quoted(word)).collect();
            self.line("keep", &format!("[{}]", words.join(", ")));
        }
        self.out.push('\n');
        self.steps("scenario.steps", &group.steps);
    }

    fn steps(&mut self, path: &str, steps: &[Step]) {
        for step in steps {
            let _ = writeln!(self.out, "# line {}\n[[{path}]]", step.line);
            if let Some(when) = &step.when {
                self.line("if", &quoted(when));
            }
            if let Some(repeat) = step.repeat {
                self.line("repeat", &repeat.to_string());
            }
            match &step.does {
                Does::Ask(ask) => {
                    self.ask(ask);
                    self.out.push('\n');
                }
                Does::Think(time) => {
                    self.line("think", &quoted(time));
                    self.out.push('\n');
                }
                Does::Steps(name, within) => {
                    if let Some(name) = name {
                        self.line("group", &quoted(name));
                    }
                    self.out.push('\n');
                    self.steps(&format!("{path}.steps"), within);
                }
                Does::Choose(ways) => {
                    self.out.push('\n');
                    for way in ways {
                        let _ = writeln!(self.out, "[[{path}.choose]]\nweight = {}\n", way.weight);
                        self.steps(&format!("{path}.choose.steps"), &way.steps);
                    }
                }
            }
        }
    }

    fn ask(&mut self, ask: &Ask) {
        self.line("name", &quoted(&ask.name));
        let address = quoted(&ask.address.template(self.base));
        match ask.method.as_str() {
            method @ ("GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "HEAD" | "OPTIONS") => {
                self.line(&method.to_ascii_lowercase(), &address);
            }
            other => {
                self.line("method", &quoted(other));
                self.line("url", &address);
            }
        }
        if !ask.headers.is_empty() {
            let headers: Vec<_> = ask
                .headers
                .iter()
                .map(|(name, value)| format!("{} = {}", key(name), quoted(&value.template())))
                .collect();
            self.line("headers", &format!("{{ {} }}", headers.join(", ")));
        }
        if let Some(user) = &ask.user {
            self.line("user", &quoted(&user.template()));
        }
        match &ask.body {
            Some(Body::Text(text)) => self.line("body", &long(&text.template())),
            Some(Body::Graphql { query, variables, operation }) => {
                self.line("graphql", &long(&query.template()));
                if let Some(variables) = variables {
                    self.line("variables", &value(variables));
                }
                if let Some(operation) = operation {
                    self.line("operation", &quoted(operation));
                }
            }
            None => {}
        }
        for (name, must) in [("take", true), ("take_if_there", false)] {
            let takes: Vec<_> = ask
                .takes
                .iter()
                .filter(|take| take.must == must)
                .map(|take| format!("{} = {}", key(&take.name), quoted(&take.what)))
                .collect();
            if !takes.is_empty() {
                self.line(name, &format!("{{ {} }}", takes.join(", ")));
            }
        }
        if !ask.checks.is_empty() {
            let checks: Vec<_> = ask.checks.iter().map(|check| quoted(check)).collect();
            self.line("check", &format!("[{}]", checks.join(", ")));
        }
        if let Some(redirects) = ask.redirects {
            self.line("redirects", &redirects.to_string());
        }
        if let Some(timeout) = &ask.timeout {
            self.line("timeout", &quoted(timeout));
        }
    }
}

/// A key, in quotes where it must be.
fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !name.is_empty() && name.bytes().all(is_bare) { name.to_owned() } else { quoted(name) }
}

/// A text in one line: as it stands between single quotes where that says it, else escaped.
pub(crate) fn quoted(text: &str) -> String {
    if text.contains(['"', '\\']) && !text.contains('\'') && !text.contains(char::is_control) {
        return format!("'{text}'");
    }
    let mut out = String::from("\"");
    for letter in text.chars() {
        escape(letter, &mut out);
    }
    out.push('"');
    out
}

/// A text of several lines where it has them.
fn long(text: &str) -> String {
    let is_plain = |letter: char| letter == '\n' || letter == '\t' || !letter.is_control();
    if text.contains('\n') && !text.contains("'''") && !text.ends_with('\'') && text.chars().all(is_plain) {
        return format!("'''\n{text}'''");
    }
    quoted(text)
}

fn escape(letter: char, out: &mut String) {
    match letter {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        letter if letter.is_control() => {
            let _ = write!(out, "\\u{:04X}", u32::from(letter));
        }
        letter => out.push(letter),
    }
}

/// A value of JSON as TOML, in which texts have places for values already.
fn value(json: &serde_json::Value) -> String {
    match json {
        // A plan holds no null: TOML has none.
        serde_json::Value::Null => "\"\"".to_owned(),
        serde_json::Value::Bool(truth) => truth.to_string(),
        serde_json::Value::Number(number) => number.to_string(),
        serde_json::Value::String(text) => quoted(text),
        serde_json::Value::Array(list) => {
            format!("[{}]", list.iter().map(value).collect::<Vec<_>>().join(", "))
        }
        serde_json::Value::Object(entries) => {
            let entries: Vec<_> = entries.iter().map(|(name, own)| format!("{} = {}", key(name), value(own))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A reader of TOML sees the same text.
        #[test]
        fn texts_are_read_as_they_were(text in "[a'\"\\\\\n\r\t\u{1}\u{7f}é${} ]{0,12}") {
            for written in [quoted(&text), long(&text)] {
                let line = format!("x = {written}\n");
                let parsed: Result<toml::Table, _> = line.parse();
                let read = parsed.map(|table| table["x"].as_str().map(str::to_owned));
                prop_assert_eq!(read, Ok(Some(text.clone())), "{}", line);
            }
        }
    }
}
