//! Variables and functions: `${name}`, `${__P(name,default)}`.

use crate::jmeter::element::Element;
use crate::model::{Plan, Text, name_of};
use crate::report::Report;
use crate::wanted::Wanted;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// How often values that hold variables are looked into.
const DEPTH_MAX: usize = 10;
/// The longest value.
const LENGTH_MAX: usize = 1 << 20;

/// Where the value of a variable comes from.
#[derive(Debug, Clone)]
enum Origin {
    /// It is defined, in this line.
    Defined(usize, String),
    /// A column of a file has it: as a scenario names it.
    Column(String),
    /// An answer has it.
    Answer,
}

/// The variables of a plan.
#[derive(Debug)]
pub(super) struct Names<'w> {
    known: BTreeMap<String, Origin>,
    wanted: &'w Wanted,
    used: RefCell<BTreeSet<String>>,
}

/// A variable without a value, or a function that is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("${{{name}}} has no value here")]
pub(super) struct Unknown {
    pub(super) name: String,
}

impl<'w> Names<'w> {
    /// Collects those of a plan: variables that are defined, columns of files, and what is taken of answers.
    pub(super) fn read(tree: Element<'_>, wanted: &'w Wanted) -> Self {
        let mut known = BTreeMap::new();
        collect(tree, &mut known);
        known.extend(wanted.set.iter().map(|(name, value)| (name.clone(), Origin::Defined(1, value.clone()))));
        Self { known, wanted, used: RefCell::default() }
    }

    /// A text in which variables are places for values.
    ///
    /// # Errors
    /// [`Unknown`].
    pub(super) fn text(&self, text: &str) -> Result<Text, Unknown> {
        let mut out = Text::default();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("${") {
            let Some((inner, after)) = reference(behind) else { break };
            out.push(before);
            self.put(inner, &mut out)?;
            rest = after;
        }
        out.push(rest);
        Ok(out)
    }

    fn put(&self, inner: &str, out: &mut Text) -> Result<(), Unknown> {
        match inner.trim() {
            "__UUID" | "__UUID()" => out.push_value("uuid"),
            "__threadNum" | "__threadNum()" => out.push_value("user"),
            name if name.starts_with("__") => match self.property(name) {
                Some(value) => out.push(&value),
                None => return Err(Unknown { name: inner.to_owned() }),
            },
            name => match self.known.get(name) {
                Some(Origin::Defined(..)) => {
                    self.used.borrow_mut().insert(name.to_owned());
                    out.push_value(&name_of(name));
                }
                Some(Origin::Column(column)) => {
                    self.used.borrow_mut().insert(name.to_owned());
                    out.push_value(column);
                }
                Some(Origin::Answer) => {
                    self.used.borrow_mut().insert(name.to_owned());
                    out.push_value(&name_of(name));
                }
                None => return Err(Unknown { name: name.to_owned() }),
            },
        }
        Ok(())
    }

    /// The value of `__P(name,default)` and `__property(name,variable,default)`: what the user sets, or the default.
    fn property(&self, call: &str) -> Option<String> {
        let (function, arguments) = call.strip_suffix(')')?.split_once('(')?;
        let arguments: Vec<&str> = arguments.split(',').map(str::trim).collect();
        let default = match function {
            "__P" => arguments.get(1),
            "__property" => arguments.get(2),
            _ => return None,
        };
        let set = self.wanted.set.get(*arguments.first()?).map(String::as_str);
        set.or(default.copied()).map(str::to_owned)
    }

    /// A text with all values in it; none where one is only known in a run.
    pub(super) fn constant(&self, text: &str) -> Option<String> {
        self.whole(text, 0)
    }

