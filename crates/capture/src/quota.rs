//! CPU quotas of the server's cgroups: when they held its tasks back, from the cgroups' own counters.

use crate::error::CaptureError;
use crate::event_source::EventSource;
use crate::target::Target;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use weir_wire::watched::NAMED_CGROUP;
use weir_wire::{Kind, Record, Slot, text_slots};

/// Cgroups with a quota that are looked at: each costs a read of its counters every 20 ms.
const MOST_CGROUPS: usize = 16;
/// Processes of the target whose cgroups are asked for.
const MOST_ASKED: usize = 64;
/// Folders below a cgroup in which its processes are looked for.
const MOST_FOLDERS: usize = 64;
/// Processes under a quota that are told.
const MOST_MEMBERS: usize = 4096;
const SECOND_NS: u64 = 1_000_000_000;
/// What was told may be in a segment that is gone: after this it is told again.
const TELL_AGAIN_NS: u64 = 10_000_000_000;

/// Watches the quotas that the target's processes are under; it costs nothing where there is none.
#[derive(Debug)]
pub(crate) struct Quotas {
    pids: BTreeSet<u32>,
    hierarchy: Option<Hierarchy>,
    watched: BTreeMap<PathBuf, Quota>,
    told: HashSet<(u32, u64)>,
    next_scan_ns: u64,
    forget_ns: u64,
}

#[derive(Debug)]
struct Quota {
    path: String,
    key: u64,
    counters: File,
    throttled_ns: u64,
}

/// Where the cgroups that may have a CPU quota are found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    root: PathBuf,
    /// The one hierarchy of cgroup v2, or that of the cpu controller of v1.
    unified: bool,
}

impl Quotas {
    /// For the processes of a target; those that they start are under the same quotas.
    pub(crate) fn new(pids: &BTreeSet<u32>) -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        Self {
            pids: asked(pids),
            hierarchy: Hierarchy::find(&mounts),
            watched: BTreeMap::new(),
            told: HashSet::new(),
            next_scan_ns: 0,
            forget_ns: 0,
        }
    }

    /// Finds the cgroups with a quota, and who is under them.
    fn scan(&mut self, now_ns: u64, tell: &mut dyn FnMut(Record, &[Slot])) {
        let Some(hierarchy) = &self.hierarchy else { return };
        // Also those whose first processes are gone: a service that was restarted is in the same cgroup.
        let mut folders: BTreeSet<String> = self.watched.values().map(|quota| quota.path.clone()).collect();
        for pid in &self.pids {
            let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            if let Some(path) = hierarchy.path_of(&text) {
                let levels = Path::new(path).ancestors().filter_map(|level| level.to_str());
                folders.extend(levels.filter(|level| level.len() > 1).map(str::to_owned));
            }
        }
        if now_ns >= self.forget_ns {
            self.forget_ns = now_ns + TELL_AGAIN_NS;
            self.told.clear();
        }
        for path in folders {
            let folder = hierarchy.folder(&path);
            if !hierarchy.has_quota(&folder) {
                self.watched.remove(&folder);
                continue;
            }
            let key = key_of(&path);
            if !self.watched.contains_key(&folder)
                && self.watched.len() < MOST_CGROUPS
                && let Ok(counters) = File::open(folder.join("cpu.stat"))
            {
                let throttled_ns = read_throttled(&counters);
                self.watched.insert(folder.clone(), Quota { path: path.clone(), key, counters, throttled_ns });
            }
            if self.told.insert((0, key)) {
                let name = Record { kind: Kind::Named as u16, flags: NAMED_CGROUP, a: key, ..Record::default() };
                tell(name, &text_slots(&path));
            }
            for pid in members(&folder) {
                if self.told.len() < MOST_MEMBERS && self.told.insert((pid, key)) {
                    let member =
                        Record { kind: Kind::CgroupMember as u16, a: u64::from(pid), b: key, ..Record::default() };
                    tell(member, &[]);
                }
            }
        }
    }
}

impl EventSource for Quotas {
    fn name(&self) -> &'static str {
        "quotas"
    }

    fn attach(&mut self) -> Result<(), CaptureError> {
        Ok(())
    }

    fn detach(&mut self) {}

    fn retarget(&mut self, target: &Target) {
        self.pids = asked(&target.pids);
        // New processes are looked for at once.
        self.next_scan_ns = 0;
    }

    fn look(&mut self, now_ns: u64, tell: &mut dyn FnMut(Record, &[Slot])) {
        for quota in self.watched.values_mut() {
            let throttled_ns = read_throttled(&quota.counters);
            let fresh = throttled_ns.saturating_sub(quota.throttled_ns);
            quota.throttled_ns = quota.throttled_ns.max(throttled_ns);
            if fresh > 0 {
                tell(Record { kind: Kind::Throttled as u16, a: fresh, b: quota.key, ..Record::default() }, &[]);
            }
        }
        if now_ns >= self.next_scan_ns {
            self.next_scan_ns = now_ns + SECOND_NS;
            self.scan(now_ns, tell);
        }
    }
}

