//! Texts that steps refer to by number: files, locks, queries.

use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Texts that are told apart; what comes after is text 0.
const MOST_TEXTS: usize = 1 << 16;

/// The texts of a joiner; number 0 stands for all that there was no room for.
#[derive(Debug)]
pub(crate) struct Texts {
    by_number: Vec<Arc<str>>,
    numbers: FxHashMap<Arc<str>, u32>,
    /// A text about a task has one number for each task, by the text's own number: threads of a process read alike.
    about: FxHashMap<(u32, u32), u32>,
    /// The task that a text is about, by its number.
    tasks: FxHashMap<u32, u32>,
}

impl Default for Texts {
    fn default() -> Self {
        Self {
            by_number: vec![Arc::from("(others)")],
            numbers: FxHashMap::default(),
            about: FxHashMap::default(),
            tasks: FxHashMap::default(),
        }
    }
}

impl Texts {
    /// The number of a text, the same for equal texts.
    pub(crate) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        if self.by_number.len() >= MOST_TEXTS {
            return 0;
        }
        let (text, number) = (Arc::<str>::from(text), self.by_number.len() as u32);
        self.by_number.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    /// The number of a text about a task, the same for equal texts about the same one.
    pub(crate) fn number_about(&mut self, text: &str, task: u32) -> u32 {
        let own = self.number(text);
        if own == 0 {
            return own;
        }
        if let Some(number) = self.about.get(&(own, task)) {
            return *number;
        }
        if self.by_number.len() >= MOST_TEXTS {
            return own;
        }
        let number = self.by_number.len() as u32;
        self.by_number.push(Arc::clone(&self.by_number[own as usize]));
        self.about.insert((own, task), number);
        self.tasks.insert(number, task);
        number
    }

    /// The task that a text is about, where it is about one.
    pub(crate) fn task(&self, number: u32) -> Option<u32> {
        self.tasks.get(&number).copied()
    }

    /// The text of a number.
    pub(crate) fn text(&self, number: u32) -> &str {
        self.by_number.get(number as usize).map_or("(others)", |text| text)
    }

    /// How many there are.
    pub(crate) fn held(&self) -> usize {
        self.by_number.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_about_two_tasks_has_two_numbers_and_reads_the_same() {
        let mut texts = Texts::default();
        let [plain, first, second] =
            [texts.number("a lock"), texts.number_about("a lock", 7), texts.number_about("a lock", 8)];
        assert_eq!([plain, first, second].map(|number| texts.task(number)), [None, Some(7), Some(8)]);
        assert!([plain, first, second].iter().all(|number| texts.text(*number) == "a lock"));
        assert_eq!(texts.number_about("a lock", 7), first);
        for number in 0..2 * MOST_TEXTS as u32 {
            texts.number_about("a lock", number);
        }
        let late = texts.number_about("a lock", u32::MAX);
        assert_eq!((texts.held(), texts.task(late)), (MOST_TEXTS - 1, None));
    }

    #[test]
    fn equal_texts_have_one_number_and_the_room_is_bounded() {
        let mut texts = Texts::default();
        let first = texts.number("/var/lock/a");
        assert_eq!((texts.number("/var/lock/a"), texts.text(first)), (first, "/var/lock/a"));
        for number in 0..2 * MOST_TEXTS {
            texts.number(&number.to_string());
        }
        assert_eq!(texts.held(), MOST_TEXTS - 1);
        assert_eq!((texts.number("one too many"), texts.text(0)), (0, "(others)"));
    }
}