    fn whole(&self, text: &str, depth: usize) -> Option<String> {
        if depth > DEPTH_MAX || text.len() > LENGTH_MAX {
            return None;
        }
        let (mut out, mut rest) = (String::new(), text);
        while let Some((before, behind)) = rest.split_once("${") {
            let Some((inner, after)) = reference(behind) else { break };
            out.push_str(before);
            match (inner.trim(), self.known.get(inner.trim())) {
                (name, _) if name.starts_with("__") => out.push_str(&self.property(name)?),
                (_, Some(Origin::Defined(_, value))) => out.push_str(&self.whole(value, depth + 1)?),
                _ => return None,
            }
            if out.len() > LENGTH_MAX {
                return None;
            }
            rest = after;
        }
        out.push_str(rest);
        Some(out)
    }

    /// A number of a text; none where it is none, or only known in a run.
    pub(super) fn number(&self, text: &str) -> Option<f64> {
        self.constant(text)?.trim().parse::<f64>().ok().filter(|number| number.is_finite())
    }

    /// The variables that the steps use, with their values.
    pub(super) fn into_plan(self, plan: &mut Plan, report: &Report) {
        let mut taken = BTreeSet::new();
        plan.steps()
            .for_each(|step| step.each(&mut |ask| taken.extend(ask.takes.iter().map(|take| take.name.clone()))));
        for name in self.used.borrow().iter() {
            let (own, value) = match self.known.get(name) {
                Some(Origin::Defined(line, value)) => {
                    let whole = self.whole(value, 0);
                    if whole.is_none() {
                        let what = format!("the variable {name} is made of what is only known in a run ({value})");
                        report.lost(*line, what, format!("give --set {name}=VALUE; it is empty now"));
                    }
                    (name_of(name), whole.unwrap_or_default())
                }
                Some(Origin::Column(column))
                    if plan.data.iter().all(|data| !column.starts_with(&format!("{}.", data.name))) =>
                {
                    (column.clone(), String::new())
                }
                Some(Origin::Answer) if !taken.contains(&name_of(name)) => {
                    let what = format!("the variable {name} is taken by no request that is carried over");
                    report.lost(1, what, format!("give --set {name}=VALUE; it is empty now"));
                    (name_of(name), String::new())
                }
                _ => continue,
            };
            if !plan.vars.iter().any(|(other, _)| *other == own) {
                plan.vars.push((own, value));
            }
        }
    }
}

/// Collects the names that a part and the parts below it give values.
fn collect(tree: Element<'_>, known: &mut BTreeMap<String, Origin>) {
    for (element, below) in tree.pairs() {
        for argument in element.descendants() {
            if argument.node.attribute("elementType") == Some("Argument") {
                let origin = Origin::Defined(argument.line(), argument.value("Argument.value").to_owned());
                known.entry(argument.value("Argument.name").trim().to_owned()).or_insert(origin);
            }
        }
        if element.kind() == "CSVDataSet" {
            let data = data_name(element);
            for column in columns(element) {
                let own = format!("{data}.{}", name_of(&column));
                known.insert(column, Origin::Column(own));
            }
        }
        for name in extracted(element) {
            known.insert(name, Origin::Answer);
        }
        if let Some(below) = below {
            collect(below, known);
        }
    }
}

/// What stands within `${ }`, with further ones in it, and what follows.
fn reference(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
    }
    None
}

/// The name of a file of values in the scenario: that of the file, with its line.
pub(super) fn data_name(element: Element<'_>) -> String {
    let file = element.value("filename").rsplit(['/', '\\']).next().unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default();
    let fits = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let stem: String = stem.chars().take(40).map(fits).collect();
    format!("{}{}", if stem.is_empty() { "data" } else { &stem }, element.line())
}

/// The columns that a set of CSV data names.
pub(super) fn columns(element: Element<'_>) -> Vec<String> {
    let names = element.value("variableNames").split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The names that an extractor gives values.
pub(super) fn extracted(element: Element<'_>) -> Vec<String> {
    let text = match element.kind() {
        "RegexExtractor" => element.value("RegexExtractor.refname"),
        "BoundaryExtractor" => element.value("BoundaryExtractor.refname"),
        "HtmlExtractor" => element.value("HtmlExtractor.refname"),
        "JSONPostProcessor" => element.value("JSONPostProcessor.referenceNames"),
        _ => return Vec::new(),
    };
    text.split(';').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
