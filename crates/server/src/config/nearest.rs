//! The known name that is nearest to a misspelt one.

/// The nearest of the names, if it is near enough to be a slip of the keyboard.
pub(super) fn nearest<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    let bound = (name.chars().count() / 3).clamp(1, 3);
    let with_distance = known.iter().map(|candidate| (distance(name, candidate), *candidate));
    with_distance.filter(|(distance, _)| *distance <= bound).min().map(|(_, candidate)| candidate)
}

/// Letters to insert, remove, exchange or swap with their neighbour to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    // A name of any length would cost its square.
    let letters = |text: &str| text.chars().take(64).map(|letter| letter.to_ascii_lowercase()).collect::<Vec<_>>();
    let (one, other) = (letters(one), letters(other));
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
        let known = ["listen", "limits", "redirect", "rate", "root"];
        for (name, expected) in [
            ("lisen", Some("listen")),
            ("Listen", Some("listen")),
            ("redriect", Some("redirect")),
            ("rot", Some("root")),
            ("certificate", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, &known), expected, "{name}");
        }
    }
}
