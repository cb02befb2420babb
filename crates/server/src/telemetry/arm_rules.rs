//! Which requests are reported as business transactions (ARM), and under which names: by the directives of Apache's
//! `mod_arm`, for the paths that are served.
//!
//! Settings are global or in a section `<Location PATH>`. A section inherits the settings that it does not have. The
//! section with the longest path above a request's path applies.

use regex::{Regex, RegexBuilder};
use std::net::IpAddr;
use std::str::FromStr;
use thiserror::Error;

/// Characters of a name: those that ARM 4 allows.
const NAME_MOST: usize = 127;
/// Lines of a file; more are no configuration.
const LINES_MOST: usize = 10_000;
/// Patterns of one server.
const PATTERNS_MOST: usize = 1000;
/// Bytes that a pattern may take once it is compiled.
const PATTERN_BYTES_MOST: usize = 1 << 20;
/// What is told where nothing else is said.
const APPLICATION: &str = "weir serve";

/// What a file of directives says; made by parsing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmRules {
    /// Those of the longest path come first; the last has an empty path and holds for all others.
    pub(crate) places: Vec<Place>,
}

/// What holds for the paths below one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) path: String,
    pub(crate) is_on: bool,
    pub(crate) application: String,
    /// What the application is one of.
    pub(crate) group: Option<String>,
    pub(crate) user: User,
    /// The name of what no pattern names; without one it is the path.
    pub(crate) transaction: Option<String>,
    pub(crate) info: Option<String>,
    /// Networks of the clients whose requests count; empty = all.
    pub(crate) clients: Vec<Network>,
    /// One of so many is told.
    pub(crate) one_in: u32,
    /// The first whose pattern is found in the path gives the name.
    pub(crate) matches: Vec<Match>,
}

/// The user that a transaction names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum User {
    #[default]
    Nobody,
    Named(String),
    /// The name that the client gives by `Authorization: Basic`.
    OfRequest,
}

/// A pattern of paths, and the name of what it is found in.
#[derive(Debug, Clone)]
pub(crate) struct Match {
    regex: Regex,
    /// It is looked for in the path with its query, as it holds a question mark that stands for itself.
    pub(crate) has_query: bool,
    /// With `$1` to `$9` for what the groups of the pattern have found, `$0` for all of it.
    name: String,
}

/// Addresses that begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    addr: IpAddr,
    bits: u32,
}

/// Why a file of directives cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("line {line}: {what}")]
pub struct ArmRulesError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it, and what would be right.
    pub what: String,
}

/// What is wrong with a line.
#[derive(Debug, PartialEq, Error)]
pub(crate) enum Mistake {
    #[error("there are more than {LINES_MOST} lines")]
    TooManyLines,
    #[error("{patterns} patterns, those from outside counted in each section; at most {PATTERNS_MOST}")]
    TooManyPatterns { patterns: usize },
    #[error("<Location {path}> has no end: add </Location>")]
    OpenLocation { path: String },
    #[error("the > at the end of the line is missing")]
    UnclosedTag,
    #[error("no <Location> is open")]
    NoLocationOpen,
    #[error("<Location {path}>: a path as clients ask for it begins with /")]
    NoPath { path: String },
    #[error("a <Location> within another: end that one first with </Location>")]
    Nested,
    #[error("<{tag}> is not known here: there is <Location PATH> … </Location> only")]
    UnknownTag { tag: String },
    #[error("the {quote} at the end is missing")]
    OpenQuote { quote: char },
    #[error("there is nothing")]
    Nothing,
    #[error("Arm is followed by On or Off")]
    OnOrOff,
    #[error("ArmApplication is followed by a name, and the name of a group")]
    ApplicationArguments,
    #[error("ArmMatch is followed by a regular expression for paths and a name")]
    MatchArguments,
    #[error("{directive} is followed by one value; put it into quotes where it has spaces")]
    OneValue { directive: String },
    #[error(
        "{directive} is not known: there are Arm, ArmApplication, ArmUser, ArmTransaction, ArmTransactionInfo, \
         ArmClient, ArmSample and ArmMatch"
    )]
    UnknownDirective { directive: String },
    #[error("ArmMatch {pattern}: no regular expression: {source}")]
    Pattern { pattern: String, source: regex::Error },
    #[error("{directive}: a name has 1 to {NAME_MOST} characters; this one has {characters}")]
    NameLength { directive: String, characters: usize },
    #[error("ArmSample {text}: give N for one of N, such as 10, or a percentage, such as 25%")]
    Sample { text: String },
    #[error("ArmClient {text}: give an address or a range such as 10.0.0.0/8, or all")]
    Client { text: String },
}

