//! Names of variants: that of `film.mp4` for slow clients is `film.small.mp4`.

/// The variant that is the file itself.
pub(crate) const FULL: &str = "full";
/// Bytes of a variant's name.
const NAME_BYTES_MAX: usize = 32;

/// What was found of those that were named.
#[derive(Debug)]
pub(crate) struct Found<T> {
    /// None = the file itself.
    pub(crate) found: Option<T>,
    /// Those that were named before it and are not there.
    pub(crate) missing: u64,
}

/// The first that is there of the variants in a list with spaces; without one, the file itself.
pub(crate) fn find<T>(names: &str, path: &[u8], mut open: impl FnMut(&[u8]) -> Option<T>) -> Found<T> {
    let mut missing = 0;
    // What is named `full` is not looked for: it is the file itself.
    for name in names.split_ascii_whitespace().take_while(|name| *name != FULL) {
        if let Some(found) = path_of(path, name).and_then(|path| open(&path)) {
            return Found { found: Some(found), missing };
        }
        missing += 1;
    }
    Found { found: None, missing }
}

/// The path of a variant; none for what is no name, and for paths that have no name of a file.
pub(crate) fn path_of(path: &[u8], name: &str) -> Option<Vec<u8>> {
    let is_name = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    let slash = memchr::memrchr(b'/', path)?;
    let (directory, file) = path.split_at(slash + 1);
    if !is_name || file.is_empty() {
        return None;
    }
    // A dot at the beginning is no ending.
    let dot = memchr::memrchr(b'.', file).filter(|dot| *dot > 0).unwrap_or(file.len());
    let (stem, ending) = file.split_at(dot);
    Some([directory, stem, b".", name.as_bytes(), ending].concat())
}

/// The variant that an entity tag, without its quotes, says that it is of; see [`tag`]. Clients may say anything.
pub(crate) fn of_tag(opaque: &[u8]) -> Option<&str> {
    let at = memchr::memrchr(b'~', opaque)?;
    std::str::from_utf8(&opaque[at + 1..]).ok()
}

/// The entity tag of a variant where it stands for the file: another one than the file's, even if both had the same
/// size and time.
pub(crate) fn tag(plain: &str, name: &str) -> String {
    format!("{}~{name}\"", plain.trim_end_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_has_its_name_before_the_ending() {
        for (path, name, expected) in [
            ("/v/film.mp4", "small", Some("/v/film.small.mp4")),
            ("/v/a.b.mp4", "half", Some("/v/a.b.half.mp4")),
            ("/v.1/film", "half", Some("/v.1/film.half")),
            ("/.hidden", "half", Some("/.hidden.half")),
            ("/v/", "half", None),
            ("/film.mp4", "", None),
            ("/film.mp4", "../x", None),
            ("/film.mp4", "a.b", None),
        ] {
            let found = path_of(path.as_bytes(), name);
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{path} {name}");
        }
    }

    #[test]
    fn those_that_are_missing_are_passed_over_and_counted() {
        let find = |names: &str| {
            let found = find(names, b"/a.x", |path| (path == b"/a.half.x").then_some("half"));
            (found.found, found.missing)
        };
        assert_eq!(find("half"), (Some("half"), 0));
        assert_eq!(find("tiny small half full"), (Some("half"), 2));
        assert_eq!(find("small"), (None, 1));
        assert_eq!(find("full"), (None, 0));
        assert_eq!(find("small full half"), (None, 1));
    }

    #[test]
    fn tags_name_their_variant() {
        let tag = tag("\"1-2\"", "small");
        assert_eq!(tag, "\"1-2~small\"");
        assert_eq!(of_tag(b"1-2~small"), Some("small"));
        assert_eq!(of_tag(b"1-2"), None);
        assert_eq!(of_tag(b"~"), Some(""));
    }
}
