//! Cookies as a browser keeps them for the length of a session (RFC 6265, sections 5.1 to 5.4).

use crate::suite::PresetCookie;
use std::time::{Duration, SystemTime};
use url::{Host, Url};

/// A server may set so many; the oldest goes first.
const COOKIES_MAX: usize = 1000;
/// A longer cookie is not taken.
const COOKIE_BYTES_MAX: usize = 8192;

#[derive(Debug, Clone)]
struct Cookie {
    name: String,
    value: String,
    domain: String,
    /// Whether hosts below the domain are told, too.
    below: bool,
    path: String,
    ports: Vec<u16>,
    secure: bool,
    expires: Option<SystemTime>,
}

/// The cookies of one user.
#[derive(Debug, Clone, Default)]
pub struct Jar {
    cookies: Vec<Cookie>,
}

impl Jar {
    /// Takes one that a test brings along; what it does not say is taken from the request's address.
    pub fn preset(&mut self, preset: &PresetCookie, address: &Url) {
        let (domain, below) = match &preset.domain {
            // The original's library calls hosts without a dot NAME.local.
            Some(domain) => match domain.strip_suffix(".local") {
                Some(short) if !short.is_empty() && !short.contains('.') => (short, false),
                _ => (domain.trim_start_matches('.'), domain.starts_with('.')),
            },
            None => (address.host_str().unwrap_or_default(), false),
        };
        self.put(Cookie {
            name: preset.name.clone(),
            value: preset.value.clone(),
            domain: domain.to_ascii_lowercase(),
            below,
            path: preset.path.clone().unwrap_or_else(|| "/".to_owned()),
            ports: preset.ports.clone(),
            secure: preset.secure,
            expires: None,
        });
    }

    /// Takes what a response sets in one field Set-Cookie; whether it was taken.
    pub fn set(&mut self, field: &str, address: &Url, now: SystemTime) -> bool {
        let Some(cookie) = read(field, address, now) else { return false };
        self.put(cookie);
        true
    }

    /// The field Cookie of a request, if there is anything to tell.
    #[must_use]
    pub fn field(&self, address: &Url, now: SystemTime) -> Option<String> {
        let mut told: Vec<&Cookie> = self.cookies.iter().filter(|cookie| cookie.is_for(address, now)).collect();
        // Longer paths first; the sort keeps the order of creation otherwise.
        told.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let pairs: Vec<String> = told.iter().map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }

    fn put(&mut self, cookie: Cookie) {
        let same =
            |other: &Cookie| (&other.name, &other.domain, &other.path) == (&cookie.name, &cookie.domain, &cookie.path);
        match self.cookies.iter().position(same) {
            // It keeps its place: the order of creation decides the order of sending.
            Some(index) => self.cookies[index] = cookie,
            None => {
                if self.cookies.len() == COOKIES_MAX {
                    self.cookies.remove(0);
                }
                self.cookies.push(cookie);
            }
        }
    }
}

impl Cookie {
    fn is_for(&self, address: &Url, now: SystemTime) -> bool {
        let host = address.host_str().unwrap_or_default();
        let for_host = if self.below { is_within(host, &self.domain) } else { host == self.domain };
        let port = address.port_or_known_default().unwrap_or_default();
        let path = address.path();
        // A path is a prefix by whole segments.
        let for_path = path
            .strip_prefix(self.path.as_str())
            .is_some_and(|rest| rest.is_empty() || self.path.ends_with('/') || rest.starts_with('/'));
        for_host
            && for_path
            && (self.ports.is_empty() || self.ports.contains(&port))
            && (!self.secure || address.scheme() == "https")
            && self.expires.is_none_or(|expires| now < expires)
    }
}

