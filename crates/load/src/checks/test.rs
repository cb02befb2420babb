//! Whether a response is as a check asks.

use crate::checks::json_path::JsonPath;
use crate::checks::schema::Schema;
use crate::checks::seen::{BODY_KEPT_MAX, Keeps, Seen};
use crate::requests::Statuses;
use regex::bytes::Regex;
use serde_json::Value;

/// The most of a value that is told, in bytes.
const TOLD_BYTES_MAX: usize = 120;

/// What is known of a whole response without looking at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The length of its body, without the framing of chunks.
    pub(crate) body_bytes: u64,
}

/// What is asked of a response.
#[derive(Debug, Clone)]
pub(crate) enum Test {
    Status(Statuses),
    /// A header is there, or one with its name is so.
    Header {
        name: String,
        wanted: Wanted,
    },
    Body(Wanted),
    /// SHA-256 of the body.
    Digest([u8; 32]),
    /// Another SHA-256 of the body than this.
    OtherDigest([u8; 32]),
    Size(Size),
    /// What stands at a place of the body, which is JSON.
    Json {
        path: JsonPath,
        wanted: WantedValue,
    },
    /// The body, which is JSON, is as a schema asks.
    Schema(Schema),
}

/// What is asked of a text.
#[derive(Debug, Clone)]
pub(crate) enum Wanted {
    Present,
    Is(String),
    IsNot(String),
    Matches(Regex),
    MatchesNot(Regex),
}

/// What is asked of a JSON value.
#[derive(Debug, Clone)]
pub(crate) enum WantedValue {
    Present,
    Is(Value),
    IsNot(Value),
    Matches(Regex),
    MatchesNot(Regex),
}

/// What is asked of a body's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) limit: Limit,
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Below,
    AtMost,
    Above,
    AtLeast,
    Exactly,
}

/// A response's body as JSON, read once for all checks.
#[derive(Debug, Default)]
pub(crate) struct Parsed(Option<Result<Value, NoJson>>);

/// Why a body is not read as JSON.
#[derive(Debug, thiserror::Error)]
enum NoJson {
    #[error("more than {} bytes, of which no JSON is read", BODY_KEPT_MAX)]
    TooLong,
    #[error("no JSON ({cause}): {begin}")]
    Malformed { cause: serde_json::Error, begin: String },
}

impl Parsed {
    fn value(&mut self, seen: &Seen) -> Result<&Value, &NoJson> {
        let value = self.0.get_or_insert_with(|| {
            let (body, is_all) = seen.body();
            if !is_all {
                return Err(NoJson::TooLong);
            }
            serde_json::from_slice(body).map_err(|cause| NoJson::Malformed { cause, begin: shown(body) })
        });
        value.as_ref()
    }
}

impl Wanted {
    /// The same of a JSON value: what is no JSON is a string.
    pub(crate) fn of_json(self) -> WantedValue {
        let value = |text: String| serde_json::from_str(&text).unwrap_or(Value::String(text));
        match self {
            Self::Present => WantedValue::Present,
            Self::Is(text) => WantedValue::Is(value(text)),
            Self::IsNot(text) => WantedValue::IsNot(value(text)),
            Self::Matches(pattern) => WantedValue::Matches(pattern),
            Self::MatchesNot(pattern) => WantedValue::MatchesNot(pattern),
        }
    }

    /// Whether it asks that something is not so, which holds where there is nothing.
    fn is_negative(&self) -> bool {
        matches!(self, Self::IsNot(_) | Self::MatchesNot(_))
    }

    fn holds(&self, value: &[u8]) -> bool {
        match self {
            Self::Present => true,
            Self::Is(text) => text.as_bytes() == value,
            Self::IsNot(text) => text.as_bytes() != value,
            Self::Matches(pattern) => pattern.is_match(value),
            Self::MatchesNot(pattern) => !pattern.is_match(value),
        }
    }
}

