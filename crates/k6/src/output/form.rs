//! How a value is written: k6's JSON, an object on each line, or k6's CSV.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use weir_scenario::metrics::{Contains, Metric};

/// The columns of CSV between the value and the other tags.
const COLUMNS: [&str; 14] = [
    "check",
    "error",
    "error_code",
    "expected_response",
    "group",
    "method",
    "name",
    "proto",
    "scenario",
    "service",
    "status",
    "subproto",
    "tls_version",
    "url",
];

/// Which form a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Csv,
}

/// What values are written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) form: Form,
    /// None is standard output.
    pub(crate) file: Option<PathBuf>,
}

impl Output {
    /// Reads `json=FILE`, `csv=FILE`, or either without a file; None if it names another kind of output.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (kind, file) = text.split_once('=').unwrap_or((text, ""));
        let (form, usual) = match kind {
            "json" => (Form::Json, None),
            // As k6 has it.
            "csv" => (Form::Csv, Some("file.csv")),
            _ => return None,
        };
        let file = match file {
            "-" => None,
            "" => usual.map(PathBuf::from),
            named => Some(PathBuf::from(named)),
        };
        Some(Self { form, file })
    }

    /// As k6 tells it before a run.
    pub(crate) fn words(&self) -> String {
        match (self.form, &self.file) {
            (Form::Json, None) => "json(stdout)".to_owned(),
            (Form::Csv, None) => "csv (stdout)".to_owned(),
            (Form::Json, Some(file)) => format!("json ({})", file.display()),
            (Form::Csv, Some(file)) => format!("csv ({})", file.display()),
        }
    }

    /// Its name in messages.
    pub(crate) fn name(&self) -> String {
        self.file.as_ref().map_or_else(|| "standard output".to_owned(), |file| file.display().to_string())
    }
}

/// A value as it is written.
#[derive(Debug)]
pub(super) struct Point<'p> {
    pub(super) metric: &'p Metric,
    pub(super) value: f64,
    /// Since 1970.
    pub(super) at: Duration,
    /// In ascending order of names.
    pub(super) tags: &'p [(String, String)],
}

fn quoted(text: &str, out: &mut Vec<u8>) {
    // Writing a text into memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// What stands at the beginning of a file.
pub(super) fn begin(form: Form, out: &mut Vec<u8>) {
    if form == Form::Csv {
        out.extend_from_slice(b"metric_name,timestamp,metric_value,");
        out.extend_from_slice(COLUMNS.join(",").as_bytes());
        out.extend_from_slice(b",extra_tags,metadata\n");
    }
}

/// A metric, before its first value: JSON alone tells it.
pub(super) fn metric(form: Form, metric: &Metric, thresholds: &[String], out: &mut Vec<u8>) {
    if form == Form::Csv {
        return;
    }
    let contains = match metric.contains {
        Contains::Default => "default",
        Contains::Time => "time",
        Contains::Data => "data",
    };
    let parts: Vec<serde_json::Value> = metric
        .parts
        .iter()
        .map(|part| {
            let suffix: Vec<String> = part.selector.iter().map(|(name, value)| format!("{name}:{value}")).collect();
            let tags: serde_json::Map<_, _> =
                part.selector.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
            let suffix = suffix.join(",");
            serde_json::json!({ "name": format!("{}{{{suffix}}}", metric.name), "suffix": suffix, "tags": tags })
        })
        .collect();
    let line = serde_json::json!({
        "type": "Metric",
        "data": {
            "name": metric.name,
            "type": metric.kind.name(),
            "contains": contains,
            "thresholds": thresholds,
            "submetrics": if parts.is_empty() { serde_json::Value::Null } else { parts.into() },
        },
        "metric": metric.name,
    });
    out.extend_from_slice(line.to_string().as_bytes());
    out.push(b'\n');
}

/// A value.
pub(super) fn point(form: Form, point: &Point<'_>, out: &mut Vec<u8>) {
    match form {
        Form::Json => json(point, out),
        Form::Csv => csv(point, out),
    }
}

fn json(point: &Point<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"metric\":");
    quoted(&point.metric.name, out);
    out.extend_from_slice(b",\"type\":\"Point\",\"data\":{\"time\":\"");
    let seconds = crate::time::utc_text(SystemTime::UNIX_EPOCH + point.at);
    out.extend_from_slice(seconds.trim_end_matches('Z').as_bytes());
    out.extend_from_slice(format!(".{:09}Z\",\"value\":", point.at.subsec_nanos()).as_bytes());
    let is_whole = point.value.fract() == 0.0 && point.value.abs() < 9e15;
    let value = if is_whole { format!("{}", point.value as i64) } else { format!("{}", point.value) };
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b",\"tags\":");
    let begin = out.len();
    for (name, value) in point.tags {
        out.push(if out.len() == begin { b'{' } else { b',' });
        quoted(name, out);
        out.push(b':');
        quoted(value, out);
    }
    out.extend_from_slice(if point.tags.is_empty() { b"{}}}\n" } else { b"}}}\n" });
}

