//! For which paths a directive of `.htaccess` is: its directory, or names of files in it.

use crate::files::join;
use crate::patterns;

/// The paths of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Paths {
    /// The path of the directory, with a slash at its end.
    pub(crate) directory: String,
    /// An expression for whole paths, of names of files.
    pub(crate) names: Option<String>,
}

impl Paths {
    pub(crate) fn of_directory(directory: &str) -> Self {
        Self { directory: directory.to_owned(), names: None }
    }

    /// Files whose names are like a pattern of the shell.
    pub(crate) fn like(&self, pattern: &str) -> Option<Self> {
        let mut expression = String::new();
        for letter in pattern.chars() {
            match letter {
                '*' => expression.push_str("[^/]*"),
                '?' => expression.push_str("[^/]"),
                '[' | ']' | '{' | '}' => return None,
                letter => expression.push_str(&patterns::literal(&letter.to_string())),
            }
        }
        self.matching(&format!("^{expression}$"))
    }

    /// Files whose names an expression finds something in.
    pub(crate) fn matching(&self, expression: &str) -> Option<Self> {
        let begin = format!("^{}(.*/)?", patterns::literal(&self.directory));
        let each: Vec<String> = alternatives(expression)
            .into_iter()
            .map(|one| {
                let (one, is_begun) = one.strip_prefix('^').map_or((one, false), |one| (one, true));
                let (one, is_ended) = match one.strip_suffix('$') {
                    Some(bare) if !bare.ends_with('\\') => (bare, true),
                    _ => (one, false),
                };
                let before = if is_begun { "" } else { "[^/]*" };
                let behind = if is_ended { "$" } else { "[^/]*$" };
                format!("{before}{one}{behind}")
            })
            .collect();
        let names = match each.as_slice() {
            [one] => format!("{begin}{one}"),
            many => format!("{begin}(?:{})", many.join("|")),
        };
        Some(Self { names: Some(patterns::expression(&names, false)?), ..self.clone() })
    }

    /// As patterns of tables; none if there are none that match the same.
    pub(crate) fn tables(&self) -> Option<Vec<(&'static str, String)>> {
        match &self.names {
            None => Some(vec![("prefix", self.directory.clone())]),
            Some(names) => {
                let globs = patterns::globs(names).filter(|globs| !globs.is_empty())?;
                Some(globs.into_iter().map(|glob| ("glob", glob)).collect())
            }
        }
    }

    /// As an expression for whole paths.
    pub(crate) fn expression(&self) -> String {
        self.names.clone().unwrap_or_else(|| format!("^{}", patterns::literal(&self.directory)))
    }

    /// Whether they are all paths of the server.
    pub(crate) fn is_all(&self) -> bool {
        self.directory == "/" && self.names.is_none()
    }
}

/// The alternatives at the top of an expression.
pub(crate) fn alternatives(expression: &str) -> Vec<&str> {
    let (mut depth, mut is_class, mut is_escaped) = (0_usize, false, false);
    let mut found = Vec::new();
    let mut begin = 0;
    for (at, letter) in expression.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => is_class = true,
            ']' => is_class = false,
            _ if is_class => {}
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => {
                found.push(&expression[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.push(&expression[begin..]);
    found
}

/// The path of a file that a directive names, from the root.
pub(crate) fn below(root: &str, path: &str) -> Option<String> {
    let is_plain = path.starts_with('/') && !path.contains(['?', '#', ' ']) && !path.split('/').any(|one| one == "..");
    is_plain.then(|| join(root, path.trim_start_matches('/')))
}