impl Test {
    pub(crate) fn keeps(&self) -> Keeps {
        match self {
            Self::Status(_) | Self::Size(_) => Keeps::default(),
            Self::Header { .. } => Keeps { head: true, ..Keeps::default() },
            Self::Body(_) | Self::Json { .. } | Self::Schema(_) => Keeps { body: true, ..Keeps::default() },
            Self::Digest(_) | Self::OtherDigest(_) => Keeps { digest: true, ..Keeps::default() },
        }
    }

    /// What came instead of what is asked for, in words; `None` where the response is right.
    pub(crate) fn failure(&self, answer: Answer, seen: Option<&Seen>, parsed: &mut Parsed) -> Option<String> {
        match (self, seen) {
            (Self::Status(wanted), _) => (!wanted.contains(answer.status)).then(|| format!("status {}", answer.status)),
            (Self::Size(size), _) => (!size.holds(answer.body_bytes)).then(|| format!("{} bytes", answer.body_bytes)),
            (Self::Header { name, wanted }, Some(seen)) => of_header(name, wanted, seen),
            (Self::Body(wanted), Some(seen)) => of_body(wanted, seen),
            (Self::Digest(wanted), Some(seen)) => {
                let digest = seen.digest();
                let told = || digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                (digest != *wanted).then(|| format!("sha256:{} of {} bytes", told(), answer.body_bytes))
            }
            (Self::OtherDigest(unwanted), Some(seen)) => {
                (seen.digest() == *unwanted).then(|| format!("that SHA-256, of {} bytes", answer.body_bytes))
            }
            (Self::Json { path, wanted }, Some(seen)) => match parsed.value(seen) {
                Ok(value) => of_value(path.of(value), wanted),
                Err(fault) => Some(fault.to_string()),
            },
            (Self::Schema(schema), Some(seen)) => match parsed.value(seen) {
                Ok(value) => schema.failure(value).map(|words| shown(words.as_bytes())),
                Err(fault) => Some(fault.to_string()),
            },
            // What a test needs is kept in every run that has it.
            (_, None) => Some("nothing was kept of it".to_owned()),
        }
    }
}

impl Size {
    fn holds(self, bytes: u64) -> bool {
        match self.limit {
            Limit::Below => bytes < self.bytes,
            Limit::AtMost => bytes <= self.bytes,
            Limit::Above => bytes > self.bytes,
            Limit::AtLeast => bytes >= self.bytes,
            Limit::Exactly => bytes == self.bytes,
        }
    }
}

/// Of several lines with the name one must be as asked; where something must not be so, none may.
fn of_header(name: &str, wanted: &Wanted, seen: &Seen) -> Option<String> {
    let holds = match wanted.is_negative() {
        true => seen.values(name).all(|value| wanted.holds(value)),
        false => seen.values(name).any(|value| wanted.holds(value)),
    };
    if holds {
        return None;
    }
    let values: Vec<_> = seen.values(name).map(shown).collect();
    Some(if values.is_empty() { format!("no header {name}") } else { format!("{name}: {}", values.join(", ")) })
}

fn of_body(wanted: &Wanted, seen: &Seen) -> Option<String> {
    let (body, is_all) = seen.body();
    match wanted {
        // What is there of it is enough where something of it is looked for and found.
        Wanted::Matches(_) if wanted.holds(body) => None,
        Wanted::MatchesNot(_) if !wanted.holds(body) => Some(shown(body)),
        _ if !is_all => Some(format!("more than {BODY_KEPT_MAX} bytes, which are not all looked at: {}", shown(body))),
        _ if wanted.holds(body) => None,
        _ if body.is_empty() => Some("an empty body".to_owned()),
        _ => Some(shown(body)),
    }
}

