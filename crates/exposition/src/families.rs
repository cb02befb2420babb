//! A text that grows by families of samples.

use std::fmt::{Display, Write as _};

/// Families, each with its samples.
#[derive(Debug, Default)]
pub struct Families(String);

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
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a family; its samples follow.
    pub fn begin(&mut self, name: &str, kind: Kind, help: &str) {
        // Writing to memory does not fail, here and below.
        let _ = write!(self.0, "# HELP {name} ");
        self.escape(help, false);
        let _ = writeln!(self.0, "\n# TYPE {name} {}", kind.name());
    }

    /// A sample of the family that was begun.
    pub fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.0.push_str(name);
        for (number, (label, text)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"");
            self.escape(text, true);
            self.0.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
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
        let (bucket, mut all) = (format!("{name}_bucket"), 0);
        for (bound, count) in below {
            let bound = if bound.is_finite() { bound.to_string() } else { "+Inf".to_owned() };
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.sample(&bucket, &labels, count);
            all = count;
        }
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, all);
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.0
    }

    /// Adds a text with what stands for characters that would end it.
    fn escape(&mut self, text: &str, quoted: bool) {
        for letter in text.chars() {
            match letter {
                '\\' => self.0.push_str("\\\\"),
                '"' if quoted => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                _ => self.0.push(letter),
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
    fn a_histogram_counts_what_its_last_bucket_does() {
        let mut out = Families::new();
        out.begin("h", Kind::Histogram, "A \\ B.");
        out.histogram("h", &[("x", "y")], [(0.5, 1), (f64::INFINITY, 3)], 2.5);
        let lines =
            "# HELP h A \\\\ B.\n# TYPE h histogram\nh_bucket{x=\"y\",le=\"0.5\"} 1\nh_bucket{x=\"y\",le=\"+Inf\"} 3\n";
        assert_eq!(out.into_text(), format!("{lines}h_sum{{x=\"y\"}} 2.5\nh_count{{x=\"y\"}} 3\n"));
    }
}
