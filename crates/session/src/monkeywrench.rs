//! Sessions of HTTP::Monkeywrench: lists of clicks, as Perl literals, JSON or TOML.

mod mistake;

use crate::literal::{Literal, Literals};
use crate::pattern::{Pattern, PatternError};
use crate::suite::{Aim, Ask, Checks, Field, PresetCookie, Show, Status, Suite, Terse, Test};
use mistake::Mistake;
use std::time::Duration;

/// What is wrong with a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct SessionError {
    /// The session and click, and the line if it is known.
    pub place: String,
    /// What is wrong, and the remedy.
    pub what: String,
}

impl SessionError {
    fn of(place: String, mistake: &Mistake) -> Self {
        Self { place, what: mistake.to_string() }
    }
}

type Outcome<T> = Result<T, Mistake>;

/// Settings of the original that change nothing here.
const WITHOUT_EFFECT: &[&str] = &["smtp_server", "send_if_err"];

/// Sessions and settings of a Perl program's literals.
///
/// # Errors
/// The first click or setting that cannot be honoured.
pub fn suite_of_literals(literals: &Literals) -> Result<Suite, SessionError> {
    let named = |name: &String| literals.named.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value);
    let values: Vec<&Literal> = match &literals.tested {
        Some(names) if !names.is_empty() => names.iter().filter_map(named).collect(),
        // Variables within other literals were copied there; only what is a session by itself counts.
        _ => literals.named.iter().map(|(_, value)| value).collect(),
    };
    let mut show = Show::default();
    let mut quiet = false;
    let mut sessions = Vec::new();
    for value in values {
        match value {
            Literal::Map(line, pairs) if !pairs.iter().any(|(key, _)| key == "url") => {
                (show, quiet) =
                    settings(pairs).map_err(|mistake| SessionError::of(format!("line {line}: settings"), &mistake))?;
            }
            // A click alone, as a variable that a session names.
            Literal::Map(..) | Literal::Text(_) | Literal::Regex { .. } | Literal::Undef => {}
            Literal::List(items) => collect(items, &mut sessions),
        }
    }
    suite(&sessions, show, quiet)
}

/// Sessions as JSON: a list of clicks, a list of such lists, or `{"settings": {…}, "sessions": […]}`.
///
/// # Errors
/// What is no JSON, and the first click or setting that cannot be honoured.
pub fn suite_of_json(text: &str) -> Result<Suite, SessionError> {
    let value = serde_json::from_str(text)
        .map_err(|error| SessionError { place: "JSON".to_owned(), what: error.to_string() })?;
    suite_of_value(value)
}

/// The same as TOML: `[[sessions]]` with `clicks`, and `[settings]`.
///
/// # Errors
/// As for JSON.
pub fn suite_of_toml(text: &str) -> Result<Suite, SessionError> {
    let value = toml::from_str(text)
        .map_err(|error: toml::de::Error| SessionError { place: "TOML".to_owned(), what: error.to_string() })?;
    suite_of_value(value)
}

fn suite_of_value(value: serde_json::Value) -> Result<Suite, SessionError> {
    let place = || "the file".to_owned();
    let mut shown = (Show::default(), false);
    let mut sessions = Vec::new();
    let whole = literal(value);
    match &whole {
        Literal::List(items) => collect(items, &mut sessions),
        Literal::Map(_, pairs) => {
            for (key, value) in pairs {
                match (key.as_str(), value) {
                    ("settings", Literal::Map(_, pairs)) => {
                        shown = settings(pairs).map_err(|mistake| SessionError::of("settings".to_owned(), &mistake))?;
                    }
                    ("sessions", Literal::List(items)) => collect(items, &mut sessions),
                    _ => {
                        let what = format!("{key} is neither settings nor a list of sessions");
                        return Err(SessionError { place: place(), what });
                    }
                }
            }
        }
        _ => return Err(SessionError { place: place(), what: "it holds no list of clicks".to_owned() }),
    }
    suite(&sessions, shown.0, shown.1)
}

fn literal(value: serde_json::Value) -> Literal {
    use serde_json::Value;
    match value {
        Value::Null => Literal::Undef,
        Value::Bool(is) => Literal::Text(u8::from(is).to_string()),
        Value::Number(number) => Literal::Text(number.to_string()),
        Value::String(text) => Literal::Text(text),
        Value::Array(items) => Literal::List(items.into_iter().map(literal).collect()),
        Value::Object(pairs) => Literal::Map(0, pairs.into_iter().map(|(key, value)| (key, literal(value))).collect()),
    }
}