fn of_value(value: Option<&Value>, wanted: &WantedValue) -> Option<String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let holds = match (wanted, value) {
        (WantedValue::Present, value) => value.is_some(),
        (WantedValue::Is(_) | WantedValue::Matches(_), None) => false,
        (WantedValue::IsNot(_) | WantedValue::MatchesNot(_), None) => true,
        (WantedValue::Is(wanted), Some(value)) => is_same(wanted, value),
        (WantedValue::IsNot(wanted), Some(value)) => !is_same(wanted, value),
        (WantedValue::Matches(pattern), Some(value)) => pattern.is_match(text(value).as_bytes()),
        (WantedValue::MatchesNot(pattern), Some(value)) => !pattern.is_match(text(value).as_bytes()),
    };
    (!holds).then(|| value.map_or_else(|| "nothing there".to_owned(), |value| shown(value.to_string().as_bytes())))
}

/// Whether two values are the same; 7 and 7.0 are the same number.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            // As decimals, whole numbers beyond 2^53 would be the same as their neighbours.
            one == other || (one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64()
        }
        _ => one == other,
    }
}

/// The begin of some bytes, on one line.
fn shown(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(TOLD_BYTES_MAX)];
    let text: String =
        String::from_utf8_lossy(cut).chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let more = if bytes.len() > TOLD_BYTES_MAX { "…" } else { "" };
    format!("{}{more}", text.trim())
}

#[cfg(test)]
mod tests {
    use crate::checks::test::{Answer, Parsed};
    use crate::checks::{Check, CheckError, Keeps, Seen};
    use proptest::prelude::*;

    fn check(text: &str) -> Check {
        text.parse().unwrap_or_else(|error: CheckError| panic!("{text}: {error}"))
    }

    /// What a check says of a response.
    fn failure(text: &str, status: u16, head: &str, body: &[u8]) -> Option<String> {
        let check = check(text);
        let mut seen = Seen::new(check.keeps());
        seen.head(head.as_bytes());
        body.chunks(7).for_each(|piece| seen.content(piece));
        let answer = Answer { status, body_bytes: body.len() as u64 };
        check.failure(answer, Some(&seen), &mut Parsed::default())
    }

    const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nVary: a\r\nVary: b\r\n\r\n";
    const BODY: &[u8] = br#"{ "ok": true, "items": [{ "id": 7, "name": "x y" }], "half": 0.5 }"#;

    #[test]
    fn whole_numbers_are_the_same_to_the_last_digit() {
        let body = br#"{ "id": 9007199254740993, "share": 2.0 }"#;
        assert_eq!(failure("json .id=9007199254740993", 200, HEAD, body), None);
        assert!(failure("json .id=9007199254740992", 200, HEAD, body).is_some());
        assert_eq!(failure("json .share=2", 200, HEAD, body), None);
    }

    #[test]
    fn a_response_is_as_asked_or_it_is_told_what_came() {
        for (text, told) in [
            ("status=200", ""),
            ("status=201,3xx", "status 200"),
            ("header content-type~json", ""),
            ("header Content-Type = application/json; charset=utf-8", ""),
            ("header content-type=text/html", "content-type: application/json; charset=utf-8"),
            ("header vary=b", ""),
            ("header vary!=b", "vary: a, b"),
            ("header vary!~c", ""),
            ("header etag", "no header etag"),
            ("header etag!~x", ""),
            ("body~\"id\": \\d", ""),
            ("body~nothing", "{ \"ok\": true"),
            ("body!~\"ok\"", "{ \"ok\": true"),
            ("body!~error", ""),
            ("body=x", "{ \"ok\": true"),
            ("size<1kB", ""),
            ("size>1KiB", "66 bytes"),
            ("size=66", ""),
            ("size<=65", "66 bytes"),
            ("size>=66B", ""),
            ("json .items[0].id", ""),
            ("json .items[0].id=7", ""),
            ("json .items[0].id=7.0", ""),
            ("json .items[0].id!=7", "7"),
            ("json .items[0].name=x y", ""),
            ("json .items[0].name=\"x y\"", ""),
            ("json .items[0].name~^x", ""),
            ("json .items[1]", "nothing there"),
            ("json .ok=true", ""),
            ("json .ok=\"true\"", "true"),
            ("json .half=0.5", ""),
            ("body!=sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae", ""),
            ("body != sha256:74b243131abc90cf4c908d0f60ca94e6e04bc3761b13c1389f6f336a933f77fb", "that SHA-256"),
            ("body=sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae", "sha256:"),
        ] {
            match failure(text, 200, HEAD, BODY) {
                None => assert_eq!(told, "", "{text}"),
                Some(words) => assert!(!told.is_empty() && words.starts_with(told), "{text}: {words}"),
            }
        }
        // FIPS 180-4's digest of `foo`, as sha256sum prints it.
        let of_foo = "body=sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
        assert_eq!(failure(of_foo, 200, "", b"foo"), None);
        assert_eq!(failure("body=foo", 200, "", b"foo"), None);
        assert_eq!(failure("body~.", 200, "", b"").as_deref(), Some("an empty body"));
        assert!(failure("json .a", 200, "", b"<html>").is_some_and(|words| words.starts_with("no JSON")));
    }

