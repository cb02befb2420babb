//! Secrets of a recording: masked where it is kept, given back when it is replayed.
//!
//! A secret becomes `weir-masked-NUMBER-NAME`, the same one everywhere, so that a replay can say what it lacks.

use crate::recording::{Body, Entry};
use crate::suite::{Aim, Ask, Field, Suite};
use std::collections::{BTreeMap, BTreeSet};
use url::Url;

/// What every mask begins with.
const MARK: &str = "weir-masked-";
/// Secrets so short would be found everywhere in a page.
const SEARCHED_BYTES_MIN: usize = 6;
/// So many secrets are looked for in texts; all are masked where they stand by their name.
const SEARCHED_MAX: usize = 512;

/// Parts of names that stand for secrets, in small letters without separators.
const SECRET_PARTS: &[&str] = &[
    "passw",
    "pwd",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "credential",
    "signature",
    "sessionid",
    "sessid",
    "csrf",
    "xsrf",
    "cardnumber",
    "authorization",
    "authkey",
];
/// Whole names that do.
const SECRET_NAMES: &[&str] = &["pass", "auth", "sid", "pin", "otp", "cvv", "cvc", "session", "code2fa", "sig", "jwt"];

/// Whether a field of this name holds a secret.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    SECRET_NAMES.contains(&plain.as_str()) || SECRET_PARTS.iter().any(|part| plain.contains(part))
}

/// The secrets that were seen, each with its mask.
#[derive(Debug, Clone, Default)]
pub struct Masks {
    masks: BTreeMap<String, String>,
    /// (secret, mask) that are looked for in texts.
    searched: Vec<(String, String)>,
}

impl Masks {
    /// How many secrets have been masked.
    #[must_use]
    pub fn count(&self) -> usize {
        self.masks.len()
    }

    fn mask(&mut self, secret: &str, name: &str) -> String {
        if secret.is_empty() || secret.starts_with(MARK) {
            return secret.to_owned();
        }
        let number = self.masks.len() + 1;
        let mask = self.masks.entry(secret.to_owned()).or_insert_with(|| {
            let name: String = name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect();
            format!("{MARK}{number}-{name}")
        });
        let mask = mask.clone();
        let known = self.searched.iter().any(|(searched, _)| searched == secret);
        if !known && secret.len() >= SEARCHED_BYTES_MIN && self.searched.len() < SEARCHED_MAX {
            self.searched.push((secret.to_owned(), mask.clone()));
        }
        mask
    }

    /// Masks an entry where its names tell of secrets; whether there was a new one, which earlier entries may hold.
    pub fn entry(&mut self, entry: &mut Entry) -> bool {
        let before = self.searched.len();
        entry.request.url = self.url(&entry.request.url);
        for (name, value) in &mut entry.request.headers {
            *value = self.field(name, value);
        }
        if let Some(body) = &mut entry.request.body {
            self.body(body);
        }
        if let Some(response) = &mut entry.response {
            for (name, value) in &mut response.headers {
                *value = self.field(name, value);
            }
        }
        self.sweep(entry);
        self.searched.len() > before
    }

