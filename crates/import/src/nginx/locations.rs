//! Locations of nginx: which one holds for a path, and so which table of weir, of which all that match hold.

use super::scope::Scope;
use crate::condition::Condition;
use crate::directive::Directive;
use crate::document::{inline, quoted};
use crate::patterns;

/// For which paths a location is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Paths {
    Prefix(String),
    /// A prefix after which no expression is looked at (`^~`).
    Final(String),
    Exact(String),
    Regex {
        expression: String,
        is_caseless: bool,
    },
    /// `@name`.
    Named(String),
    /// An expression that weir cannot read.
    Unknown(String),
}

/// A location with all that is around it.
#[derive(Debug, Clone)]
pub(crate) struct Location<'t> {
    pub(crate) paths: Paths,
    pub(crate) scope: Scope<'t>,
    pub(crate) directive: &'t Directive,
}

/// All locations of a server, those within others included.
pub(crate) fn of_server<'t>(scope: &Scope<'t>) -> Vec<Location<'t>> {
    let mut found = Vec::new();
    collect(scope, &mut found);
    found
}

fn collect<'t>(scope: &Scope<'t>, found: &mut Vec<Location<'t>>) {
    for directive in scope.innermost().iter().filter(|directive| directive.name == "location") {
        directive.told();
        let scope = scope.within(directive.children());
        let paths = paths(directive);
        collect(&scope, found);
        found.push(Location { paths, scope, directive });
    }
}

fn paths(directive: &Directive) -> Paths {
    let (modifier, text) = match directive.arguments.as_slice() {
        [text] if text.starts_with("~*") => ("~*", text.trim_start_matches("~*").to_owned()),
        [text] if text.starts_with('~') => ("~", text.trim_start_matches('~').to_owned()),
        [text] if text.starts_with('=') => ("=", text.trim_start_matches('=').to_owned()),
        [text] => ("", text.clone()),
        [modifier, text, ..] => (modifier.as_str(), text.clone()),
        [] => ("", String::new()),
    };
    match modifier {
        "=" => Paths::Exact(text),
        "^~" => Paths::Final(text),
        "~" | "~*" => match patterns::expression(&text, false) {
            Some(expression) => Paths::Regex { expression, is_caseless: modifier == "~*" },
            None => Paths::Unknown(text),
        },
        _ if text.starts_with('@') => Paths::Named(text),
        _ => Paths::Prefix(text),
    }
}

/// Whether weir matches paths of this form.
fn is_plain(text: &str) -> bool {
    text.starts_with('/')
        && !text.contains("//")
        && !text.contains(['%', '?', '*'])
        && !text.contains(char::is_control)
        && text.split('/').all(|segment| segment != "." && segment != "..")
}

