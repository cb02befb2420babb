//! From a path of a URL to the path of a file below the root of the host.

/// The file of a URL's path: below `root`, with `%XX` decoded. `None` if it leads out of the root, is relative, or has
/// a zero byte.
pub(crate) fn mapped(root: &[u8], url: &[u8]) -> Option<Vec<u8>> {
    let path = url.split(|&byte| byte == b'?').next().unwrap_or_default();
    if root.is_empty() || path.first() != Some(&b'/') {
        return None;
    }
    let path = decoded(path)?;
    if path.contains(&0) || path.split(|&byte| byte == b'/').any(|segment| segment == b"..") {
        return None;
    }
    let root = root.strip_suffix(b"/").unwrap_or(root);
    Some([root, path.as_slice()].concat())
}

fn decoded(path: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path.iter();
    while let Some(&byte) = rest.next() {
        out.push(if byte == b'%' { digit(rest.next())? * 16 + digit(rest.next())? } else { byte });
    }
    Some(out)
}

fn digit(byte: Option<&u8>) -> Option<u8> {
    let value = char::from(*byte?).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_stays_below_the_root() {
        assert_eq!(mapped(b"/srv/", b"/a%20b/c?d=/../e").as_deref(), Some(&b"/srv/a b/c"[..]));
        assert_eq!(mapped(b"/srv", b"/").as_deref(), Some(&b"/srv/"[..]));
        for wrong in ["", "a", "/..", "/a/../b", "/%2e%2e/b", "/a%00b", "/%4", "/%zz", "/a/%2E./b"] {
            assert_eq!(mapped(b"/srv", wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(mapped(b"", b"/a"), None);
    }

    proptest! {
        #[test]
        fn no_path_leads_out(url in "[/.%2eE0a]{0,20}") {
            if let Some(path) = mapped(b"/srv", url.as_bytes()) {
                prop_assert!(path.starts_with(b"/srv/"));
                prop_assert!(!String::from_utf8_lossy(&path).split('/').any(|segment| segment == ".."));
            }
        }
    }
}
