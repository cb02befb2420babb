//! What a control group allows a process of the CPUs, and which unit it belongs to.

use std::fs;
use std::path::{Path, PathBuf};

/// A bound on CPU time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quota {
    /// The file that says so.
    pub(crate) file: PathBuf,
    /// What it says.
    pub(crate) text: String,
    /// CPUs that may be used on average.
    pub(crate) cpus: f64,
    /// The period over which they count, microseconds.
    pub(crate) period_us: f64,
    /// Periods in which the group was stopped for it, since the group was made.
    pub(crate) throttled: u64,
    /// Whether the file is of the second version of control groups.
    pub(crate) is_v2: bool,
}

/// The tightest quota that binds a process.
pub(crate) fn quota(pid: u32) -> Option<Quota> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let groups = groups(&text);
    let quotas = groups.iter().flat_map(|group| group.ancestors().map(Path::to_owned).collect::<Vec<_>>()).take(64);
    quotas.filter_map(|group| quota_of(&group)).min_by(|a, b| a.cpus.total_cmp(&b.cpus))
}

/// The systemd unit of a process, such as `backup.service`.
pub(crate) fn unit(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    unit_in(&text)
}

fn unit_in(text: &str) -> Option<String> {
    let names = text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).flat_map(|path| path.rsplit('/'));
    names.into_iter().find(|name| name.ends_with(".service") || name.ends_with(".scope")).map(str::to_owned)
}

/// The folders of a process's groups that may bound its CPU time.
fn groups(text: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (_, Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let path = path.trim_start_matches('/');
        if controllers.is_empty() {
            folders.push(Path::new("/sys/fs/cgroup").join(path));
            folders.push(Path::new("/sys/fs/cgroup/unified").join(path));
        } else if controllers.split(',').any(|name| name == "cpu") {
            folders.push(Path::new("/sys/fs/cgroup").join(controllers).join(path));
            folders.push(Path::new("/sys/fs/cgroup/cpu").join(path));
        }
    }
    folders
}

fn quota_of(group: &Path) -> Option<Quota> {
    let stat = fs::read_to_string(group.join("cpu.stat")).unwrap_or_default();
    let throttled = stat.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.trim().parse().ok()).unwrap_or(0);
    if let Ok(text) = fs::read_to_string(group.join("cpu.max")) {
        let (cpus, period_us) = of_max(&text)?;
        return Some(Quota {
            file: group.join("cpu.max"),
            text: text.trim().to_owned(),
            cpus,
            period_us,
            throttled,
            is_v2: true,
        });
    }
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<f64>().ok();
    let (quota, period_us) = (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?);
    let file = group.join("cpu.cfs_quota_us");
    let bound = quota > 0.0 && period_us > 0.0;
    bound.then(|| Quota { file, text: format!("{quota}"), cpus: quota / period_us, period_us, throttled, is_v2: false })
}

/// `50000 100000` is half a CPU; `max 100000` is no bound.
fn of_max(text: &str) -> Option<(f64, f64)> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| (quota / period, period))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_and_units_are_read() {
        assert_eq!((of_max("50000 100000\n"), of_max("max 100000"), of_max("")), (Some((0.5, 100_000.0)), None, None));
        let text = "2:cpu,cpuacct:/system.slice/a.service\n0::/system.slice/a.service/x\n";
        assert_eq!(unit_in(text).as_deref(), Some("a.service"));
        let folders: Vec<String> = groups(text).iter().map(|path| path.display().to_string()).collect();
        assert!(folders.contains(&"/sys/fs/cgroup/cpu,cpuacct/system.slice/a.service".to_owned()));
        assert!(folders.contains(&"/sys/fs/cgroup/system.slice/a.service/x".to_owned()));
    }
}
