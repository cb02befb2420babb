//! The manifest of a version: its files, each with digest, bytes and mode, as a text.
//!
//! ```text
//! weir-manifest 1
//! ba78…15ad 3 644 hello.txt
//! ```
//!
//! The files stand in the order of their paths, each on a line that ends with a newline. Each manifest has one text
//! only, so that its digest names it.

use super::digest::Digest;
use super::error::ManifestError;
use std::fmt::Write;

/// The first line.
const HEAD: &str = "weir-manifest 1\n";
/// Bytes of the text.
pub const MANIFEST_BYTES_MAX: usize = 16 << 20;
/// Files of a manifest.
pub const FILES_MAX: usize = 200_000;
/// Bytes of a path (PATH_MAX of Linux, less the room for where the tree lies).
pub const PATH_BYTES_MAX: usize = 3072;
/// Bytes of a part of a path (NAME_MAX of Linux).
const NAME_BYTES_MAX: usize = 255;

/// A file of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its path within the tree, with `/` between its parts.
    pub path: String,
    /// The SHA-256 of its content.
    pub digest: Digest,
    /// Bytes of its content.
    pub bytes: u64,
    /// Its permissions, 0 to 0o777.
    pub mode: u32,
}

/// The files of a version, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    files: Vec<File>,
}

impl Manifest {
    /// Makes one of files in any order.
    ///
    /// # Errors
    ///
    /// A path cannot be used, stands there twice, or is a folder of another; or there are too many.
    pub fn new(mut files: Vec<File>) -> Result<Self, ManifestError> {
        files.sort_by(|one, two| one.path.cmp(&two.path));
        if files.len() > FILES_MAX {
            return Err(ManifestError::TooMany { files: files.len(), most: FILES_MAX });
        }
        for file in &files {
            let wrong = |why| Err(ManifestError::Path { path: file.path.clone(), why });
            if let Some(why) = fault_of_path(&file.path) {
                return wrong(why);
            }
            if file.mode > 0o777 {
                return wrong("its mode has other bits than permissions");
            }
        }
        let manifest = Self { files };
        if let Some(file) = manifest.overlap() {
            return Err(ManifestError::Path { path: file.path.clone(), why: "it stands there twice" });
        }
        let bytes = manifest.to_text().len();
        if bytes > MANIFEST_BYTES_MAX {
            return Err(ManifestError::TooLong { bytes, most: MANIFEST_BYTES_MAX });
        }
        Ok(manifest)
    }

    /// Reads one.
    ///
    /// # Errors
    ///
    /// The text is not exactly what [`to_text`](Self::to_text) writes for some manifest.
    pub fn from_text(text: &[u8]) -> Result<Self, ManifestError> {
        if text.len() > MANIFEST_BYTES_MAX {
            return Err(ManifestError::TooLong { bytes: text.len(), most: MANIFEST_BYTES_MAX });
        }
        let lines = text.strip_prefix(HEAD.as_bytes()).ok_or(ManifestError::Version)?;
        let mut files = Vec::new();
        for (at, line) in lines.split_inclusive(|byte| *byte == b'\n').enumerate() {
            if at >= FILES_MAX {
                return Err(ManifestError::TooMany { files: at + 1, most: FILES_MAX });
            }
            files.push(file_of(line).map_err(|why| ManifestError::Line { line: at + 2, why })?);
        }
        if let Some(at) = files.windows(2).position(|pair| pair[0].path >= pair[1].path) {
            return Err(ManifestError::Line { line: at + 3, why: "it stands out of order" });
        }
        let manifest = Self { files };
        match manifest.overlap() {
            Some(file) => Err(ManifestError::Path { path: file.path.clone(), why: "it is a folder of another" }),
            None => Ok(manifest),
        }
    }

    /// Reads one whose digest is known.
    ///
    /// # Errors
    ///
    /// As [`from_text`](Self::from_text), and where the digest is another.
    pub fn with_digest(text: &[u8], expected: &Digest) -> Result<Self, ManifestError> {
        let found = Digest::of(text);
        if found != *expected {
            return Err(ManifestError::Digest { expected: *expected, found });
        }
        Self::from_text(text)
    }

    /// Its text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = HEAD.to_owned();
        for file in &self.files {
            // Writing to a text does not fail.
            let _ = writeln!(text, "{} {} {:o} {}", file.digest, file.bytes, file.mode, file.path);
        }
        text
    }

    /// The digest of its text.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.to_text().as_bytes())
    }

    /// Its files, by path.
    #[must_use]
    pub fn entries(&self) -> &[File] {
        &self.files
    }

    /// The file at a path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&File> {
        let at = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        self.files.get(at)
    }

    /// Bytes of all files together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }

    /// A file that stands there twice, or whose path is a folder of another's.
    fn overlap(&self) -> Option<&File> {
        let has = |path: &str| self.file(path).is_some();
        let folders = |path: &str| path.match_indices('/').any(|(at, _)| has(&path[..at]));
        let twice = self.files.windows(2).find(|pair| pair[0].path == pair[1].path).map(|pair| &pair[1]);
        twice.or_else(|| self.files.iter().find(|file| folders(&file.path)))
    }
}

