//! Patterns of file names in includes: `*`, `?` and `[a-z]` within one name.

/// Whether a name fits a pattern. Names that begin with a dot fit only a pattern that does.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where the last star stood, and what it had taken then: only that one ever takes more.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, n));
            p += 1;
        } else if let Some(length) = one(&pattern[p.min(pattern.len())..], name[n]) {
            p += length;
            n += 1;
        } else if let Some((at, taken)) = star {
            star = Some((at, taken + 1));
            (p, n) = (at + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&rest| rest == '*')
}

/// Whether a text is a pattern at all.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The length of the pattern's first element if it fits the character.
fn one(pattern: &[char], character: char) -> Option<usize> {
    match pattern.first()? {
        '?' => Some(1),
        '[' => {
            let Some(end) = pattern.iter().skip(2).position(|&c| c == ']').map(|at| at + 2) else {
                return (character == '[').then_some(1);
            };
            let negated = matches!(pattern[1], '!' | '^') && end > 2;
            let set = &pattern[1 + usize::from(negated)..end];
            let mut within = false;
            let mut at = 0;
            while at < set.len() {
                if set.get(at + 1) == Some(&'-') && at + 2 < set.len() {
                    within |= (set[at]..=set[at + 2]).contains(&character);
                    at += 3;
                } else {
                    within |= set[at] == character;
                    at += 1;
                }
            }
            (within != negated).then_some(end + 1)
        }
        plain => (*plain == character).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stars_questions_and_sets() {
        assert!(fits("*.conf", "a.conf") && !fits("*.conf", "a.conf~") && !fits("*", ".hidden"));
        assert!(fits("0?-*", "01-x") && fits("[0-9][a-c]*", "3b") && !fits("[!0-9]*", "3b") && fits("[!0-9]*", "b"));
        assert!(fits("a*b*c", "aXbYbZc") && !fits("a*b*c", "aXbYbZ") && fits("[", "[") && !fits("a", ""));
    }

    proptest! {
        #[test]
        fn a_star_fits_what_stands_around_it(before in "[a-c]{0,4}", within in "[a-c]{0,6}", after in "[a-c]{0,4}") {
            let (pattern, name) = (format!("{before}*{after}"), format!("{before}{within}{after}"));
            prop_assert!(fits(&pattern, &name));
        }

        #[test]
        fn any_pattern_comes_to_an_end(pattern in "[a-c*?\\[\\]!-]{0,20}", name in "[a-c\\[]{0,40}") {
            let _ = fits(&pattern, &name);
        }
    }
}
