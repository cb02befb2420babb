//! Cookies of one user, as far as a load needs RFC 6265: host, path, secure, expiry.

use crate::Url;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The most cookies that a jar holds; the oldest goes where one more comes (RFC 6265 6.1 asks for 50 a host).
pub const COOKIES_MAX: usize = 64;
/// The longest cookie, name and value together.
pub const COOKIE_BYTES_MAX: usize = 4096;

/// One cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    path: Vec<u8>,
    secure: bool,
    /// When it is no longer sent, in seconds since 1970; `None` = with the jar.
    expires_s: Option<i64>,
}

/// The cookies that one user has from one host.
#[derive(Debug, Clone, Default)]
pub struct CookieJar {
    cookies: Vec<Cookie>,
}

/// The value of a Cookie header.
pub(crate) fn line(cookies: &[(String, String)]) -> Vec<u8> {
    let pairs: Vec<_> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("; ").into_bytes()
}

impl CookieJar {
    /// A jar that begins with these cookies, for every path.
    #[must_use]
    pub fn new(cookies: &[(String, String)]) -> Self {
        let cookie = |(name, value): &(String, String)| Cookie {
            name: name.as_bytes().to_vec(),
            value: value.as_bytes().to_vec(),
            path: b"/".to_vec(),
            secure: false,
            expires_s: None,
        };
        Self { cookies: cookies.iter().map(cookie).collect() }
    }

    /// How many cookies it holds, including expired ones until the next request removes them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cookies.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cookies.is_empty()
    }

    /// Takes the value of a Set-Cookie header of a response from `url`; what RFC 6265 5.2 and 5.3 refuse is passed over.
    ///
    /// A cookie for a whole domain is kept for this host only: the jar knows no other.
    pub fn set(&mut self, value: &[u8], url: &Url, now: SystemTime) {
        let Some(cookie) = parse(value, url, now) else { return };
        let is_same = |other: &Cookie| other.name == cookie.name && other.path == cookie.path;
        let is_over = cookie.expires_s.is_some_and(|expiry| expiry <= seconds(now));
        match self.cookies.iter().position(is_same) {
            Some(place) if is_over => drop(self.cookies.remove(place)),
            Some(place) => self.cookies[place] = cookie,
            None if is_over => {}
            None => {
                if self.cookies.len() == COOKIES_MAX {
                    self.cookies.remove(0);
                }
                self.cookies.push(cookie);
            }
        }
    }

    /// Writes the value of the Cookie header of a request for `url`, empty if nothing is to be sent: longer paths first.
    pub fn write(&mut self, url: &Url, now: SystemTime, out: &mut Vec<u8>) {
        let now_s = seconds(now);
        self.cookies.retain(|cookie| cookie.expires_s.is_none_or(|expiry| expiry > now_s));
        let path = url.target.split('?').next().unwrap_or("/").as_bytes();
        // Stable, so that of equal paths the older cookie comes first (RFC 6265 5.4).
        self.cookies.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        for cookie in &self.cookies {
            if path_matches(path, &cookie.path) && (url.encrypted || !cookie.secure) {
                if !out.is_empty() {
                    out.extend_from_slice(b"; ");
                }
                out.extend_from_slice(&cookie.name);
                out.push(b'=');
                out.extend_from_slice(&cookie.value);
            }
        }
    }
}

/// RFC 6265 5.1.4.
fn path_matches(path: &[u8], cookie: &[u8]) -> bool {
    path.strip_prefix(cookie).is_some_and(|rest| rest.is_empty() || rest[0] == b'/' || cookie.ends_with(b"/"))
}

/// The directory of a path (RFC 6265 5.1.4).
fn default_path(url: &Url) -> Vec<u8> {
    let path = url.target.split('?').next().unwrap_or("/");
    match path.rfind('/') {
        None | Some(0) => b"/".to_vec(),
        Some(slash) => path.as_bytes()[..slash].to_vec(),
    }
}

fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since: Duration| since.as_secs() as i64)
}

/// RFC 6265 5.2.
fn parse(value: &[u8], url: &Url, now: SystemTime) -> Option<Cookie> {
    if value.len() > COOKIE_BYTES_MAX || value.iter().any(|byte| *byte < b' ' && *byte != b'\t' || *byte == 0x7f) {
        return None;
    }
    let mut parts = value.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let pair = parts.next()?;
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    let (name, content) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
    if name.is_empty() {
        return None;
    }
    let mut cookie = Cookie {
        name: name.to_vec(),
        value: content.to_vec(),
        path: default_path(url),
        secure: false,
        expires_s: None,
    };
    let mut max_age = None;
    for part in parts {
        let (key, content) = match part.iter().position(|byte| *byte == b'=') {
            Some(equals) => (part[..equals].trim_ascii(), part[equals + 1..].trim_ascii()),
            None => (part, &b""[..]),
        };
        if key.eq_ignore_ascii_case(b"secure") {
            cookie.secure = true;
        } else if key.eq_ignore_ascii_case(b"path") && content.starts_with(b"/") {
            cookie.path = content.to_vec();
        } else if key.eq_ignore_ascii_case(b"domain") && !content.is_empty() {
            let domain = content.strip_prefix(b".").unwrap_or(content).to_ascii_lowercase();
            let host = url.host.to_ascii_lowercase().into_bytes();
            let within = host.strip_suffix(&domain[..]).is_some_and(|rest| rest.is_empty() || rest.ends_with(b"."));
            if !within {
                return None;
            }
        } else if key.eq_ignore_ascii_case(b"max-age") {
            max_age = std::str::from_utf8(content).ok().and_then(|text| text.parse::<i64>().ok()).or(max_age);
        } else if key.eq_ignore_ascii_case(b"expires") {
            cookie.expires_s = cookie_date(content).or(cookie.expires_s);
        }
    }
    if let Some(age) = max_age {
        cookie.expires_s = Some(if age <= 0 { i64::MIN } else { seconds(now).saturating_add(age) });
    }
    Some(cookie)
}