/// A list of clicks is a session; a list of lists, or of tables with `clicks`, is several.
fn collect<'l>(items: &'l [Literal], sessions: &mut Vec<&'l [Literal]>) {
    let is_click =
        |item: &Literal| matches!(item, Literal::Map(_, pairs) if !pairs.iter().any(|(key, _)| key == "clicks"));
    if items.iter().any(is_click) {
        sessions.push(items);
        return;
    }
    for item in items {
        match item {
            Literal::List(items) => collect(items, sessions),
            Literal::Map(_, pairs) => {
                for (_, value) in pairs.iter().filter(|(key, _)| key == "clicks") {
                    if let Literal::List(items) = value {
                        sessions.push(items);
                    }
                }
            }
            _ => {}
        }
    }
}

fn settings(pairs: &[(String, Literal)]) -> Outcome<(Show, bool)> {
    let (mut show, mut quiet) = (Show::default(), false);
    for (key, value) in pairs {
        match key.as_str() {
            "match_detail" => show.terse = if is_set(value)? { Terse::No } else { Terse::FailedOnly },
            "show_cookies" => show.cookies = is_set(value)?,
            "print_results" => quiet = !is_set(value)?,
            "send_mail" if matches!(value, Literal::Undef) || matches!(value, Literal::List(to) if to.is_empty()) => {}
            "send_mail" => return Err(Mistake::SendMail),
            key if WITHOUT_EFFECT.contains(&key) => {}
            key => return Err(Mistake::NoSetting(key.to_owned())),
        }
    }
    Ok((show, quiet))
}

fn suite(sessions: &[&[Literal]], show: Show, quiet: bool) -> Result<Suite, SessionError> {
    let mut tests = Vec::new();
    for (session, clicks) in sessions.iter().enumerate() {
        for (index, item) in clicks.iter().enumerate() {
            let place = |line: usize| {
                let line = if line > 0 { format!("line {line}, ") } else { String::new() };
                format!("{line}session {}, click {}", session + 1, index + 1)
            };
            let Literal::Map(line, pairs) = item else {
                return Err(SessionError { place: place(0), what: "a click is { url => … }".to_owned() });
            };
            let test = click(pairs, session, *line, show);
            tests.push(test.map_err(|mistake| SessionError::of(place(*line), &mistake))?);
        }
    }
    Ok(Suite { tests, quiet })
}

fn is_set(value: &Literal) -> Outcome<bool> {
    match value {
        Literal::Undef => Ok(false),
        Literal::Text(text) => Ok(!["", "0"].contains(&text.as_str())),
        _ => Err(Mistake::NoFlag),
    }
}

fn scalar<'l>(key: &str, value: &'l Literal) -> Outcome<&'l str> {
    match value {
        Literal::Undef => Ok(""),
        Literal::Text(text) => Ok(text),
        _ => Err(Mistake::NoText(key.to_owned())),
    }
}

fn list<'l>(key: &str, value: &'l Literal) -> Outcome<&'l [Literal]> {
    match value {
        Literal::Undef => Ok(&[]),
        Literal::List(items) => Ok(items),
        _ => Err(Mistake::NoList(key.to_owned())),
    }
}

fn click(pairs: &[(String, Literal)], session: usize, line: usize, show: Show) -> Outcome<Test> {
    let mut ask = Ask::get(Aim::Address(String::new()));
    (ask.accept_cookies, ask.send_cookies) = (false, false);
    let mut checks = Checks { status: Status::Success, ..Checks::default() };
    let (mut name, mut address, mut show) = (None, String::new(), show);
    for (key, value) in pairs {
        match key.as_str() {
            "name" => name = Some(scalar(key, value)?.to_owned()),
            "url" => address = scalar(key, value)?.trim().to_owned(),
            "method" => {
                let method = scalar(key, value)?.to_ascii_uppercase();
                if !method.bytes().all(|byte| byte.is_ascii_alphabetic()) {
                    return Err(Mistake::Method(method));
                }
                ask.method_given = !method.is_empty();
                if ask.method_given {
                    ask.method = method;
                }
            }
            "params" => ask.fields = fields(value)?,
            "auth" => match list(key, value)? {
                [] => {}
                [user, password] => {
                    ask.login = Some((scalar(key, user)?.to_owned(), scalar(key, password)?.to_owned()));
                }
                _ => return Err(Mistake::Auth),
            },
            "success_res" => {
                (checks.text_require, checks.regex_require) = patterns(key, value)?;
            }
            "error_res" => (checks.text_forbid, checks.regex_forbid) = patterns(key, value)?,
            "cookies" => ask.cookies = list(key, value)?.iter().map(cookie).collect::<Outcome<_>>()?,
            "acceptcookie" => ask.accept_cookies = is_set(value)?,
            "sendcookie" => ask.send_cookies = is_set(value)?,
            "showhtml" => show.html = is_set(value)?,
            // Ours: what a recording tells besides.
            "delay" => {
                let seconds = scalar(key, value)?.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
                ask.delay = Duration::from_secs_f64(seconds.ok_or(Mistake::Delay)?);
            }
            "status_code" => {
                let code = scalar(key, value)?.parse().ok().filter(|code| (100..600).contains(code));
                checks.status = Status::Exactly(code.ok_or(Mistake::StatusCode)?);
            }
            "body" | "content_type" => {
                let (mut kind, mut body) = ask.body.take().unwrap_or_default();
                match key.as_str() {
                    "body" => body = scalar(key, value)?.as_bytes().to_vec(),
                    _ => scalar(key, value)?.clone_into(&mut kind),
                }
                ask.body = Some((kind, body));
            }
            key => return Err(Mistake::NoPart(key.to_owned())),
        }
    }
    if address.is_empty() {
        return Err(Mistake::NoUrl);
    }
    if !address.contains("://") {
        address.insert_str(0, "http://");
    }
    match url::Url::parse(&address) {
        Ok(parsed) if ["http", "https", "file"].contains(&parsed.scheme()) => {}
        Ok(parsed) => return Err(Mistake::Scheme(parsed.scheme().to_owned())),
        Err(source) => return Err(Mistake::Url { address, source }),
    }
    ask.aim = Aim::Address(address);
    Ok(Test { name, line, session, ask, checks, show })
}

