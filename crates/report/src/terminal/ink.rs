//! What a terminal's style adds to text: nothing without colours.

use crate::html::palette::{Colour, of_256};
use weir_measure::part::Part;

/// How text is marked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ink {
    /// Whether the terminal wants colours.
    pub(super) colours: bool,
}

impl Ink {
    pub(super) fn bold(self, text: &str) -> String {
        self.wrapped("1", text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.wrapped("2", text)
    }

    pub(super) fn alarm(self, text: &str) -> String {
        self.wrapped("1;31", text)
    }

    pub(super) fn caution(self, text: &str) -> String {
        self.wrapped("33", text)
    }

    /// Text on the colour of a part.
    pub(super) fn on(self, part: Part, text: &str) -> String {
        let back = of_256(part);
        // The extremes of the 256 and not "black" and "white", whose look is the user's.
        let front = if Colour::named_256(back).takes_black() { 16 } else { 231 };
        self.wrapped(&format!("48;5;{back};38;5;{front}"), text)
    }

    /// Stands for a part beside its name: its colour, or its letter.
    pub(super) fn swatch(self, part: Part) -> String {
        if self.colours { self.on(part, " ") } else { letter(part).to_string() }
    }

    fn wrapped(self, code: &str, text: &str) -> String {
        if self.colours && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The character of a part where there are no colours.
pub(super) fn letter(part: Part) -> char {
    match part {
        Part::Generator => 'G',
        Part::Connect => '+',
        Part::RequestTransit => '>',
        Part::AcceptQueue => 'A',
        Part::WorkerQueue => 'Q',
        Part::Run => 'R',
        Part::WaitCpu => 'C',
        Part::WaitDisk => 'D',
        Part::WaitLock => 'L',
        Part::WaitProcess => 'P',
        Part::WaitNetwork => 'N',
        Part::WaitTimer => 'T',
        Part::Stopped => 'S',
        Part::ResponseTransit => '<',
        Part::ClientWakeup => 'W',
        Part::Unattributed => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_part_has_its_own_letter() {
        let letters: BTreeSet<char> = Part::ALL.into_iter().map(letter).collect();
        assert_eq!(letters.len(), Part::COUNT);
    }
}
