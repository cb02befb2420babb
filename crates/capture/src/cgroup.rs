//! Targets by control group (version 2): a systemd unit's, a container's, or any other.

use crate::containers::{self, Runtimes, Search, is_id};
use crate::error::TargetError;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where control groups are mounted unless /proc/self/mounts says otherwise.
const USUAL: &str = "/sys/fs/cgroup";
/// Groups that are looked at; a host has some hundreds.
const MOST_GROUPS: usize = 1 << 16;
/// Characters of a container's id by which it may be named, at least.
const SHORTEST_ID: usize = 6;
/// What the known runtimes write before and behind a container's id in the name of its group: Docker, Podman, containerd
/// and CRI-O under systemd; systemd-nspawn and LXC by name.
const AFFIXES: &[(&str, &str)] = &[
    ("docker-", ".scope"),
    ("libpod-", ".scope"),
    ("cri-containerd-", ".scope"),
    ("crio-", ".scope"),
    ("machine-", ".scope"),
    ("lxc.payload.", ""),
    ("", ""),
];

/// The group of a systemd unit, of the system's or a user's: `NAME` or `NAME.service`.
///
/// # Errors
/// [`TargetError::NoGroup`] if there is none or there are several of that name.
pub fn of_unit(unit: &str) -> Result<PathBuf, TargetError> {
    let named = if unit.contains('.') { unit.to_owned() } else { format!("{unit}.service") };
    // Of nested ones the outermost is the unit's.
    only(unit, "unit", groups().into_iter().filter(|path| name_of(path) == named))
}

/// The group of a container: its id or the first characters of it, or its name, as the runtime's files tell it or as
/// the group itself is named.
///
/// # Errors
/// [`TargetError::NoContainer`] tells what was looked at, and [`TargetError::SeveralGroups`] if it is not clear which
/// is meant.
pub fn of_container(container: &str) -> Result<PathBuf, TargetError> {
    let search = Runtimes::below(Path::new("/")).search(container);
    match search.ids.as_slice() {
        [] => by_group(container).map_err(|error| match error {
            TargetError::NoGroup { name, .. } => TargetError::NoContainer { name, why: unknown(&search) },
            other => other,
        }),
        [id] => by_group(id).map_err(|error| match error {
            TargetError::NoGroup { .. } => TargetError::NoContainer {
                name: container.to_owned(),
                why: format!(
                    "the container of this name is {id}, which has no control group: it does not run, so start it first"
                ),
            },
            other => other,
        }),
        ids => Err(TargetError::SeveralGroups { what: "container", name: container.to_owned(), found: ids.join(", ") }),
    }
}

/// Why no container is known by a name.
fn unknown(search: &Search) -> String {
    let by_id = "its id is understood, too (`docker ps`, `podman ps` tell it), or the first 6 characters of it";
    if !search.closed.is_empty() {
        return format!(
            "names of containers could not be read ({}): run as root, or with CAP_DAC_READ_SEARCH; {by_id}",
            search.closed.join("; ")
        );
    }
    let looked: Vec<String> = search.looked.iter().map(|path| path.display().to_string()).collect();
    if looked.is_empty() {
        let places = "/var/lib/docker/containers, /var/lib/containers/storage or a user's .local/share/containers";
        return format!("no runtime has written down names of containers in {places}; {by_id}");
    }
    format!("{} know no container of this name; {by_id}", looked.join(" and "))
}

fn by_group(container: &str) -> Result<PathBuf, TargetError> {
    let is_it = |path: &PathBuf| {
        let name = name_of(path);
        AFFIXES.iter().any(|(before, behind)| {
            let id = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
            id.is_some_and(|id| {
                id == container || is_id(id) && container.len() >= SHORTEST_ID && id.starts_with(container)
            })
        })
    };
    only(container, "container", groups().into_iter().filter(is_it))
}

/// A group by its path, below the mount or with it.
///
/// # Errors
/// [`TargetError::NoGroup`].
pub fn of_path(path: &Path) -> Result<PathBuf, TargetError> {
    let root = root();
    let below = path.strip_prefix(&root).unwrap_or(path);
    let below = below.strip_prefix("/").unwrap_or(below);
    let group = root.join(below);
    if group.join("cgroup.procs").exists() && !below.as_os_str().is_empty() {
        return Ok(group);
    }
    Err(TargetError::NoGroup { what: "control group", name: path.display().to_string() })
}