impl Default for Place {
    fn default() -> Self {
        Self {
            path: String::new(),
            is_on: false,
            application: APPLICATION.to_owned(),
            group: None,
            user: User::Nobody,
            transaction: None,
            info: None,
            clients: Vec::new(),
            one_in: 1,
            matches: Vec::new(),
        }
    }
}

impl FromStr for ArmRules {
    type Err = ArmRulesError;

    fn from_str(text: &str) -> Result<Self, ArmRulesError> {
        // A section is the path with its own directives in order; the first is what stands in the open.
        let mut sections: Vec<(String, Vec<Directive>)> = vec![(String::new(), Vec::new())];
        let mut inside: Option<usize> = None;
        let mut line = 0;
        for text in text.lines() {
            line += 1;
            let at_line = |mistake: Mistake| ArmRulesError { line, what: mistake.to_string() };
            if line > LINES_MOST {
                return Err(at_line(Mistake::TooManyLines));
            }
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if let Some(tag) = text.strip_prefix('<') {
                inside = section(tag, inside, &mut sections).map_err(at_line)?;
                continue;
            }
            let directive = Directive::read(&words(text).map_err(at_line)?).map_err(at_line)?;
            sections[inside.unwrap_or(0)].1.push(directive);
        }
        if let Some(open) = inside {
            let mistake = Mistake::OpenLocation { path: sections[open].0.clone() };
            return Err(ArmRulesError { line, what: mistake.to_string() });
        }
        let rules = Self::of_sections(&sections);
        let patterns: usize = rules.places.iter().map(|place| place.matches.len()).sum();
        if patterns > PATTERNS_MOST {
            return Err(ArmRulesError { line, what: Mistake::TooManyPatterns { patterns }.to_string() });
        }
        Ok(rules)
    }
}

impl ArmRules {
    fn of_sections(sections: &[(String, Vec<Directive>)]) -> Self {
        let mut paths: Vec<&String> = sections.iter().map(|section| &section.0).collect();
        paths.sort_by_key(|path| (std::cmp::Reverse(path.len()), *path));
        paths.dedup();
        let places = paths.into_iter().map(|path| {
            let mut place = Place { path: path.clone(), ..Place::default() };
            // From the shortest path to the longest: the inner one has the last word.
            let mut around: Vec<_> = sections.iter().filter(|(outer, _)| is_below(path.as_bytes(), outer)).collect();
            around.sort_by_key(|(outer, _)| outer.len());
            for (_, directives) in around {
                let mut own = Vec::new();
                directives.iter().for_each(|directive| directive.apply(&mut place, &mut own));
                // Patterns of the inner path are tried first.
                place.matches.splice(0..0, own);
            }
            place
        });
        Self { places: places.collect() }
    }

    /// The number of the place that a path belongs to.
    pub(crate) fn place_of(&self, path: &[u8]) -> usize {
        // The last one, whose path is empty, has every other below it.
        self.places.iter().position(|place| is_below(path, &place.path)).unwrap_or(self.places.len() - 1)
    }
}

/// Whether a path is `outer` or below it, as Apache's `<Location>` has it: `/a` and `/a/b` are below `/a`, `/ab` is
/// not.
fn is_below(path: &[u8], outer: &str) -> bool {
    path.strip_prefix(outer.as_bytes())
        .is_some_and(|rest| rest.is_empty() || outer.is_empty() || outer.ends_with('/') || rest.starts_with(b"/"))
}