/// Whether a host is a domain or below it; an address is only itself.
fn is_within(host: &str, domain: &str) -> bool {
    let named = !matches!(Host::parse(host), Ok(Host::Ipv4(_) | Host::Ipv6(_)) | Err(_));
    host == domain || (named && host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')))
}

fn read(field: &str, address: &Url, now: SystemTime) -> Option<Cookie> {
    if field.len() > COOKIE_BYTES_MAX {
        return None;
    }
    let mut parts = field.split(';');
    let (name, value) = parts.next()?.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    let speakable = |text: &str| text.bytes().all(|byte| byte >= b' ' && byte != 0x7f);
    if name.is_empty() || !speakable(name) || !speakable(value) {
        return None;
    }
    let host = address.host_str()?;
    let folder = address.path().rfind('/').filter(|end| *end > 0).map_or("/", |end| &address.path()[..end]);
    let mut cookie = Cookie {
        name: name.to_owned(),
        value: value.to_owned(),
        domain: host.to_owned(),
        below: false,
        path: folder.to_owned(),
        ports: Vec::new(),
        secure: false,
        expires: None,
    };
    let mut max_age = None;
    for part in parts {
        let (attribute, value) = part.split_once('=').unwrap_or((part, ""));
        let value = value.trim();
        match attribute.trim().to_ascii_lowercase().as_str() {
            "domain" if !value.is_empty() => {
                let domain = value.trim_start_matches('.').to_ascii_lowercase();
                // A top-level domain would send it to strangers; the whole list of suffixes is a browser's concern.
                if !is_within(host, &domain) || (!domain.contains('.') && domain != host) {
                    return None;
                }
                (cookie.domain, cookie.below) = (domain, true);
            }
            "path" if value.starts_with('/') => value.clone_into(&mut cookie.path),
            "secure" => cookie.secure = true,
            "max-age" => max_age = value.parse::<i64>().ok().or(max_age),
            "expires" => cookie.expires = httpdate::parse_http_date(value).ok().or_else(|| old_date(value)),
            _ => {}
        }
    }
    if let Some(seconds) = max_age {
        let lasts = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        cookie.expires = Some(now.checked_add(lasts).unwrap_or(now + Duration::from_secs(1 << 32)));
    }
    Some(cookie)
}

/// Netscape's form with hyphens, `Wed, 09-Jun-2027 10:18:14 GMT`, which PHP and others still write.
fn old_date(value: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(&value.replacen('-', " ", 2)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(address: &str) -> Url {
        Url::parse(address).unwrap()
    }

    /// What is sent to `to` after `field` was set by `from`, an hour later.
    fn told(field: &str, from: &str, to: &str) -> Option<String> {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let mut jar = Jar::default();
        jar.set(field, &at(from), now);
        jar.field(&at(to), now + Duration::from_secs(3600))
    }

    #[test]
    fn cookies_go_where_the_rfc_sends_them() {
        for (field, from, to, sent) in [
            ("a=1", "http://x.example/", "http://x.example/deep/er", true),
            ("a=1", "http://x.example/", "http://y.x.example/", false),
            ("a=1; Domain=.x.example", "http://y.x.example/", "http://x.example/", true),
            ("a=1; Domain=x.example", "http://y.x.example/", "http://z.x.example/", true),
            ("a=1; Domain=z.x.example", "http://y.x.example/", "http://z.x.example/", false),
            ("a=1; Domain=example", "http://y.example/", "http://z.example/", false),
            ("a=1; Path=/shop", "http://x.example/", "http://x.example/shop/1", true),
            ("a=1; Path=/shop", "http://x.example/", "http://x.example/shopping", false),
            ("a=1", "http://x.example/shop/list", "http://x.example/shop/1", true),
            ("a=1", "http://x.example/shop/list", "http://x.example/other", false),
            ("a=1; Secure", "https://x.example/", "http://x.example/", false),
            ("a=1; Secure", "https://x.example/", "https://x.example/", true),
            ("a=1; Max-Age=60", "http://x.example/", "http://x.example/", false),
            ("a=1; Max-Age=7200", "http://x.example/", "http://x.example/", true),
            ("a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "http://x.example/", "http://x.example/", false),
            ("a=1; expires=Thu, 01-Jan-1970 00:00:00 GMT", "http://x.example/", "http://x.example/", false),
            ("a=1; Max-Age=7200; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "http://x/", "http://x/", true),
            ("a=1", "http://127.0.0.1:81/", "http://127.0.0.1:82/", true),
            ("a=1; Domain=0.0.1", "http://127.0.0.1/", "http://127.0.0.1/", false),
        ] {
            assert_eq!(told(field, from, to).is_some(), sent, "{field} from {from} to {to}");
        }
    }

    #[test]
    fn a_cookie_is_replaced_and_removed_by_its_name_domain_and_path() {
        let (now, here) = (SystemTime::now(), at("http://x.example/"));
        let mut jar = Jar::default();
        for field in ["a=1; Path=/", "b=2; Path=/", "a=3; Path=/", "c=4; Path=/deep"] {
            assert!(jar.set(field, &here, now));
        }
        assert_eq!(jar.field(&at("http://x.example/deep/"), now).as_deref(), Some("c=4; a=3; b=2"));
        jar.set("a=; Path=/; Max-Age=0", &here, now);
        assert_eq!(jar.field(&here, now).as_deref(), Some("b=2"));
    }

    #[test]
    fn preset_cookies_keep_to_domain_and_ports() {
        let preset = |domain: Option<&str>, ports: &[u16]| PresetCookie {
            name: "a".to_owned(),
            value: "1".to_owned(),
            domain: domain.map(str::to_owned),
            ports: ports.to_vec(),
            ..PresetCookie::default()
        };
        for (preset, to, sent) in [
            (preset(None, &[]), "http://here.example/", true),
            (preset(None, &[]), "http://there.example/", false),
            (preset(Some(".there.example"), &[]), "http://www.there.example/", true),
            (preset(Some("localhost.local"), &[]), "http://localhost:8080/", true),
            (preset(None, &[8014]), "http://here.example:8014/", true),
            (preset(None, &[8014]), "http://here.example/", false),
        ] {
            let mut jar = Jar::default();
            jar.preset(&preset, &at("http://here.example/x"));
            assert_eq!(jar.field(&at(to), SystemTime::now()).is_some(), sent, "{preset:?} to {to}");
        }
    }

    proptest! {
        #[test]
        fn any_field_is_taken_or_not_and_never_breaks_the_header(field in "\\PC{0,60}|[ -~]{0,60}") {
            let mut jar = Jar::default();
            let here = at("http://x.example/");
            if jar.set(&field, &here, SystemTime::now()) && let Some(told) = jar.field(&here, SystemTime::now()) {
                prop_assert!(!told.contains(['\n', '\r', '\0']));
            }
        }
    }
}
