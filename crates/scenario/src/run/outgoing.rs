//! A request as bytes, and where a redirect leads.

use crate::behaviour::Ask;
use crate::behaviour::SharedJar;
use std::time::SystemTime;
use weir_load::{Request, Url};

/// The request of an ask, with the cookies of the user.
pub(crate) fn bytes(ask: &Ask, jar: &SharedJar) -> Result<Vec<u8>, String> {
    let mut headers: Vec<(String, String)> = Vec::with_capacity(ask.headers.len() + 1);
    // The length is that of the body: another one would be a lie.
    let framing = |name: &str| ["content-length", "transfer-encoding"].iter().any(|own| name.eq_ignore_ascii_case(own));
    headers.extend(ask.headers.iter().filter(|(name, _)| !framing(name)).cloned());
    let given = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    if !given {
        let cookies = cookies(ask, jar);
        if !cookies.is_empty() {
            headers.push(("Cookie".to_owned(), cookies));
        }
    }
    let request = Request { method: ask.method.clone(), headers, body: ask.body.clone(), ..Request::default() };
    request.bytes(&ask.url, true).map_err(|error| error.to_string())
}

fn cookies(ask: &Ask, jar: &SharedJar) -> String {
    let mut pairs = match ask.cookies.without_jar {
        true => Vec::new(),
        false => jar.lock().cookies(&ask.url, SystemTime::now()),
    };
    pairs.retain(|(name, _)| ask.cookies.own.iter().all(|(own, _)| own != name));
    pairs.extend(ask.cookies.own.iter().cloned());
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("; ")
}

/// What is asked where a redirect leads (RFC 9110 15.4); `None` where it leads nowhere.
pub(crate) fn redirected(ask: &Ask, status: u16, location: &str) -> Option<Ask> {
    let base = url::Url::parse(&ask.url.to_string()).ok()?;
    let to = base.join(location).ok()?;
    let to = Url::parse(to.as_str()).ok()?;
    let mut next = ask.clone();
    let other_host = !to.is_same_host(&ask.url);
    next.url = to;
    if other_host {
        next.at = None;
    }
    next.redirects_max -= 1;
    let turns = match status {
        // As browsers do, and RFC 9110 allows.
        301 | 302 => ask.method == "POST",
        303 => ask.method != "HEAD" && ask.method != "GET",
        307 | 308 => false,
        _ => return None,
    };
    if turns {
        next.method = "GET".to_owned();
        next.body.clear();
        next.headers.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("content-"));
    }
    if other_host {
        // Another server must not learn who the user is to this one.
        let secret = ["authorization", "cookie", "host", "www-authenticate"];
        next.headers.retain(|(name, _)| !secret.iter().any(|own| name.eq_ignore_ascii_case(own)));
        next.cookies.own.clear();
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, url: &str) -> Ask {
        let mut ask = Ask::get(Url::parse(url).expect("a URL"));
        ask.method = method.to_owned();
        ask.body = b"x".to_vec();
        ask.headers = vec![("Authorization".into(), "Basic x".into()), ("Content-Type".into(), "a/b".into())];
        ask
    }

    #[test]
    fn redirects_lead_on_as_browsers_go() {
        let next = redirected(&ask("POST", "http://a.example/x/y?q"), 302, "../z").expect("a redirect");
        assert_eq!((next.method.as_str(), next.url.to_string().as_str()), ("GET", "http://a.example/z"));
        assert!(next.body.is_empty() && next.headers.len() == 1 && next.redirects_max == 9);
        let next = redirected(&ask("POST", "http://a.example/"), 307, "https://b.example/").expect("a redirect");
        assert_eq!((next.method.as_str(), next.body.len(), next.headers.len()), ("POST", 1, 1));
        assert!(redirected(&ask("GET", "http://a.example/"), 304, "/").is_none());
        assert!(redirected(&ask("GET", "http://a.example/"), 302, "ftp://a/").is_none());
    }

    #[test]
    fn cookies_of_a_request_take_the_place_of_the_jars() {
        let jar = SharedJar::default();
        let mut ask = Ask::get(Url::parse("http://a.example/").expect("a URL"));
        for value in ["a=1", "b=2"] {
            jar.lock().set(value, &ask.url, SystemTime::now());
        }
        ask.cookies.own = vec![("b".into(), "3".into())];
        ask.headers = vec![("Content-Length".into(), "99".into())];
        let text = String::from_utf8(bytes(&ask, &jar).expect("a request")).expect("text");
        assert!(text.contains("\r\nCookie: a=1; b=3\r\n") && !text.contains("Content-Length"), "{text}");
    }
}
