//! Which script a path asks for, and what is left of the path for the script.
//!
//! The split is by segments: the script is the first segment with the ending of one, whole, and only if the file is
//! there. So `/upload.jpg/x.php` does not run `upload.jpg`, which is what PHP would do if it were left to look for the
//! script itself (its setting `cgi.fix_pathinfo`).
//!
//! Where scripts have names of any kind, the script is the first file that the path leads through, below the directory
//! that scripts lie in. A file has nothing below it, so that no other file can be meant.

use super::settings::{Gateway, Split};
use crate::http::target::{self, BadTarget};

/// Files that are looked for to find a script of any name: directories between it and that of all scripts, and itself.
const LOOKS_MAX: usize = 16;

/// Memory for paths that have to be rewritten; used again for each request.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    decoded: Vec<u8>,
    /// The path and, behind it, the name of an index.
    path: Vec<u8>,
}

/// A path, split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Script<'p> {
    /// SCRIPT_NAME.
    pub(crate) name: &'p [u8],
    /// PATH_INFO.
    pub(crate) info: &'p [u8],
    /// QUERY_STRING: without the question mark.
    pub(crate) query: &'p [u8],
}

/// Why a request goes to no program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unsendable {
    /// The target is malformed, or tries to leave the root.
    #[error("its target is malformed")]
    Malformed,
    /// The target names a file that is not served, such as one whose name begins with a dot.
    #[error("its target names a file that is not served")]
    Closed,
    /// No segment of the path has the ending of a script, or the path is not below that of the application.
    #[error("its path names no script")]
    NoScript,
    /// The file is not there.
    #[error("the script that its path names is not there")]
    Missing,
    /// It has more fields or bytes of fields than the protocol takes.
    #[error("its fields are more than the protocol of the upstream takes")]
    TooLarge,
    /// A value has a byte 0, which ends a value in SCGI.
    #[error("one of its values has a byte 0")]
    Nul,
}

impl Unsendable {
    /// The status of the response that says so.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Malformed | Self::Nul => 400,
            Self::Closed | Self::NoScript | Self::Missing => 404,
            Self::TooLarge => 431,
        }
    }
}

/// Splits the path of a target. `exists` tells whether a regular file is there, by its path relative to the root.
pub(crate) fn find<'s>(
    text: &'s str,
    gateway: &Gateway,
    exists: &mut impl FnMut(&[u8]) -> bool,
    scratch: &'s mut Scratch,
) -> Result<Script<'s>, Unsendable> {
    let Scratch { decoded, path } = scratch;
    // Names with dots are judged below: behind the script they are the program's matter.
    let target = target::resolve(text, true, decoded).map_err(|bad| match bad {
        BadTarget::Malformed => Unsendable::Malformed,
        BadTarget::Closed => Unsendable::Closed,
    })?;
    let query = target.query.get(1..).unwrap_or_default();
    match &gateway.split {
        Split::Application { mount } => {
            let info = target.path.strip_prefix(mount.as_bytes()).ok_or(Unsendable::NoScript)?;
            if !matches!(info.first(), None | Some(b'/')) {
                return Err(Unsendable::NoScript);
            }
            Ok(Script { name: &target.path[..mount.len()], info, query })
        }
        Split::Any { mount } => {
            let bytes = any_script_bytes(target.path, (mount, gateway.alias_bytes), exists)?;
            let (name, info) = target.path.split_at(bytes);
            Ok(Script { name, info, query })
        }
        Split::Script { endings, index } => {
            let script = match (script_bytes(target.path, endings)?, index) {
                (Some(bytes), _) => {
                    let (name, info) = target.path.split_at(bytes);
                    Script { name, info, query }
                }
                (None, Some(index)) if target.path.ends_with(b"/") => {
                    path.clear();
                    path.extend_from_slice(target.path);
                    path.extend_from_slice(index.as_bytes());
                    Script { name: path, info: b"", query }
                }
                (None, _) => return Err(Unsendable::NoScript),
            };
            // What stands behind the alias begins with a slash.
            let file = script.name.get(gateway.alias_bytes..).and_then(|name| name.strip_prefix(b"/"));
            if file.is_some_and(exists) { Ok(script) } else { Err(Unsendable::Missing) }
        }
    }
}

/// Where the first segment ends that has the ending of a script.
fn script_bytes(path: &[u8], endings: &[String]) -> Result<Option<usize>, Unsendable> {
    let mut start = 1;
    for segment in path[1..].split(|&byte| byte == b'/') {
        if segment.first() == Some(&b'.') && !(start == 1 && segment == b".well-known") {
            return Err(Unsendable::Closed);
        }
        let is_script = |ending: &String| segment.len() > ending.len() && segment.ends_with(ending.as_bytes());
        if endings.iter().any(is_script) {
            return Ok(Some(start + segment.len()));
        }
        start += segment.len() + 1;
    }
    Ok(None)
}