/// Enters or leaves a section; gives the number of the one that follows.
fn section(
    tag: &str,
    inside: Option<usize>,
    sections: &mut Vec<(String, Vec<Directive>)>,
) -> Result<Option<usize>, Mistake> {
    let tag = tag.strip_suffix('>').ok_or(Mistake::UnclosedTag)?;
    let words = words(tag)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match (words.as_slice(), inside) {
        ([name], Some(_)) if name.eq_ignore_ascii_case("/location") => Ok(None),
        ([name], None) if name.eq_ignore_ascii_case("/location") => Err(Mistake::NoLocationOpen),
        ([name, path], None) if name.eq_ignore_ascii_case("location") => {
            if !path.starts_with('/') {
                return Err(Mistake::NoPath { path: (*path).to_owned() });
            }
            sections.push(((*path).to_owned(), Vec::new()));
            Ok(Some(sections.len() - 1))
        }
        ([name, _], Some(_)) if name.eq_ignore_ascii_case("location") => Err(Mistake::Nested),
        _ => Err(Mistake::UnknownTag { tag: tag.to_owned() }),
    }
}

/// A line, divided as Apache divides one: by spaces, unless they stand in quotes.
fn words(text: &str) -> Result<Vec<String>, Mistake> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let mut word = String::new();
        let end;
        if first == '"' || first == '\'' {
            let mut characters = rest.char_indices().skip(1);
            end = loop {
                match characters.next() {
                    Some((at, character)) if character == first => break at + 1,
                    Some((_, '\\')) => match characters.next() {
                        Some((_, escaped)) if escaped == first || escaped == '\\' => word.push(escaped),
                        Some((_, other)) => word.extend(['\\', other]),
                        None => return Err(Mistake::OpenQuote { quote: first }),
                    },
                    Some((_, character)) => word.push(character),
                    None => return Err(Mistake::OpenQuote { quote: first }),
                }
            };
        } else {
            end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            word.push_str(&rest[..end]);
        }
        words.push(word);
        rest = rest[end..].trim_start();
    }
    Ok(words)
}

/// One directive.
#[derive(Debug, Clone)]
enum Directive {
    Arm(bool),
    Application(String, Option<String>),
    User(User),
    Transaction(String),
    Info(String),
    Clients(Vec<Network>),
    Sample(u32),
    Match(Match),
}

impl Directive {
    fn read(words: &[String]) -> Result<Self, Mistake> {
        let (name, arguments) = words.split_first().ok_or(Mistake::Nothing)?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match (name.to_ascii_lowercase().as_str(), arguments.as_slice()) {
            ("arm", [word]) if word.eq_ignore_ascii_case("on") => Ok(Self::Arm(true)),
            ("arm", [word]) if word.eq_ignore_ascii_case("off") => Ok(Self::Arm(false)),
            ("arm", _) => Err(Mistake::OnOrOff),
            ("armapplication", [application]) => Ok(Self::Application(short(application, name)?, None)),
            ("armapplication", [application, group]) => {
                Ok(Self::Application(short(application, name)?, Some(short(group, name)?)))
            }
            ("armapplication", _) => Err(Mistake::ApplicationArguments),
            ("armuser", ["*"]) => Ok(Self::User(User::OfRequest)),
            ("armuser", [user]) => Ok(Self::User(User::Named(short(user, name)?))),
            ("armtransaction", [transaction]) => Ok(Self::Transaction(short(transaction, name)?)),
            ("armtransactioninfo", [info]) => Ok(Self::Info(short(info, name)?)),
            ("armclient", [all]) if all.eq_ignore_ascii_case("all") => Ok(Self::Clients(Vec::new())),
            ("armclient", [_, ..]) => {
                arguments.iter().map(|text| text.parse()).collect::<Result<_, _>>().map(Self::Clients)
            }
            ("armsample", [share]) => sample(share).map(Self::Sample),
            ("armmatch", [pattern, transaction]) => Match::new(pattern, &short(transaction, name)?).map(Self::Match),
            ("armmatch", _) => Err(Mistake::MatchArguments),
            ("armuser" | "armtransaction" | "armtransactioninfo" | "armclient" | "armsample", _) => {
                Err(Mistake::OneValue { directive: name.clone() })
            }
            _ => Err(Mistake::UnknownDirective { directive: name.clone() }),
        }
    }

    fn apply(&self, place: &mut Place, own: &mut Vec<Match>) {
        match self {
            Self::Arm(is_on) => place.is_on = *is_on,
            Self::Application(name, group) => {
                place.application.clone_from(name);
                place.group.clone_from(group);
            }
            Self::User(user) => place.user.clone_from(user),
            Self::Transaction(name) => place.transaction = Some(name.clone()),
            Self::Info(info) => place.info = Some(info.clone()),
            Self::Clients(clients) => place.clients.clone_from(clients),
            Self::Sample(one_in) => place.one_in = *one_in,
            Self::Match(one) => own.push(one.clone()),
        }
    }
}

