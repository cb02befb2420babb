//! The variables of a request as a peer sends them, and as a runner gets them.

use crate::mounts::{Mounts, NoScript};
use std::os::unix::ffi::OsStrExt;
use weir_scripts::fastcgi::Pairs;

/// Variables that this host says of its own files, or that no peer may say.
const OWN: [&[u8]; 7] = [
    b"SCRIPT_FILENAME",
    b"SCRIPT_NAME",
    b"PATH_INFO",
    b"PATH_TRANSLATED",
    b"DOCUMENT_ROOT",
    b"DOCUMENT_URI",
    b"REDIRECT_STATUS",
];
/// Variables that say something of a request (RFC 3875 section 4.1, and what servers say besides).
const OF_REQUESTS: [&[u8]; 20] = [
    b"ARM_CORRELATOR",
    b"AUTH_TYPE",
    b"CONTENT_LENGTH",
    b"CONTENT_TYPE",
    b"GATEWAY_INTERFACE",
    b"HTTPS",
    b"QUERY_STRING",
    b"REMOTE_ADDR",
    b"REMOTE_HOST",
    b"REMOTE_PORT",
    b"REMOTE_USER",
    b"REQUEST_ID",
    b"REQUEST_METHOD",
    b"REQUEST_SCHEME",
    b"REQUEST_URI",
    b"SERVER_ADDR",
    b"SERVER_NAME",
    b"SERVER_PORT",
    b"SERVER_PROTOCOL",
    b"SERVER_SOFTWARE",
];
/// How names begin that say something of a request: fields of its head, and the certificate of its client.
const BEGINNINGS: [&[u8]; 2] = [b"HTTP_", b"SSL_CLIENT_"];
/// Programs take this one for their proxy (CVE-2016-5385).
const PROXY: &[u8] = b"HTTP_PROXY";

/// A request that no runner gets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRequest {
    /// A pair is cut off.
    #[error("its variables are malformed")]
    Malformed,
    /// A variable is there more than once.
    #[error("{0} is there twice")]
    Twice(&'static str),
    /// Its path leads to no script.
    #[error(transparent)]
    NoScript(#[from] NoScript),
}

/// A request for a runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    /// The place of the table of its script.
    pub mount: usize,
    /// Its variables, as pairs of FastCGI.
    pub pairs: Vec<u8>,
}

/// Writes the variables of a request anew: what says which file runs comes from this host alone, by the path that was
/// asked for (SCRIPT_NAME with PATH_INFO behind it). Others that say nothing of a request are left away unless `accept`
/// names them, as they could change what programs load.
///
/// # Errors
///
/// [`NoRequest`] if they are malformed, or lead to no script.
pub fn rewrite(pairs: &[u8], mounts: &Mounts, accept: &[String]) -> Result<Rewritten, NoRequest> {
    let (mut name, mut info) = (None, None);
    let mut written = Vec::with_capacity(pairs.len() + 256);
    for pair in Pairs(pairs) {
        let (key, value) = pair.ok_or(NoRequest::Malformed)?;
        match key {
            b"SCRIPT_NAME" if name.replace(value).is_some() => return Err(NoRequest::Twice("SCRIPT_NAME")),
            b"PATH_INFO" if info.replace(value).is_some() => return Err(NoRequest::Twice("PATH_INFO")),
            _ if is_passed(key, accept) => push(key, value, &mut written),
            _ => {}
        }
    }
    let path = [name.unwrap_or_default(), info.unwrap_or_default()].concat();
    let found = mounts.find(&path)?;
    let (name, info) = path.split_at(found.name_bytes);
    let root = mounts.root(found.mount).as_os_str().as_bytes();
    push(b"SCRIPT_FILENAME", found.file.as_os_str().as_bytes(), &mut written);
    push(b"SCRIPT_NAME", name, &mut written);
    push(b"PATH_INFO", info, &mut written);
    if !info.is_empty() {
        let root = root.strip_suffix(b"/").unwrap_or(root);
        push(b"PATH_TRANSLATED", &[root, info].concat(), &mut written);
    }
    push(b"DOCUMENT_ROOT", root, &mut written);
    push(b"DOCUMENT_URI", &path, &mut written);
    push(b"REDIRECT_STATUS", b"200", &mut written);
    Ok(Rewritten { mount: found.mount, pairs: written })
}