/// A date as RFC 6265 5.1.1 reads it, in seconds since 1970.
fn cookie_date(text: &[u8]) -> Option<i64> {
    const MONTHS: [&[u8]; 12] =
        [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
    let (mut clock, mut day, mut month, mut year) = (None, None, None, None);
    let words = text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b':');
    for word in words.filter(|word| !word.is_empty()) {
        let text = std::str::from_utf8(word).ok()?;
        if let (None, true) = (clock, word.contains(&b':')) {
            let mut parts = text.split(':').map(|part| part.parse::<i64>().ok());
            clock = Some((parts.next()??, parts.next()??, parts.next()??));
        } else if let Ok(number) = text.parse::<i64>() {
            if day.is_none() && word.len() <= 2 {
                day = Some(number);
            } else if year.is_none() && (2..=4).contains(&word.len()) {
                year = Some(number);
            }
        } else if month.is_none() && word.len() >= 3 {
            month = MONTHS.iter().position(|name| word[..3].eq_ignore_ascii_case(name)).map(|place| place as i64 + 1);
        }
    }
    let ((hour, minute, second), day, month, mut year) = (clock?, day?, month?, year?);
    if (70..=99).contains(&year) {
        year += 1900;
    } else if (0..=69).contains(&year) {
        year += 2000;
    }
    if !(1..=31).contains(&day) || year < 1601 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(weir_access_log::calendar::days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a URL")
    }

    fn sent(jar: &mut CookieJar, text: &str, now: SystemTime) -> String {
        let mut out = Vec::new();
        jar.write(&url(text), now, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn cookies_come_back_where_they_belong() {
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let from = url("http://a.example.org/shop/cart?x=/y/");
        let mut jar = CookieJar::new(&[("first".to_owned(), "0".to_owned())]);
        for value in [
            "a=1",
            "b=2; Path=/; Secure",
            "c=3; path=/shop/cart; Max-Age=10",
            "d=4; Domain=.example.org; Path=/",
            "e=5; Domain=other.org",
            "f=6; Expires=Wed, 09 Jun 2021 10:18:14 GMT",
            "g=7; expires=Wednesday, 09-Jun-33 10:18:14 GMT",
            "=nameless",
            "no pair",
        ] {
            jar.set(value.as_bytes(), &from, now);
        }
        assert_eq!(sent(&mut jar, "http://a.example.org/shop/cart", now), "c=3; a=1; g=7; first=0; d=4");
        assert_eq!(sent(&mut jar, "http://a.example.org/shopping", now), "first=0; d=4");
        assert_eq!(sent(&mut jar, "https://a.example.org/", now), "first=0; b=2; d=4");
        let later = now + Duration::from_secs(10);
        assert_eq!(sent(&mut jar, "http://a.example.org/shop/cart", later), "a=1; g=7; first=0; d=4");
        jar.set(b"a=8", &from, now);
        jar.set(b"d=; Path=/; Max-Age=0", &from, now);
        assert_eq!(sent(&mut jar, "http://a.example.org/shop/", now), "a=8; g=7; first=0");
    }

    #[test]
    fn dates_are_read_in_every_form() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(cookie_date(text.as_bytes()), Some(784_111_777), "{text}");
        }
        assert_eq!(cookie_date(b"Sun, 06 Nov 1994"), None);
    }

    #[test]
    fn a_jar_is_bounded() {
        let mut jar = CookieJar::default();
        for number in 0..1000 {
            jar.set(format!("n{number}=1").as_bytes(), &url("http://h/"), UNIX_EPOCH);
        }
        assert_eq!(jar.len(), COOKIES_MAX);
        jar.set(&[&b"long="[..], &[b'x'; COOKIE_BYTES_MAX]].concat(), &url("http://h/"), UNIX_EPOCH);
        assert!(!sent(&mut jar, "http://h/", UNIX_EPOCH).contains("long"));
    }

    proptest! {
        #[test]
        fn what_is_sent_back_is_one_header_line(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..5)) {
            let mut jar = CookieJar::default();
            for value in &values {
                jar.set(value, &url("http://h/a/b"), UNIX_EPOCH);
            }
            let mut out = Vec::new();
            jar.write(&url("http://h/a/b"), UNIX_EPOCH, &mut out);
            prop_assert!(!out.contains(&b'\r') && !out.contains(&b'\n') && !out.contains(&0));
        }
    }
}
