//! Small plots in one line of characters.

/// Heights that a character can show, from the lowest.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The same where the terminal has no other characters.
const PLAIN: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// A character for each value, from 0 to `top`; what is not known is a space.
pub(super) fn blocks(values: &[Option<f64>], top: f64) -> String {
    let heights = if speaks_utf8() { BLOCKS } else { PLAIN };
    values
        .iter()
        .map(|value| match value {
            Some(value) if top > 0.0 => {
                let share = (value / top).clamp(0.0, 1.0);
                heights[((share * heights.len() as f64).ceil() as usize).saturating_sub(1).min(heights.len() - 1)]
            }
            Some(_) => heights[0],
            None => ' ',
        })
        .collect()
}

/// At most so many values: the largest of each group of neighbours.
pub(super) fn condensed(values: &[Option<f64>], columns: usize) -> Vec<Option<f64>> {
    let each = values.len().div_ceil(columns.max(1)).max(1);
    let largest = |group: &[Option<f64>]| group.iter().flatten().copied().reduce(f64::max);
    values.chunks(each).map(largest).collect()
}

/// The largest value that is known, 0 where none is.
pub(super) fn top(values: &[Option<f64>]) -> f64 {
    values.iter().flatten().copied().fold(0.0, f64::max)
}

/// Whether the user's language settings say UTF-8: the first of these that is set decides.
fn speaks_utf8() -> bool {
    let named = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    named.is_some_and(|name| {
        let name = name.to_ascii_lowercase();
        name.contains("utf-8") || name.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_are_shares_of_the_top() {
        let plot = blocks(&[Some(0.0), Some(50.0), None, Some(100.0), Some(1000.0)], 100.0);
        let levels: Vec<_> = plot
            .chars()
            .map(|shown| BLOCKS.iter().chain(&PLAIN).position(|block| *block == shown).map(|level| level % 8))
            .collect();
        assert_eq!(levels, [Some(0), Some(3), None, Some(7), Some(7)]);
        assert_eq!(blocks(&[Some(0.0)], 0.0).chars().count(), 1);
    }

    #[test]
    fn a_peak_survives_condensing() {
        let mut values = vec![Some(1.0); 1000];
        values[777] = Some(9.0);
        let few = condensed(&values, 60);
        assert!(few.len() <= 60 && top(&few) == 9.0, "{few:?}");
        assert_eq!(condensed(&[None, None], 60), [None, None]);
        assert!(condensed(&[], 60).is_empty());
    }
}
