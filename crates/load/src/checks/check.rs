//! What is checked of responses, as it is written.

use crate::checks::error::CheckError;
use crate::checks::json_path::JsonPath;
use crate::checks::schema::Schema;
use crate::checks::seen::{Keeps, Seen};
use crate::checks::test::{Answer, Limit, Parsed, Size, Test, Wanted};
use crate::requests::{Scope, Statuses};
use crate::{Request, Url};
use regex::bytes::{Regex, RegexBuilder};
use std::path::Path;
use std::str::FromStr;

/// The most checks of a run.
pub const CHECKS_MAX: usize = 64;
/// The most memory of a regular expression, in bytes.
const REGEX_BYTES_MAX: usize = 1 << 20;
/// What a check of requests is told as an example of.
const EXAMPLE: &str = "status=200";

/// What responses must be to count as successes: `status=200`, `GET /cart: json .items[0].id`.
#[derive(Debug, Clone)]
pub struct Check {
    text: String,
    scope: Option<Scope>,
    test: Test,
}

impl FromStr for Check {
    type Err = CheckError;

    fn from_str(text: &str) -> Result<Self, CheckError> {
        let (scope, asked) = Scope::split(text, EXAMPLE)?;
        Ok(Self { text: text.trim().to_owned(), scope, test: test(asked)? })
    }
}

impl Check {
    /// The check as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The requests that it is of; `None` = all.
    #[must_use]
    pub fn scope(&self) -> Option<&Scope> {
        self.scope.as_ref()
    }

    /// Whether it is of a request's responses.
    #[must_use]
    pub fn is_of(&self, url: &Url, request: &Request) -> bool {
        self.scope.as_ref().is_none_or(|scope| scope.contains(url, request))
    }

    /// What came instead of what it asks for, of a response whose head and decoded body are at hand; `None` where it is
    /// right.
    #[must_use]
    pub fn unfit<'h>(
        &self,
        status: u16,
        headers: impl Iterator<Item = (&'h str, &'h str)>,
        body: &[u8],
    ) -> Option<String> {
        let keeps = self.test.keeps();
        let mut seen = Seen::new(keeps);
        if keeps.head {
            let lines: String = headers.map(|(name, value)| format!("{name}: {value}\n")).collect();
            seen.head(lines.as_bytes());
        }
        seen.content(body);
        let answer = Answer { status, body_bytes: body.len() as u64 };
        self.test.failure(answer, Some(&seen), &mut Parsed::default())
    }

    /// What it needs of responses.
    pub(crate) fn keeps(&self) -> Keeps {
        self.test.keeps()
    }

    /// What came instead of what it asks for, in words; `None` where the response is right.
    pub(crate) fn failure(&self, answer: Answer, seen: Option<&Seen>, parsed: &mut Parsed) -> Option<String> {
        self.test.failure(answer, seen, parsed)
    }
}

/// What is asked of a response.
fn test(text: &str) -> Result<Test, CheckError> {
    let form = || CheckError::Form { given: text.to_owned() };
    let (word, rest) = text.split_at(text.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(text.len()));
    match word {
        "status" => {
            let statuses: Statuses = rest.trim_start().strip_prefix('=').ok_or_else(form)?.trim().parse()?;
            Ok(Test::Status(statuses))
        }
        "header" => header(text, rest),
        "body" => body(rest)?.ok_or_else(form),
        "size" => Ok(Test::Size(size(text, rest)?)),
        "json" => {
            let wrong = || CheckError::Path { given: rest.trim().to_owned() };
            let (path, rest) = JsonPath::read(rest.trim_start()).ok_or_else(wrong)?;
            let wanted = wanted(rest)?.ok_or_else(wrong)?;
            Ok(Test::Json { path, wanted: wanted.of_json() })
        }
        "schema" => {
            let file = rest.trim_start().strip_prefix('=').map(str::trim).filter(|file| !file.is_empty());
            Ok(Test::Schema(Schema::read(Path::new(file.ok_or_else(form)?))?))
        }
        _ => Err(form()),
    }
}

