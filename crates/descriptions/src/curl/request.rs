//! The requests of a command line of curl.

use crate::curl::options::{Means, by_letter, by_name, names};
use crate::curl::said::Said;
use crate::curl::sent;
use crate::curl::words::Command;
use crate::files::Files;
use crate::model::{Ask, Field, Text, encoded};
use crate::report::Report;
use std::collections::BTreeSet;
use weir_diagnostic::nearest;

/// The most bytes of a file that is a body.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The requests of commands.
pub(super) struct Commands<'r> {
    files: &'r dyn Files,
    report: &'r Report,
    pub(super) asks: Vec<(usize, Ask)>,
    /// Variables of the environment that they need.
    pub(super) variables: BTreeSet<String>,
}

impl<'r> Commands<'r> {
    pub(super) fn new(files: &'r dyn Files, report: &'r Report) -> Self {
        Self { files, report, asks: Vec::new(), variables: BTreeSet::new() }
    }

    /// Makes the requests of what was said.
    fn built(&mut self, line: usize, said: Said) {
        for (line, ask) in sent::asks(line, said, self.report) {
            self.variables.extend(ask.texts().flat_map(Text::names).map(str::to_owned));
            self.asks.push((line, ask));
        }
    }

    /// Takes a command.
    pub(super) fn take(&mut self, command: &Command) {
        let mut words = command.words.iter().peekable();
        // A prompt that was copied with the line.
        words.next_if(|(_, word)| word.as_plain() == Some("$"));
        let Some((line, first)) = words.next() else { return };
        let program = first.as_plain().unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned();
        if program != "curl" && program != "curl.exe" {
            let what = if command.is_piped { "what reads curl's output" } else { "a command other than curl" };
            self.report.lost(*line, format!("{}: {what} is not run", first.template()), "leave it out");
            return;
        }
        let mut said = Said { is_globbed: true, ..Said::default() };
        if let Some(what) = &command.unknown {
            said.needs = Some((what.clone(), "write the text that comes of it".to_owned()));
        }
        let mut rest: Vec<(usize, Text)> = words.cloned().collect();
        rest.reverse();
        let mut only_operands = false;
        while let Some((line, word)) = rest.pop() {
            let begin = word.begin().to_owned();
            if only_operands || !begin.starts_with('-') || word.as_plain() == Some("-") {
                said.urls.push((line, word));
            } else if begin == "--" && word.as_plain().is_some() {
                only_operands = true;
            } else if let Some(name) = begin.strip_prefix("--") {
                self.long(line, (name, &word), &mut rest, &mut said);
            } else {
                self.short(line, &word, &mut rest, &mut said);
            }
        }
        self.built(*line, said);
    }

    fn long(&mut self, line: usize, (name, word): (&str, &Text), rest: &mut Vec<(usize, Text)>, said: &mut Said) {
        let known = by_name(name).filter(|_| word.as_plain().is_some());
        let known = known.or_else(|| {
            by_name(name.strip_prefix("no-")?).filter(|(has_value, _)| !has_value).map(|_| (false, Means::Idle))
        });
        match known {
            Some((true, means)) => self.valued(line, name, means, rest, said),
            Some((false, means)) => self.flag(line, name, means, said),
            None => self.unknown(line, &word.template(), name, said),
        }
    }

    fn short(&mut self, line: usize, word: &Text, rest: &mut Vec<(usize, Text)>, said: &mut Said) {
        let begin = word.begin().to_owned();
        for (at, letter) in begin.char_indices().skip(1) {
            match by_letter(letter) {
                Some((name, true, means)) => {
                    let behind = word.without_begin(at + letter.len_utf8());
                    if !behind.is_empty() {
                        rest.push((line, behind));
                    }
                    return self.valued(line, name, means, rest, said);
                }
                Some((name, false, means)) => self.flag(line, name, means, said),
                None => return self.unknown(line, &format!("-{letter}"), "", said),
            }
        }
    }

    fn unknown(&mut self, line: usize, shown: &str, name: &str, said: &mut Said) {
        let remedy = match nearest(name, names()) {
            Some(near) => format!("--{near} is meant?"),
            None => "leave it out, or write what it does".to_owned(),
        };
        self.report.wrong((line, 1), format!("curl has no option {shown} that is known here"), remedy);
        said.needs = Some((String::new(), String::new()));
    }

    fn valued(&mut self, line: usize, name: &str, means: Means, rest: &mut Vec<(usize, Text)>, said: &mut Said) {
        match rest.pop() {
            Some((_, value)) => self.value(line, (name, &value), means, said),
            None => self.report.wrong((line, 1), format!("--{name} has no value"), "write it behind the option"),
        }
    }

