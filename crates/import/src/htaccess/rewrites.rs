//! `RewriteRule` and its conditions as routes.

use super::conditions::{Group, Tests};
use super::paths::alternatives;
use crate::condition::Condition;
use crate::directive::Directive;
use crate::document::{Table, list};
use crate::patterns;
use crate::report::Report;
use crate::templates::{self, Piece};

const STATUSES: [u16; 6] = [403, 404, 410, 451, 500, 503];
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];
/// Routes that one rule may become, by its alternatives.
const ALTERNATIVES_MAX: usize = 16;

/// The rules of one directory, in their order.
#[derive(Debug)]
pub(crate) struct Rules<'t> {
    is_on: bool,
    /// The path of the directory, with a slash at its end.
    directory: String,
    base: String,
    tests: Vec<&'t Directive>,
    /// An earlier rule has ended for files, and with true for directories, that are there.
    files_are_served: Option<bool>,
    pub(crate) routes: Vec<Table>,
    /// What refuses and could not be said.
    pub(crate) refused: Option<String>,
}

/// What the flags of a rule say.
#[derive(Debug, Default)]
struct Flags {
    is_caseless: bool,
    is_last: bool,
    appends_query: bool,
    drops_query: bool,
    status: Option<u16>,
    variables: Vec<String>,
    /// Words that weir has nothing for.
    others: Vec<String>,
}

impl Flags {
    fn read(text: &str) -> Self {
        let mut flags = Self::default();
        let inner = text.trim().trim_start_matches('[').trim_end_matches(']');
        for flag in inner.split(',').map(str::trim).filter(|flag| !flag.is_empty()) {
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            match name.to_ascii_uppercase().as_str() {
                "NC" | "NOCASE" => flags.is_caseless = true,
                "L" | "LAST" | "END" => flags.is_last = true,
                "QSA" | "QSAPPEND" => flags.appends_query = true,
                "QSD" | "QSDISCARD" => flags.drops_query = true,
                "F" | "FORBIDDEN" => flags.status = Some(403),
                "G" | "GONE" => flags.status = Some(410),
                "R" | "REDIRECT" => {
                    flags.status = Some(match value.to_ascii_lowercase().as_str() {
                        "" | "temp" => 302,
                        "permanent" => 301,
                        "seeother" => 303,
                        number => number.parse().unwrap_or(302),
                    });
                }
                "E" | "ENV" => flags.variables.push(value.to_owned()),
                "NE" | "NOESCAPE" | "PT" | "PASSTHROUGH" | "DPI" | "DISCARDPATH" | "B" => {}
                _ => flags.others.push(flag.to_owned()),
            }
        }
        flags
    }

    fn refuses(&self) -> bool {
        self.status.is_some_and(|status| status >= 400)
    }
}

impl<'t> Rules<'t> {
    pub(crate) fn new(directory: &str) -> Self {
        Self {
            is_on: false,
            directory: directory.to_owned(),
            base: directory.to_owned(),
            tests: Vec::new(),
            files_are_served: None,
            routes: Vec::new(),
            refused: None,
        }
    }

    /// Takes a directive, if it is one of rewriting.
    pub(crate) fn take(&mut self, directive: &'t Directive, report: &mut Report) -> bool {
        match directive.name.to_ascii_lowercase().as_str() {
            "rewriteengine" => {
                directive.told();
                self.is_on = directive.argument(0).eq_ignore_ascii_case("on");
            }
            "rewritebase" => {
                directive.told();
                let base = directive.argument(0);
                self.base = if base.ends_with('/') { base.to_owned() } else { format!("{base}/") };
            }
            "rewriteoptions" => report.idle(directive),
            "rewritecond" => {
                directive.told();
                if self.tests.len() < 64 {
                    self.tests.push(directive);
                }
            }
            "rewriterule" => self.rule(directive, report),
            "fallbackresource" => self.fallback(directive),
            _ => return false,
        }
        true
    }

    fn fallback(&mut self, directive: &Directive) {
        directive.told();
        if directive.argument(0) == "disabled" {
            return;
        }
        if let Some(path) = templates::path(&[Piece::Text(self.absolute(directive.argument(0)))]) {
            let mut route = Table::default();
            if self.directory != "/" {
                route.text("prefix", &self.directory);
            }
            route.list("try_files", &["$path", "$path/", &path]);
            self.routes.push(route);
        }
    }

    fn absolute(&self, target: &str) -> String {
        if target.starts_with('/') { target.to_owned() } else { format!("{}{target}", self.base) }
    }

