//! A directive of a configuration, in any dialect: a name, arguments, perhaps a block.

use crate::place::Place;
use std::cell::Cell;

/// What has become of a directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// No translation has looked at it yet.
    Open,
    /// It is in the written file, or listed.
    Told,
}

/// A directive with its place.
#[derive(Debug, Clone)]
pub(crate) struct Directive {
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) block: Option<Vec<Directive>>,
    pub(crate) place: Place,
    pub(crate) fate: Cell<Fate>,
}

impl Directive {
    pub(crate) fn new(name: String, arguments: Vec<String>, block: Option<Vec<Self>>, place: Place) -> Self {
        Self { name, arguments, block, place, fate: Cell::new(Fate::Open) }
    }

    /// An argument, or an empty text.
    pub(crate) fn argument(&self, number: usize) -> &str {
        self.arguments.get(number).map_or("", String::as_str)
    }

    /// The directives of its block.
    pub(crate) fn children(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Says that the written file has it, or that it is listed.
    pub(crate) fn told(&self) {
        self.fate.set(Fate::Told);
    }

    pub(crate) fn is_told(&self) -> bool {
        self.fate.get() == Fate::Told
    }

    /// The directive as one line, for comments and losses; at most 100 letters.
    pub(crate) fn line(&self) -> String {
        let mut line = self.name.clone();
        for argument in &self.arguments {
            line.push(' ');
            line.push_str(argument);
        }
        let line: String = line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        if line.chars().count() > 100 { line.chars().take(97).chain("...".chars()).collect() } else { line }
    }
}