    /// Masks known secrets wherever else they stand: in texts, addresses and header fields.
    pub fn sweep(&self, entry: &mut Entry) {
        for (secret, mask) in &self.searched {
            let replace = |text: &mut String| {
                if text.contains(secret.as_str()) {
                    *text = text.replace(secret.as_str(), mask);
                }
            };
            replace(&mut entry.request.url);
            entry.request.headers.iter_mut().for_each(|(_, value)| replace(value));
            let bodies = entry.request.body.iter_mut();
            let response = entry.response.iter_mut().map(|response| {
                response.headers.iter_mut().for_each(|(_, value)| replace(value));
                &mut response.body
            });
            for body in bodies.chain(response) {
                let Some(text) = body.bytes.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok()) else {
                    continue;
                };
                if text.contains(secret.as_str()) {
                    body.bytes = Some(text.replace(secret.as_str(), mask).into_bytes());
                    body.note = Some("secrets are masked".to_owned());
                }
            }
        }
    }

    fn url(&mut self, text: &str) -> String {
        let Ok(mut url) = Url::parse(text) else { return text.to_owned() };
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        if !pairs.iter().any(|(name, _)| is_secret(name)) {
            return text.to_owned();
        }
        let masked: Vec<(String, String)> = pairs.into_iter().map(|pair| self.pair(pair)).collect();
        url.query_pairs_mut().clear().extend_pairs(&masked);
        url.into()
    }

    fn pair(&mut self, (name, value): (String, String)) -> (String, String) {
        let value = if is_secret(&name) { self.mask(&value, &name) } else { value };
        (name, value)
    }

    fn field(&mut self, name: &str, value: &str) -> String {
        match name.to_ascii_lowercase().as_str() {
            "authorization" | "proxy-authorization" => match value.split_once(' ') {
                Some((scheme, secret)) => format!("{scheme} {}", self.mask(secret, name)),
                None => self.mask(value, name),
            },
            "cookie" => {
                let pairs = value.split(';').map(|pair| match pair.split_once('=') {
                    Some((name, value)) => format!("{}={}", name.trim(), self.mask(value.trim(), name)),
                    None => pair.trim().to_owned(),
                });
                pairs.collect::<Vec<_>>().join("; ")
            }
            "set-cookie" => {
                let (pair, rest) = value.split_once(';').map_or((value, None), |(pair, rest)| (pair, Some(rest)));
                let Some((name, secret)) = pair.split_once('=') else { return value.to_owned() };
                let masked = format!("{}={}", name.trim(), self.mask(secret.trim(), name));
                rest.map_or_else(|| masked.clone(), |rest| format!("{masked};{rest}"))
            }
            "referer" | "location" => self.url(value),
            _ if is_secret(name) => self.mask(value, name),
            _ => value.to_owned(),
        }
    }

    fn body(&mut self, body: &mut Body) {
        let Some(bytes) = &body.bytes else { return };
        let masked = if body.is_form() {
            let pairs: Vec<(String, String)> = url::form_urlencoded::parse(bytes).into_owned().collect();
            if !pairs.iter().any(|(name, _)| is_secret(name)) {
                return;
            }
            let pairs: Vec<(String, String)> = pairs.into_iter().map(|pair| self.pair(pair)).collect();
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish().into_bytes()
        } else if body.kind.to_ascii_lowercase().contains("json") {
            let Ok(mut value) = serde_json::from_slice::<serde_json::Value>(bytes) else { return };
            if !self.json(&mut value) {
                return;
            }
            value.to_string().into_bytes()
        } else if body.kind.to_ascii_lowercase().starts_with("multipart/") {
            body.bytes = None;
            body.note = Some("forms with files are not kept, because they may hold secrets".to_owned());
            return;
        } else {
            return;
        };
        body.bytes = Some(masked);
        body.note = Some("secrets are masked".to_owned());
    }

    /// Whether something was masked.
    fn json(&mut self, value: &mut serde_json::Value) -> bool {
        match value {
            serde_json::Value::Object(pairs) => {
                let mut any = false;
                for (name, value) in pairs {
                    match value {
                        serde_json::Value::String(text) if is_secret(name) => {
                            *text = self.mask(text, name);
                            any = true;
                        }
                        serde_json::Value::Number(number) if is_secret(name) => {
                            *value = serde_json::Value::String(self.mask(&number.to_string(), name));
                            any = true;
                        }
                        other => any |= self.json(other),
                    }
                }
                any
            }
            serde_json::Value::Array(items) => {
                let mut any = false;
                for item in items {
                    any |= self.json(item);
                }
                any
            }
            _ => false,
        }
    }
}

/// Puts secrets back into a suite: `given` has them by number or name. What lacks is an error that lists it.
///
/// # Errors
/// The masks for which nothing was given.
pub fn reveal(suite: &mut Suite, given: &BTreeMap<String, String>) -> Result<(), BTreeSet<String>> {
    let mut lacking = BTreeSet::new();
    let mut put = |text: &mut String, encoded: bool| {
        // What is put in is not looked at again: a secret may look like a mask.
        let mut at = 0;
        while let Some((range, number, name)) = find(text, at) {
            at = range.end;
            match given.get(&number).or_else(|| given.get(&name)) {
                Some(secret) => {
                    let encode = || url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
                    let secret = if encoded { encode() } else { secret.clone() };
                    at = range.start + secret.len();
                    text.replace_range(range, &secret);
                }
                None => {
                    lacking.insert(text[range].to_owned());
                }
            }
        }
    };
    for test in &mut suite.tests {
        let Ask { aim, fields, body, headers, login, cookies, .. } = &mut test.ask;
        if let Aim::Address(address) | Aim::Relative(address) = aim {
            put(address, true);
        }
        for (_, field) in fields {
            if let Field::Text(text) = field {
                put(text, false);
            }
        }
        if let Some((kind, bytes)) = body
            && let Ok(mut text) = String::from_utf8(bytes.clone())
        {
            put(&mut text, kind.starts_with("application/x-www-form-urlencoded"));
            *bytes = text.into_bytes();
        }
        headers.iter_mut().for_each(|(_, value)| put(value, false));
        cookies.iter_mut().for_each(|cookie| put(&mut cookie.value, false));
        if let Some((user, password)) = login {
            put(user, false);
            put(password, false);
        }
    }
    if lacking.is_empty() { Ok(()) } else { Err(lacking) }
}

