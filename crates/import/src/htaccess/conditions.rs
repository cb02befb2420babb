//! `RewriteCond`: what has to hold for a rule.

use crate::access::Network;
use crate::condition::Condition;
use crate::directive::Directive;
use crate::document::{inline, list, quoted};
use crate::patterns;

/// One condition on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum One {
    Regex(String),
    /// A key of a route.
    Key(String, String),
    /// A key that must not hold.
    Not(String, String),
    /// None of these may hold.
    NotAny(Vec<(String, String)>),
}

impl One {
    pub(crate) fn added_to(&self, base: &Condition) -> Condition {
        match self {
            Self::Regex(expression) => base.with_regex(expression),
            Self::Key(key, value) => base.with_key(key, value.clone()),
            Self::Not(key, value) => base.without(key, value.clone()),
            Self::NotAny(all) => all.iter().fold(base.clone(), |own, (key, value)| own.without(key, value.clone())),
        }
    }
}

/// Conditions of which one is enough.
#[derive(Debug, Clone, Default)]
pub(crate) struct Group {
    pub(crate) any: Vec<One>,
}

/// The conditions of a rule.
#[derive(Debug, Default)]
pub(crate) struct Tests<'t> {
    pub(crate) groups: Vec<Group>,
    pub(crate) no_file: bool,
    pub(crate) no_directory: bool,
    /// A file is there; with true a directory counts as well.
    pub(crate) has_file: Option<bool>,
    /// The expression of a condition on the path.
    pub(crate) path: Option<String>,
    /// It holds for no request.
    pub(crate) is_never: bool,
    pub(crate) unsaid: Vec<&'t Directive>,
}