    fn flag(&mut self, line: usize, name: &str, means: Means, said: &mut Said) {
        match means {
            Means::Location => said.follows = true,
            Means::Get => said.is_get = true,
            Means::Head => said.is_head = true,
            Means::Compressed => said.is_compressed = true,
            Means::NoGlob => said.is_globbed = false,
            Means::Next => {
                let whole = std::mem::replace(said, Said { is_globbed: true, ..Said::default() });
                self.built(line, whole);
            }
            Means::Lost(remedy) => {
                said.follows |= name == "location-trusted";
                self.report.lost(line, format!("--{name} is not carried over"), remedy);
            }
            Means::Needed(remedy) => said.needs = Some((format!("--{name}"), remedy.to_owned())),
            _ => {}
        }
    }

    fn value(&mut self, line: usize, (name, value): (&str, &Text), means: Means, said: &mut Said) {
        match means {
            Means::Method => match value.as_plain() {
                Some(method) => said.method = Some(method.to_owned()),
                None => said.needs = Some(("a method that a variable says".into(), "write the method".into())),
            },
            Means::Header => self.header(line, value, said),
            Means::Data => self.data(value, "&", |text| text.replace(['\r', '\n', '\0'], ""), said),
            Means::DataBinary => self.data(value, "&", str::to_owned, said),
            Means::DataRaw => join(&mut said.data, "&", value),
            Means::Json => {
                said.is_json = true;
                self.data(value, "", str::to_owned, said);
            }
            Means::DataUrlencode => {
                if let Some(text) = self.urlencoded(value, said) {
                    join(&mut said.data, "&", &text);
                }
            }
            Means::UrlQuery => match value.begin().strip_prefix('+') {
                Some(_) => said.url_query.push(value.without_begin(1)),
                None => {
                    let query = self.urlencoded(value, said);
                    said.url_query.extend(query);
                }
            },
            Means::Form => self.field(value, said),
            Means::FormString => match value.split_once('=').filter(|(name, _)| name.as_plain().is_some()) {
                Some((name, value)) => said.fields.push(plain_field(&name, value)),
                None => self.report.wrong((line, 1), "--form-string has no name", "write NAME=VALUE"),
            },
            Means::User => said.user = Some(value.clone()),
            Means::Bearer => {
                let mut text = Text::plain("Bearer ");
                text.append(value);
                said.headers.push(("Authorization".to_owned(), text));
            }
            Means::Cookie if value.split_once('=').is_some() => said.cookies.push(value.clone()),
            Means::Cookie => {
                self.report.lost(line, "--cookie: cookies of a file are not carried over", "write -b 'NAME=VALUE'");
            }
            Means::Agent => said.headers.push(("User-Agent".to_owned(), value.clone())),
            Means::Referer => {
                let plain = value.as_plain().and_then(|text| text.strip_suffix(";auto"));
                said.headers.push(("Referer".to_owned(), plain.map_or_else(|| value.clone(), Text::plain)));
            }
            Means::RedirectsMax => {
                said.redirects_max = value.as_plain().and_then(|text| text.parse().ok()).or(Some(100));
            }
            Means::Upload => said.upload = self.file(value, said),
            Means::Url => said.urls.push((line, value.clone())),
            Means::Range => {
                let mut text = Text::plain("bytes=");
                text.append(value);
                said.headers.push(("Range".to_owned(), text));
            }
            Means::TimeMax => {
                let seconds = value.as_plain().and_then(|text| text.parse::<f64>().ok());
                let seconds = seconds.filter(|seconds| (0.001..=86_400.0).contains(seconds));
                match seconds {
                    Some(seconds) => said.timeout = Some(format!("{}ms", (seconds * 1e3).round())),
                    None => self.report.lost(line, "--max-time is no number of seconds that fits", "write timeout"),
                }
            }
            Means::Lost(remedy) => self.report.lost(line, format!("--{name} is not carried over"), remedy),
            Means::Needed(remedy) => said.needs = Some((format!("--{name}"), remedy.to_owned())),
            _ => {}
        }
    }

