//! Text of others, and figures, in markup.

use crate::units::{is_unsafe, join_units, nanoseconds, percent};

/// Characters of one text; what is longer is no name or sentence any more, and its end is left out.
const MOST_TEXT: usize = 4000;

/// Text that markup cannot come out of, in elements and in quoted attributes alike.
///
/// The measured programs choose names of tasks, URLs and messages, so all text passes here.
/// A unit stays on the line of its figure.
pub(super) fn escaped(text: &str) -> String {
    let mut markup = String::with_capacity(text.len().min(MOST_TEXT));
    for character in join_units(text).chars().take(MOST_TEXT) {
        match character {
            '&' => markup.push_str("&amp;"),
            '<' => markup.push_str("&lt;"),
            '>' => markup.push_str("&gt;"),
            '"' => markup.push_str("&quot;"),
            '\'' => markup.push_str("&#39;"),
            character if is_unsafe(character) => markup.push('\u{fffd}'),
            character => markup.push(character),
        }
    }
    markup
}

/// A time whose unit stays with its figure.
pub(super) fn time(ns: f64) -> String {
    unbroken(&nanoseconds(ns))
}

/// A share whose per cent sign stays with its figure.
pub(super) fn part_of(share: f64) -> String {
    escaped(&percent(share))
}

/// Our own short text on one line.
pub(super) fn unbroken(text: &str) -> String {
    escaped(text).replace(' ', "\u{a0}")
}

/// Text of others as far as a page has room for one: the beginning, with dots where some is left out.
pub(super) fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return escaped(text);
    }
    let beginning: String = text.chars().take(most.saturating_sub(1)).collect();
    escaped(&beginning) + "\u{2026}"
}

/// A place or a length in per cent of the whole, as CSS and SVG write it.
pub(super) fn extent(share: f64) -> String {
    per_cent(share, 3)
}

/// The same with digits enough to zoom in by a factor of thousands.
pub(super) fn fraction(share: f64) -> String {
    per_cent(share, 6)
}

fn per_cent(share: f64, decimals: usize) -> String {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let mut text = format!("{:.decimals$}", 100.0 * share);
    text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    text.push('%');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_out_of_text() {
        assert_eq!(
            escaped("<a b='c' d=\"e\">&\x1b\u{202e}"),
            "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;\u{fffd}\u{fffd}"
        );
        assert_eq!(escaped("58 % of it"), "58\u{a0}% of it");
        assert_eq!(time(1.5e6), "1.50\u{a0}ms");
    }

    #[test]
    fn extents_stay_within_the_whole() {
        assert_eq!(extent(0.5), "50%");
        assert_eq!(extent(1.0 / 3.0), "33.333%");
        assert_eq!(extent(f64::NAN), "0%");
        assert_eq!(extent(7.0), "100%");
        assert_eq!(fraction(1.0 / 3.0), "33.333333%");
    }
}