    #[test]
    fn of_a_body_that_is_too_long_what_is_there_is_looked_at() {
        let long = [b"begin".as_slice(), &vec![b'x'; 2 << 20], b"end"].concat();
        assert_eq!(failure("body~begin", 200, "", &long), None);
        for text in ["body~end", "body!~end", "json .a", "body=x"] {
            let words = failure(text, 200, "", &long).unwrap_or_else(|| panic!("{text}"));
            assert!(words.contains("more than 1048576 bytes"), "{text}: {words}");
        }
        assert!(failure("body!~begin", 200, "", &long).is_some());
        assert_eq!(failure("size>2MiB", 200, "", &long), None);
    }

    #[test]
    fn what_nothing_asks_for_is_not_kept() {
        assert_eq!([check("status=200"), check("size<1")].map(|check| check.keeps()), [Keeps::default(); 2]);
        let mut seen = Seen::new(check("header x").keeps());
        seen.content(b"abc");
        assert_eq!(seen.body().0, b"");
    }

    #[test]
    fn what_is_no_check_is_told_with_a_remedy() {
        for (text, words) in [
            ("", "is no check; write status=200"),
            ("stats=200", "is no check"),
            ("schema=none.json", "cannot read the schema none.json"),
            ("schema", "is no check"),
            ("status", "is no check"),
            ("status=20", "write 200"),
            ("header", "behind header stands its name"),
            ("header =x", "behind header stands its name"),
            ("header a b", "behind header stands its name"),
            ("body", "is no check"),
            ("body~(", "is no regular expression"),
            ("body=sha256:12", "64 hexadecimal"),
            ("size<", "a size goes with"),
            ("size<1XB", "a size goes with"),
            ("size<0.5", "a size goes with"),
            ("json items", "a path in JSON"),
            ("json .a<1", "a path in JSON"),
            ("GET /cart status=200", "'GET /cart: status=200'"),
        ] {
            let told = text.parse::<Check>().expect_err(text).to_string();
            assert!(told.contains(words), "{text}: {told}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(
            text in "((GET )?/[a*]{0,3}: ?)?(status|header|body|size|json)? ?[.a\\[\\]0-9]{0,6}(=|!=|~|!~|<|>)?\\PC{0,8}",
            body: Vec<u8>,
        ) {
            if let Ok(check) = text.parse::<Check>() {
                prop_assert_eq!(check.text(), text.trim());
                let mut seen = Seen::new(check.keeps());
                seen.content(&body);
                let answer = Answer { status: 200, body_bytes: body.len() as u64 };
                if let Some(words) = check.failure(answer, Some(&seen), &mut Parsed::default()) {
                    prop_assert!(words.len() < 1000 && !words.contains('\n'));
                }
            }
        }
    }
}