    fn header(&mut self, line: usize, value: &Text, said: &mut Said) {
        if value.begin().starts_with('@') {
            said.needs = Some(("headers of a file".into(), "write each by -H".into()));
            return;
        }
        if let Some(name) = value.as_plain().and_then(|text| text.strip_suffix(';')).filter(|name| !name.contains(':'))
        {
            said.headers.push((name.trim().to_owned(), Text::default()));
            return;
        }
        let split = value.split_once(':').and_then(|(name, text)| Some((name.as_plain()?.trim().to_owned(), text)));
        let Some((name, text)) = split else {
            self.report.lost(line, format!("-H {}: this is no header", value.template()), "write -H 'Name: value'");
            return;
        };
        let blanks = text.begin().len() - text.begin().trim_start().len();
        let text = text.without_begin(blanks);
        if text.is_empty() {
            // curl sends none of its own in its place.
            said.without.push(name.to_ascii_lowercase());
            if name.eq_ignore_ascii_case("user-agent") {
                self.report.lost(line, "a request without User-Agent", "a scenario has one always; it names weir");
            }
        } else if name.is_empty() {
            self.report.lost(line, format!("-H {}: a header of HTTP/2 itself", value.template()), "leave it out");
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            self.report.lost(line, "Transfer-Encoding: a scenario says the length of a body", "leave it out");
        } else if !name.eq_ignore_ascii_case("content-length") {
            said.headers.push((name, text));
        }
    }

    /// A text, or that of a file behind `@`.
    fn data(&mut self, value: &Text, sign: &str, change: impl Fn(&str) -> String, said: &mut Said) {
        match value.begin().starts_with('@') {
            true => {
                if let Some(text) = self.file(&value.without_begin(1), said) {
                    join(&mut said.data, sign, &text.changed(change, false));
                }
            }
            false => join(&mut said.data, sign, value),
        }
    }

    fn file(&mut self, name: &Text, said: &mut Said) -> Option<Text> {
        let text = name.as_plain().and_then(|name| self.files.read(name, FILE_BYTES_MAX));
        if text.is_none() {
            let what = format!("the file {:?}, which is no text of at most 4 MiB that can be read", name.template());
            said.needs = Some((what, "give the file, or write the text".to_owned()));
        }
        text.map(Text::plain)
    }

    /// `content`, `=content`, `name=content`, `@file`, `name@file`, with what is content percent-encoded.
    fn urlencoded(&mut self, value: &Text, said: &mut Said) -> Option<Text> {
        // curl writes a blank of a form as +.
        let encode = |text: &str| encoded(text).replace("%20", "+");
        let equals = value.split_once('=');
        let at = if equals.is_none() { value.split_once('@') } else { None };
        Some(match (equals, at) {
            (_, Some((name, file))) => {
                let text = self.file(&file, said)?.changed(encode, true);
                named(&name, &text)
            }
            (Some((name, content)), None) => named(&name, &content.changed(encode, true)),
            (None, None) => value.changed(encode, true),
        })
    }

    fn field(&mut self, value: &Text, said: &mut Said) {
        let split = value.split_once('=').filter(|(name, _)| name.as_plain().is_some());
        let Some((name, content)) = split else {
            said.needs = Some(("a field of a form without a name".into(), "write -F 'NAME=VALUE'".into()));
            return;
        };
        let mut field = plain_field(&name, content);
        let begin = field.value.begin().to_owned();
        // Behind semicolons stand what the part is said to be.
        if let Some(plain) = field.value.as_plain().map(str::to_owned)
            && let Some((content, rest)) = plain.split_once(';')
            && rest.split(';').all(|part| ["type=", "filename="].iter().any(|key| part.trim().starts_with(key)))
        {
            field.value = Text::plain(content);
            for part in rest.split(';').map(str::trim) {
                if let Some(kind) = part.strip_prefix("type=") {
                    field.content_type = Some(kind.to_owned());
                } else if let Some(file) = part.strip_prefix("filename=") {
                    field.file = Some(file.trim_matches('"').to_owned());
                }
            }
        }
        if begin.starts_with(['@', '<']) {
            let path = field.value.without_begin(1);
            let Some(text) = self.file(&path, said) else { return };
            if begin.starts_with('@') {
                let own = path.template();
                field.file.get_or_insert_with(|| own.rsplit('/').next().unwrap_or_default().to_owned());
            }
            field.value = text;
        }
        said.fields.push(field);
    }
}

fn plain_field(name: &Text, value: Text) -> Field {
    Field { name: name.as_plain().unwrap_or_default().to_owned(), value, file: None, content_type: None }
}

fn named(name: &Text, value: &Text) -> Text {
    let mut text = name.clone();
    text.push(if name.is_empty() { "" } else { "=" });
    text.append(value);
    text
}

fn join(data: &mut Option<Text>, sign: &str, more: &Text) {
    match data {
        Some(data) => {
            data.push(sign);
            data.append(more);
        }
        None => *data = Some(more.clone()),
    }
}
