//! Marks in the output of a persistent script: strings that end a response, or stand around a callout.

use memchr::memmem;

/// A mark.
#[derive(Debug, Clone)]
pub(crate) struct Sentinel {
    text: Vec<u8>,
    finder: memmem::Finder<'static>,
}

/// Where a mark is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It begins at this byte.
    Whole(usize),
    /// It may begin at this byte, and more has to come.
    Part(usize),
    /// It is not there, and no part of it.
    No,
}

impl Sentinel {
    /// A mark of this text, which is not empty.
    pub(crate) fn new(text: &[u8]) -> Self {
        Self { text: text.to_owned(), finder: memmem::Finder::new(text).into_owned() }
    }

    /// Its text.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Looks for it in some bytes.
    pub(crate) fn find(&self, bytes: &[u8]) -> Found {
        if let Some(at) = self.finder.find(bytes) {
            return Found::Whole(at);
        }
        let from = bytes.len().saturating_sub(self.text.len() - 1);
        let starts = memchr::memchr_iter(self.text[0], &bytes[from..]).map(|at| from + at);
        starts.into_iter().find(|&at| self.text.starts_with(&bytes[at..])).map_or(Found::No, Found::Part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_mark_and_parts_of_it_are_found() {
        let mark = Sentinel::new(b"$ab$ac$");
        assert_eq!(mark.find(b"x$ab$ac$y"), Found::Whole(1));
        assert_eq!(mark.find(b"x$ab$ab$ac"), Found::Part(4));
        assert_eq!(mark.find(b"x$ab$"), Found::Part(1));
        assert_eq!(mark.find(b"x$"), Found::Part(1));
        assert_eq!(mark.find(b"x$b"), Found::No);
        assert_eq!(mark.find(b""), Found::No);
    }

    proptest! {
        #[test]
        fn output_in_pieces_is_what_stands_before_the_mark(
            text in "[$ab]{0,60}",
            pieces in prop::collection::vec(1_usize..6, 1..40),
        ) {
            let mark = Sentinel::new(b"$ab$b$");
            let mut all = text.into_bytes();
            all.extend_from_slice(b"$ab$b$");
            let expected = memmem::find(&all, b"$ab$b$").expect("it is there");
            let (mut held, mut passed, mut at) = (Vec::new(), 0, 0);
            let mut pieces = pieces.into_iter().cycle();
            let end = loop {
                let until = (at + pieces.next().expect("a length")).min(all.len());
                held.extend_from_slice(&all[at..until]);
                at = until;
                match mark.find(&held) {
                    Found::Whole(place) => break passed + place,
                    Found::Part(place) => { passed += place; held.drain(..place); }
                    Found::No => { passed += held.len(); held.clear(); }
                }
                prop_assert!(at < all.len());
            };
            prop_assert_eq!(end, expected);
        }
    }
}
