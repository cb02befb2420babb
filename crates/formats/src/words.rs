//! Places of words in a line of text, by bytes: the searches of `str` for several characters set up tables at each call,
//! which costs more than the line.

use std::borrow::Cow;

/// A line as text; what is none is replaced.
pub(crate) fn text(line: &[u8]) -> Cow<'_, str> {
    // Nearly all lines are text, which this finds out faster.
    std::str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed)
}

/// What stands before the first place of a word, and behind it; the word's byte at `rare` is looked for.
pub(crate) fn split_once<'a>(text: &'a str, word: &str, rare: usize) -> Option<(&'a str, &'a str)> {
    let (bytes, word) = (text.as_bytes(), word.as_bytes());
    let places = memchr::memchr_iter(word[rare], bytes).filter_map(|at| at.checked_sub(rare));
    let begin = places.into_iter().find(|begin| bytes[*begin..].starts_with(word))?;
    Some((&text[..begin], &text[begin + word.len()..]))
}

/// The last place of a key that begins with a blank.
pub(crate) fn last(text: &str, key: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    memchr::memrchr_iter(b' ', bytes).find(|at| bytes[*at..].starts_with(key.as_bytes()))
}

/// A text without the blanks at its begin.
pub(crate) fn trim_start(text: &str) -> &str {
    let blanks = text.bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &text[blanks..]
}

/// What stands before the last blank, and behind it.
pub(crate) fn split_last(text: &str) -> Option<(&str, &str)> {
    let at = memchr::memrchr2(b' ', b'\t', text.as_bytes())?;
    Some((&text[..at], &text[at + 1..]))
}

/// A number of digits alone, as far as numbers of tasks and CPUs go.
pub(crate) fn digits(text: &str) -> Option<u64> {
    if text.is_empty() || text.len() > 10 {
        return None;
    }
    text.bytes().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_are_found_where_str_finds_them(text in "[ab:=> ]{0,30}", long in ".{0,20}") {
            prop_assert_eq!(split_once(&text, " ==> ", 3), text.split_once(" ==> "));
            prop_assert_eq!(split_once(&text, ": ", 0), text.split_once(": "));
            prop_assert_eq!(last(&text, " a="), text.rfind(" a="));
            prop_assert_eq!(split_last(&text), text.rsplit_once(' '));
            prop_assert_eq!(trim_start(&text), text.trim_start());
            prop_assert_eq!(split_once(&long, ": ", 0), long.split_once(": "));
        }

        #[test]
        fn digits_are_numbers(number in 0u64..10_000_000_000, text in "[0-9x+]{0,12}") {
            prop_assert_eq!(digits(&number.to_string()), Some(number));
            let is_one = !text.is_empty() && text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit());
            prop_assert_eq!(digits(&text).is_some(), is_one);
        }
    }
}
