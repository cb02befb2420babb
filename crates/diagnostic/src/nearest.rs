//! The known word that is nearest to a misspelt one.

/// Letters of a word that are compared: the effort is the square of them.
const LETTERS_MAX: usize = 64;

/// The nearest of the known words, if it is near enough to be a slip of the keyboard: a third of the word's letters, at
/// least one and at most three, are to be inserted, removed, exchanged or swapped with their neighbour. Case does not
/// matter. Of equally near words it is the first by the alphabet.
///
/// # Examples
///
/// ```
/// use weir_diagnostic::nearest;
///
/// assert_eq!(nearest("redriect", ["redirect", "rate"]), Some("redirect"));
/// assert_eq!(nearest("certificate", ["redirect", "rate"]), None);
/// ```
pub fn nearest<'n>(word: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let letters = letters(word);
    let bound = (letters.len() / 3).clamp(1, 3);
    let near = known.into_iter().map(|known| (distance(&letters, &self::letters(known)), known));
    near.filter(|(distance, _)| *distance <= bound).min().map(|(_, known)| known)
}

fn letters(word: &str) -> Vec<char> {
    word.chars().take(LETTERS_MAX).flat_map(char::to_lowercase).collect()
}

/// Letters to insert, remove, exchange or swap with their neighbour to make one of the other.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut rows = vec![(0..=other.len()).collect::<Vec<usize>>()];
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let changed = rows[i][j] + usize::from(a != b);
            let mut best = changed.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let known = ["listen", "limits", "redirect", "rate", "root", "during", "Every"];
        for (word, expected) in [
            ("lisen", Some("listen")),
            ("Listen", Some("listen")),
            ("redriect", Some("redirect")),
            ("rot", Some("root")),
            ("durnig", Some("during")),
            ("every", Some("Every")),
            ("certificate", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20), known), None);
    }
}