/// The processes of a group and of those below it.
#[must_use]
pub fn processes(group: &Path) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for path in below(group) {
        let listed = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
        // 0 stands for a process of a namespace that we do not see.
        found.extend(listed.lines().filter_map(|line| line.parse::<u32>().ok()).filter(|pid| *pid != 0));
    }
    found
}

/// The service or container that a process belongs to, as a name for people; `None` outside of any.
#[must_use]
pub fn name_of_process(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    path.rsplit('/').find_map(|name| group_name(name, containers::name_of))
}

/// What a group's name says to people; `known` tells how people call a container of an id, where it can be known.
fn group_name(name: &str, known: impl Fn(&str) -> Option<String>) -> Option<String> {
    if name.ends_with(".service") {
        return Some(name.to_owned());
    }
    AFFIXES.iter().find_map(|(before, behind)| {
        let id = name.strip_prefix(before)?.strip_suffix(behind)?;
        if !is_id(id) {
            return (!before.is_empty()).then(|| format!("container {id}"));
        }
        known(id).or_else(|| Some(format!("container {}", id.get(..12)?)))
    })
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Where version 2 is mounted: on hosts that have both versions, it is below the other's place.
#[must_use]
pub fn root() -> PathBuf {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounted = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (place, kind) = (fields.nth(1)?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(place))
    });
    mounted.unwrap_or_else(|| PathBuf::from(USUAL))
}

/// All groups.
fn groups() -> Vec<PathBuf> {
    below(&root())
}

/// A group and all below it, the outer ones first.
fn below(group: &Path) -> Vec<PathBuf> {
    let mut found = vec![group.to_owned()];
    let mut at = 0;
    while at < found.len() && found.len() < MOST_GROUPS {
        let listing = fs::read_dir(&found[at]).into_iter().flatten().flatten();
        let folders = listing.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        found.extend(folders.map(|entry| entry.path()));
        at += 1;
    }
    found
}

/// The one that was meant: the only one, but for those within it.
fn only(name: &str, what: &'static str, found: impl Iterator<Item = PathBuf>) -> Result<PathBuf, TargetError> {
    let mut outer: Vec<PathBuf> = Vec::new();
    for path in found {
        if !outer.iter().any(|known| path.starts_with(known)) {
            outer.push(path);
        }
    }
    match outer.len() {
        1 => Ok(outer.remove(0)),
        0 => Err(TargetError::NoGroup { what, name: name.to_owned() }),
        _ => Err(TargetError::SeveralGroups {
            what,
            name: name.to_owned(),
            found: outer.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_names_for_people() {
        let id = "0123456789abcdef".repeat(4);
        let none = |name: &str| group_name(name, |_| None);
        assert_eq!(none("shop.service").as_deref(), Some("shop.service"));
        assert_eq!(none(&format!("docker-{id}.scope")).as_deref(), Some("container 0123456789ab"));
        assert_eq!(none(&id).as_deref(), Some("container 0123456789ab"));
        assert_eq!(none("machine-mail.scope").as_deref(), Some("container mail"));
        assert_eq!(none("system.slice"), None);
        assert_eq!(none("session-1.scope"), None);
        let shop = |of: &str| (of == id).then(|| "container shop".to_owned());
        for group in [format!("docker-{id}.scope"), format!("libpod-{id}.scope"), id.clone()] {
            assert_eq!(group_name(&group, shop).as_deref(), Some("container shop"));
        }
    }

    #[test]
    fn what_is_not_there_is_refused_in_words() {
        let error = of_unit("no-such-unit-here").expect_err("there is none");
        assert!(error.to_string().contains("no-such-unit-here"), "{error}");
        let error = of_container("no-such-container-here").expect_err("there is none").to_string();
        assert!(error.contains("no-such-container-here") && error.contains("its id is understood"), "{error}");
        let closed = Search { closed: vec!["/x: Permission denied".to_owned()], ..Search::default() };
        assert!(unknown(&closed).contains("/x: Permission denied") && unknown(&closed).contains("CAP_DAC_READ_SEARCH"));
        let looked = Search { looked: vec!["/x".into()], ..Search::default() };
        assert!(unknown(&looked).starts_with("/x know no container"));
        assert!(of_path(Path::new("/sys/fs/cgroup/no/such/group")).is_err());
        assert!(of_path(Path::new("/")).is_err(), "everything is no target");
    }
}
