//! What lies on another machine: a symbolic link stands in its place, which leads nowhere and says which content it is.
//!
//! Its text is `.weir-elsewhere/DIGEST/BYTES/SECONDS`: the SHA-256 in 64 hexadecimal digits, the bytes, and when it was
//! modified, in seconds since 1970. What does not know of such links finds nothing at them, and never other bytes.

use crate::files::root::Root;
use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;

/// What its text begins with; `crates/directory/src/atoms/elsewhere.rs` writes the same.
const PREFIX: &[u8] = b".weir-elsewhere/";
/// Bytes of the longest text: the prefix, a digest, and two numbers with their slashes.
const TEXT_BYTES_MAX: usize = 128;

/// Which content lies elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named {
    /// Its SHA-256.
    pub(crate) digest: [u8; 32],
    /// Its bytes.
    pub(crate) bytes: u64,
    /// Seconds since 1970.
    pub(crate) modified_s: u64,
}

impl Named {
    /// Reads the text of a link; none if it is another one.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text.strip_prefix(PREFIX)?).ok()?;
        let mut parts = text.split('/');
        let (digits, bytes, modified) = (parts.next()?, parts.next()?, parts.next()?);
        let is_plain = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
        if digits.len() != 64 || parts.next().is_some() || !is_plain(bytes) || !is_plain(modified) {
            return None;
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let half = |digit: u8| char::from(digit).to_digit(16).filter(|_| !digit.is_ascii_uppercase());
            *byte = (half(pair[0])? * 16 + half(pair[1])?) as u8;
        }
        Some(Self { digest, bytes: bytes.parse().ok()?, modified_s: modified.parse().ok()? })
    }
}

impl Root {
    /// What a link at a path names that lies elsewhere.
    pub(crate) fn named_elsewhere(&self, path: &[u8]) -> Option<Named> {
        let (directory, name) = path.split_at(memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1));
        let directory = self.open_for_stat(directory).ok()?;
        Named::parse(&read_link(directory.as_raw_fd(), name).ok()?)
    }
}

fn read_link(directory: i32, name: &[u8]) -> io::Result<Vec<u8>> {
    let name = CString::new(name)?;
    let mut text = vec![0_u8; TEXT_BYTES_MAX + 1];
    // SAFETY: the name is terminated, and the call writes at most as many bytes as there is room for.
    let read = unsafe { libc::readlinkat(directory, name.as_ptr(), text.as_mut_ptr().cast(), text.len()) };
    let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    text.truncate(read);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::symlink;

    fn text(bytes: &str, modified: &str) -> String {
        format!(".weir-elsewhere/{}/{bytes}/{modified}", "0f".repeat(32))
    }

    #[test]
    fn a_link_says_which_content_lies_elsewhere() {
        let named = Named { digest: [0x0f; 32], bytes: 12, modified_s: 7 };
        assert_eq!(Named::parse(text("12", "7").as_bytes()), Some(named));
        let upper = text("12", "7").replace('f', "F");
        for wrong in [text("-1", "7"), text("12", ""), text("12", "7/8"), text("99999999999999999999", "7"), upper] {
            assert_eq!(Named::parse(wrong.as_bytes()), None, "{wrong}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("a")).expect("makes");
        symlink(text("12", "7"), folder.path().join("a/b")).expect("links");
        symlink("a", folder.path().join("other")).expect("links");
        symlink("x".repeat(500), folder.path().join("long")).expect("links");
        let root = Root::open_directory(folder.path()).expect("opens");
        assert_eq!(root.named_elsewhere(b"/a/b"), Some(named));
        assert!(root.open(b"/a/b").is_err(), "it leads nowhere");
        for none in [&b"/a"[..], b"/a/c", b"/other", b"/long", b"/", b"/none/b"] {
            assert_eq!(root.named_elsewhere(none), None);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: Vec<u8>, is_near: bool) {
            let text = if is_near { [PREFIX, &text].concat() } else { text };
            let _ = Named::parse(&text);
        }
    }
}