/// Where the first segment behind `mount` ends that is a file. What stands behind `alias_bytes` of the path is relative
/// to the root.
fn any_script_bytes(
    path: &[u8],
    (mount, alias_bytes): (&str, usize),
    exists: &mut impl FnMut(&[u8]) -> bool,
) -> Result<usize, Unsendable> {
    let below = path.strip_prefix(mount.as_bytes()).ok_or(Unsendable::NoScript)?;
    let mut end = mount.len();
    for segment in below.split(|&byte| byte == b'/').take(LOOKS_MAX) {
        match segment.first() {
            None => return Err(Unsendable::NoScript),
            Some(b'.') => return Err(Unsendable::Closed),
            Some(_) => end += segment.len(),
        }
        // What stands behind the alias begins with a slash.
        let file = path.get(alias_bytes..end).and_then(|name| name.strip_prefix(b"/"));
        if file.is_some_and(&mut *exists) {
            return Ok(end);
        }
        end += 1;
    }
    Err(Unsendable::Missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILES: [&[u8]; 5] = [b"a.php", b"index.php", b"dir/index.php", b"dir/b.php", b"a b.php"];

    fn split(text: &str, gateway: &Gateway) -> Result<(String, String, String), Unsendable> {
        let mut scratch = Scratch::default();
        let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        find(text, gateway, &mut |path| FILES.contains(&path), &mut scratch)
            .map(|script| (text_of(script.name), text_of(script.info), text_of(script.query)))
    }

    #[test]
    fn the_first_segment_with_the_ending_is_the_script() {
        let php = Gateway::php("/srv".into());
        for (text, name, info, query) in [
            ("/a.php", "/a.php", "", ""),
            ("/a.php?x=1&y", "/a.php", "", "x=1&y"),
            ("/a.php/b", "/a.php", "/b", ""),
            ("/a.php/", "/a.php", "/", ""),
            ("/a.php/b.php/c", "/a.php", "/b.php/c", ""),
            ("/a.php/.hidden", "/a.php", "/.hidden", ""),
            ("//a.php//b", "/a.php", "/b", ""),
            ("/%61.php/%62", "/a.php", "/b", ""),
            ("/a%20b.php/%C3%BC", "/a b.php", "/\u{fc}", ""),
            ("/", "/index.php", "", ""),
            ("/?q", "/index.php", "", "q"),
            ("/dir/", "/dir/index.php", "", ""),
            ("/dir/b.php/x/", "/dir/b.php", "/x/", ""),
            ("http://host/a.php/b?c", "/a.php", "/b", "c"),
        ] {
            assert_eq!(split(text, &php), Ok((name.into(), info.into(), query.into())), "{text}");
        }
    }

    #[test]
    fn what_is_no_script_is_not_run() {
        let php = Gateway::php("/srv".into());
        for (text, error) in [
            ("/upload.jpg/x.php", Unsendable::Missing),
            ("/a.php.jpg/x.php", Unsendable::Missing),
            ("/a.phpx/b", Unsendable::NoScript),
            ("/a.PHP", Unsendable::NoScript),
            ("/a.php.jpg", Unsendable::NoScript),
            ("/upload.jpg", Unsendable::NoScript),
            ("/dir", Unsendable::NoScript),
            ("/other/", Unsendable::Missing),
            ("/none.php", Unsendable::Missing),
            ("/.php", Unsendable::Closed),
            ("/.git/a.php", Unsendable::Closed),
            ("/a.php%00.jpg", Unsendable::Malformed),
            ("/a.php%2fb", Unsendable::Malformed),
            ("/x%2f..%2fa.php", Unsendable::Malformed),
            ("/../a.php", Unsendable::Malformed),
            ("/%2e%2e/a.php", Unsendable::Malformed),
            ("/a.php/../b", Unsendable::Malformed),
            ("*", Unsendable::Malformed),
        ] {
            assert_eq!(split(text, &php), Err(error), "{text}");
            assert!((400..500).contains(&error.status()));
        }
        let none = Gateway { split: Split::Script { endings: vec![".py".into()], index: None }, ..php };
        assert_eq!(split("/", &none), Err(Unsendable::NoScript));
    }

    #[test]
    fn an_application_has_all_below_its_path() {
        let whole = Gateway::application("/srv".into(), String::new());
        assert_eq!(split("/x.php/%20?q", &whole), Ok(("".into(), "/x.php/ ".into(), "q".into())));
        let mounted = Gateway::application("/srv".into(), "/app".to_owned());
        assert_eq!(split("/app/x", &mounted), Ok(("/app".into(), "/x".into(), "".into())));
        assert_eq!(split("/app", &mounted), Ok(("/app".into(), "".into(), "".into())));
        assert_eq!(split("/apple", &mounted), Err(Unsendable::NoScript));
        assert_eq!(split("/x", &mounted), Err(Unsendable::NoScript));
    }

    fn any(mount: &str, alias_bytes: usize) -> Gateway {
        Gateway { split: Split::Any { mount: mount.to_owned() }, alias_bytes, ..Gateway::php("/srv".into()) }
    }

    #[test]
    fn the_first_file_is_the_script_where_names_are_of_any_kind() {
        for (mount, alias, text, name, info) in [
            ("/", 0, "/a.php", "/a.php", ""),
            ("/", 0, "/dir/b.php/x/y", "/dir/b.php", "/x/y"),
            ("/dir/", 0, "/dir/b.php/", "/dir/b.php", "/"),
            ("/dir/", 0, "/dir/b.php/.hidden/a.php", "/dir/b.php", "/.hidden/a.php"),
            ("/dir/", 0, "/dir//%62.php//x", "/dir/b.php", "/x"),
            ("/cgi/", 4, "/cgi/a.php/x", "/cgi/a.php", "/x"),
            ("/cgi/", 4, "/cgi/dir/index.php", "/cgi/dir/index.php", ""),
            ("/cgi/", 4, "/cgi/a%20b.php?q", "/cgi/a b.php", ""),
        ] {
            let query = text.split_once('?').map_or("", |(_, query)| query);
            let expected = Ok((name.to_owned(), info.to_owned(), query.to_owned()));
            assert_eq!(split(text, &any(mount, alias)), expected, "{text}");
        }
    }

    #[test]
    fn no_path_leads_to_a_script_that_is_no_file_below_the_directory_of_scripts() {
        for (mount, alias, text, error) in [
            ("/dir/", 0, "/dir/", Unsendable::NoScript),
            ("/dir/", 0, "/dir", Unsendable::NoScript),
            ("/dir/", 0, "/a.php", Unsendable::NoScript),
            ("/dir/", 0, "/dirx/a.php", Unsendable::NoScript),
            ("/dir/", 0, "/dir/none/a.php", Unsendable::Missing),
            ("/", 0, "/dir/", Unsendable::NoScript),
            ("/dir/", 0, "/dir/.a", Unsendable::Closed),
            ("/dir/", 0, "/dir/../a.php", Unsendable::Malformed),
            ("/dir/", 0, "/dir/%2e%2e/a.php", Unsendable::Malformed),
            ("/dir/", 0, "/dir/..%2fa.php", Unsendable::Malformed),
            ("/dir/", 0, "/dir/b.php%00", Unsendable::Malformed),
            ("/dir/", 0, "/dir/b.php/../../a.php", Unsendable::Malformed),
            ("/cgi/", 4, "/cgi/cgi/a.php", Unsendable::Missing),
        ] {
            assert_eq!(split(text, &any(mount, alias)), Err(error), "{text}");
        }
    }

    #[test]
    fn looks_for_a_script_have_a_bound() {
        let (mut looks, mut scratch) = (0, Scratch::default());
        let deep = "/x".repeat(1000);
        let found = find(
            &deep,
            &any("/", 0),
            &mut |_| {
                looks += 1;
                false
            },
            &mut scratch,
        );
        assert_eq!((found, looks), (Err(Unsendable::Missing), LOOKS_MAX));
    }

    proptest! {
        #[test]
        fn scripts_of_any_name_are_the_first_file_of_a_path(text in "[/.%a-fhip0-9?]{0,30}", there in 0_usize..4) {
            let (mount, mut scratch) = ("/a/", Scratch::default());
            let mut asked = Vec::new();
            let mut exists = |path: &[u8]| { asked.push(path.to_vec()); asked.len() > there };
            let text = format!("/a/{text}");
            if let Ok(script) = find(&text, &any(mount, 2), &mut exists, &mut scratch) {
                prop_assert!(script.name.starts_with(mount.as_bytes()) && script.name.len() > mount.len());
                prop_assert!(script.info.is_empty() || script.info.starts_with(b"/"));
                prop_assert!(!script.name.windows(2).any(|pair| pair == b"/." || pair == b"//"));
                prop_assert!(!script.name.ends_with(b"/") && !script.name.contains(&0));
                // It was looked for last, and all before it are directories above it.
                prop_assert_eq!(asked.len(), there + 1);
                prop_assert_eq!(&asked[there], &script.name[mount.len()..]);
                prop_assert!(asked.windows(2).all(|pair| pair[1].starts_with(&[&pair[0], &b"/"[..]].concat())));
            } else {
                prop_assert!(asked.len() <= there);
            }
        }

        #[test]
        fn only_files_that_are_there_are_run(text in "[/.%a-fhip0-9?]{0,30}") {
            let php = Gateway::php("/srv".into());
            let mut asked = Vec::new();
            let mut scratch = Scratch::default();
            let mut exists = |path: &[u8]| { asked.push(path.to_vec()); true };
            if let Ok(script) = find(&text, &php, &mut exists, &mut scratch) {
                prop_assert!(script.name.ends_with(b".php") && script.name.starts_with(b"/"));
                prop_assert!(script.info.is_empty() || script.info.starts_with(b"/"));
                prop_assert!(!script.name.windows(2).any(|pair| pair == b"/." || pair == b"//"));
                prop_assert_eq!(asked, vec![script.name[1..].to_vec()]);
            } else {
                prop_assert!(asked.is_empty());
            }
        }
    }
}