    fn rule(&mut self, directive: &Directive, report: &mut Report) {
        let tests = std::mem::take(&mut self.tests);
        if !self.is_on {
            return report.idle(directive);
        }
        let flags = Flags::read(directive.argument(2));
        // Only a variable, which applications behind weir have anyhow.
        let is_known = |variable: &String| {
            ["HTTP_AUTHORIZATION:", "BASE:", "PHP_AUTH", "REMOTE_USER:%{HTTP:A"]
                .iter()
                .any(|name| variable.starts_with(name))
        };
        if directive.argument(1) == "-" && !flags.variables.is_empty() && flags.status.is_none() {
            if flags.variables.iter().all(is_known) {
                return report.idle(directive);
            }
            let what = format!("`{}`: weir sets no variables by rules", directive.line());
            return report.lost(directive, what, "give fixed ones to the application by `params` of fastcgi");
        }
        let read = Tests::read(&tests);
        if read.is_never {
            return report.idle(directive);
        }
        let made = self.made(directive, &flags, &read);
        match made {
            Some(routes) if flags.others.is_empty() => {
                directive.told();
                self.routes.extend(routes);
            }
            _ => self.lost(directive, &flags, &read, report),
        }
    }

    fn lost(&mut self, directive: &Directive, flags: &Flags, tests: &Tests<'_>, report: &mut Report) {
        let why = match (tests.unsaid.first(), flags.others.first()) {
            (Some(test), _) => format!("its condition at line {} is none of weir's routes", test.place.line),
            (None, Some(flag)) => format!("weir has nothing for [{flag}]"),
            (None, None) => "weir cannot write it as a route".to_owned(),
        };
        let what = format!("`{}`: {why}", directive.line());
        if flags.refuses() {
            report.refused(directive, what, "write a [[host.route]] with fail = 403 for what is meant");
            self.refused.get_or_insert_with(|| format!("{}: {}", directive.place, directive.line()));
        } else {
            report.lost(directive, what, "write a [[host.route]] with regex, and map, redirect or try_files");
        }
    }

    /// The routes of a rule; none if it cannot be said.
    fn made(&mut self, directive: &Directive, flags: &Flags, tests: &Tests<'_>) -> Option<Vec<Table>> {
        if !tests.unsaid.is_empty() {
            return None;
        }
        let (pattern, is_not) = match directive.argument(0).strip_prefix('!') {
            Some(pattern) => (pattern, true),
            None => (directive.argument(0), false),
        };
        let expression = patterns::expression(&self.whole(pattern), flags.is_caseless)?;
        let mut bases = vec![Condition::default()];
        bases = bases
            .into_iter()
            .map(|base| {
                if is_not {
                    base.without("regex", crate::document::quoted(&expression))
                } else {
                    base.with_regex(&expression)
                }
            })
            .collect();
        // The groups of a condition on the path are taken for those of the rule, if the rule has none.
        let target = directive.argument(1);
        let uses_tests = (1..=9).any(|number| target.contains(&format!("%{number}")));
        if uses_tests {
            let own = tests.path.clone().filter(|_| matches!(pattern, "^" | ".*" | "(.*)" | "^(.*)$" | "."))?;
            bases = vec![Condition::default().with_regex(&own)];
        }
        for group in &tests.groups {
            bases = expand(&bases, group)?;
        }
        let groups = patterns::groups(&expression);
        let routes: Option<Vec<Vec<Table>>> =
            bases.iter().map(|base| self.route(base, target, flags, tests, groups)).collect();
        Some(routes?.concat())
    }

    fn route(
        &mut self,
        base: &Condition,
        target: &str,
        flags: &Flags,
        tests: &Tests<'_>,
        groups: usize,
    ) -> Option<Vec<Table>> {
        let looks_for_files = tests.no_file || tests.no_directory;
        let mut route = base.route();
        if let Some(status) = flags.status.filter(|status| *status >= 400) {
            if looks_for_files || tests.has_file.is_some() || !STATUSES.contains(&status) && status != 404 {
                return None;
            }
            route.raw("fail", status.to_string());
            return Some(vec![route]);
        }
        if target == "-" {
            if !flags.is_last || looks_for_files {
                return None;
            }
            if let Some(has_directories) = tests.has_file {
                // What is there is served, so that the rules behind are for what is not.
                self.files_are_served = Some(has_directories || self.files_are_served == Some(true));
                return base.is_any().then(Vec::new);
            }
            route.raw("pass", "true");
            return Some(vec![route]);
        }
        if tests.has_file.is_some() {
            return None;
        }
        let pieces = self.pieces(target, flags, groups)?;
        let is_redirect = flags.status.is_some() || target.starts_with("http://") || target.starts_with("https://");
        if is_redirect {
            let status = flags.status.unwrap_or(302);
            if looks_for_files || self.files_are_served.is_some() || !REDIRECTS.contains(&status) {
                return None;
            }
            route.text("redirect", &templates::address(&pieces)?);
            if status != 301 {
                route.raw("status", status.to_string());
            }
            return Some(vec![route]);
        }
        let path = templates::path(&pieces)?;
        if looks_for_files || self.files_are_served.is_some() {
            let mut tried = vec!["$path".to_owned()];
            if tests.no_directory || self.files_are_served == Some(true) {
                tried.push("$path/".to_owned());
            }
            tried.push(path);
            route.raw("try_files", list(&tried));
        } else if path == "$path" {
            return Some(Vec::new());
        } else {
            route.text("map", &path);
        }
        Some(vec![route])
    }