fn csv(point: &Point<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{},{},{:.6}", point.metric.name, point.at.as_secs(), point.value).as_bytes());
    for column in COLUMNS {
        out.push(b',');
        if let Some((_, value)) = point.tags.iter().find(|(name, _)| name == column) {
            field(value, out);
        }
    }
    let others = point.tags.iter().filter(|(name, _)| !COLUMNS.contains(&name.as_str()));
    let others: Vec<String> = others.map(|(name, value)| format!("{name}={value}")).collect();
    out.push(b',');
    field(&others.join("&"), out);
    out.extend_from_slice(b",\n");
}

/// A field of CSV, in quotes where it needs them (RFC 4180, and as Go has it: where a space leads).
fn field(text: &str, out: &mut Vec<u8>) {
    if text.contains([',', '"', '\r', '\n']) || text.starts_with([' ', '\t']) || text == "\\." {
        out.push(b'"');
        out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_scenario::metrics::Shared;

    fn written(form: Form, value: f64, tags: &[(String, String)]) -> String {
        let shared = Shared::default();
        let metrics = shared.lock();
        let metric = metrics.iter().next().expect("http_reqs");
        let mut out = Vec::new();
        point(form, &Point { metric, value, at: Duration::new(1_700_000_000, 5), tags }, &mut out);
        String::from_utf8(out).expect("text")
    }

    fn tags(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn values_are_written_as_k6_writes_them() {
        let tags = tags(&[("a", "b,\"c"), ("group", ""), ("name", "http://h/"), ("run", "x")]);
        assert_eq!(
            written(Form::Json, 1.0, &tags),
            "{\"metric\":\"http_reqs\",\"type\":\"Point\",\"data\":{\"time\":\"2023-11-14T22:13:20.000000005Z\",\"value\":1,\
             \"tags\":{\"a\":\"b,\\\"c\",\"group\":\"\",\"name\":\"http://h/\",\"run\":\"x\"}}}\n"
        );
        assert_eq!(
            written(Form::Csv, 1.5, &tags),
            "http_reqs,1700000000,1.500000,,,,,,,http://h/,,,,,,,,\"a=b,\"\"c&run=x\",\n"
        );
    }

    #[test]
    fn outputs_are_read() {
        let read = |text| Output::parse(text).map(|output| (output.form, output.name()));
        assert_eq!(read("json=a=b"), Some((Form::Json, "a=b".to_owned())));
        assert_eq!(read("json"), Some((Form::Json, "standard output".to_owned())));
        assert_eq!(read("csv"), Some((Form::Csv, "file.csv".to_owned())));
        assert_eq!(read("csv=-"), Some((Form::Csv, "standard output".to_owned())));
        assert_eq!(read("influxdb=http://h"), None);
    }

    proptest! {
        #[test]
        fn lines_are_json_and_csv_of_one_row(name in ".{1,8}", value in ".{0,12}", number in -1e9..1e9f64) {
            let tags = [(name.clone(), value.clone())];
            let read: serde_json::Value = serde_json::from_str(&written(Form::Json, number, &tags)).expect("JSON");
            prop_assert_eq!(read["data"]["tags"][&name].as_str(), Some(value.as_str()));
            prop_assert_eq!(read["data"]["value"].as_f64(), Some(number));
            let row = written(Form::Csv, number, &tags);
            let quotes = row.matches('"').count();
            prop_assert!(quotes.is_multiple_of(2));
            // Lines' ends stand within quotes alone, but for the last.
            let outside = row.split('"').step_by(2).map(|part| part.matches('\n').count()).sum::<usize>();
            prop_assert_eq!(outside, 1);
        }
    }
}
