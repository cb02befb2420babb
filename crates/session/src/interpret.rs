//! What the parameters of a specification mean.

use crate::pattern::Pattern;
use crate::specification::{Block, Parameter, Specification, SyntaxError, Value};
use crate::suite::{Aim, Ask, Checks, Field, PresetCookie, Show, Status, Suite, Terse, Test};
use std::path::{Path, PathBuf};
use std::time::Duration;

type Outcome<T> = Result<T, SyntaxError>;

/// Parameters that are understood.
const KNOWN: &[&str] = &[
    "accept_cookies",
    "auth",
    "body",
    "click_button",
    "click_link",
    "content_type",
    "cookie",
    "cookies",
    "default_report",
    "delay",
    "file_path",
    "form_fields",
    "form_name",
    "handle_redirects",
    "http_headers",
    "ignore_case",
    "max_bytes",
    "max_rtime",
    "method",
    "min_bytes",
    "min_rtime",
    "params",
    "pauth",
    "plugins",
    "proxies",
    "regex_forbid",
    "regex_require",
    "relative_urls",
    "send_cookies",
    "show_cookies",
    "show_headers",
    "show_html",
    "status_code",
    "terse",
    "test_name",
    "text_forbid",
    "text_require",
    "timeout",
    "url",
    "user_agent",
];

/// Parameters of the original that cannot be honoured, and what to do instead.
const REFUSED: &[(&str, &str)] = &[
    ("on_request", "hooks are Perl, which is not evaluated"),
    ("on_response", "hooks are Perl, which is not evaluated; let a program read the output of --json"),
    ("on_start", "hooks are Perl, which is not evaluated; run your preparation before weir"),
    ("on_finish", "hooks are Perl, which is not evaluated; run what follows after weir, by its exit status"),
    ("mail", NO_MAIL),
    ("output_ref", "it is for Perl programs; standard output has the report"),
    ("fh_out", "it is for Perl programs; standard output has the report"),
    ("include_file_path", "no server is started for a local file; give its name as file_path"),
    ("error_log", "no server is started for a local file; look at the server's log by itself"),
    ("test_harness", "Perl's harness is not there; --junit writes what continuous integration reads"),
];

/// The same, by how their names begin.
const REFUSED_BEGINS: &[(&str, &str)] =
    &[("mail_", NO_MAIL), ("apache_", "no server is started for a local file; start one, and test its address")];

const NO_MAIL: &str = "weir sends no mail; leave the mail parameters out, and send the report by its exit status";

/// Plug-ins of the original that are built in.
const PLUGINS: &[&str] = &[
    "Click",
    "Delay",
    "Cookies",
    "SetRequest",
    "StatusTest",
    "TextMatchTest",
    "ContentSizeTest",
    "ResponseTimeTest",
    "DefaultReport",
    "FileRequest",
];

/// A suite of what a specification says; relative names of files are below `folder`.
///
/// # Errors
/// The first parameter that is unknown, cannot be honoured or has a value that it cannot have.
pub fn suite(specification: &Specification, folder: &Path) -> Outcome<Suite> {
    known(&specification.globals)?;
    let mut tests = Vec::with_capacity(specification.tests.len());
    for block in &specification.tests {
        known(&block.parameters)?;
        let looked_up = LookedUp { block, globals: &specification.globals, folder };
        tests.push(looked_up.test()?);
    }
    let alone = Block::default();
    let all = LookedUp { block: &alone, globals: &specification.globals, folder };
    Ok(Suite { tests, quiet: !all.is("default_report", true)? })
}

fn wrong<T>(line: usize, what: impl Into<String>) -> Outcome<T> {
    Err(SyntaxError { line, what: what.into() })
}

