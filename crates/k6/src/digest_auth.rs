//! Digest authentication (RFC 7616): MD5 and SHA-256, with and without `qop=auth`.

use crate::hash::{hash, hex};

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Credentials<'a> {
    pub(crate) user: &'a str,
    pub(crate) password: &'a str,
}

/// The `Authorization` field that answers a `WWW-Authenticate` field; None if that is no challenge that can be met.
pub(crate) fn answer(challenge: &str, credentials: Credentials<'_>, method: &str, target: &str) -> Option<String> {
    let nonce = format!("{:016x}", fastrand::u64(..));
    with_nonce(challenge, credentials, (method, target), &nonce)
}

fn with_nonce(
    challenge: &str,
    credentials: Credentials<'_>,
    (method, target): (&str, &str),
    own_nonce: &str,
) -> Option<String> {
    let rest = challenge.trim().strip_prefix("Digest ")?;
    let given = |name: &str| {
        parameters(rest).into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    let algorithm = given("algorithm").unwrap_or_else(|| "MD5".to_owned());
    let name = match algorithm.to_ascii_uppercase().as_str() {
        "MD5" => "md5",
        "SHA-256" => "sha256",
        _ => return None,
    };
    let (realm, nonce) = (given("realm")?, given("nonce")?);
    let hashed = |text: String| hash(name, text.as_bytes()).map(|bytes| hex(&bytes));
    let Credentials { user, password } = credentials;
    let first = hashed(format!("{user}:{realm}:{password}"))?;
    let second = hashed(format!("{method}:{target}"))?;
    let with_qop = given("qop").is_some_and(|all| all.split(',').any(|one| one.trim() == "auth"));
    let response = if with_qop {
        hashed(format!("{first}:{nonce}:00000001:{own_nonce}:auth:{second}"))?
    } else {
        hashed(format!("{first}:{nonce}:{second}"))?
    };
    let mut field = format!(
        "Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{target}\", response=\"{response}\", \
         algorithm={algorithm}"
    );
    if with_qop {
        field.push_str(&format!(", qop=auth, nc=00000001, cnonce=\"{own_nonce}\""));
    }
    if let Some(opaque) = given("opaque") {
        field.push_str(&format!(", opaque=\"{opaque}\""));
    }
    Some(field)
}

/// `name=value, name="value"`.
fn parameters(text: &str) -> Vec<(String, String)> {
    let (mut all, mut rest) = (Vec::new(), text.trim());
    while let Some((name, after)) = rest.split_once('=') {
        let (value, behind) = match after.trim_start().strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => {
                let end = after.find(',').unwrap_or(after.len());
                (after[..end].trim(), &after[end..])
            }
        };
        all.push((name.trim().to_owned(), value.to_owned()));
        rest = behind.trim_start().strip_prefix(',').unwrap_or("").trim_start();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7616, section 3.9.1.
    #[test]
    fn the_example_of_the_standard() {
        let credentials = Credentials { user: "Mufasa", password: "Circle of Life" };
        let challenge = "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=MD5, \
                         nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"";
        let own = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        let field = with_nonce(challenge, credentials, ("GET", "/dir/index.html"), own).unwrap();
        assert!(field.contains("response=\"8ca523f5e9506fed4657c9700eebdbec\""), "{field}");
        let challenge = challenge.replace("MD5", "SHA-256");
        let field = with_nonce(&challenge, credentials, ("GET", "/dir/index.html"), own).unwrap();
        assert!(
            field.contains("response=\"753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1\""),
            "{field}"
        );
        assert_eq!(answer("Basic realm=x", credentials, "GET", "/"), None);
    }
}
