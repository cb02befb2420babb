//! A user's cookies (RFC 6265).

use std::time::{Duration, SystemTime};
use weir_load::Url;

/// The most cookies of a jar; the oldest go first.
const COOKIES_MAX: usize = 3000;

/// A cookie.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cookie {
    pub(crate) name: String,
    pub(crate) value: String,
    /// Its domain without a dot at the begin; empty where none is given.
    pub(crate) domain: String,
    pub(crate) path: String,
    /// `Expires`, as it was given.
    pub(crate) expires: String,
    pub(crate) max_age: Option<i64>,
    pub(crate) secure: bool,
    pub(crate) http_only: bool,
}

impl Cookie {
    /// Reads a `Set-Cookie` line (RFC 6265, section 5.2); None without a name.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split(';');
        let (name, value) = parts.next()?.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() {
            return None;
        }
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
        let mut cookie = Self { name: name.to_owned(), value: value.to_owned(), ..Self::default() };
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                "domain" => cookie.domain = value.trim_start_matches('.').to_ascii_lowercase(),
                "path" if value.starts_with('/') => cookie.path = value.to_owned(),
                "expires" => cookie.expires = value.to_owned(),
                "max-age" => cookie.max_age = value.parse().ok(),
                "secure" => cookie.secure = true,
                "httponly" => cookie.http_only = true,
                _ => {}
            }
        }
        Some(cookie)
    }

    /// When it ends; None at the end of the session.
    fn end(&self, now: SystemTime) -> Option<SystemTime> {
        match self.max_age {
            Some(seconds) if seconds <= 0 => Some(SystemTime::UNIX_EPOCH),
            Some(seconds) => now.checked_add(Duration::from_secs(seconds.unsigned_abs())),
            None => crate::time::http_date(&self.expires),
        }
    }
}

/// A cookie as it is kept.
#[derive(Debug, Clone)]
struct Kept {
    cookie: Cookie,
    domain: String,
    /// Whether only the host itself has it.
    host_only: bool,
    path: String,
    end: Option<SystemTime>,
}

/// A user's cookies.
#[derive(Debug, Clone, Default)]
pub(crate) struct Jar {
    kept: Vec<Kept>,
}

impl Jar {
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.kept.clear();
    }

    /// Takes a cookie that an address sets; false if it may not set it.
    pub(crate) fn set(&mut self, url: &Url, cookie: Cookie, now: SystemTime) -> bool {
        let host = url.host.to_ascii_lowercase();
        let host_only = cookie.domain.is_empty();
        let is_address = host.parse::<std::net::IpAddr>().is_ok();
        if !host_only && cookie.domain != host && (is_address || !host.ends_with(&format!(".{}", cookie.domain))) {
            return false;
        }
        // A cookie of a whole top-level domain is none's.
        if !host_only && cookie.domain != host && !cookie.domain.contains('.') {
            return false;
        }
        let domain = if host_only { host } else { cookie.domain.clone() };
        let path = if cookie.path.is_empty() { default_path(&url.target) } else { cookie.path.clone() };
        let end = cookie.end(now);
        self.kept.retain(|kept| !(kept.cookie.name == cookie.name && kept.domain == domain && kept.path == path));
        if end.is_some_and(|end| end <= now) {
            return true;
        }
        if self.kept.len() >= COOKIES_MAX {
            self.kept.remove(0);
        }
        self.kept.push(Kept { cookie, domain, host_only, path, end });
        true
    }

    /// Names and values for an address: longer paths first, then older ones (RFC 6265, section 5.4).
    pub(crate) fn get(&self, url: &Url, now: SystemTime) -> Vec<(&str, &str)> {
        let host = url.host.to_ascii_lowercase();
        let path = url.target.split('?').next().unwrap_or("/");
        let fits = |kept: &&Kept| {
            let of_host = kept.domain == host || !kept.host_only && host.ends_with(&format!(".{}", kept.domain));
            of_host
                && path_matches(path, &kept.path)
                && (!kept.cookie.secure || url.encrypted)
                && kept.end.is_none_or(|end| end > now)
        };
        let mut found: Vec<&Kept> = self.kept.iter().filter(fits).collect();
        found.sort_by_key(|kept| std::cmp::Reverse(kept.path.len()));
        found.into_iter().map(|kept| (kept.cookie.name.as_str(), kept.cookie.value.as_str())).collect()
    }

    /// Forgets the cookies that would go to an address, or the one of a name.
    pub(crate) fn forget(&mut self, url: &Url, name: &str) {
        let host = url.host.to_ascii_lowercase();
        self.kept.retain(|kept| {
            let of_host = kept.domain == host || host.ends_with(&format!(".{}", kept.domain));
            !(of_host && (name.is_empty() || kept.cookie.name == name))
        });
    }
}

/// The directory of a path (RFC 6265, section 5.1.4).
fn default_path(target: &str) -> String {
    let path = target.split('?').next().unwrap_or("/");
    match path.rfind('/') {
        None | Some(0) => "/".to_owned(),
        Some(at) => path[..at].to_owned(),
    }
}

fn path_matches(path: &str, of_cookie: &str) -> bool {
    path.strip_prefix(of_cookie)
        .is_some_and(|rest| rest.is_empty() || of_cookie.ends_with('/') || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn cookies_go_where_they_belong() {
        let now = SystemTime::now();
        let mut jar = Jar::default();
        let at = url("http://a.example.org/x/y");
        for line in ["a=1", "b=2; Path=/", "c=3; Domain=example.org; Path=/", "d=4; Secure; Path=/", "e=5; Max-Age=0"] {
            assert!(jar.set(&at, Cookie::parse(line).unwrap(), now));
        }
        assert_eq!(jar.get(&url("http://a.example.org/x/z"), now), [("a", "1"), ("b", "2"), ("c", "3")]);
        assert_eq!(jar.get(&url("http://b.example.org/x/z"), now), [("c", "3")]);
        assert_eq!(jar.get(&url("https://a.example.org/"), now), [("b", "2"), ("c", "3"), ("d", "4")]);
        assert!(!jar.set(&at, Cookie::parse("f=6; Domain=example.com").unwrap(), now));
        assert!(!jar.set(&at, Cookie::parse("f=6; Domain=org").unwrap(), now));
        jar.forget(&at, "b");
        assert_eq!(jar.get(&url("http://a.example.org/x/z"), now), [("a", "1"), ("c", "3")]);
        jar.clear();
        assert!(jar.is_empty());
    }

    #[test]
    fn a_later_cookie_takes_the_place_of_an_earlier_one() {
        let (now, at) = (SystemTime::now(), url("http://h/"));
        let mut jar = Jar::default();
        jar.set(&at, Cookie::parse("a=1").unwrap(), now);
        jar.set(&at, Cookie::parse("a=\"2\"; Expires=Wed, 21 Oct 2099 07:28:00 GMT").unwrap(), now);
        assert_eq!(jar.get(&at, now), [("a", "2")]);
        jar.set(&at, Cookie::parse("a=3; Expires=Wed, 21 Oct 2015 07:28:00 GMT").unwrap(), now);
        assert!(jar.get(&at, now).is_empty());
        assert_eq!((Cookie::parse("=x"), Cookie::parse("x")), (None, None));
    }
}