fn known(parameters: &[Parameter]) -> Outcome<()> {
    for (index, parameter) in parameters.iter().enumerate() {
        let (name, line) = (&*parameter.name, parameter.line);
        let refused = REFUSED.iter().find(|(refused, _)| name == *refused);
        let refused = refused.or_else(|| REFUSED_BEGINS.iter().find(|(begin, _)| name.starts_with(begin)));
        if let Some((_, why)) = refused {
            return wrong(line, format!("{name}: {why}"));
        }
        if !KNOWN.contains(&name) {
            let near = KNOWN.iter().find(|known| similar(known, name));
            let hint = near.map_or(String::new(), |near| format!("; is {near} meant?"));
            return wrong(line, format!("{name} is not a parameter of web tests{hint}"));
        }
        let before = parameters[..index].iter().find(|before| before.name == *name);
        if let Some(before) = before
            && !name.starts_with("cookie")
        {
            return wrong(line, format!("{name} was given in line {} already", before.line));
        }
        if name == "plugins" {
            plugins(parameter)?;
        }
    }
    Ok(())
}

/// Whether two names differ by one letter more, less or other, or only in their last letters.
fn similar(known: &str, name: &str) -> bool {
    let same_begin = known.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
    let (known_rest, rest) = (&known.as_bytes()[same_begin..], &name.as_bytes()[same_begin..]);
    let same_end = known_rest.iter().rev().zip(rest.iter().rev()).take_while(|(a, b)| a == b).count();
    known_rest.len() - same_end <= 2 && rest.len() - same_end <= 2 && same_begin + same_end >= 3
}

fn plugins(parameter: &Parameter) -> Outcome<()> {
    for name in texts(parameter)? {
        let short = name.trim_start_matches("HTTP::WebTest::Plugin").trim_start_matches("::");
        if !PLUGINS.contains(&short) {
            let have = PLUGINS.join(", ");
            return wrong(parameter.line, format!("the plug-in {name} is not there; these are built in: {have}"));
        }
    }
    Ok(())
}

/// The scalars of a list; a scalar alone is a list of one.
fn texts(parameter: &Parameter) -> Outcome<Vec<&str>> {
    let items = match &parameter.value {
        Value::Text(text) => return Ok(vec![text]),
        Value::List(items) => items,
    };
    let mut found = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Value::Text(text) => found.push(text.as_str()),
            Value::List(_) => {
                return wrong(parameter.line, format!("{} is a list of words, without lists within", parameter.name));
            }
        }
    }
    Ok(found)
}

fn scalar(parameter: &Parameter) -> Outcome<&str> {
    match &parameter.value {
        Value::Text(text) => Ok(text),
        Value::List(_) => wrong(parameter.line, format!("{} is one value, not a list", parameter.name)),
    }
}

/// Name and value in turn.
fn pairs(parameter: &Parameter) -> Outcome<Vec<(String, &Value)>> {
    let Value::List(items) = &parameter.value else {
        return wrong(parameter.line, format!("{} is a list: ( name => value )", parameter.name));
    };
    if items.len() % 2 == 1 {
        return wrong(parameter.line, format!("{} has a name without a value at its end", parameter.name));
    }
    let mut found = Vec::with_capacity(items.len() / 2);
    for two in items.chunks(2) {
        let [Value::Text(name), value] = two else {
            return wrong(parameter.line, format!("{}: a name is a list", parameter.name));
        };
        found.push((name.clone(), value));
    }
    Ok(found)
}

fn text_pairs(parameter: &Parameter) -> Outcome<Vec<(String, String)>> {
    let text = |(name, value): (String, &Value)| match value {
        Value::Text(value) => Ok((name, value.clone())),
        Value::List(_) => wrong(parameter.line, format!("{}: the value of {name} is a list", parameter.name)),
    };
    pairs(parameter)?.into_iter().map(text).collect()
}

struct LookedUp<'s> {
    block: &'s Block,
    globals: &'s [Parameter],
    folder: &'s Path,
}