fn header(text: &str, rest: &str) -> Result<Test, CheckError> {
    let wrong = || CheckError::Header { given: text.to_owned() };
    let rest = rest.strip_prefix([' ', '\t']).ok_or_else(wrong)?.trim_start();
    let end =
        rest.find(|letter: char| matches!(letter, '=' | '!' | '~') || letter.is_whitespace()).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    // RFC 9110 5.6.2: the letters of a token, without those that compare here.
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"#$%&'*+-.^_`|".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(wrong());
    }
    Ok(Test::Header { name: name.to_owned(), wanted: wanted(rest)?.ok_or_else(wrong)? })
}

/// `None` where nothing is asked.
fn body(rest: &str) -> Result<Option<Test>, CheckError> {
    let digest = |sign: &str| rest.trim_start().strip_prefix(sign)?.trim_start().strip_prefix("sha256:");
    if let Some(digest) = digest("=") {
        return Ok(Some(Test::Digest(hexadecimal(digest.trim())?)));
    }
    if let Some(digest) = digest("!=") {
        return Ok(Some(Test::OtherDigest(hexadecimal(digest.trim())?)));
    }
    Ok(match wanted(rest)? {
        None | Some(Wanted::Present) => None,
        Some(wanted) => Some(Test::Body(wanted)),
    })
}

/// What is asked of a value: nothing but that it is there, or what stands behind a sign. `None` where it is neither.
fn wanted(text: &str) -> Result<Option<Wanted>, CheckError> {
    let text = text.trim();
    Ok(Some(if text.is_empty() {
        Wanted::Present
    } else if let Some(other) = text.strip_prefix("!=") {
        Wanted::IsNot(other.trim().to_owned())
    } else if let Some(same) = text.strip_prefix('=') {
        Wanted::Is(same.trim().to_owned())
    } else if let Some(pattern) = text.strip_prefix("!~") {
        Wanted::MatchesNot(regex(pattern.trim())?)
    } else if let Some(pattern) = text.strip_prefix('~') {
        Wanted::Matches(regex(pattern.trim())?)
    } else {
        return Ok(None);
    }))
}

fn regex(text: &str) -> Result<Regex, CheckError> {
    RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).build().map_err(|error| {
        let told = error.to_string();
        // Its last line says what is wrong, those before show where.
        let cause = told.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        CheckError::Regex { given: text.to_owned(), cause }
    })
}

fn hexadecimal(text: &str) -> Result<[u8; 32], CheckError> {
    let wrong = || CheckError::Digest { given: text.to_owned() };
    let digits: Option<Vec<u8>> = text.chars().map(|letter| letter.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len() == 64).ok_or_else(wrong)?;
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Ok(bytes)
}

fn size(text: &str, rest: &str) -> Result<Size, CheckError> {
    let wrong = || CheckError::Size { given: text.to_owned() };
    let rest = rest.trim_start();
    let (limit, rest) = [
        ("<=", Limit::AtMost),
        (">=", Limit::AtLeast),
        ("<", Limit::Below),
        (">", Limit::Above),
        ("=", Limit::Exactly),
    ]
    .into_iter()
    .find_map(|(sign, limit)| Some((limit, rest.strip_prefix(sign)?)))
    .ok_or_else(wrong)?;
    let rest = rest.trim();
    let (number, unit) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len()));
    let factor = match unit.trim() {
        "" | "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        _ => return Err(wrong()),
    };
    let bytes = number.parse::<f64>().map_err(|_| wrong())? * factor;
    // Beyond, not each number of bytes is one of the type.
    if !(0.0..=9e15).contains(&bytes) || bytes.fract() != 0.0 {
        return Err(wrong());
    }
    Ok(Size { limit, bytes: bytes as u64 })
}