/// The first mask in a text from a place on: where it stands, its number and its name.
fn find(text: &str, from: usize) -> Option<(std::ops::Range<usize>, String, String)> {
    text[from..].match_indices(MARK).find_map(|(begin, _)| {
        let begin = from + begin;
        let rest = &text[begin + MARK.len()..];
        let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
        let name = rest[digits..].strip_prefix('-').filter(|_| digits > 0)?;
        let end = name.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(name.len());
        let range = begin..begin + MARK.len() + digits + 1 + end;
        Some((range, rest[..digits].to_owned(), name[..end].to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Answered, Asked, Recording};
    use crate::replay;

    fn entry() -> Entry {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Entry {
            started_us: 0,
            seconds: 0.0,
            page: None,
            request: Asked {
                method: "POST".to_owned(),
                url: "http://a.example/in?api_key=K3yK3y&page=2".to_owned(),
                headers: vec![
                    field("Authorization", "Bearer t0k3nt0k3n"),
                    field("Cookie", "sid=abcdef123; theme=dark-blue"),
                    field("X-Api-Key", "K3yK3y"),
                    field("Accept", "text/html"),
                ],
                body: Some(Body {
                    kind: "application/x-www-form-urlencoded".to_owned(),
                    bytes: Some(b"user=me&password=hunter2hunter2".to_vec()),
                    ..Body::default()
                }),
            },
            response: Some(Answered {
                status: 200,
                headers: vec![field("Set-Cookie", "sid=new456789; Path=/; HttpOnly")],
                body: Body { bytes: Some(b"hello me, hunter2hunter2 t0k3nt0k3n".to_vec()), ..Body::default() },
            }),
        }
    }

    #[test]
    fn no_secret_is_left_and_the_same_one_has_the_same_mask() {
        let (mut masks, mut entry) = (Masks::default(), entry());
        assert!(masks.entry(&mut entry));
        let text = crate::har::write(&Recording { entries: vec![entry.clone()] });
        for secret in ["K3yK3y", "t0k3n", "abcdef123", "dark-blue", "hunter2", "new456789"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        let url = &entry.request.url;
        assert!(url.ends_with("api_key=weir-masked-1-api_key&page=2"), "{url}");
        assert_eq!(entry.request.headers[2].1, "weir-masked-1-api_key");
        assert_eq!(entry.request.headers[0].1, "Bearer weir-masked-2-Authorization");
        let body = entry.response.and_then(|response| response.body.bytes).expect("a body");
        assert_eq!(String::from_utf8_lossy(&body), "hello me, weir-masked-5-password weir-masked-2-Authorization");
    }

    #[test]
    fn a_replay_says_what_it_lacks_and_takes_what_is_given() {
        let (mut masks, mut entry) = (Masks::default(), entry());
        masks.entry(&mut entry);
        let mut suite = replay::suite(&Recording { entries: vec![entry] }, &replay::Replay::default()).suite;
        let given = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let lacking = reveal(&mut suite.clone(), &given(&[("1", "K3yK3y"), ("password", "hunter2")])).unwrap_err();
        let lacking: Vec<&str> = lacking.iter().map(String::as_str).collect();
        assert_eq!(lacking, ["weir-masked-2-Authorization", "weir-masked-3-sid", "weir-masked-4-theme"]);
        let all = [("1", "K"), ("password", "p w"), ("2", "T"), ("sid", "S"), ("theme", "D")];
        reveal(&mut suite, &given(&all)).unwrap();
        let ask = &suite.tests[0].ask;
        assert!(matches!(&ask.aim, Aim::Address(at) if at == "http://a.example/in?api_key=K&page=2"));
        assert!(ask.headers.contains(&("authorization".to_owned(), "Bearer T".to_owned())));
    }

    #[test]
    fn names_tell() {
        for name in
            ["password", "user[password]", "Passwd", "csrf_token", "access-token", "PHPSESSID", "sid", "api_key"]
        {
            assert!(is_secret(name), "{name}");
        }
        for name in ["user", "page", "author", "side", "q", "spinner"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
