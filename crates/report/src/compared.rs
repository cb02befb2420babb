//! What an experiment found, as its page shows it.

use weir_measure::comparison::{Estimate, Verdict};
use weir_measure::part::Part;

/// An experiment in figures and words.
#[derive(Debug, Clone, Default)]
pub struct Compared {
    /// What was held against what.
    pub subject: String,
    /// The verdict in a sentence.
    pub answer: String,
    /// What makes the figures mean something else than they seem to.
    pub warnings: Vec<String>,
    /// Case by case.
    pub cases: Vec<ComparedCase>,
    /// How it went in results before this one; empty where none are kept.
    pub history: Vec<ComparedSeries>,
    /// What the history says, in sentences.
    pub history_words: Vec<String>,
    /// What it rests on: names and texts.
    pub evidence: Vec<(String, String)>,
    /// Commands, by what they do.
    pub commands: Vec<(String, String)>,
}

/// One case.
#[derive(Debug, Clone, Default)]
pub struct ComparedCase {
    /// Its name; empty where there is but one.
    pub name: String,
    /// How it was measured, in words.
    pub manner: String,
    /// The one that the others are held against.
    pub baseline: String,
    /// The smallest difference that interests, as a fraction.
    pub smallest_effect: f64,
    /// Each metric of each other subject, subject by subject.
    pub results: Vec<ComparedResult>,
    /// Why a subject is better or worse, as far as that is known: its name, and sentences.
    pub why: Vec<(String, Vec<String>)>,
    /// All subjects, the baseline first.
    pub subjects: Vec<ComparedSubject>,
    /// What each subject did and used: a name and a value for each of the subjects.
    pub facts: Vec<(String, Vec<String>)>,
}

/// A metric of a subject against the baseline.
#[derive(Debug, Clone)]
pub struct ComparedResult {
    /// Whose.
    pub subject: String,
    /// What was measured, such as `CPU per request`.
    pub metric: String,
    /// The baseline's median, with its unit.
    pub baseline_value: String,
    /// The subject's.
    pub value: String,
    /// The median of the ratios with its interval.
    pub ratio: Option<Estimate>,
    /// The same of the baseline against itself.
    pub noise: Option<Estimate>,
    /// What can be said.
    pub verdict: Verdict,
    /// The same in words.
    pub words: String,
    /// The probability that chance does as much, corrected for all comparisons.
    pub chance: Option<f64>,
    /// The smallest difference that so many blocks would have shown about eight times of ten, as a fraction.
    pub smallest_found: Option<f64>,
    /// The ratio of each block that has one: the block's number from 1, and the subject over the baseline.
    pub ratios: Vec<(usize, f64)>,
    /// The same of the baseline against itself.
    pub repeated: Vec<(usize, f64)>,
}

/// A subject of a case.
#[derive(Debug, Clone, Default)]
pub struct ComparedSubject {
    /// Its name.
    pub name: String,
    /// Requests that the curve tells of.
    pub requests: u64,
    /// Pairs of a percentile (0 to 100) and a time in nanoseconds, rising; empty where none is known.
    pub curve: Vec<(f64, f64)>,
    /// The means of the parts of its responses in nanoseconds, where they were observed.
    pub parts_ns: Option<[f64; Part::COUNT]>,
    /// From what to what a response counts there, in words, with how many there were.
    pub parts_words: String,
}

/// A figure over the results of a history.
#[derive(Debug, Clone, Default)]
pub struct ComparedSeries {
    /// Which figure of what.
    pub name: String,
    /// What can be said, in words.
    pub words: String,
    /// Whether it is a ratio; else it is a time in nanoseconds.
    pub is_ratio: bool,
    /// Whether the level now is worse than the one before; `None` where there was no shift.
    pub is_worse: Option<bool>,
    /// Results in the order of their times.
    pub points: Vec<ComparedPoint>,
}

/// A result of a history.
#[derive(Debug, Clone, Default)]
pub struct ComparedPoint {
    /// When, and by which label.
    pub label: String,
    /// Its value.
    pub value: f64,
    /// The same with its unit.
    pub shown: String,
    /// The level that it belongs to: the median between two shifts.
    pub level: f64,
    /// Whether a new level begins with it.
    pub begins: bool,
}
