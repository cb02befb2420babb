//! A text that fits a regular expression.

use regex::RegexBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// The longest text.
const LENGTH_MAX: usize = 1000;
/// The most parts of the expression that are written.
const PARTS_MAX: u32 = 20_000;
/// The deepest expression.
const DEPTH_MAX: u32 = 64;

/// A short text that fits an expression; none where the expression is not known, or is of a kind for which none is
/// found.
pub(super) fn fitting(pattern: &str, least: usize) -> Option<String> {
    let hir = regex_syntax::ParserBuilder::new().nest_limit(DEPTH_MAX).build().parse(pattern).ok()?;
    let regex = RegexBuilder::new(pattern).size_limit(1 << 20).build().ok()?;
    // Repetitions are made as short as they may be, and longer where the text is to be longer.
    (0..=least.min(64)).find_map(|more| {
        let mut text = String::new();
        write(&hir, more as u32, &mut Written { text: &mut text, left: PARTS_MAX })?;
        (text.chars().count() >= least && regex.is_match(&text)).then_some(text)
    })
}

/// What is written, and how many parts of the expression may follow.
struct Written<'t> {
    text: &'t mut String,
    left: u32,
}

fn write(hir: &Hir, more: u32, out: &mut Written<'_>) -> Option<()> {
    out.left = out.left.checked_sub(1)?;
    if out.text.len() > LENGTH_MAX {
        return None;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.text.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(Class::Unicode(class)) => {
            out.text.push(letter(class.ranges().iter().map(|range| (range.start(), range.end())))?);
        }
        HirKind::Class(Class::Bytes(class)) => {
            out.text.push(letter(class.ranges().iter().map(|range| (range.start().into(), range.end().into())))?);
        }
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(u32::MAX);
            for _ in 0..repetition.min.saturating_add(more).min(most) {
                write(&repetition.sub, more, out)?;
            }
        }
        HirKind::Capture(capture) => write(&capture.sub, more, out)?,
        HirKind::Concat(all) => all.iter().try_for_each(|one| write(one, more, out))?,
        HirKind::Alternation(ways) => write(ways.first()?, more, out)?,
    }
    Some(())
}

/// A letter of a class: one that is easy to read, if it has one.
fn letter(mut ranges: impl Iterator<Item = (char, char)> + Clone) -> Option<char> {
    let has = |letter: &char| ranges.clone().any(|(from, to)| (from..=to).contains(letter));
    ['a', 'A', '1', '0'].into_iter().find(has).or_else(|| ranges.next().map(|(from, _)| from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_fit() {
        for (pattern, least, text) in
            [("^[A-Z]{3}-\\d+$", 0, "AAA-1"), ("^(cat|dog)s?$", 0, "cat"), ("^a+$", 4, "aaaa"), ("x.*y", 0, "xy")]
        {
            assert_eq!(fitting(pattern, least).as_deref(), Some(text), "{pattern}");
        }
        assert_eq!(fitting("^a$", 2), None);
        assert_eq!(fitting("(?=a)b", 0), None);
        assert_eq!(fitting("(((a{1000}){1000}){1000})", 0), None);
    }

    proptest! {
        #[test]
        fn what_is_found_fits(pattern in "[a-c\\[\\]()|*+?^$\\\\d{}0-3.]{0,14}", least in 0usize..6) {
            if let Some(text) = fitting(&pattern, least) {
                let regex = regex::Regex::new(&pattern);
                prop_assert!(regex.is_ok_and(|regex| regex.is_match(&text)), "{} {}", pattern, text);
            }
        }
    }
}
