//! Which atoms a rule is for: `*` within a segment, `**` anything, `?` one character.

use std::cmp::Reverse;

/// Whether a path fits a glob of rules: `*` within a segment, `**` anything, `?` one character.
#[must_use]
pub fn fits_glob(glob: &str, path: &str) -> bool {
    Glob::new(glob).fits(path)
}

/// A pattern of paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    text: String,
}

/// How specific a pattern is: of two that fit a path, the greater one counts.
pub(crate) type Specificity = (bool, usize, Reverse<usize>, Reverse<usize>);

impl Glob {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned() }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// First whether it is a path itself, then its literal characters, then how few `**` and `*` and `?` it has.
    pub(crate) fn specificity(&self) -> Specificity {
        let double = self.text.matches("**").count();
        let single = self.text.matches('*').count() - 2 * double + self.text.matches('?').count();
        let literal = self.text.chars().count() - 2 * double - single;
        (double + single == 0, literal, Reverse(double), Reverse(single))
    }

    /// Whether a path fits. In the product of both lengths at most: for each kind of star one place to go back to.
    pub(crate) fn fits(&self, path: &str) -> bool {
        let (pattern, path) = (self.text.as_bytes(), path.as_bytes());
        let (mut p, mut s) = (0, 0);
        // Where to go on with a longer match: of the last star, and of the last pair of stars.
        let mut star: Option<(usize, usize)> = None;
        let mut pair: Option<(usize, usize)> = None;
        loop {
            if pattern[p..].starts_with(b"**") {
                p += 2;
                (star, pair) = (None, Some((p, s)));
                continue;
            }
            if pattern.get(p) == Some(&b'*') {
                p += 1;
                star = Some((p, s));
                continue;
            }
            match (pattern.get(p), path.get(s)) {
                (None, None) => return true,
                (Some(b'?'), Some(&letter)) if letter != b'/' => {
                    p += 1;
                    s += 1;
                    // A character of several bytes is one.
                    while path.get(s).is_some_and(|byte| byte & 0xc0 == 0x80) {
                        s += 1;
                    }
                }
                (Some(one), Some(letter)) if one == letter && *one != b'?' => {
                    p += 1;
                    s += 1;
                }
                _ => {
                    let longer = star.filter(|(_, from)| path.get(*from).is_some_and(|letter| *letter != b'/'));
                    if let Some((back, from)) = longer {
                        (p, s, star) = (back, from + 1, Some((back, from + 1)));
                    } else if let Some((back, from)) = pair.filter(|(_, from)| *from < path.len()) {
                        (p, s, star, pair) = (back, from + 1, None, Some((back, from + 1)));
                    } else {
                        return false;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_fit_or_do_not() {
        for (pattern, path, fits) in [
            ("/page1.html", "/page1.html", true),
            ("/page1.html", "/page1.htm", false),
            ("/v/*", "/v/film", true),
            ("/v/*", "/v/a/film", false),
            ("/v/*", "/v/", true),
            ("/**", "/a/b/c", true),
            ("/**", "/", true),
            ("/**/*.jpg", "/a/b/c.jpg", true),
            ("/**/*.jpg", "/a/b/c.jpeg", false),
            ("/a?c", "/aäc", true),
            ("/a?c", "/a/c", false),
            ("/*/b/*", "/x/b/y", true),
            ("/*/b/*", "/x/y/b/z", false),
            ("/**b**c", "/a/b/a/c", true),
        ] {
            assert_eq!(Glob::new(pattern).fits(path), fits, "{pattern} {path}");
        }
    }

    #[test]
    fn the_more_specific_is_greater() {
        let order = ["/**", "/v/**", "/v/*", "/v/f*", "/v/film"];
        for pair in order.windows(2) {
            assert!(Glob::new(pair[0]).specificity() < Glob::new(pair[1]).specificity(), "{pair:?}");
        }
    }
}
