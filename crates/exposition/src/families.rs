//! A text that grows by families of samples.

use std::fmt::{Display, Write as _};

/// The name of the text format of Prometheus for itself, as a media type.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Families, each with its samples.
#[derive(Debug, Default)]
pub struct Families {
    text: String,
    format: Format,
}

/// In which form figures are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// The text format of Prometheus, 0.0.4.
    #[default]
    Text,
    /// OpenMetrics 1.0: buckets may have exemplars.
    OpenMetrics,
}

impl Format {
    /// The form that a scraper's field `Accept` asks for: OpenMetrics where it is named and not refused (`q=0`).
    #[must_use]
    pub fn accepted(accept: Option<&str>) -> Self {
        let is_asked = |range: &str| {
            let mut fields = range.split(';').map(str::trim);
            let named = fields.next().is_some_and(|name| name.eq_ignore_ascii_case("application/openmetrics-text"));
            let quality = fields.find_map(|field| field.strip_prefix("q=").or_else(|| field.strip_prefix("Q=")));
            named && quality.is_none_or(|quality| quality.trim().parse::<f64>().is_ok_and(|quality| quality > 0.0))
        };
        if accept.unwrap_or_default().split(',').any(is_asked) { Self::OpenMetrics } else { Self::Text }
    }

    /// Its name for itself, as a media type.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A value that a bucket of a histogram holds, and the span of a trace that it is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exemplar {
    /// The number of its trace.
    pub trace: u128,
    /// The number of its span.
    pub span: u64,
    /// The value, in the histogram's unit.
    pub value: f64,
    /// When it was, nanoseconds since 1970.
    pub unix_ns: u64,
}

/// What the samples of a family are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A count that only grows.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// Counts of values up to bounds, with their sum and number.
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Names of labels with their values.
pub type Labels<'l> = &'l [(&'l str, &'l str)];

impl Families {
    /// None yet, in the text format of Prometheus.
    pub fn new() -> Self {
        Self::default()
    }

    /// None yet, in a format.
    #[must_use]
    pub fn of(format: Format) -> Self {
        Self { text: String::new(), format }
    }

    /// Begins a family; its samples follow.
    pub fn begin(&mut self, name: &str, kind: Kind, help: &str) {
        let is_open = self.format == Format::OpenMetrics;
        // There a counter's family is named without the end that its samples have.
        let name = if is_open && kind == Kind::Counter { name.strip_suffix("_total").unwrap_or(name) } else { name };
        // Writing to memory does not fail, here and below.
        let _ = write!(self.text, "# HELP {name} ");
        self.escape(help, is_open);
        let _ = writeln!(self.text, "\n# TYPE {name} {}", kind.name());
    }