impl LookedUp<'_> {
    /// The test's own parameter, or the one for all.
    fn get(&self, name: &str) -> Option<&Parameter> {
        let of = |parameters: &'_ [Parameter]| parameters.iter().position(|parameter| parameter.name == name);
        match of(&self.block.parameters) {
            Some(own) => Some(&self.block.parameters[own]),
            None => of(self.globals).map(|all| &self.globals[all]),
        }
    }

    fn scalar(&self, name: &str) -> Outcome<Option<(&str, usize)>> {
        self.get(name).map(|parameter| Ok((scalar(parameter)?, parameter.line))).transpose()
    }

    fn is(&self, name: &str, otherwise: bool) -> Outcome<bool> {
        match self.scalar(name)? {
            None => Ok(otherwise),
            Some((text, _)) if text.eq_ignore_ascii_case("yes") => Ok(true),
            Some((text, _)) if text.eq_ignore_ascii_case("no") => Ok(false),
            Some((text, line)) => wrong(line, format!("{name} is yes or no, not `{text}`")),
        }
    }

    fn number<T: std::str::FromStr>(&self, name: &str, what: &str, valid: impl Fn(&T) -> bool) -> Outcome<Option<T>> {
        let Some((text, line)) = self.scalar(name)? else { return Ok(None) };
        match text.parse().ok().filter(valid) {
            Some(number) => Ok(Some(number)),
            None => wrong(line, format!("{name} is {what}, not `{text}`")),
        }
    }

    fn seconds(&self, name: &str) -> Outcome<Option<f64>> {
        // Longer than a day is a mistake, and would not fit into a timer's range at some point.
        self.number(name, "a number of seconds up to 86400", |seconds: &f64| (0.0..=86_400.0).contains(seconds))
    }

    fn login(&self, name: &str) -> Outcome<Option<(String, String)>> {
        let Some(parameter) = self.get(name) else { return Ok(None) };
        match texts(parameter)?[..] {
            [user, password] => Ok(Some((user.to_owned(), password.to_owned()))),
            _ => wrong(parameter.line, format!("{name} is a list of two: ( user password ), a line each")),
        }
    }

    fn patterns(&self, name: &str, ignore_case: bool) -> Outcome<Vec<Pattern>> {
        let Some(parameter) = self.get(name) else { return Ok(Vec::new()) };
        let make = if name.starts_with("regex") { Pattern::new } else { Pattern::text };
        let read = |text| {
            make(text, ignore_case)
                .map_err(|error| SyntaxError { line: parameter.line, what: format!("{name}: {error}") })
        };
        texts(parameter)?.into_iter().map(read).collect()
    }

    fn pattern(&self, name: &str) -> Outcome<Option<Pattern>> {
        let Some((text, line)) = self.scalar(name)? else { return Ok(None) };
        let read = Pattern::new(text, true);
        read.map(Some).map_err(|error| SyntaxError { line, what: format!("{name}: {error}") })
    }

    fn test(&self) -> Outcome<Test> {
        let show = Show {
            terse: self.terse()?,
            headers: self.is("show_headers", false)?,
            cookies: self.is("show_cookies", false)?,
            html: self.is("show_html", false)?,
        };
        Ok(Test {
            name: self.block.name.clone(),
            line: self.block.line,
            session: 0,
            ask: self.ask()?,
            checks: self.checks()?,
            show,
        })
    }

    fn terse(&self) -> Outcome<Terse> {
        match self.scalar("terse")? {
            None => Ok(Terse::No),
            Some((text, line)) => match text.to_ascii_lowercase().as_str() {
                "no" => Ok(Terse::No),
                "summary" => Ok(Terse::Summary),
                "failed_only" => Ok(Terse::FailedOnly),
                _ => wrong(line, format!("terse is no, summary or failed_only, not `{text}`")),
            },
        }
    }

    fn checks(&self) -> Outcome<Checks> {
        let ignore_case = self.is("ignore_case", false)?;
        let status = self.number("status_code", "a number from 100 to 599", |code: &u16| (100..600).contains(code))?;
        let bytes = |name| self.number(name, "a number of bytes", |_: &u64| true);
        Ok(Checks {
            status: Status::Exactly(status.unwrap_or(200)),
            text_forbid: self.patterns("text_forbid", ignore_case)?,
            text_require: self.patterns("text_require", ignore_case)?,
            regex_forbid: self.patterns("regex_forbid", ignore_case)?,
            regex_require: self.patterns("regex_require", ignore_case)?,
            min_bytes: bytes("min_bytes")?,
            max_bytes: bytes("max_bytes")?,
            min_rtime: self.seconds("min_rtime")?,
            max_rtime: self.seconds("max_rtime")?,
        })
    }

    fn aim(&self) -> Outcome<Aim> {
        // In the order of precedence that the original has, the test's own before those for all.
        if let Some(link) = self.pattern("click_link")? {
            return Ok(Aim::Link(link));
        }
        if let Some(button) = self.pattern("click_button")? {
            return Ok(Aim::Button(button));
        }
        if let Some((name, _)) = self.scalar("form_name")? {
            return Ok(Aim::Form(name.to_owned()));
        }
        if let Some(parameter) = self.get("file_path") {
            let Some(path) = texts(parameter)?.first().copied() else {
                return wrong(parameter.line, "file_path is empty");
            };
            return Ok(Aim::File(self.folder.join(path)));
        }
        let Some((url, line)) = self.scalar("url")? else {
            return wrong(
                self.block.line,
                "the test has no address: give it url, file_path, click_link, click_button or form_name",
            );
        };
        if self.is("relative_urls", false)? {
            return Ok(Aim::Relative(url.to_owned()));
        }
        let schemed = url.split_once(':').is_some_and(|(scheme, rest)| {
            rest.starts_with("//") && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        let url = if schemed || url.starts_with("file:") { url.to_owned() } else { format!("http://{url}") };
        match url::Url::parse(&url) {
            Ok(parsed) if ["http", "https", "file"].contains(&parsed.scheme()) => Ok(Aim::Address(url)),
            Ok(parsed) => wrong(line, format!("url: {}: only http, https and file are spoken", parsed.scheme())),
            Err(error) => wrong(line, format!("url: {url}: {error}")),
        }
    }

    fn ask(&self) -> Outcome<Ask> {
        let mut ask = Ask::get(self.aim()?);
        if let Some((method, line)) = self.scalar("method")? {
            if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphabetic()) {
                return wrong(line, format!("method is a word such as GET or POST, not `{method}`"));
            }
            ask.method = method.to_ascii_uppercase();
            ask.method_given = true;
        }
        if let Some(parameter) = self.get("params") {
            let field = |(name, value): (String, &Value)| Ok((name.clone(), self.field(parameter, &name, value)?));
            ask.fields = pairs(parameter)?.into_iter().map(field).collect::<Outcome<_>>()?;
            let files = ask.fields.iter().any(|(_, field)| matches!(field, Field::File { .. }));
            if files && ask.method != "POST" {
                return wrong(parameter.line, "params: a file is sent by POST only; write method = post");
            }
        }
        if let Some((text, line)) = self.scalar("body")? {
            let kind = self.scalar("content_type")?.map_or("text/plain", |(kind, _)| kind);
            if !ask.fields.is_empty() || ["GET", "HEAD"].contains(&ask.method.as_str()) {
                return wrong(line, "body is sent by a method such as post, and without params");
            }
            ask.body = Some((kind.to_owned(), text.as_bytes().to_vec()));
        }
        if let Some(parameter) = self.get("http_headers") {
            // As in LWP: an underscore means a hyphen, unless a colon in front says that the name stands as it is.
            let field = |(name, value): (String, String)| match name.strip_prefix(':') {
                Some(literal) => (literal.to_owned(), value),
                None => (name.replace('_', "-"), value),
            };
            ask.headers = text_pairs(parameter)?.into_iter().map(field).collect();
        }
        if let Some(parameter) = self.get("proxies") {
            ask.proxies = text_pairs(parameter)?;
        }
        ask.login = self.login("auth")?;
        ask.proxy_login = self.login("pauth")?;
        if let Some((name, _)) = self.scalar("user_agent")? {
            ask.user_agent = name.to_owned();
        }
        if let Some(timeout) = self.seconds("timeout")? {
            ask.timeout = Duration::from_secs_f64(timeout);
        }
        if let Some(delay) = self.seconds("delay")? {
            ask.delay = Duration::from_secs_f64(delay);
        }
        ask.follow = self.is("handle_redirects", true)?;
        ask.accept_cookies = self.is("accept_cookies", true)?;
        ask.send_cookies = self.is("send_cookies", true)?;
        ask.form_fields = self.is("form_fields", false)?;
        ask.cookies = self.cookies()?;
        Ok(ask)
    }

    /// A value of `params`: a text, or ( FILE NAME HEADER => VALUE … ).
    fn field(&self, parameter: &Parameter, name: &str, value: &Value) -> Outcome<Field> {
        let items = match value {
            Value::Text(text) => return Ok(Field::Text(text.clone())),
            Value::List(items) => items,
        };
        let within =
            Parameter { name: format!("params: {name}"), value: Value::List(items.clone()), line: parameter.line };
        let texts = texts(&within)?;
        let Some((file, rest)) = texts.split_first() else {
            return wrong(parameter.line, format!("params: {name}: no file"));
        };
        let path: PathBuf = self.folder.join(file);
        let own = || path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (told, headers) = rest.split_first().map_or((None, rest), |(told, headers)| (Some(*told), headers));
        if headers.len() % 2 == 1 {
            return wrong(parameter.line, format!("params: {name}: a header field without a value"));
        }
        let told = told.filter(|told| !told.is_empty()).map_or_else(own, str::to_owned);
        let headers = headers.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect();
        Ok(Field::File { path, name: told, headers })
    }

    fn cookies(&self) -> Outcome<Vec<PresetCookie>> {
        let own = |parameter: &&Parameter| parameter.name.starts_with("cookie");
        let mut given: Vec<&Parameter> = self.block.parameters.iter().filter(own).collect();
        if given.is_empty() {
            given = self.globals.iter().filter(own).collect();
        }
        let mut cookies = Vec::new();
        for parameter in given {
            let Value::List(items) = &parameter.value else {
                return wrong(parameter.line, "cookies is a list: ( ( name => a  value => b ) )");
            };
            let nested = items.iter().all(|item| matches!(item, Value::List(_)));
            let each: Vec<&[Value]> = if nested {
                items
                    .iter()
                    .filter_map(|item| if let Value::List(list) = item { Some(&**list) } else { None })
                    .collect()
            } else {
                vec![items]
            };
            for items in each {
                cookies.push(cookie(parameter.line, items)?);
            }
        }
        Ok(cookies)
    }
}