/// What is known of one condition.
enum Read {
    Any(Vec<One>),
    /// It always holds.
    Always,
    Never,
    File(&'static str),
    Unsaid,
}

impl<'t> Tests<'t> {
    pub(crate) fn read(directives: &[&'t Directive]) -> Self {
        let mut tests = Self::default();
        let mut group: Option<Vec<One>> = None;
        let mut files: Vec<&str> = Vec::new();
        let mut was_or = false;
        for directive in directives {
            let flags = directive.argument(2).to_ascii_uppercase();
            let has_or = flags.trim_matches(['[', ']']).split(',').any(|flag| matches!(flag.trim(), "OR" | "ORNEXT"));
            let is_caseless = flags.contains("NC");
            match read(directive.argument(0), directive.argument(1), is_caseless) {
                Read::Any(any) => {
                    if let (Some(One::Regex(path)), false) = (any.first(), was_or || has_or) {
                        tests.path.get_or_insert_with(|| path.clone());
                    }
                    group.get_or_insert_default().extend(any);
                }
                Read::Always if !was_or && !has_or => {}
                Read::Never if !was_or && !has_or => tests.is_never = true,
                Read::File(test) if group.is_none() => {
                    let is_positive = !test.starts_with('!');
                    // Files that are there are told by one or the other, those that are not by both.
                    if is_positive && files.iter().all(|known| !known.starts_with('!'))
                        || !is_positive && !was_or && !has_or
                    {
                        files.push(test);
                    } else {
                        tests.unsaid.push(directive);
                    }
                }
                _ => tests.unsaid.push(directive),
            }
            was_or = has_or;
            if !has_or && let Some(any) = group.take() {
                tests.groups.push(Group { any });
            }
        }
        tests.groups.extend(group.take().map(|any| Group { any }));
        tests.no_file = files.contains(&"!-f") || files.contains(&"!-e");
        tests.no_directory = files.contains(&"!-d") || files.contains(&"!-e");
        if files.iter().any(|test| !test.starts_with('!')) {
            tests.has_file = Some(files.contains(&"-d"));
            if !files.contains(&"-f") {
                tests.unsaid.extend(directives.first().copied());
            }
        }
        // A condition on directories alone says nothing that `try_files` could.
        if tests.no_directory && !tests.no_file {
            tests.unsaid.extend(directives.first().copied());
        }
        // A group that a rule takes from its condition stands for the rule's own expression.
        tests
    }
}

fn read(subject: &str, wanted: &str, is_caseless: bool) -> Read {
    let name = subject.strip_prefix("%{").and_then(|inner| inner.strip_suffix('}'));
    let Some(name) = name else {
        // Where the directory lies, as Symfony finds it out; it is known here.
        return if subject.contains("%{REQUEST_URI}::$") { Read::Always } else { Read::Unsaid };
    };
    if let "REQUEST_FILENAME" | "SCRIPT_FILENAME" = name {
        return match wanted {
            "-f" | "-s" => Read::File("-f"),
            "-d" => Read::File("-d"),
            "-l" => Read::File("-l"),
            "!-f" | "!-s" => Read::File("!-f"),
            "!-d" => Read::File("!-d"),
            "!-l" => Read::Always,
            _ => Read::Unsaid,
        };
    }
    let (wanted, is_not) = wanted.strip_prefix('!').map_or((wanted, false), |rest| (rest, true));
    if wanted.starts_with('-') || wanted.starts_with(['<', '>']) {
        return Read::Unsaid;
    }
    let exact = wanted.strip_prefix('=').map(|text| text.trim_matches('"'));
    match name {
        "ENV:REDIRECT_STATUS" => first_pass(wanted, exact, is_not),
        "HTTPS" | "SERVER_PORT" | "REQUEST_SCHEME" => scheme(exact.unwrap_or(wanted), is_not),
        "REQUEST_URI" | "SCRIPT_NAME" => path(wanted, exact, is_not, is_caseless),
        "REMOTE_ADDR" => address(exact.unwrap_or(wanted), is_not),
        _ => value(name, wanted, exact, (is_not, is_caseless)),
    }
}

/// Apache sees a path that it has mapped once more; weir looks at it once.
fn first_pass(wanted: &str, exact: Option<&str>, is_not: bool) -> Read {
    let holds = match exact {
        Some(text) => text.is_empty(),
        None => patterns::matches(wanted, ""),
    };
    if holds != is_not { Read::Always } else { Read::Never }
}

fn scheme(wanted: &str, is_not: bool) -> Read {
    let bare = wanted.trim_start_matches('^').trim_end_matches('$').to_ascii_lowercase();
    let is_secure = match bare.as_str() {
        "on" | "443" | "https" => true,
        "off" | "80" | "http" => false,
        _ => return Read::Unsaid,
    };
    let scheme = if is_secure != is_not { "https" } else { "http" };
    Read::Any(vec![One::Key("scheme".to_owned(), quoted(scheme))])
}

fn path(wanted: &str, exact: Option<&str>, is_not: bool, is_caseless: bool) -> Read {
    let text = exact.map_or_else(|| wanted.to_owned(), |text| format!("^{}$", patterns::literal(text)));
    // An expression that begins with anything begins with the path.
    let text = if text.starts_with("(.") || text.starts_with(".*") { format!("^{text}") } else { text };
    let text = text.strip_prefix("^(.+)").map_or_else(|| text.clone(), |rest| format!("^(/.*){rest}"));
    let Some(expression) = patterns::expression(&text, is_caseless) else { return Read::Unsaid };
    Read::Any(vec![if is_not { One::Not("regex".to_owned(), quoted(&expression)) } else { One::Regex(expression) }])
}

fn address(wanted: &str, is_not: bool) -> Read {
    let bare = wanted.trim_start_matches('^').replace('\\', "");
    let network = match bare.strip_suffix('$') {
        Some(whole) => Network::read(whole),
        None if bare.ends_with('.') || bare.parse::<std::net::IpAddr>().is_ok() => Network::read(&bare),
        None => None,
    };
    match network {
        Some(Network::All) | None => Read::Unsaid,
        Some(network) => {
            let (key, value) = ("address".to_owned(), list(&[network.text()]));
            Read::Any(vec![if is_not { One::Not(key, value) } else { One::Key(key, value) }])
        }
    }
}

/// Methods, hosts, cookies and fields.
fn value(name: &str, wanted: &str, exact: Option<&str>, (is_not, is_caseless): (bool, bool)) -> Read {
    let field = match name {
        "REQUEST_METHOD" | "HTTP_HOST" | "SERVER_NAME" => String::new(),
        "HTTP_COOKIE" => "Cookie".to_owned(),
        _ => match name
            .strip_prefix("HTTP:")
            .map(str::to_owned)
            .or_else(|| name.strip_prefix("HTTP_").map(|own| own.replace('_', "-")))
        {
            Some(field) if !field.is_empty() => field,
            _ => return Read::Unsaid,
        },
    };
    let is_empty = exact == Some("") || wanted == "^$";
    let is_any = matches!(wanted, "." | ".+" | ".*" | "^." | "^.+$");
    if !field.is_empty() && (is_empty || is_any) {
        let wanted = if is_empty != is_not { "false" } else { "true" };
        return Read::Any(vec![One::Key("header".to_owned(), inline(std::iter::once((field, wanted.to_owned()))))]);
    }
    let globs = match exact {
        Some(text) if text.contains(['*', '?']) => None,
        Some(text) => Some(vec![text.to_owned()]),
        None => patterns::value_globs(wanted),
    };
    let has_letters = wanted.contains(|letter: char| letter.is_ascii_alphabetic());
    let Some(globs) = globs.filter(|globs| !globs.is_empty() && globs.len() <= 16) else { return Read::Unsaid };
    if name == "REQUEST_METHOD" {
        if globs.iter().any(|glob| glob.trim_matches('*').contains('*')) {
            return Read::Unsaid;
        }
        let methods: Vec<String> = globs.iter().map(|glob| glob.trim_matches('*').to_owned()).collect();
        let value = list(&methods);
        return Read::Any(vec![if is_not {
            One::Not("method".to_owned(), value)
        } else {
            One::Key("method".to_owned(), value)
        }]);
    }
    if !field.is_empty() && is_caseless && has_letters {
        return Read::Unsaid;
    }
    let one = |glob: &String| {
        if field.is_empty() {
            ("host".to_owned(), list(&[glob]))
        } else {
            ("header".to_owned(), inline(std::iter::once((field.clone(), quoted(glob)))))
        }
    };
    let all: Vec<(String, String)> = globs.iter().map(one).collect();
    Read::Any(if is_not {
        vec![One::NotAny(all)]
    } else {
        all.into_iter().map(|(key, value)| One::Key(key, value)).collect()
    })
}