    /// The expression of a rule, for whole paths.
    fn whole(&self, pattern: &str) -> String {
        let begin = patterns::literal(&self.directory);
        let parts = alternatives(pattern);
        let each: Vec<String> = parts
            .iter()
            .map(|part| {
                let is_greedy = part.starts_with(".*") || part.starts_with("(.*)") || part.starts_with("(.+)");
                match part.strip_prefix('^') {
                    Some(rest) => format!("^{begin}{rest}"),
                    None if is_greedy => format!("^{begin}{part}"),
                    None if part.is_empty() => format!("^{begin}"),
                    None => format!("^{begin}.*?{part}"),
                }
            })
            .collect();
        let whole = each.join("|");
        // All paths below the top need no expression.
        if self.directory == "/" && matches!(pattern, "^" | ".*" | "^.*$" | "^.*" | "") {
            "^".to_owned()
        } else {
            whole
        }
    }

    /// The target with its variables.
    fn pieces(&self, target: &str, flags: &Flags, groups: usize) -> Option<Vec<Piece>> {
        let is_address = target.starts_with("http://") || target.starts_with("https://");
        let begins_with_path = target.starts_with("%{REQUEST_URI}");
        let whole = if is_address || begins_with_path || target.starts_with('/') {
            target.to_owned()
        } else if let Some(rest) = target.strip_prefix("%{ENV:BASE}") {
            format!("{}{rest}", self.directory.trim_end_matches('/'))
        } else {
            self.absolute(target)
        };
        let drops_query = flags.drops_query || whole.ends_with('?');
        let bare = whole.trim_end_matches('?');
        let mut pieces = take_apart(bare, groups)?;
        let has_query = bare.contains('?');
        if flags.appends_query && has_query && !drops_query {
            pieces.extend([Piece::Text("&".to_owned()), Piece::Args]);
        } else if drops_query && !has_query && flags.status.is_none() && !is_address {
            pieces.push(Piece::Text("?".to_owned()));
        } else if !has_query && !drops_query && (flags.status.is_some() || is_address) {
            pieces.push(Piece::Query);
        }
        Some(templates::tidy(&pieces))
    }
}

/// `$1`, `%1` and `%{NAME}`.
fn take_apart(text: &str, groups: usize) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['$', '%']) {
        pieces.push(Piece::Text(rest[..at].to_owned()));
        let mark = &rest[at..=at];
        let after = &rest[at + 1..];
        if let Some(digit) =
            after.chars().next().and_then(|letter| letter.to_digit(10)).filter(|_| mark == "$" || !is_hex(after))
        {
            match digit {
                0 => pieces.push(Piece::Path),
                number if mark == "%" || number as usize <= groups => pieces.push(Piece::Capture(number as usize)),
                _ => {}
            }
            rest = &after[1..];
        } else if let Some((name, behind)) = after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            if mark == "$" {
                return None;
            }
            pieces.extend(variable(name)?);
            rest = behind;
        } else {
            pieces.push(Piece::Text(mark.to_owned()));
            rest = after;
        }
    }
    pieces.push(Piece::Text(rest.to_owned()));
    Some(templates::tidy(&pieces))
}

/// `%20` is a byte, and no group.
fn is_hex(after: &str) -> bool {
    let mut letters = after.chars();
    letters.next().is_some_and(|letter| letter.is_ascii_hexdigit())
        && letters.next().is_some_and(|letter| letter.is_ascii_hexdigit())
}

fn variable(name: &str) -> Option<Vec<Piece>> {
    Some(match name {
        "REQUEST_URI" => vec![Piece::Path],
        "HTTP_HOST" | "SERVER_NAME" => vec![Piece::Host],
        "QUERY_STRING" => vec![Piece::Args],
        "ENV:BASE" => Vec::new(),
        _ => return None,
    })
}

/// Each of the conditions together with one of the alternatives.
fn expand(bases: &[Condition], group: &Group) -> Option<Vec<Condition>> {
    let mut out = Vec::new();
    for base in bases {
        for test in &group.any {
            out.push(test.added_to(base));
        }
    }
    (out.len() <= ALTERNATIVES_MAX).then_some(out)
}