/// `{ name => value }`, where a value may be a list of several, or names and values in turn.
fn fields(value: &Literal) -> Outcome<Vec<(String, Field)>> {
    let field = |name: &str, value: &Literal| -> Outcome<(String, Field)> {
        Ok((name.to_owned(), Field::Text(scalar("a value of params", value)?.to_owned())))
    };
    let mut found = Vec::new();
    match value {
        Literal::Undef => {}
        Literal::Text(text) if text.is_empty() => {}
        Literal::Map(_, pairs) => {
            for (name, value) in pairs {
                match value {
                    Literal::List(values) => {
                        for value in values {
                            found.push(field(name, value)?);
                        }
                    }
                    value => found.push(field(name, value)?),
                }
            }
        }
        Literal::List(items) => {
            for pair in items.chunks(2) {
                let [name, value] = pair else { return Err(Mistake::NoValue) };
                found.push(field(scalar("a name of params", name)?, value)?);
            }
        }
        _ => return Err(Mistake::Params),
    }
    Ok(found)
}

/// Texts as they stand, and compiled patterns.
fn patterns(key: &str, value: &Literal) -> Outcome<(Vec<Pattern>, Vec<Pattern>)> {
    let (mut texts, mut regexes) = (Vec::new(), Vec::new());
    for item in list(key, value)? {
        match item {
            Literal::Text(text) => texts.push(Pattern::text(text, false).map_err(|source| of_key(key, source))?),
            Literal::Regex { pattern, flags } => regexes.push(regex(key, pattern, flags)?),
            // JSON and TOML have no qr//.
            Literal::Map(_, pairs) => {
                let part = |name: &str| pairs.iter().find(|(own, _)| own == name).map(|(_, value)| scalar(name, value));
                let pattern = part("regex").ok_or_else(|| Mistake::NoRegex(key.to_owned()))??;
                regexes.push(regex(key, pattern, part("flags").transpose()?.unwrap_or_default())?);
            }
            _ => return Err(Mistake::NoPattern(key.to_owned())),
        }
    }
    Ok((texts, regexes))
}

fn regex(key: &str, pattern: &str, flags: &str) -> Outcome<Pattern> {
    // What compiles once, and how characters are counted, changes nothing.
    let told: String = flags.chars().filter(|flag| "imsx".contains(*flag)).collect();
    if let Some(flag) = flags.chars().find(|flag| !"imsxogcaul".contains(*flag)) {
        return Err(Mistake::RegexFlag { key: key.to_owned(), flag, pattern: pattern.to_owned() });
    }
    let with_flags = if told.is_empty() { pattern.to_owned() } else { format!("(?{told}){pattern}") };
    Pattern::new(&with_flags, false).map_err(|source| of_key(key, source))
}

fn of_key(key: &str, source: PatternError) -> Mistake {
    Mistake::Pattern { key: key.to_owned(), source }
}

