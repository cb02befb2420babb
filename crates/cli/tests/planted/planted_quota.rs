//! A CPU that is there and may not be had: a quota of the server's control group.

use crate::support;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use support::planted::{explained, first, said};
use support::{alone, number};
use weir_testkit::{Apache, PhpFpm, Site, require};

/// A control group with a limit on the CPU, removed with the value.
struct Quota {
    dir: PathBuf,
}

impl Quota {
    /// So many microseconds of CPU in each 100 ms, for the processes given.
    fn of(quota_us: u32, pids: &[u32]) -> Option<Self> {
        // The unified hierarchy where it has the controller, else the older one.
        let unified = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(unified.join("cgroup.subtree_control")).unwrap_or_default();
        let is_unified = controllers.split_whitespace().any(|name| name == "cpu");
        let parent = if is_unified { unified.to_owned() } else { unified.join("cpu") };
        let dir = parent.join(format!("weir-test-{}", std::process::id()));
        let limited = || -> io::Result<()> {
            fs::create_dir(&dir)?;
            if is_unified {
                fs::write(dir.join("cpu.max"), format!("{quota_us} 100000"))?;
            } else {
                fs::write(dir.join("cpu.cfs_period_us"), "100000")?;
                fs::write(dir.join("cpu.cfs_quota_us"), quota_us.to_string())?;
            }
            pids.iter().try_for_each(|pid| fs::write(dir.join("cgroup.procs"), pid.to_string()))
        };
        let quota = Self { dir: dir.clone() };
        match limited() {
            Ok(()) => Some(quota),
            Err(error) => {
                require::or_skip(
                    false,
                    &format!("no control group for the CPU can be made: {}: {error}", dir.display()),
                )?;
                None
            }
        }
    }

    /// For how long the group was kept from the CPU, in nanoseconds, as the kernel counts it.
    fn throttled_ns(&self) -> f64 {
        let text = fs::read_to_string(self.dir.join("cpu.stat")).expect("the kernel counts");
        let number = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            value.and_then(|value| value.parse::<f64>().ok())
        };
        number("throttled_time").or_else(|| number("throttled_usec").map(|us| us * 1e3)).expect("the kernel counts")
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // A group that has processes cannot be removed: back to the parent with them, which ends with the servers.
        let pids = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
        let parent = self.dir.parent().unwrap_or(Path::new("/")).join("cgroup.procs");
        for pid in pids.lines() {
            let _ = fs::write(&parent, pid);
        }
        if let Err(error) = fs::remove_dir(&self.dir) {
            eprintln!("{}: {error}", self.dir.display());
        }
    }
}

/// Pages compute for some 8 ms, and php-fpm may have the CPU for 10 of each 100 ms. The kernel itself counts for how
/// long it was kept from it.
#[test]
fn a_quota_of_the_control_group() {
    let _turn = alone();
    if require::root_and_bpf().is_none()
        || require::php_fpm().is_none()
        || require::apache_module("proxy_fcgi").is_none()
    {
        return;
    }
    let site = Site::php().expect("the pages");
    let php = PhpFpm::new().processes(1).start().expect("php-fpm starts");
    let web = Apache::event().workers(8).root(site.path()).php_fpm(&php).start().expect("Apache starts");
    let Some(quota) = Quota::of(10_000, &php.pids()) else { return };
    let (port, pid) = (web.port.to_string(), php.pid().to_string());
    let options = ["--port", &port, "--pid", &pid, "-c", "1", "-d", "4s"];
    let report = explained(&web.url("/compute.php?rounds=40000"), &options);
    let throttled_ns = quota.throttled_ns();
    let waited_ns = number(&report, "/parts_ns/wait_cpu") * number(&report, "/requests");
    eprintln!("kept from the CPU for {:.0} ms, waited {:.0} ms", throttled_ns / 1e6, waited_ns / 1e6);
    assert!(throttled_ns > 1e9, "the quota was not felt");
    let (part, who) = first(&report);
    assert_eq!(part, "wait_cpu", "{}", said(&report));
    let text = report.pointer("/causes/0/text").and_then(|text| text.as_str()).unwrap_or_default();
    assert!(who.contains("quota") || text.contains("quota"), "{}", said(&report));
    // One client, one process: it is kept from the CPU only while a request runs. Others on the CPU may add to it.
    assert!(waited_ns > 0.8 * throttled_ns, "{waited_ns} ns for {throttled_ns} ns");
}
