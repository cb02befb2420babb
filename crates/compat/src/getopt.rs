//! Short options by the rules of APR's `apr_getopt`, and numbers by those of C's `atoi`.

/// What one step through the arguments gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// An option, with its value if it takes one.
    Option(char, Option<String>),
    /// An option that does not exist.
    Unknown(char),
    /// The last argument is an option that lacks its value.
    Incomplete(char),
    /// The options are over.
    End,
}

/// A walk through arguments: options may be bundled (`-kq`), a value may follow at once (`-n5`) or be the next word.
#[derive(Debug)]
pub(crate) struct Getopt<'a> {
    words: &'a [String],
    /// The options, each followed by a colon if it takes a value.
    known: &'static str,
    /// The word that is looked at.
    index: usize,
    /// The place within it; 0 = at its begin.
    at: usize,
}

impl<'a> Getopt<'a> {
    pub(crate) fn new(words: &'a [String], known: &'static str) -> Self {
        Self { words, known, index: 0, at: 0 }
    }

    /// Goes on to the next option.
    ///
    /// As in APR the first word that is no option ends them, and so does a word that begins with two dashes.
    pub(crate) fn step(&mut self) -> Step {
        let Some(word) = self.words.get(self.index) else { return Step::End };
        if self.at == 0 {
            if !word.starts_with('-') || word.len() == 1 {
                return Step::End;
            }
            if word.starts_with("--") {
                self.index += 1;
                return Step::End;
            }
            self.at = 1;
        }
        let Some(option) = word[self.at..].chars().next() else { return Step::End };
        self.at += option.len_utf8();
        let rest = &word[self.at..];
        let known = (option != ':').then(|| self.known.find(option)).flatten();
        let takes_value = known.is_some_and(|place| self.known[place + option.len_utf8()..].starts_with(':'));
        if !takes_value {
            if rest.is_empty() {
                (self.index, self.at) = (self.index + 1, 0);
            }
            return if known.is_some() { Step::Option(option, None) } else { Step::Unknown(option) };
        }
        (self.index, self.at) = (self.index + 1, 0);
        if !rest.is_empty() {
            return Step::Option(option, Some(rest.to_owned()));
        }
        match self.words.get(self.index) {
            Some(value) => {
                self.index += 1;
                Step::Option(option, Some(value.clone()))
            }
            None => Step::Incomplete(option),
        }
    }

    /// The words that are no options.
    pub(crate) fn rest(&self) -> &'a [String] {
        // In a word of several options, of which one is not known, the walk stands within that word.
        &self.words[self.index.min(self.words.len())..]
    }
}

/// The number that a text begins with, 0 if it begins with none; beyond 32 bits it stays at the end of them.
pub(crate) fn atoi(text: &str) -> i32 {
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.bytes().take_while(u8::is_ascii_digit);
    let number = digits.fold(0i64, |number, digit| (number * 10 + i64::from(digit - b'0')).min(1 << 40));
    let number = if negative { -number } else { number };
    i32::try_from(number).unwrap_or(if negative { i32::MIN } else { i32::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn walk(line: &str) -> (Vec<Step>, Vec<String>) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let mut options = Getopt::new(&words, "n:c:kqH:");
        let mut steps = Vec::new();
        loop {
            match options.step() {
                Step::End => break,
                step => steps.push(step),
            }
        }
        (steps, options.rest().to_vec())
    }

    fn with(option: char, value: &str) -> Step {
        Step::Option(option, Some(value.to_owned()))
    }

    #[test]
    fn options_are_bundled_and_values_follow_either_way() {
        let (k, q) = (Step::Option('k', None), Step::Option('q', None));
        let rest = vec!["http://h/".to_owned()];
        assert_eq!(walk("-kqn5 -c 10 http://h/"), (vec![k.clone(), q, with('n', "5"), with('c', "10")], rest.clone()));
        // What looks like an option is a value where one is due.
        assert_eq!(walk("-H -k http://h/"), (vec![with('H', "-k")], rest));
        assert_eq!(walk("-k - x"), (vec![k.clone()], vec!["-".to_owned(), "x".to_owned()]));
        assert_eq!(walk("http://h/ -k").1.len(), 2, "what follows the first operand is no option");
        assert_eq!(walk("-k -- -q"), (vec![k], vec!["-q".to_owned()]));
    }

    #[test]
    fn mistakes_are_told_apart() {
        assert_eq!(walk("-x").0, [Step::Unknown('x')]);
        assert_eq!(walk("-n").0, [Step::Incomplete('n')]);
        assert_eq!(walk("-:").0, [Step::Unknown(':')]);
    }

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, number) in
            [("12", 12), (" +7x", 7), ("-3", -3), ("x", 0), ("", 0), ("99999999999999999999", i32::MAX), ("0x10", 0)]
        {
            assert_eq!(atoi(text), number, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_words_are_walked_to_their_end(words in proptest::collection::vec("-{0,2}[a-zé:]{0,4}", 0..8)) {
            let mut options = Getopt::new(&words, "n:c:kqH:é:");
            let letters: usize = words.iter().map(|word| word.chars().count()).sum();
            let steps = std::iter::from_fn(|| (options.step() != Step::End).then_some(())).take(letters + 1).count();
            prop_assert!(steps <= letters, "each step takes a letter");
            prop_assert!(options.rest().len() <= words.len());
        }

        #[test]
        fn a_bundle_is_the_same_as_single_options(number in 0i32..1_000_000, k: bool) {
            let line = |bundled: bool| if bundled {
                format!("-q{}n{number} u", if k { "k" } else { "" })
            } else {
                format!("-q {} -n {number} u", if k { "-k" } else { "" })
            };
            prop_assert_eq!(walk(&line(true)), walk(&line(false)));
            prop_assert_eq!(atoi(&number.to_string()), number);
        }
    }
}
