//! Lines of forms that the user names, such as the output of a script of bpftrace, or of any program's log.

use crate::fields::{Fields, meaning};
use crate::ftrace_text::read_line;
use crate::{Counts, Event, Markers, ReadError, Skipped, Task, What};
use regex::{CaptureLocations, Regex, RegexBuilder, bytes};
use serde::Deserialize;
use std::borrow::Cow;
use std::io::BufRead;

/// Bytes that a form may take compiled, and forms.
const FORM_BYTES: usize = 4 << 20;
const FORMS_MAX: usize = 256;
/// What a line's event is called if neither its form nor the file has a name for it.
const NAMELESS: &str = "line";

/// Units of a time, nanoseconds, by the name of its group.
const TIMES: [(&str, u64); 4] = [("time_ns", 1), ("time_us", 1_000), ("time_ms", 1_000_000), ("time_s", 1_000_000_000)];

/// The forms of a text's lines: regular expressions whose groups are the fields of an event.
#[derive(Debug, Clone)]
pub struct LinePattern {
    forms: Vec<Form>,
    markers: Option<Markers>,
}

/// The form of a line.
#[derive(Debug, Clone)]
struct Form {
    regex: Regex,
    /// The same for lines of ASCII alone, on which it finds the same several times faster; none of a form that says more
    /// of characters than their bytes.
    of_ascii: Option<bytes::Regex>,
    /// Groups by their names.
    groups: Vec<(String, usize)>,
    /// Which group has the time.
    time: usize,
    unit_ns: u64,
    /// What its events are called, if no group says it.
    event: Option<String>,
}

/// Forms that no line can be read by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoLinePattern {
    /// It is no regular expression.
    #[error("{0}")]
    Regex(String),
    /// It has no time.
    #[error(
        "no group of {0:?} is a time: name one time_ns, time_us, time_ms or time_s, as in '(?<time_ns>\\d+) \
         (?<event>\\w+) (?<task>\\d+)'"
    )]
    Time(String),
    /// The file is no TOML, or has other keys.
    #[error("{0}")]
    Toml(String),
    /// The file names no form, or too many.
    #[error("it has {0} forms of lines: write 1 to {FORMS_MAX} tables [[line]], each with a form")]
    Forms(usize),
    /// What is to mark requests names no event.
    #[error("requests: {0}")]
    Requests(crate::NoPattern),
}

/// A file of forms.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    line: Vec<Line>,
    requests: Option<Requests>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    form: String,
    event: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Requests {
    begin: String,
    end: String,
}

impl std::str::FromStr for LinePattern {
    type Err = NoLinePattern;

    fn from_str(text: &str) -> Result<Self, NoLinePattern> {
        Ok(Self { forms: vec![Form::new(text, None)?], markers: None })
    }
}

impl LinePattern {
    /// Reads forms in TOML: a table `[[line]]` for each, with its `form` and, if no group of it says so, what its `event`
    /// is called; and by which events `[requests]` `begin` and `end`, as `--request-begin` and `--request-end` name them.
    ///
    /// # Errors
    /// [`NoLinePattern`].
    pub fn from_toml(text: &str) -> Result<Self, NoLinePattern> {
        let file: File = toml::from_str(text).map_err(|error| NoLinePattern::Toml(error.to_string()))?;
        if file.line.is_empty() || file.line.len() > FORMS_MAX {
            return Err(NoLinePattern::Forms(file.line.len()));
        }
        let forms = file.line.into_iter().map(|line| Form::new(&line.form, line.event));
        let forms = forms.collect::<Result<_, _>>()?;
        let pattern = |text: &str| text.parse().map_err(NoLinePattern::Requests);
        let markers =
            file.requests.map(|requests| Ok(Markers::new(pattern(&requests.begin)?, pattern(&requests.end)?)));
        Ok(Self { forms, markers: markers.transpose()? })
    }

    /// Where requests begin and end, if the file of forms says it.
    #[must_use]
    pub fn markers(&self) -> Option<&Markers> {
        self.markers.as_ref()
    }
}