fn file_of(line: &[u8]) -> Result<File, &'static str> {
    let line = std::str::from_utf8(line).map_err(|_| "it is no UTF-8")?;
    let line = line.strip_suffix('\n').ok_or("its end is missing")?;
    let mut parts = line.splitn(4, ' ');
    let mut part = || parts.next().ok_or("it has fewer than four parts");
    let (digest, bytes, mode, path) = (part()?, part()?, part()?, part()?);
    let digest = digest.parse().map_err(|_| "its digest has not 64 letters of 0 to 9 and a to f")?;
    let bytes: u64 = plain(bytes, 10).ok_or("its number of bytes is none")?;
    let mode = plain(mode, 8).and_then(|mode| u32::try_from(mode).ok()).filter(|mode| *mode <= 0o777);
    let mode = mode.ok_or("its mode is none")?;
    match fault_of_path(path) {
        Some(why) => Err(why),
        None => Ok(File { path: path.to_owned(), digest, bytes, mode }),
    }
}

/// A number without a sign and without zeros before it.
fn plain(text: &str, radix: u32) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    is_plain.then(|| u64::from_str_radix(text, radix).ok()).flatten()
}

/// Why a path cannot be used; no path leads out of its tree.
fn fault_of_path(path: &str) -> Option<&'static str> {
    if path.len() > PATH_BYTES_MAX {
        return Some("its path is too long");
    }
    if path.chars().any(char::is_control) {
        return Some("its path has a control character");
    }
    let is_bad = |part: &str| part.is_empty() || part == "." || part == ".." || part.len() > NAME_BYTES_MAX;
    path.split('/').any(is_bad).then_some("its path has an empty part, `.`, `..` or one of more than 255 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(path: &str) -> File {
        File { path: path.to_owned(), digest: Digest::of(path.as_bytes()), bytes: path.len() as u64, mode: 0o644 }
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let files = vec![file("b/ c d.html"), file("a"), file("b/ü")];
        let manifest = Manifest::new(files).expect("a manifest");
        assert_eq!(
            manifest.entries().iter().map(|file| file.path.as_str()).collect::<Vec<_>>(),
            ["a", "b/ c d.html", "b/ü"]
        );
        let text = manifest.to_text();
        assert_eq!(Manifest::from_text(text.as_bytes()), Ok(manifest.clone()));
        assert_eq!(Manifest::with_digest(text.as_bytes(), &manifest.digest()), Ok(manifest.clone()));
        assert!(matches!(Manifest::with_digest(text.as_bytes(), &Digest::of(b"")), Err(ManifestError::Digest { .. })));
        assert_eq!((manifest.bytes(), manifest.file("a").map(|file| file.bytes)), (1 + 11 + 4, Some(1)));
        assert!(manifest.file("c").is_none());
    }

    #[test]
    fn paths_stay_within_their_tree() {
        for wrong in ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "a\nb", "a\0", &"a".repeat(256)] {
            assert!(matches!(Manifest::new(vec![file(wrong)]), Err(ManifestError::Path { .. })), "{wrong:?}");
        }
        for overlap in [["a", "a"], ["a", "a/b"], ["a/b", "a/b/c/d"]] {
            assert!(Manifest::new(overlap.map(file).to_vec()).is_err(), "{overlap:?}");
        }
        // Between `a` and `a/b` in the order of bytes.
        assert!(Manifest::new(vec![file("a"), file("a-"), file("a/b")]).is_err());
        assert!(Manifest::new(vec![file("a.b"), file("a/b"), file("...")]).is_ok());
    }

    #[test]
    fn other_texts_are_refused() {
        let good = Manifest::new(vec![file("a"), file("b")]).expect("a manifest").to_text();
        let lines: Vec<&str> = good.lines().collect();
        let swapped = format!("{}\n{}\n{}\n", lines[0], lines[2], lines[1]);
        let cut = good.trim_end().to_owned();
        let zeros = good.replace(" 1 644 ", " 01 644 ");
        let modes = good.replace(" 644 ", " 4755 ");
        let twice = format!("{}\n{}\n{}\n", lines[0], lines[1], lines[1]);
        for wrong in [&swapped, &cut, &zeros, &modes, &twice, &good.replace("st 1", "st 2"), &format!("{good}\n")] {
            assert!(Manifest::from_text(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_the_same(lines: Vec<(String, u64, u16)>, cut: usize) {
            let files = lines.into_iter().map(|(path, bytes, mode)| {
                let digest = Digest::of(path.as_bytes());
                File { path, digest, bytes, mode: u32::from(mode) & 0o777 }
            });
            let files: Vec<File> = files.filter(|file| fault_of_path(&file.path).is_none()).collect();
            if let Ok(manifest) = Manifest::new(files) {
                let text = manifest.to_text();
                prop_assert_eq!(Manifest::from_text(text.as_bytes()), Ok(manifest));
                let part = &text.as_bytes()[..cut % (text.len() + 1)];
                if let Ok(manifest) = Manifest::from_text(part) {
                    prop_assert_eq!(manifest.to_text().into_bytes(), part);
                }
            }
        }

        #[test]
        fn no_bytes_make_it_fail(bytes: Vec<u8>) {
            let text = [HEAD.as_bytes(), &bytes].concat();
            if let Ok(manifest) = Manifest::from_text(&text) {
                prop_assert_eq!(manifest.to_text().into_bytes(), text);
            }
        }
    }
}