impl Hierarchy {
    /// In the text of /proc/self/mounts: v1's cpu controller where it is mounted, for then v2 does not have it.
    fn find(mounts: &str) -> Option<Self> {
        let mut unified = None;
        for line in mounts.lines() {
            let mut fields = line.split(' ');
            let (Some(root), Some(sort), Some(options)) = (fields.nth(1), fields.next(), fields.next()) else {
                continue;
            };
            if sort == "cgroup" && options.split(',').any(|option| option == "cpu") {
                return Some(Self { root: root.into(), unified: false });
            }
            if sort == "cgroup2" && unified.is_none() {
                unified = Some(Self { root: root.into(), unified: true });
            }
        }
        unified
    }

    /// A process's cgroup in the text of its /proc/PID/cgroup.
    fn path_of<'a>(&self, text: &'a str) -> Option<&'a str> {
        text.lines().find_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let ours = if self.unified { number == "0" } else { controllers.split(',').any(|one| one == "cpu") };
            // Outside of our view of the hierarchy (/..) nothing can be read.
            (ours && path.starts_with('/') && !path.contains("/..")).then_some(path)
        })
    }

    fn folder(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn has_quota(&self, folder: &Path) -> bool {
        let file = if self.unified { "cpu.max" } else { "cpu.cfs_quota_us" };
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        text.split_ascii_whitespace().next().and_then(|word| word.parse::<i64>().ok()).is_some_and(|quota| quota > 0)
    }
}

/// The processes whose cgroups are asked for.
fn asked(pids: &BTreeSet<u32>) -> BTreeSet<u32> {
    pids.iter().copied().take(MOST_ASKED).collect()
}

fn key_of(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish() | 1
}

/// The processes in a cgroup and below it.
fn members(folder: &Path) -> Vec<u32> {
    let mut pids = Vec::new();
    let mut folders = vec![folder.to_owned()];
    for _ in 0..MOST_FOLDERS {
        let Some(folder) = folders.pop() else { break };
        let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        let below = fs::read_dir(&folder).into_iter().flatten().flatten();
        folders.extend(below.filter(|entry| entry.file_type().is_ok_and(|sort| sort.is_dir())).map(|one| one.path()));
    }
    pids.truncate(MOST_MEMBERS);
    pids
}

fn read_throttled(counters: &File) -> u64 {
    let mut text = [0; 1024];
    let length = counters.read_at(&mut text, 0).unwrap_or(0);
    throttled(std::str::from_utf8(&text[..length]).unwrap_or_default())
}

/// Nanoseconds that a cgroup's tasks were held back, in the text of its cpu.stat (v2 counts microseconds).
fn throttled(text: &str) -> u64 {
    let number = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        value.trim().parse::<u64>().ok()
    };
    number("throttled_usec").map(|us| us.saturating_mul(1000)).or_else(|| number("throttled_time")).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_versions_of_cgroups_are_read() {
        let mixed =
            "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n";
        let old = Hierarchy::find(mixed).expect("the cpu controller");
        assert_eq!(old, Hierarchy { root: "/sys/fs/cgroup/cpu".into(), unified: false });
        assert_eq!(old.path_of("5:cpuset:/a\n3:cpu,cpuacct:/b/c\n0::/d\n"), Some("/b/c"));
        let new = Hierarchy::find("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n").expect("the one hierarchy");
        assert_eq!(new.path_of("0::/system.slice/web.service\n"), Some("/system.slice/web.service"));
        assert_eq!(new.path_of("0::/../other\n"), None);
        assert_eq!(throttled("nr_periods 5\nnr_throttled 3\nthrottled_usec 41\n"), 41_000);
        assert_eq!(throttled("nr_periods 5\nnr_throttled 3\nthrottled_time 4711\n"), 4711);
        assert_eq!(throttled("usage_usec 12\n"), 0);
    }

    #[test]
    fn a_restarted_server_is_other_processes() {
        let mut quotas = Quotas { next_scan_ns: 5, ..Quotas::new(&BTreeSet::from([1, 2])) };
        quotas.retarget(&Target { pids: BTreeSet::from([3]), ..Target::default() });
        assert_eq!((quotas.pids, quotas.next_scan_ns), (BTreeSet::from([3]), 0));
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "[ -~\n]{0,300}") {
            let _ = throttled(&text);
            if let Some(hierarchy) = Hierarchy::find(&text) {
                let _ = hierarchy.path_of(&text);
            }
        }
    }
}