impl Form {
    fn new(text: &str, event: Option<String>) -> Result<Self, NoLinePattern> {
        let regex = RegexBuilder::new(text).size_limit(FORM_BYTES).build();
        let regex = regex.map_err(|error| NoLinePattern::Regex(error.to_string()))?;
        let names = regex.capture_names().enumerate();
        let groups: Vec<_> = names.filter_map(|(group, name)| Some((name?.to_owned(), group))).collect();
        let time = TIMES.iter().find_map(|(name, unit_ns)| Some((group(&groups, name)?, *unit_ns)));
        let (time, unit_ns) = time.ok_or_else(|| NoLinePattern::Time(text.to_owned()))?;
        let of_ascii = bytes::RegexBuilder::new(text).unicode(false).size_limit(FORM_BYTES).build().ok();
        Ok(Self { regex, of_ascii, groups, time, unit_ns, event })
    }

    fn reader(&self) -> FormReader<'_> {
        let of_ascii = self.of_ascii.as_ref().map(|regex| (regex, regex.capture_locations()));
        FormReader { form: self, of_ascii, of_any: self.regex.capture_locations(), places: Vec::new() }
    }

    fn time_ns(&self, text: &str) -> Option<u64> {
        // A whole number keeps all its digits.
        if let Ok(whole) = text.parse::<u64>() {
            return whole.checked_mul(self.unit_ns);
        }
        let (whole, fraction) = text.split_once('.')?;
        let part: f64 = format!("0.{fraction}").parse().ok()?;
        let part_ns = (part * self.unit_ns as f64).round() as u64;
        whole.parse::<u64>().ok()?.checked_mul(self.unit_ns)?.checked_add(part_ns)
    }
}

/// A form, with the memory for the places of its groups.
struct FormReader<'f> {
    form: &'f Form,
    of_ascii: Option<(&'f bytes::Regex, bytes::CaptureLocations)>,
    of_any: CaptureLocations,
    places: Vec<Option<(usize, usize)>>,
}

impl FormReader<'_> {
    /// Whether a line fits; then its groups have their places.
    fn fits(&mut self, text: &str) -> bool {
        self.places.clear();
        match self.of_ascii.as_mut().filter(|_| text.is_ascii()) {
            Some((regex, places)) => {
                let fits = regex.captures_read(places, text.as_bytes()).is_some();
                self.places.extend((0..places.len()).map(|group| places.get(group)));
                fits
            }
            None => {
                let fits = self.form.regex.captures_read(&mut self.of_any, text).is_some();
                self.places.extend((0..self.of_any.len()).map(|group| self.of_any.get(group)));
                fits
            }
        }
    }
}

fn group(groups: &[(String, usize)], name: &str) -> Option<usize> {
    groups.iter().find(|(known, _)| known == name).map(|(_, group)| *group)
}

/// A line that a form fits.
struct Fitting<'a, 'f> {
    form: &'f Form,
    text: &'a str,
    places: &'f [Option<(usize, usize)>],
}

impl<'a> Fitting<'a, '_> {
    fn at(&self, group: usize) -> Option<&'a str> {
        self.places.get(group).copied().flatten().map(|(from, to)| &self.text[from..to])
    }
}

impl<'a> Fields<'a> for Fitting<'a, '_> {
    fn number(&self, name: &str) -> Option<i64> {
        let text = self.text(name)?;
        match text.strip_prefix("0x") {
            Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok().map(u64::cast_signed),
            None => text.parse().ok(),
        }
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.at(group(&self.form.groups, name)?)
    }
}