impl PartialEq for Match {
    fn eq(&self, other: &Self) -> bool {
        (self.regex.as_str(), &self.name) == (other.regex.as_str(), &other.name)
    }
}

impl Eq for Match {}

impl Match {
    fn new(pattern: &str, name: &str) -> Result<Self, Mistake> {
        let regex = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MOST).build();
        let regex = regex.map_err(|source| Mistake::Pattern { pattern: pattern.to_owned(), source })?;
        Ok(Self { regex, has_query: pattern.contains("\\?"), name: name.to_owned() })
    }

    /// The name, if all that it is found in has the same.
    pub(crate) fn fixed_name(&self) -> Option<&str> {
        let has_group = self.name.as_bytes().windows(2).any(|pair| pair[0] == b'$' && pair[1].is_ascii_digit());
        (!has_group).then_some(&self.name)
    }

    /// The name of what it is found in; `None` = it is not found.
    pub(crate) fn name_of(&self, path: &str) -> Option<String> {
        if let Some(name) = self.fixed_name() {
            return self.regex.is_match(path).then(|| name.to_owned());
        }
        let found = self.regex.captures(path)?;
        let mut name = String::new();
        let mut characters = self.name.chars().peekable();
        while let Some(character) = characters.next() {
            match characters.peek().and_then(|next| next.to_digit(10)) {
                Some(group) if character == '$' => {
                    characters.next();
                    name.push_str(found.get(group as usize).map_or("", |group| group.as_str()));
                }
                _ => name.push(character),
            }
        }
        Some(shortened(&name))
    }
}

/// As much of a text as a name may have.
pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(NAME_MOST).collect()
}

/// A name as ARM allows it.
fn short(text: &str, directive: &str) -> Result<String, Mistake> {
    let characters = text.chars().count();
    if characters == 0 || characters > NAME_MOST || text.contains('\0') {
        return Err(Mistake::NameLength { directive: directive.to_owned(), characters });
    }
    Ok(text.to_owned())
}

/// `10`: one of ten; `25%`: one of four.
fn sample(text: &str) -> Result<u32, Mistake> {
    let wrong = || Mistake::Sample { text: text.to_owned() };
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.parse().map_err(|_| wrong())?;
        // Below one in a million nothing of a day would be left.
        if !(0.0001..=100.0).contains(&percent) {
            return Err(wrong());
        }
        return Ok((100.0 / percent).round() as u32);
    }
    text.parse().ok().filter(|one_in| (1..=1_000_000).contains(one_in)).ok_or_else(wrong)
}

impl FromStr for Network {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let wrong = || Mistake::Client { text: text.to_owned() };
        let (addr, bits) = text.split_once('/').map_or((text, None), |(addr, bits)| (addr, Some(bits)));
        let addr: IpAddr = addr.parse().map_err(|_| wrong())?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        if bits > most { Err(wrong()) } else { Ok(Self { addr, bits }) }
    }
}

