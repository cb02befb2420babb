//! What a translation tells beside the file that it makes.

use crate::Imported;
use crate::directive::Directive;
use crate::document::Document;
use crate::kind::Kind;
use crate::loss::{Idle, Loss};
use crate::place::Place;

/// Losses that are told one by one.
const LOSSES_MAX: usize = 10_000;

/// Collects losses, and directives that weir does without.
#[derive(Debug, Default)]
pub(crate) struct Report {
    losses: Vec<Loss>,
    idle: Vec<Idle>,
}

impl Report {
    /// A directive, or a part of one, is lost.
    pub(crate) fn lost(&mut self, of: &Directive, what: impl Into<String>, remedy: impl Into<String>) {
        of.told();
        self.lost_at(&of.place, what, remedy, false);
    }

    /// A directive that keeps clients away is lost; the written file refuses in its place.
    pub(crate) fn refused(&mut self, of: &Directive, what: impl Into<String>, remedy: impl Into<String>) {
        of.told();
        self.lost_at(&of.place, what, remedy, true);
    }

    fn lost_at(&mut self, place: &Place, what: impl Into<String>, remedy: impl Into<String>, is_refused: bool) {
        if self.losses.len() < LOSSES_MAX {
            let loss = Loss { place: place.clone(), what: what.into(), remedy: remedy.into(), is_refused };
            if !self.losses.contains(&loss) {
                self.losses.push(loss);
            }
        }
    }

    /// weir does without a directive, or does what it says by itself.
    pub(crate) fn idle(&mut self, of: &Directive) {
        if !of.is_told() {
            self.idle.push(Idle { place: of.place.clone(), name: of.name.clone() });
        }
        of.told();
    }

    /// The text, with all that is told in comments at its head.
    pub(crate) fn finish(mut self, document: &Document, name: &str, kind: Kind) -> Imported {
        self.losses.sort_by(|one, other| one.place.cmp(&other.place));
        let mut head =
            vec![format!("Made by `weir import` from {name} ({kind})."), "weir check looks at it.".to_owned()];
        if !self.losses.is_empty() {
            head.push(String::new());
            head.push(format!("NOT CARRIED OVER ({}):", self.losses.len()));
            head.extend(self.losses.iter().map(|loss| format!("- {loss}")));
        }
        if !self.idle.is_empty() {
            head.push(String::new());
            head.push("What weir does by itself, or does without:".to_owned());
            head.extend(self.idle_lines());
        }
        let beside = document.beside.clone();
        Imported { text: document.text(&head), beside, losses: self.losses, idle: self.idle }
    }

    /// The names, each with its places.
    fn idle_lines(&self) -> Vec<String> {
        let mut names: Vec<&str> = self.idle.iter().map(|idle| idle.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let line = |name: &&str| {
            let of_name = self.idle.iter().filter(|idle| idle.name == *name);
            let places: Vec<String> =
                of_name.take(8).map(|idle| format!("{}:{}", idle.place.file, idle.place.line)).collect();
            format!("- {name} ({})", places.join(", "))
        };
        names.iter().map(line).collect()
    }
}