fn is_passed(key: &[u8], accept: &[String]) -> bool {
    if OWN.contains(&key) || key == PROXY {
        return false;
    }
    OF_REQUESTS.contains(&key)
        || BEGINNINGS.iter().any(|beginning| key.starts_with(beginning))
        || accept.iter().any(|name| name.as_bytes() == key)
}

/// Appends a pair (section 3.4 of the specification of FastCGI).
fn push(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    for bytes in [name.len(), value.len()] {
        match u8::try_from(bytes) {
            Ok(short @ ..0x80) => out.push(short),
            // Both come from pairs with lengths of 31 bits, or from paths.
            _ => out.extend_from_slice(&(bytes as u32 | 1 << 31).to_be_bytes()),
        }
    }
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Mount;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn pairs(of: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        of.iter().for_each(|(name, value)| push(name.as_bytes(), value.as_bytes(), &mut out));
        out
    }

    fn site() -> (tempfile::TempDir, Mounts) {
        let folder = tempfile::tempdir().expect("a directory");
        std::fs::write(folder.path().join("a.sh"), "").expect("writes");
        let mount = Mount {
            prefix: "/cgi-bin/".to_owned(),
            root: folder.path().to_owned(),
            endings: Vec::new(),
            socket: "".into(),
            requests_max: 1,
        };
        let mounts = Mounts::new(&[mount]);
        (folder, mounts)
    }

    #[test]
    fn files_are_said_by_this_host_alone() {
        let (folder, mounts) = site();
        let long = "v".repeat(300);
        let asked = pairs(&[
            ("SCRIPT_FILENAME", "/bin/sh"),
            ("SCRIPT_NAME", "/cgi-bin"),
            ("PATH_INFO", "/a.sh/x y"),
            ("PATH_TRANSLATED", "/etc/passwd"),
            ("DOCUMENT_ROOT", "/"),
            ("LD_PRELOAD", "/tmp/evil.so"),
            ("PERL5OPT", "-Mevil"),
            ("APP_ENV", "test"),
            ("HTTP_PROXY", "http://evil"),
            ("HTTP_ACCEPT", &long),
            ("QUERY_STRING", "a=b"),
        ]);
        let got = rewrite(&asked, &mounts, &["APP_ENV".to_owned()]).expect("a script");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let got: BTreeMap<_, _> = Pairs(&got.pairs)
            .map(|pair| pair.map(|(name, value)| (text(name), text(value))).expect("a pair"))
            .collect();
        let root = folder.path().to_string_lossy().into_owned();
        let expected = [
            ("APP_ENV", "test"),
            ("DOCUMENT_ROOT", &root),
            ("DOCUMENT_URI", "/cgi-bin/a.sh/x y"),
            ("HTTP_ACCEPT", &long),
            ("PATH_INFO", "/x y"),
            ("PATH_TRANSLATED", &format!("{root}/x y")),
            ("QUERY_STRING", "a=b"),
            ("REDIRECT_STATUS", "200"),
            ("SCRIPT_FILENAME", &format!("{root}/a.sh")),
            ("SCRIPT_NAME", "/cgi-bin/a.sh"),
        ];
        assert_eq!(got, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn what_has_two_meanings_is_refused() {
        let (_folder, mounts) = site();
        let twice = pairs(&[("SCRIPT_NAME", "/cgi-bin/a.sh"), ("SCRIPT_NAME", "/x")]);
        assert_eq!(rewrite(&twice, &mounts, &[]), Err(NoRequest::Twice("SCRIPT_NAME")));
        assert_eq!(rewrite(&[200], &mounts, &[]), Err(NoRequest::Malformed));
        assert!(matches!(rewrite(&[], &mounts, &[]), Err(NoRequest::NoScript(NoScript::Unmounted(_)))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let (_folder, mounts) = site();
            let _ = rewrite(&bytes, &mounts, &[]);
        }

        #[test]
        fn what_is_written_is_read(values in prop::collection::vec("[ -~]{0,200}", 0..8)) {
            let (_folder, mounts) = site();
            let names: Vec<String> = (0..values.len()).map(|number| format!("HTTP_N{number}")).collect();
            let mut all: Vec<_> = names.iter().zip(&values).map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let count = all.len();
            all.push(("SCRIPT_NAME", "/cgi-bin/a.sh"));
            let got = rewrite(&pairs(&all), &mounts, &[]).expect("a script");
            let read: Vec<_> = Pairs(&got.pairs).take(count).map(|pair| pair.expect("a pair")).collect();
            let given: Vec<_> = all[..count].iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            prop_assert_eq!(read, given);
        }
    }
}