impl Network {
    pub(crate) fn holds(self, addr: IpAddr) -> bool {
        match (self.addr, addr) {
            (IpAddr::V4(own), IpAddr::V4(addr)) => {
                (u32::from(own) ^ u32::from(addr)).checked_shr(32 - self.bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(addr)) => {
                (u128::from(own) ^ u128::from(addr)).checked_shr(128 - self.bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = r#"
# for all
Arm On
ArmApplication shop "all shops"
ArmUser example.com
ArmTransactionInfo "Web \"interface\" to the shop"
ArmMatch ^/order/ order
<Location /order>
    ArmSample 25%
    ArmMatch ^/order/([a-z]+)/([0-9]+) 'order: $1'
    ArmClient 10.0.0.0/8 ::1
</Location>
<Location "/order/bulk">
    armclient all
    ArmUser *
    ArmApplication bulk
    ARM off
</Location>
"#;

    fn place<'r>(rules: &'r ArmRules, path: &str) -> &'r Place {
        &rules.places[rules.place_of(path.as_bytes())]
    }

    #[test]
    fn the_inner_directives_have_the_last_word() {
        let rules: ArmRules = FILE.parse().expect("directives");
        let (outside, order, bulk) =
            (place(&rules, "/orders"), place(&rules, "/order"), place(&rules, "/order/bulk/7"));
        assert_eq!((outside.path.as_str(), order.path.as_str(), bulk.path.as_str()), ("", "/order", "/order/bulk"));
        assert_eq!((outside.is_on, order.is_on, bulk.is_on), (true, true, false));
        assert_eq!((outside.one_in, order.one_in, bulk.one_in), (1, 4, 4));
        assert_eq!(outside.info.as_deref(), Some("Web \"interface\" to the shop"));
        assert_eq!((order.application.as_str(), order.group.as_deref()), ("shop", Some("all shops")));
        assert_eq!((bulk.application.as_str(), bulk.group.as_deref()), ("bulk", None), "the group goes with its name");
        assert_eq!((&order.user, &bulk.user), (&User::Named("example.com".to_owned()), &User::OfRequest));
        assert_eq!((order.clients.len(), bulk.clients.len()), (2, 0));
        let holds = |addr: &str| order.clients.iter().any(|client| client.holds(addr.parse().expect("an address")));
        assert_eq!(["10.9.8.7", "11.0.0.1", "::1", "::2"].map(holds), [true, false, true, false]);
        let name = |place: &Place, path: &str| place.matches.iter().find_map(|one| one.name_of(path));
        assert_eq!(name(order, "/order/new/17").as_deref(), Some("order: new"));
        assert_eq!(name(order, "/order/").as_deref(), Some("order"));
        assert_eq!(name(outside, "/x"), None);
    }

    #[test]
    fn an_empty_file_tells_nothing() {
        let rules: ArmRules = "".parse().expect("directives");
        assert!(!place(&rules, "/").is_on);
        assert_eq!(place(&rules, "/").application, APPLICATION);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, line, what) in [
            ("Arm perhaps", 1, "On or Off"),
            ("\nArmy On", 2, "is not known"),
            ("ArmSample 0", 1, "one of N"),
            ("ArmSample 101%", 1, "percentage"),
            ("ArmClient 10.0.0.0/33", 1, "10.0.0.0/8"),
            ("ArmClient example.com", 1, "an address"),
            ("ArmMatch ( x", 1, "no regular expression"),
            ("ArmMatch /x", 1, "and a name"),
            ("ArmUser a b", 1, "quotes"),
            ("ArmUser \"a b", 1, "missing"),
            ("<Location /a>\nArm On", 2, "has no end"),
            ("<Location /a>\n<Location /b>", 2, "within another"),
            ("</Location>", 1, "no <Location> is open"),
            ("<Location a>", 1, "begins with /"),
            ("<Directory /srv>", 1, "<Location PATH>"),
            ("<Location /a", 1, "> at the end"),
        ] {
            let error = text.parse::<ArmRules>().expect_err(text);
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.what.contains(what), "{text}: {error}");
        }
        let long = format!("ArmUser {}", "x".repeat(128));
        assert!(long.parse::<ArmRules>().is_err());
    }

    #[test]
    fn every_range_of_addresses_holds_its_own() {
        for text in ["0.0.0.0/0", "::/0", "127.0.0.1/32", "2001:db8::/32"] {
            let network: Network = text.parse().expect("a range");
            assert!(network.holds(network.addr), "{text}");
        }
        let all: Network = "0.0.0.0/0".parse().expect("a range");
        assert!(all.holds("255.255.255.255".parse().expect("an address")));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "[ -~\n]{0,200}") {
            let _ = text.parse::<ArmRules>();
        }

        #[test]
        fn any_directives_are_read_without_panic(
            lines in proptest::collection::vec("(Arm|ArmUser|ArmSample|ArmMatch|ArmClient|<Location|</Location) ?[a-z0-9/%.$\"'()> ]{0,20}", 0..20)
        ) {
            if let Ok(rules) = lines.join("\n").parse::<ArmRules>() {
                prop_assert_eq!(rules.places.last().map(|place| place.path.as_str()), Some(""));
                let _ = rules.place_of(b"/a/b");
            }
        }

        #[test]
        fn what_is_quoted_comes_back(word in "[ -~]{1,40}") {
            let quoted = format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""));
            prop_assert_eq!(words(&quoted), Ok(vec![word]));
        }
    }
}