impl Paths {
    /// The text of a prefix or an exact path.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Prefix(text) | Self::Final(text) | Self::Exact(text) => Some(text),
            _ => None,
        }
    }

    /// As the condition of a route: a key and a text; `Ok(None)` for all paths, and none if it cannot be said.
    #[expect(clippy::option_option, reason = "no condition, and none that can be said, are two things")]
    pub(crate) fn condition(&self) -> Option<Option<(&'static str, String)>> {
        Some(match self {
            Self::Prefix(text) | Self::Final(text) if text == "/" => None,
            Self::Prefix(text) | Self::Final(text) if !is_plain(text) => {
                Some(("regex", format!("^{}", patterns::literal(text))))
            }
            Self::Prefix(text) | Self::Final(text) if text.ends_with('/') => Some(("prefix", text.clone())),
            Self::Prefix(text) | Self::Final(text) => Some(("glob", format!("{text}**"))),
            Self::Exact(text) if is_plain(text) => Some(("exact", text.clone())),
            Self::Exact(text) => Some(("regex", format!("^{}$", patterns::literal(text)))),
            Self::Regex { expression, is_caseless: true } => Some(("regex", format!("(?i){expression}"))),
            Self::Regex { expression, is_caseless: false } => Some(("regex", expression.clone())),
            Self::Named(_) | Self::Unknown(_) => return None,
        })
    }

    /// As patterns of tables, and whether they are exactly the same paths; none if there are no such patterns. With
    /// `is_mount` they are prefixes or exact paths, for which something else can stand.
    pub(crate) fn tables(&self, is_mount: bool) -> Option<(Vec<(&'static str, String)>, bool)> {
        match self {
            Self::Prefix(text) | Self::Final(text) if is_plain(text) => Some(if text.ends_with('/') {
                (vec![("prefix", text.clone())], true)
            } else if is_mount {
                (vec![("prefix", text.clone())], false)
            } else {
                (vec![("glob", format!("{text}**"))], true)
            }),
            Self::Exact(text) if is_plain(text) => Some((vec![("exact", text.clone())], true)),
            Self::Regex { expression, is_caseless } if !is_mount => {
                let has_letters = expression.contains(|letter: char| letter.is_ascii_alphabetic());
                let text = if *is_caseless { expression.to_ascii_lowercase() } else { expression.clone() };
                let globs = patterns::globs(&text).filter(|globs| !globs.is_empty())?;
                Some((globs.into_iter().map(|glob| ("glob", glob)).collect(), !(*is_caseless && has_letters)))
            }
            _ => None,
        }
    }

    /// Whether this location comes before another one for some path that both are for.
    fn wins_over(&self, other: &Self, is_earlier: bool) -> bool {
        let below = |own: &str, text: &str| own.starts_with(text);
        match (self, other) {
            (Self::Named(_) | Self::Unknown(_), _) | (_, Self::Named(_) | Self::Unknown(_) | Self::Exact(_)) => false,
            (Self::Exact(own), Self::Prefix(text) | Self::Final(text)) => below(own, text),
            (Self::Exact(own), Self::Regex { expression, .. }) => patterns::matches(expression, own),
            (Self::Prefix(own) | Self::Final(own), Self::Prefix(text) | Self::Final(text)) => {
                own.len() > text.len() && below(own, text)
            }
            (Self::Final(_), Self::Regex { .. }) => true,
            (Self::Prefix(_), Self::Regex { .. }) => false,
            (Self::Regex { .. }, Self::Regex { .. }) => is_earlier,
            (Self::Regex { expression, .. }, Self::Prefix(text)) => may_meet(expression, text),
            (Self::Regex { .. }, Self::Final(_)) => false,
        }
    }
}

/// Whether an expression may match a path below a prefix: not if it begins otherwise.
fn may_meet(expression: &str, text: &str) -> bool {
    let Some(rest) = expression.strip_prefix('^') else { return true };
    let plain: String =
        rest.chars().take_while(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '/' | '-' | '_')).collect();
    // A letter before a star may not be there.
    let plain = if rest[plain.len()..].starts_with(['*', '?', '{']) { &plain[..plain.len() - 1] } else { &plain };
    plain.starts_with(text) || text.starts_with(plain)
}

/// The requests that nginx gives to one of the locations; none if that cannot be said.
pub(crate) fn condition(number: usize, all: &[Location<'_>]) -> Option<Condition> {
    let own = &all[number].paths;
    let mut condition = Condition { path: own.condition()?, ..Condition::default() };
    for (other, location) in all.iter().enumerate() {
        if other != number && location.paths.wins_over(own, other < number) {
            let (kind, text) = location.paths.condition()??;
            condition.not.push(inline(std::iter::once((kind.to_owned(), quoted(&text)))));
        }
    }
    Some(condition)
}

/// The order in which tables say the last word as nginx's choice does: numbers of locations.
pub(crate) fn order(all: &[Location<'_>]) -> Vec<usize> {
    let finals: Vec<&str> = all
        .iter()
        .filter_map(|location| match &location.paths {
            Paths::Final(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let is_final = |text: &str| finals.iter().any(|one| text.starts_with(one));
    let mut numbers: Vec<usize> =
        (0..all.len()).filter(|number| !matches!(all[*number].paths, Paths::Named(_))).collect();
    numbers.sort_by_key(|number| match &all[*number].paths {
        Paths::Prefix(text) | Paths::Final(text) if !is_final(text) => (0, text.len(), 0),
        Paths::Regex { .. } | Paths::Unknown(_) => (1, 0, all.len() - number),
        Paths::Prefix(text) | Paths::Final(text) => (2, text.len(), 0),
        Paths::Exact(text) => (3, text.len(), 0),
        Paths::Named(_) => (4, 0, 0),
    });
    numbers
}