    /// A sample of the family that was begun.
    pub fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.value(name, labels, value);
        self.text.push('\n');
    }

    /// The same without the end of its line.
    fn value(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.text.push_str(name);
        for (number, (label, text)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"");
            self.escape(text, true);
            self.text.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = write!(self.text, "{end} {value}");
    }

    /// A family of one sample without labels.
    pub fn one(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.begin(name, kind, help);
        self.sample(name, &[], value);
    }

    /// A family with a sample for each value of one label.
    pub fn by<V: Display>(&mut self, name: &str, kind: Kind, help: &str, label: &str, samples: &[(&str, V)]) {
        self.begin(name, kind, help);
        for (value, count) in samples {
            self.sample(name, &[(label, value)], count);
        }
    }

    /// The samples of a histogram: how many values do not exceed each bound, in the order of the bounds, of which the last
    /// is infinite; and their sum.
    pub fn histogram(&mut self, name: &str, labels: Labels<'_>, below: impl IntoIterator<Item = (f64, u64)>, sum: f64) {
        self.exemplified(name, labels, below.into_iter().map(|(bound, count)| (bound, count, None)), sum);
    }

    /// The same, each bucket with a value that it holds, where one is known; the text format of Prometheus leaves these
    /// out, as it has no form for them.
    pub fn exemplified(
        &mut self,
        name: &str,
        labels: Labels<'_>,
        below: impl IntoIterator<Item = (f64, u64, Option<Exemplar>)>,
        sum: f64,
    ) {
        let (bucket, mut all) = (format!("{name}_bucket"), 0);
        for (bound, count, exemplar) in below {
            let bound = self.bound(bound);
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.value(&bucket, &labels, count);
            if let Some(Exemplar { trace, span, value, unix_ns }) =
                exemplar.filter(|_| self.format == Format::OpenMetrics)
            {
                let (s, ms) = (unix_ns / 1_000_000_000, unix_ns / 1_000_000 % 1_000);
                let ids = format!("trace_id=\"{trace:032x}\",span_id=\"{span:016x}\"");
                let _ = write!(self.text, " # {{{ids}}} {value} {s}.{ms:03}");
            }
            self.text.push('\n');
            all = count;
        }
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, all);
    }

    /// A bound as a label: OpenMetrics wants its canonical form, which tells that it is no integer.
    fn bound(&self, bound: f64) -> String {
        match self.format {
            _ if !bound.is_finite() => "+Inf".to_owned(),
            Format::Text => bound.to_string(),
            Format::OpenMetrics => format!("{bound:?}"),
        }
    }

    /// The text.
    pub fn into_text(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    /// Adds a text with what stands for characters that would end it.
    fn escape(&mut self, text: &str, quoted: bool) {
        for letter in text.chars() {
            match letter {
                '\\' => self.text.push_str("\\\\"),
                '"' if quoted => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                _ => self.text.push(letter),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_quoted() {
        let mut out = Families::new();
        out.begin("a", Kind::Gauge, "A.");
        out.sample("a", &[("b", "x\"\\\ny"), ("c", "\u{e4}")], 1.5);
        assert_eq!(out.into_text(), "# HELP a A.\n# TYPE a gauge\na{b=\"x\\\"\\\\\\ny\",c=\"\u{e4}\"} 1.5\n");
    }

    #[test]
    fn openmetrics_has_exemplars_and_an_end() {
        let mut out = Families::of(Format::OpenMetrics);
        out.one("n_total", Kind::Counter, "A \"B\".", 3);
        out.begin("h", Kind::Histogram, "C.");
        let exemplar = Exemplar { trace: 0xabc, span: 0xdef, value: 0.75, unix_ns: 1_500_000_000_020_900_000 };
        out.exemplified("h", &[("x", "y")], [(1.0, 1, Some(exemplar)), (f64::INFINITY, 1, None)], 0.75);
        let lines = [
            "# HELP n A \\\"B\\\".",
            "# TYPE n counter",
            "n_total 3",
            "# HELP h C.",
            "# TYPE h histogram",
            "h_bucket{x=\"y\",le=\"1.0\"} 1 # {trace_id=\"00000000000000000000000000000abc\",span_id=\"0000000000000def\"} 0.75 1500000000.020",
            "h_bucket{x=\"y\",le=\"+Inf\"} 1",
            "h_sum{x=\"y\"} 0.75",
            "h_count{x=\"y\"} 1",
            "# EOF",
            "",
        ];
        assert_eq!(out.into_text(), lines.join("\n"));
        let mut plain = Families::new();
        plain.begin("h", Kind::Histogram, "C.");
        plain.exemplified("h", &[], [(f64::INFINITY, 1, Some(exemplar))], 0.75);
        assert!(!plain.into_text().contains("trace_id"));
    }

    #[test]
    fn openmetrics_is_told_to_those_who_ask_for_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::accepted(Some(prometheus)), Format::OpenMetrics);
        for text in [None, Some(""), Some("*/*"), Some("text/plain"), Some("application/openmetrics-text; q=0")] {
            assert_eq!(Format::accepted(text), Format::Text, "{text:?}");
        }
    }

    #[test]
    fn a_histogram_counts_what_its_last_bucket_does() {
        let mut out = Families::new();
        out.begin("h", Kind::Histogram, "A \\ B.");
        out.histogram("h", &[("x", "y")], [(0.5, 1), (f64::INFINITY, 3)], 2.5);
        let lines =
            "# HELP h A \\\\ B.\n# TYPE h histogram\nh_bucket{x=\"y\",le=\"0.5\"} 1\nh_bucket{x=\"y\",le=\"+Inf\"} 3\n";
        assert_eq!(out.into_text(), format!("{lines}h_sum{{x=\"y\"}} 2.5\nh_count{{x=\"y\"}} 3\n"));
    }
}