/// Hands out the events of a text, in its order. A line is read by the first form that fits it.
///
/// # Errors
/// [`ReadError::Io`]; a line that no form fits is counted and passed over.
pub fn read_lines(
    mut input: impl BufRead,
    pattern: &LinePattern,
    markers: &Markers,
    mut take: impl FnMut(Event<'_>),
) -> Result<Counts, ReadError> {
    let times = pattern.forms.iter().flat_map(|form| TIMES.iter().find(|(_, unit_ns)| *unit_ns == form.unit_ns));
    let clock = times.into_iter().next().map(|(name, _)| format!("the lines' group {name}"));
    let (mut counts, mut line, mut at) = (Counts { clock, ..Counts::default() }, Vec::new(), 0u64);
    let mut forms: Vec<_> = pattern.forms.iter().map(Form::reader).collect();
    loop {
        line.clear();
        let read = read_line(&mut input, &mut line).map_err(|source| ReadError::Io { at, source })?;
        if read == 0 {
            return Ok(counts.told());
        }
        at += read as u64;
        let text = crate::words::text(&line);
        let text = text.trim_end();
        match forms.iter_mut().position(|form| form.fits(text)) {
            Some(first) => {
                let FormReader { form, places, .. } = &forms[first];
                tell(&Fitting { form, text, places }, markers, &mut counts, &mut take);
            }
            None if text.is_empty() => {}
            None => counts.skip(Skipped::NoEvent),
        }
    }
}

fn tell(fields: &Fitting<'_, '_>, markers: &Markers, counts: &mut Counts, take: &mut impl FnMut(Event<'_>)) {
    let full = fields.text("event").or(fields.form.event.as_deref()).unwrap_or(NAMELESS);
    counts.event(full);
    let at_ns = fields.at(fields.form.time).and_then(|text| fields.form.time_ns(text));
    let Some(at_ns) = at_ns else { return counts.skip(Skipped::NoTime) };
    let of = |name: &str| fields.number(name).and_then(|number| u32::try_from(number).ok());
    let (cpu, task, process) = (of("cpu"), of("task"), of("process"));
    if let Some(cpu) = cpu {
        counts.on_cpu(cpu);
    }
    let name = full.rsplit_once(':').map_or(full, |(_, name)| name);
    let is_marked = markers.may_mark(full);
    let mut event = Event { at_ns, cpu, task, process, what: What::Other(full) };
    if let (Some(number), Some(name)) = (task, fields.text("comm")) {
        take(Event { what: What::Named { task: Task { number, name }, process }, ..event });
    }
    match meaning(name, fields) {
        // What only marks a request needs no other meaning.
        crate::meaning::Meaning::None if is_marked => {}
        meaning => {
            event.what = meaning.counted(full, counts);
            take(event);
        }
    }
    let field = |name: &str| fields.text(name).map(Cow::Borrowed);
    markers.told(full, field, |mark| take(Event { what: What::Mark(mark), ..event }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_keep_their_digits() {
        for (pattern, text, expected) in [
            (r"^(?<time_ns>\S+)", "1795678508213845109", Some(1_795_678_508_213_845_109)),
            (r"^(?<time_s>\S+)", "12.000000345", Some(12_000_000_345)),
            (r"^(?<time_us>\S+)", "7.5", Some(7_500)),
            (r"^(?<time_ms>\S+)", "x", None),
        ] {
            let pattern: LinePattern = pattern.parse().expect("a pattern");
            let found = pattern.forms[0].regex.find(text).expect("it fits");
            assert_eq!(pattern.forms[0].time_ns(found.as_str()), expected, "{text}");
        }
        assert_eq!("(?<when>.)".parse::<LinePattern>().err(), Some(NoLinePattern::Time("(?<when>.)".to_owned())));
        assert!(matches!("(".parse::<LinePattern>(), Err(NoLinePattern::Regex(_))));
    }

    #[test]
    fn a_line_is_an_event_and_may_mark_a_request() {
        let pattern = r"^(?<time_ns>\d+) (?<event>\w+) cpu=(?<cpu>\d+) (?<comm>\S+)/(?<task>\d+) id=(?<id>\d+)";
        let pattern: LinePattern = pattern.parse().expect("a pattern");
        let markers = Markers::new("begin/id".parse().expect("one"), "end/id".parse().expect("one"));
        let text = "Attaching 2 probes...\n5 begin cpu=1 nginx/42 id=7\n9 end cpu=0 nginx/42 id=7\n";
        let mut told = Vec::new();
        let counts = read_lines(text.as_bytes(), &pattern, &markers, |event| {
            if let What::Mark(mark) = event.what {
                told.push((event.at_ns, event.cpu, event.task, mark.edge, mark.key.map(str::to_owned)));
            }
        });
        let counts = counts.expect("it is read");
        let key = Some("7".to_owned());
        let expected =
            [(5, Some(1), Some(42), crate::Edge::Begin, key.clone()), (9, Some(0), Some(42), crate::Edge::End, key)];
        assert_eq!(told, expected);
        assert_eq!((counts.events.len(), counts.skipped.get(&Skipped::NoEvent)), (2, Some(&1)));
    }

    #[test]
    fn a_file_of_forms_names_events_and_requests() {
        let pattern = LinePattern::from_toml(
            r#"
            [[line]]
            form = '^(?<time_s>\S+) worker (?<task>\d+) took (?<id>\w+) (?<path>\S+)$'
            event = "took"
            [[line]]
            form = '^(?<time_ms>\S+) (?<event>\w+) (?<id>\w+)$'
            [requests]
            begin = "took/id/path"
            end = "done/id"
            "#,
        );
        let pattern = pattern.expect("it is one");
        let mut told = Vec::new();
        let text = "12.5 worker 42 took a1 /item\n12501 done a1\n12502 slept a1 long\n";
        let markers = pattern.markers().expect("it names requests").clone();
        let counts = read_lines(text.as_bytes(), &pattern, &markers, |event| {
            if let What::Mark(mark) = event.what {
                told.push((
                    event.at_ns,
                    event.task,
                    mark.edge,
                    mark.key.map(str::to_owned),
                    mark.name.map(str::to_owned),
                ));
            }
        });
        let (key, name) = (Some("a1".to_owned()), Some("/item".to_owned()));
        let begin = (12_500_000_000, Some(42), crate::Edge::Begin, key.clone(), name);
        assert_eq!(told, [begin, (12_501_000_000, None, crate::Edge::End, key, None)]);
        let counts = counts.expect("it is read");
        assert_eq!((counts.events["took"], counts.events["done"], counts.skipped[&Skipped::NoEvent]), (1, 1, 1));
    }

    proptest! {
        #[test]
        fn a_line_of_ascii_is_read_as_any_other_is(text in "[0-9]{0,3}[ a-zA-Z_-]{0,4} ?[\\x00-\\x7f]{0,6}") {
            let form = Form::new(r"^(?<time_ns>\d+) (?i:(?<event>\w+k?)|\S) ?(?<rest>.*?)\b", None).expect("a form");
            let mut reader = form.reader();
            let fits = reader.fits(&text);
            let found = form.regex.captures(&text);
            prop_assert_eq!(fits, found.is_some());
            let place = |group| found.as_ref().and_then(|found| found.get(group)).map(|one| (one.start(), one.end()));
            let expected: Vec<_> = (0..form.regex.captures_len()).map(place).collect();
            prop_assert!(!fits || reader.places == expected, "{:?} {:?}", reader.places, expected);
        }
    }

    #[test]
    fn a_file_that_says_nothing_of_lines_is_refused_in_words() {
        let refused = |text: &str| LinePattern::from_toml(text).expect_err("it is none").to_string();
        assert!(refused("line = []").contains("0 forms"));
        assert!(refused("[[line]]\nform = '(?<time_ns>.'").contains("unclosed group"));
        assert!(refused("[[line]]\nform = 'x'").contains("time_ns"));
        assert!(refused("[[line]]\nform = '(?<time_ns>.)'\nname = 'x'").contains("name"));
        let requests = "[[line]]\nform = '(?<time_ns>.)'\n[requests]\nbegin = ''\nend = 'x'";
        assert!(refused(requests).contains("names no event"));
    }
}