/// A cookie in one of the two styles: name => value pairs, or values in a row that begin with a version.
fn cookie(line: usize, items: &[Value]) -> Outcome<PresetCookie> {
    let whole = Parameter { name: "cookies".to_owned(), value: Value::List(items.to_vec()), line };
    let row = matches!(items.first(), Some(Value::Text(first)) if first.bytes().all(|byte| byte.is_ascii_digit()));
    let mut cookie = PresetCookie::default();
    let mut take = |name: &str, value: &str| -> Outcome<()> {
        let given = (!value.is_empty()).then(|| value.to_owned());
        match name {
            "name" => cookie.name = value.to_owned(),
            "value" => cookie.value = value.to_owned(),
            "path" => cookie.path = given,
            "domain" => cookie.domain = given,
            "port" if !value.is_empty() => {
                let ports = value.split(',').map(|port| port.trim().parse());
                cookie.ports = ports.collect::<Result<_, _>>().map_err(|_| SyntaxError {
                    line,
                    what: format!("cookies: port is a list such as 80,8080, not `{value}`"),
                })?;
            }
            "secure" => cookie.secure = !["", "0"].contains(&value),
            // They live as long as the tests, as in the original.
            "version" | "port" | "path_spec" | "maxage" | "expires" | "discard" | "rest" => {}
            _ => return wrong(line, format!("cookies: {name} is not a part of a cookie")),
        }
        Ok(())
    };
    if row {
        let parts = ["version", "name", "value", "path", "domain", "port", "path_spec", "secure", "maxage", "discard"];
        for (name, value) in parts.iter().zip(texts(&whole)?) {
            take(name, value)?;
        }
    } else {
        for (name, value) in pairs(&whole)? {
            match value {
                Value::Text(value) => take(&name, value)?,
                Value::List(_) => take(&name, "")?,
            }
        }
    }
    if cookie.name.is_empty() {
        return wrong(line, "cookies: a cookie has no name");
    }
    Ok(cookie)
}
