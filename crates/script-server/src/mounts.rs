//! Which file of this host a path stands for.

use crate::settings::Mount;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A path leads to no script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoScript {
    /// It has a part that leads elsewhere, or a byte 0.
    #[error("{0} has `.`, `..` or a byte 0 in it")]
    Unclean(String),
    /// No table has it.
    #[error("{0} is below no `prefix` of this script server")]
    Unmounted(String),
    /// There is no such file.
    #[error("{0} leads to no script below {root}", root = .1.display())]
    Missing(String, PathBuf),
    /// A link leads out of the directory.
    #[error("{0} leads out of {root} by a link; put the script itself there", root = .1.display())]
    Outside(String, PathBuf),
}

/// A script that a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The place of its table.
    pub mount: usize,
    /// Bytes of the path that are SCRIPT_NAME; the rest is PATH_INFO.
    pub name_bytes: usize,
    /// Its file.
    pub file: PathBuf,
}

/// All directories with scripts.
#[derive(Debug, Clone, Default)]
pub struct Mounts {
    all: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    prefix: String,
    root: PathBuf,
    /// The same by the name that all links lead to.
    real: PathBuf,
    endings: Vec<String>,
}

impl Mounts {
    /// Those of the settings.
    pub fn new(mounts: &[Mount]) -> Self {
        let entry = |mount: &Mount| Entry {
            prefix: mount.prefix.clone(),
            root: mount.root.clone(),
            real: mount.root.canonicalize().unwrap_or_else(|_| mount.root.clone()),
            endings: mount.endings.clone(),
        };
        Self { all: mounts.iter().map(entry).collect() }
    }

    /// The directory of a table.
    pub(crate) fn root(&self, mount: usize) -> &Path {
        &self.all[mount].root
    }

    /// The script of a decoded path: the first file that it leads through below the longest prefix, if the name ends
    /// as scripts do there.
    ///
    /// # Errors
    ///
    /// [`NoScript`] if there is none, or it lies elsewhere.
    pub fn find(&self, path: &[u8]) -> Result<Found, NoScript> {
        let shown = || String::from_utf8_lossy(path).chars().take(200).collect::<String>();
        let is_unclean = |part: &[u8]| part == b"." || part == b"..";
        if path.contains(&0) || path.split(|&byte| byte == b'/').any(is_unclean) {
            return Err(NoScript::Unclean(shown()));
        }
        let of = self.all.iter().enumerate().filter(|(_, entry)| path.starts_with(entry.prefix.as_bytes()));
        let Some((mount, entry)) = of.max_by_key(|(_, entry)| entry.prefix.len()) else {
            return Err(NoScript::Unmounted(shown()));
        };
        let missing = || NoScript::Missing(shown(), entry.root.clone());
        let mut at = entry.prefix.len();
        let mut file = entry.root.clone();
        loop {
            let part = path[at..].split(|&byte| byte == b'/').next().unwrap_or_default();
            // Files whose names begin with a dot are hidden, as the web server has it.
            if part.is_empty() || part.starts_with(b".") {
                return Err(missing());
            }
            at += part.len();
            file.push(OsStr::from_bytes(part));
            let metadata = file.metadata().map_err(|_| missing())?;
            if metadata.is_file() {
                let is_script = entry.endings.is_empty()
                    || entry
                        .endings
                        .iter()
                        .any(|ending| part.ends_with(ending.as_bytes()) && part.len() > ending.len());
                if !is_script {
                    return Err(missing());
                }
                let real = file.canonicalize().map_err(|_| missing())?;
                if !real.starts_with(&entry.real) {
                    return Err(NoScript::Outside(shown(), entry.root.clone()));
                }
                return Ok(Found { mount, name_bytes: at, file });
            }
            if !metadata.is_dir() || path.get(at) != Some(&b'/') {
                return Err(missing());
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn mount(prefix: &str, root: PathBuf, endings: &[&str]) -> Mount {
        let endings = endings.iter().map(|&ending| ending.to_owned()).collect();
        Mount { prefix: prefix.to_owned(), root, endings, socket: PathBuf::new(), requests_max: 1 }
    }

    /// `bin/{a,sub/b,.hidden,link,inner}`, `pl/{c.pl,d.txt}` and `secret`.
    fn mounts() -> (tempfile::TempDir, Mounts) {
        let folder = tempfile::tempdir().expect("a directory");
        for (name, content) in
            [("bin/a", ""), ("bin/sub/b", ""), ("bin/.hidden", ""), ("pl/c.pl", ""), ("pl/d.txt", ""), ("secret", "")]
        {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a directory")).expect("creates");
            fs::write(path, content).expect("writes");
        }
        symlink("../secret", folder.path().join("bin/link")).expect("links");
        symlink("sub", folder.path().join("bin/inner")).expect("links");
        let all = [
            mount("/cgi-bin/", folder.path().join("bin"), &[]),
            mount("/cgi-bin/pl/", folder.path().join("pl"), &[".pl"]),
        ];
        let mounts = Mounts::new(&all);
        (folder, mounts)
    }

    #[test]
    fn a_path_leads_to_a_script_and_what_follows() {
        let (folder, mounts) = mounts();
        let find = |path: &str| {
            let found = mounts.find(path.as_bytes()).ok()?;
            let file = found.file.strip_prefix(folder.path()).ok()?.to_string_lossy().into_owned();
            Some((file, path[found.name_bytes..].to_owned()))
        };
        for (path, file, info) in [
            ("/cgi-bin/a", "bin/a", ""),
            ("/cgi-bin/a/x/y", "bin/a", "/x/y"),
            ("/cgi-bin/a//x", "bin/a", "//x"),
            ("/cgi-bin/sub/b/", "bin/sub/b", "/"),
            ("/cgi-bin/inner/b", "bin/inner/b", ""),
            ("/cgi-bin/pl/c.pl/i", "pl/c.pl", "/i"),
        ] {
            assert_eq!(find(path), Some((file.to_owned(), info.to_owned())), "{path}");
        }
        for path in [
            "",
            "/",
            "cgi-bin/a",
            "/cgi-bin",
            "/cgi-bin/",
            "/cgi-bin//a",
            "/cgi-bin/sub",
            "/cgi-bin/none",
            "/cgi-bin/.hidden",
            "/cgi-bin/../secret",
            "/cgi-bin/a/../../secret",
            "/cgi-bin/./a",
            "/cgi-bin/a/..",
            "/cgi-bin/link",
            "/cgi-bin/pl/d.txt",
            "/cgi-bin/pl/.pl",
            "/cgi-bin/a\0",
            "/other/a",
            "/cgi-bin/pl/a",
        ] {
            assert_eq!(find(path), None, "{path}");
        }
        assert!(matches!(mounts.find(b"/cgi-bin/link"), Err(NoScript::Outside(..))));
    }

    proptest! {
        #[test]
        fn no_path_leads_out(parts in prop::collection::vec("(\\.|\\.\\.|a|sub|b|link|inner|pl|c\\.pl|secret||%2e)", 0..8)) {
            let (folder, mounts) = mounts();
            let path = format!("/cgi-bin/{}", parts.join("/"));
            if let Ok(found) = mounts.find(path.as_bytes()) {
                let real = found.file.canonicalize().expect("it is there");
                let root = folder.path().canonicalize().expect("it is there");
                prop_assert!(real.starts_with(root.join("bin")) || real.starts_with(root.join("pl")), "{path}");
                prop_assert!(!path[..found.name_bytes].contains(".."));
            }
        }
    }
}