/// [ version, name, value, path, domain, port, path_spec, secure, maxage, discard, … ], or a table of these names.
fn cookie(value: &Literal) -> Outcome<PresetCookie> {
    let mut cookie = PresetCookie::default();
    let mut take = |part: &str, value: &Literal| -> Outcome<()> {
        if matches!(value, Literal::Map(..)) {
            return Ok(());
        }
        let text = scalar("a part of a cookie", value)?;
        let given = (!text.is_empty()).then(|| text.to_owned());
        match part {
            "name" => text.clone_into(&mut cookie.name),
            "value" => text.clone_into(&mut cookie.value),
            "path" => cookie.path = given,
            "domain" => cookie.domain = given,
            "port" if !text.is_empty() => {
                let ports: Result<Vec<u16>, _> = text.split(',').map(|port| port.trim().parse()).collect();
                cookie.ports = ports.map_err(|_| Mistake::CookiePort(text.to_owned()))?;
            }
            "secure" => cookie.secure = !["", "0"].contains(&text),
            _ => {}
        }
        Ok(())
    };
    match value {
        Literal::List(items) => {
            let parts = ["version", "name", "value", "path", "domain", "port", "path_spec", "secure"];
            for (part, value) in parts.iter().zip(items) {
                take(part, value)?;
            }
        }
        Literal::Map(_, pairs) => {
            for (part, value) in pairs {
                take(part, value)?;
            }
        }
        _ => return Err(Mistake::Cookie),
    }
    if cookie.name.is_empty() { Err(Mistake::CookieName) } else { Ok(cookie) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal;

    const PERL: &str = "my $s = [ { name => 'Front', url => 'https://a.example:8443/', params => { q => 'a b' },\n\
        method => '', auth => ['me', 'you'], success_res => ['a+b', qr/x+/i], error_res => [qr/404/],\n\
        cookies => [[0, 'n', 'v', '/', '.a.example', '8443', '', '', '']], acceptcookie => 1, sendcookie => 1 } ];\n\
        my $t = [ { url => 'b.example' } ];\nHTTP::Monkeywrench->test({ show_cookies => 1 }, $s, $t);";

    fn suite_of(text: &str) -> Result<Suite, SessionError> {
        suite_of_literals(&literal::parse(text, &|_| None).unwrap())
    }

    #[test]
    fn perl_json_and_toml_say_the_same() {
        let perl = suite_of(PERL).unwrap();
        let json = suite_of_json(
            r#"{"sessions": [[{"name": "Front", "url": "https://a.example:8443/", "params": {"q": "a b"},
            "auth": ["me", "you"], "success_res": ["a+b", {"regex": "x+", "flags": "i"}], "error_res": [{"regex": "404"}],
            "cookies": [[0, "n", "v", "/", ".a.example", "8443"]], "acceptcookie": true, "sendcookie": 1}],
            [{"url": "b.example"}]]}"#,
        );
        let toml = suite_of_toml(
            "[[sessions]]\n[[sessions.clicks]]\nname = 'Front'\nurl = 'https://a.example:8443/'\nparams = { q = 'a b' }\n\
             auth = ['me', 'you']\nsuccess_res = ['a+b', { regex = 'x+', flags = 'i' }]\nerror_res = [{ regex = '404' }]\n\
             cookies = [{ name = 'n', value = 'v', path = '/', domain = '.a.example', port = 8443 }]\n\
             acceptcookie = true\nsendcookie = true\n[[sessions]]\nclicks = [{ url = 'b.example' }]\n",
        );
        let told = |suite: &Suite| {
            let test = |test: &Test| format!("{:?} {:?} {:?} {}", test.name, test.ask, test.checks, test.session);
            suite.tests.iter().map(test).collect::<Vec<_>>()
        };
        assert_eq!(told(&perl), told(&json.unwrap()));
        assert_eq!(told(&perl), told(&toml.unwrap()));
        let first = &perl.tests[0];
        assert!(matches!(&first.ask.aim, Aim::Address(address) if address == "https://a.example:8443/"));
        assert!(first.checks.text_require[0].is_in(b"a+b") && !first.checks.text_require[0].is_in(b"aab"));
        assert!(matches!(&perl.tests[1].ask.aim, Aim::Address(address) if address == "http://b.example"));
        assert!(!perl.tests[1].ask.accept_cookies && perl.tests[1].session == 1);
    }

    #[test]
    fn clicks_keep_their_order_past_ten() {
        let clicks: String = (0..25).map(|n| format!("{{ name => '{n}', url => 'a/{n}' }},\n")).collect();
        let suite = suite_of(&format!("[\n{clicks}];")).unwrap();
        let names: Vec<String> = suite.tests.iter().filter_map(|test| test.name.clone()).collect();
        assert_eq!(names, (0..25).map(|n| n.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_at_its_click() {
        for (text, place, told) in [
            ("[ { url => 'a' },\n { name => 'b' } ];", "line 2, session 1, click 2", "no url"),
            ("[ { url => 'a', sucess_res => [] } ];", "click 1", "sucess_res is not a part"),
            ("[ { url => 'a', success_res => [qr/(?=x)/] } ];", "click 1", "look-ahead"),
            ("[ { url => 'a', auth => ['x'] } ];", "click 1", "auth is"),
            ("[ { url => 'ftp://a' } ];", "click 1", "ftp"),
            ("my $x = { send_mail => ['a@b'] };", "line 1: settings", "no mail"),
        ] {
            let error = suite_of(text).unwrap_err();
            assert!(error.place.contains(place) && error.what.contains(told), "{text}: {error}");
        }
    }
}
