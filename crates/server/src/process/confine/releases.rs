//! Where the next release of a root may lie. A confined server must reach these directories beside its roots, to serve
//! a switched link or a renamed directory without a restart.

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Further directories in which files lie that have nothing to do with a site.
const OF_ALL_TOO: [&str; 11] =
    ["/boot", "/dev", "/dev/shm", "/home", "/media", "/mnt", "/proc", "/run", "/sys", "/usr/local", "/var/lib"];
/// Links on one way, as the kernel has it.
const LINKS_MAX: usize = 40;

/// The next step on the way to a root.
enum Step {
    Top,
    Up,
    To(OsString),
    /// A link in this directory has led to where the way is.
    Led(PathBuf),
}

/// The directories in which other releases of a root may be expected: for a link on the way to it the directory that
/// the link lies in, or the one that its target lies in; for a directory the one around it. Directories in which
/// everybody's files lie are none of them.
pub(super) fn around(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut at = if root.is_absolute() { PathBuf::from("/") } else { std::env::current_dir().unwrap_or_default() };
    let mut steps = Vec::new();
    put(&mut steps, root);
    let mut links = 0;
    let mut is_link = false;
    while let Some(step) = steps.pop() {
        match step {
            Step::Top => at = PathBuf::from("/"),
            Step::Up => {
                at.pop();
            }
            Step::Led(folder) => {
                found.extend(of_link(&folder, &at));
                is_link = true;
            }
            Step::To(name) => {
                let next = at.join(name);
                let Ok(metadata) = fs::symlink_metadata(&next) else { return found };
                if !metadata.is_symlink() {
                    (at, is_link) = (next, false);
                    continue;
                }
                links += 1;
                let Ok(target) = fs::read_link(&next) else { return found };
                if links > LINKS_MAX {
                    return found;
                }
                steps.push(Step::Led(at.clone()));
                put(&mut steps, &target);
            }
        }
    }
    // What is called `.` cannot become another directory.
    if !is_link && root.file_name().is_some() {
        found.extend(at.parent().filter(|folder| !is_of_all(folder)).map(Path::to_owned));
    }
    found
}

/// What a link's next target will lie in.
fn of_link(folder: &Path, target: &Path) -> Option<PathBuf> {
    let Ok(way) = target.strip_prefix(folder) else {
        return target.parent().filter(|around| !is_of_all(around)).map(Path::to_owned);
    };
    if !is_of_all(folder) {
        return Some(folder.to_owned());
    }
    // Such as /srv/releases for /srv/current, which leads to /srv/releases/7.
    let mut way = way.components();
    let first = folder.join(way.next()?);
    way.next().filter(|_| !is_of_all(&first)).map(|_| first)
}

fn put(steps: &mut Vec<Step>, path: &Path) {
    let step = |component: Component<'_>| match component {
        Component::RootDir => Some(Step::Top),
        Component::ParentDir => Some(Step::Up),
        Component::Normal(name) => Some(Step::To(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    };
    steps.extend(path.components().rev().filter_map(step));
}

/// Whether the directory has files of many programs and users: a user's home counts, too.
fn is_of_all(folder: &Path) -> bool {
    let is_home = folder.parent() == Some(Path::new("/home"))
        || std::env::var_os("HOME").is_some_and(|home| Path::new(&home) == folder);
    is_home || OF_ALL.iter().chain(&OF_ALL_TOO).any(|of_all| Path::new(of_all) == folder)
}

/// Directories with files of many programs and users: of what is read there only the file itself stays open to the
/// server.
pub(super) const OF_ALL: [&str; 10] =
    ["/", "/etc", "/home", "/opt", "/root", "/srv", "/tmp", "/usr", "/var", "/var/tmp"];

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn releases_are_expected_around_links_and_directories() {
        let top = tempfile::tempdir().expect("a directory");
        let top = top.path().canonicalize().expect("is there");
        let at = |name: &str| top.join(name);
        for directory in ["app/releases/1/public", "far/versions/1", "plain/site"] {
            fs::create_dir_all(at(directory)).expect("creates");
        }
        symlink("releases/1", at("app/current")).expect("links");
        symlink("current/public", at("app/public")).expect("links");
        symlink(at("far/versions/1"), at("app/far")).expect("links");
        symlink("loop", at("app/loop")).expect("links");
        for (root, expected) in [
            ("app/current", &["app"][..]),
            ("app/current/", &["app"]),
            ("app/current/public", &["app", "app/releases/1"]),
            ("app/public", &["app", "app"]),
            ("app/far", &["far/versions"]),
            ("app/../app/./far/.", &["far/versions"]),
            ("plain/site", &["plain"]),
            ("app/loop", &[]),
            ("app/none", &[]),
        ] {
            let expected: Vec<PathBuf> = expected.iter().map(|name| at(name)).collect();
            assert_eq!(around(&at(root)), expected, "{root}");
        }
        assert!(around(Path::new(".")).is_empty() && around(Path::new("/")).is_empty());
    }

    #[test]
    fn what_belongs_to_all_is_not_opened_for_a_release() {
        let of = |folder: &str, target: &str| of_link(Path::new(folder), Path::new(target));
        assert_eq!(of("/srv", "/srv/releases/7"), Some("/srv/releases".into()));
        assert_eq!(of("/srv", "/srv/releases/7/public"), Some("/srv/releases".into()));
        assert_eq!(of("/srv", "/srv/7"), None);
        assert_eq!(of("/var/www", "/home/ann/site"), None);
        assert_eq!(of("/var/www", "/nix/store/abc-site"), Some("/nix/store".into()));
        assert_eq!(of("/var/www", "/var/www/7"), Some("/var/www".into()));
        for folder in ["/", "/tmp", "/srv", "/home/ann", "/root"] {
            assert!(is_of_all(Path::new(folder)), "{folder}");
        }
        assert!(!is_of_all(Path::new("/srv/app")) && !is_of_all(Path::new("/home/ann/app")));
    }
}
