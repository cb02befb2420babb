//! A user's cookies, of all servers that it visits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use weir_load::Url;
use weir_load::cookies::CookieJar;

/// The most hosts and domains that a user has cookies of.
const SITES_MAX: usize = 64;

/// A user's cookies (RFC 6265): by host, and by domain where a server says so.
#[derive(Debug, Clone, Default)]
pub struct Jar {
    sites: Vec<Site>,
}

#[derive(Debug, Clone)]
struct Site {
    host: String,
    /// Whether the hosts within get them too.
    is_domain: bool,
    jar: CookieJar,
}

impl Jar {
    /// Takes the value of a Set-Cookie header of an answer from `url`; what RFC 6265 refuses is passed over.
    pub fn set(&mut self, value: &str, url: &Url, now: SystemTime) {
        let domain = value.split(';').skip(1).filter_map(|part| part.split_once('='));
        let domain = domain.filter(|(name, _)| name.trim().eq_ignore_ascii_case("domain")).last();
        let domain = domain.map(|(_, domain)| domain.trim().trim_start_matches('.').to_ascii_lowercase());
        let host = url.host.to_ascii_lowercase();
        // A domain without a dot would be a whole top level, and an address has none: only the host itself may say it
        // (RFC 6265 5.3).
        let spans = |domain: &str| domain.contains('.') && host.parse::<std::net::IpAddr>().is_err();
        let (host, is_domain) = match domain {
            Some(domain) if spans(&domain) && within(&host, &domain) => (domain, true),
            Some(domain) if !domain.is_empty() && domain != host => return,
            _ => (host, false),
        };
        let place = self.sites.iter().position(|site| site.host == host && site.is_domain == is_domain);
        let place = match place {
            Some(place) => place,
            None if self.sites.len() == SITES_MAX => return,
            None => {
                self.sites.push(Site { host, is_domain, jar: CookieJar::default() });
                self.sites.len() - 1
            }
        };
        self.sites[place].jar.set(value.as_bytes(), url, now);
    }

    /// The value of the Cookie header of a request for `url`, empty if nothing is to be sent.
    pub fn header(&mut self, url: &Url, now: SystemTime) -> String {
        let mut line = Vec::new();
        for site in &mut self.sites {
            let is_same = site.host.eq_ignore_ascii_case(&url.host);
            if is_same || site.is_domain && within(&url.host.to_ascii_lowercase(), &site.host) {
                site.jar.write(url, now, &mut line);
            }
        }
        String::from_utf8_lossy(&line).into_owned()
    }

    /// The cookies that would go with a request for `url`: names and values.
    pub fn cookies(&mut self, url: &Url, now: SystemTime) -> Vec<(String, String)> {
        let header = self.header(url, now);
        let pairs = header.split("; ").filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Forgets all cookies.
    pub fn clear(&mut self) {
        self.sites.clear();
    }
}

fn within(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// A jar that a user's behaviour shares with the engine.
#[derive(Debug, Clone, Default)]
pub struct SharedJar(Arc<Mutex<Jar>>);

impl SharedJar {
    /// The jar, for as long as the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, Jar> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_go_where_they_came_from() {
        let url = |text: &str| Url::parse(text).expect(text);
        let (mut jar, now) = (Jar::default(), SystemTime::now());
        jar.set("a=1; Path=/", &url("http://shop.example/x/y"), now);
        jar.set("b=2; Domain=.shop.example; Path=/", &url("http://www.shop.example/"), now);
        jar.set("c=3; Domain=other.example", &url("http://shop.example/"), now);
        jar.set("d=4; Path=/admin", &url("http://shop.example/"), now);
        jar.set("e=5; Domain=example; Path=/", &url("http://shop.example/"), now);
        assert_eq!(jar.header(&url("http://shop.example/"), now), "a=1; b=2");
        assert_eq!(jar.header(&url("http://www.shop.example/"), now), "b=2");
        assert_eq!(jar.header(&url("http://myshop.example/"), now), "");
        assert_eq!(jar.header(&url("http://shop.example/admin/x"), now), "d=4; a=1; b=2");
        jar.set("a=; Max-Age=0; Path=/", &url("http://shop.example/"), now);
        assert_eq!(jar.cookies(&url("http://shop.example/"), now), [("b".to_owned(), "2".to_owned())]);
    }
}
