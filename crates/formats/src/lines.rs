//! Lines of a form that the user names, such as the output of a script of bpftrace.

use crate::fields::{Fields, meaning};
use crate::ftrace_text::read_line;
use crate::{Counts, Event, Markers, ReadError, Skipped, Task, What};
use regex::{Captures, Regex, RegexBuilder};
use std::borrow::Cow;
use std::io::BufRead;

/// Bytes that a pattern may take compiled.
const PATTERN_BYTES: usize = 4 << 20;
/// What a line's event is called if the pattern has no group `event`.
const NAMELESS: &str = "line";

/// Units of a time, by the name of its group.
const TIMES: [(&str, f64); 4] = [("time_ns", 1.0), ("time_us", 1e3), ("time_ms", 1e6), ("time_s", 1e9)];

/// The form of a line: a regular expression whose groups are the fields of an event.
#[derive(Debug, Clone)]
pub struct LinePattern {
    regex: Regex,
    /// Which group has the time, and its unit, nanoseconds.
    time: (&'static str, f64),
}

/// A pattern that no line can be read by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoLinePattern {
    /// It is no regular expression.
    #[error("{0}")]
    Regex(String),
    /// It has no time.
    #[error(
        "no group of it is a time: name one time_ns, time_us, time_ms or time_s, as in '(?<time_ns>\\d+) (?<event>\\w+) \
         (?<task>\\d+)'"
    )]
    Time,
}

impl std::str::FromStr for LinePattern {
    type Err = NoLinePattern;

    fn from_str(text: &str) -> Result<Self, NoLinePattern> {
        let regex = RegexBuilder::new(text).size_limit(PATTERN_BYTES).build();
        let regex = regex.map_err(|error| NoLinePattern::Regex(error.to_string()))?;
        let has = |name: &str| regex.capture_names().flatten().any(|known| known == name);
        let time = TIMES.into_iter().find(|(name, _)| has(name)).ok_or(NoLinePattern::Time)?;
        Ok(Self { regex, time })
    }
}

impl LinePattern {
    fn time_ns(&self, fields: &Captures<'_>) -> Option<u64> {
        let (name, unit_ns) = self.time;
        let text = fields.name(name)?.as_str();
        // A whole number keeps all its digits.
        if let Ok(whole) = text.parse::<u64>() {
            return whole.checked_mul(unit_ns as u64);
        }
        let (seconds, fraction) = text.split_once('.')?;
        let unit = unit_ns as u64;
        let part: f64 = format!("0.{fraction}").parse().ok()?;
        seconds.parse::<u64>().ok()?.checked_mul(unit)?.checked_add((part * unit_ns).round() as u64)
    }
}

struct Groups<'a, 'b>(&'b Captures<'a>);

impl<'a> Fields<'a> for Groups<'a, '_> {
    fn number(&self, name: &str) -> Option<i64> {
        let text = self.text(name)?;
        match text.strip_prefix("0x") {
            Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok().map(u64::cast_signed),
            None => text.parse().ok(),
        }
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.name(name).map(|found| found.as_str())
    }
}

/// Hands out the events of a text, in its order.
///
/// # Errors
/// [`ReadError::Io`]; a line that the pattern does not fit is counted and passed over.
pub fn read_lines(
    mut input: impl BufRead,
    pattern: &LinePattern,
    markers: &Markers,
    mut take: impl FnMut(Event<'_>),
) -> Result<Counts, ReadError> {
    let clock = Some(format!("the lines' group {}", pattern.time.0));
    let (mut counts, mut line, mut at) = (Counts { clock, ..Counts::default() }, Vec::new(), 0u64);
    loop {
        line.clear();
        let read = read_line(&mut input, &mut line).map_err(|source| ReadError::Io { at, source })?;
        if read == 0 {
            return Ok(counts);
        }
        at += read as u64;
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        let Some(found) = pattern.regex.captures(text) else {
            if !text.is_empty() {
                counts.skip(Skipped::NoEvent);
            }
            continue;
        };
        tell(&found, pattern.time_ns(&found), markers, (&mut counts, &mut take));
    }
}

fn tell<'a>(
    found: &Captures<'a>,
    at_ns: Option<u64>,
    markers: &Markers,
    (counts, take): (&mut Counts, &mut impl FnMut(Event<'_>)),
) {
    let fields = Groups(found);
    let full: &'a str = fields.text("event").unwrap_or(NAMELESS);
    counts.event(full);
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
    match meaning(name, &fields) {
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

    #[test]
    fn times_keep_their_digits() {
        for (pattern, text, expected) in [
            (r"^(?<time_ns>\S+)", "1795678508213845109", Some(1_795_678_508_213_845_109)),
            (r"^(?<time_s>\S+)", "12.000000345", Some(12_000_000_345)),
            (r"^(?<time_us>\S+)", "7.5", Some(7_500)),
            (r"^(?<time_ms>\S+)", "x", None),
        ] {
            let pattern: LinePattern = pattern.parse().expect("a pattern");
            let found = pattern.regex.captures(text).expect("it fits");
            assert_eq!(pattern.time_ns(&found), expected, "{text}");
        }
        assert_eq!("(?<when>.)".parse::<LinePattern>().err(), Some(NoLinePattern::Time));
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
}
