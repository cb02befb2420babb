//! Limits of the process and of the network: memory locks, descriptors, ports, queues, disk room.

use super::check::{Check, Files, Job, Subject, Unread};
use std::ffi::CString;

/// Descriptors that a load or a server of some size takes.
const FILES_ENOUGH: u64 = 10_000;
/// Ephemeral ports that do not limit a load soon.
const PORTS_ENOUGH: i64 = 20_000;
/// Connections that may wait to be accepted.
const BACKLOG_ENOUGH: i64 = 1_024;
/// What `weir record --disk` asks for, and the least that it takes.
const DISK_MIB: u64 = weir_record::DISK_MIB;
const DISK_MIB_MIN: u64 = 256;
/// The share of the table of connections from which on it is nearly full.
const NEARLY_FULL: f64 = 0.8;

/// All of them.
pub(super) fn checks(files: &Files) -> Vec<Check> {
    let mut checks = vec![
        locked(limit(files, "Max locked memory"), files),
        open_files(limit(files, "Max open files")),
        ports(files),
        time_wait(files),
        backlog(files),
    ];
    checks.extend(conntrack(files));
    checks.push(disk(room(".")));
    checks
}

/// A limit of this process: (soft, hard); `None` is none.
type Limit = (Option<u64>, Option<u64>);

/// A line of the process's limits, by its name (proc_pid_limits(5)).
fn limit(files: &Files, name: &str) -> Result<Limit, Unread> {
    let path = "proc/self/limits";
    let text = files.text(path)?;
    let strange = |what: &str| Unread::Strange(format!("/{path}"), what.to_owned());
    let line = text.lines().find_map(|line| line.strip_prefix(name)).ok_or_else(|| strange("no such limit"))?;
    let bound = |word: &str| match word {
        "unlimited" => Ok(None),
        number => number.parse().map(Some).map_err(|_| strange(number)),
    };
    let mut words = line.split_ascii_whitespace();
    let mut next = || words.next().ok_or_else(|| strange(line)).and_then(bound);
    Ok((next()?, next()?))
}

fn words(bound: Option<u64>) -> String {
    bound.map_or("unlimited".to_owned(), weir_report::count)
}

/// Linux 5.11 counts the memory of BPF by control groups; before, this limit was its bound.
fn locked(limit: Result<Limit, Unread>, files: &Files) -> Check {
    let subject = Subject("locked-memory", &[Job::Explain]);
    let hard = match limit {
        Ok((_, hard)) => hard,
        Err(why) => return subject.unknown(why, "how much memory may be locked"),
    };
    let found = format!("at most {} bytes", words(hard));
    let release = files.text("proc/sys/kernel/osrelease").unwrap_or_default();
    let before_5_11 = release.starts_with("5.10.");
    match hard {
        Some(bytes) if before_5_11 && bytes < 64 << 20 => subject.limited(
            found,
            "this kernel counts the rings of the probes as locked memory, and may refuse them to other users than root",
            "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit",
        ),
        _ => subject.ok(found, "it does not bound the probes"),
    }
}

fn open_files(limit: Result<Limit, Unread>) -> Check {
    let subject = Subject("open-files", &[Job::Load, Job::Serve]);
    let (soft, hard) = match limit {
        Ok(limit) => limit,
        Err(why) => return subject.unknown(why, "how many connections may be open"),
    };
    let found = format!("{} descriptors, at most {}", words(soft), words(hard));
    match hard {
        Some(most) if most < FILES_ENOUGH => subject.limited(
            found,
            format!("a load or a server holds about {most} connections at a time"),
            "raise the hard limit: ulimit -Hn 1048576 as root, or LimitNOFILE= in the unit",
        ),
        _ => subject.ok(found, "weir raises its own limit to the higher one where it needs that"),
    }
}

fn ports(files: &Files) -> Check {
    let subject = Subject("ephemeral-ports", &[Job::Load]);
    let path = "proc/sys/net/ipv4/ip_local_port_range";
    let text = match files.text(path) {
        Ok(text) => text,
        Err(why) => return subject.unknown(why, "how many connections a load may open"),
    };
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<i64>);
    let (Some(Ok(first)), Some(Ok(last))) = (numbers.next(), numbers.next()) else {
        return subject.unknown(format!("/{path} holds {text:?}"), "how many connections a load may open");
    };
    let count = last - first + 1;
    let found = format!("{count} ({first} to {last})");
    if count >= PORTS_ENOUGH {
        return subject.ok(found, "as many connections at a time from one address to one port of a server");
    }
    subject.limited(
        found,
        "no more connections at a time from one address to one port of a server; with --no-keepalive they are used up soon",
        "sysctl -w net.ipv4.ip_local_port_range='10000 65000', or several addresses (weir load --source)",
    )
}

fn time_wait(files: &Files) -> Check {
    let subject = Subject("time-wait", &[Job::Load]);
    match files.number("proc/sys/net/ipv4/tcp_tw_reuse") {
        Ok(0) => subject.limited(
            "net.ipv4.tcp_tw_reuse = 0",
            "a port that was used is free after 60 s only: new connections run out of ports (--no-keepalive)",
            "sysctl -w net.ipv4.tcp_tw_reuse=1",
        ),
        Ok(level) => subject.ok(
            format!("net.ipv4.tcp_tw_reuse = {level}"),
            if level == 2 { "ports are used again soon on loopback" } else { "ports are used again soon" },
        ),
        Err(why) => subject.unknown(why, "when a port can be used again"),
    }
}

fn backlog(files: &Files) -> Check {
    let subject = Subject("backlog", &[Job::Load, Job::Serve]);
    match files.number("proc/sys/net/core/somaxconn") {
        Ok(most) if most < BACKLOG_ENOUGH => subject.limited(
            format!("net.core.somaxconn = {most}"),
            "a burst of connections overflows the accept queue: clients try again after a second",
            format!("sysctl -w net.core.somaxconn={}", 4 * BACKLOG_ENOUGH),
        ),
        Ok(most) => subject.ok(format!("net.core.somaxconn = {most}"), "as many connections wait to be accepted"),
        Err(why) => subject.unknown(why, "how many connections may wait to be accepted"),
    }
}

/// Where the firewall follows connections, their table may be full.
fn conntrack(files: &Files) -> Option<Check> {
    let subject = Subject("conntrack", &[Job::Load, Job::Serve]);
    let most = files.number("proc/sys/net/netfilter/nf_conntrack_max").ok()?;
    let means = "the firewall follows connections; a full table drops the packets of new ones";
    Some(match files.number("proc/sys/net/netfilter/nf_conntrack_count") {
        Ok(count) if count as f64 > NEARLY_FULL * most as f64 => subject.limited(
            format!("{count} of {most} connections"),
            means,
            format!("sysctl -w net.netfilter.nf_conntrack_max={}", 4 * most),
        ),
        Ok(count) => subject.ok(format!("{count} of {most} connections"), means),
        Err(why) => subject.unknown(why, means),
    })
}

/// MiB that this user may write to the file system of a directory.
fn room(directory: &str) -> std::io::Result<u64> {
    let path = CString::new(directory)?;
    // SAFETY: the structure is plain numbers, of which any are valid.
    let mut about: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero, and the pointer is to a statvfs of ours, which the call fills.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut about) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(about.f_bavail.saturating_mul(about.f_frsize) >> 20)
}

fn disk(room: std::io::Result<u64>) -> Check {
    let subject = Subject("disk", &[Job::Explain]);
    let means = "runs are written to weir-runs in this directory, unless --run says otherwise";
    match room {
        Ok(mib) if mib < DISK_MIB_MIN => subject.missing(
            format!("{mib} MiB free here"),
            "a recording needs 256 MiB at least",
            "make room, or write elsewhere: --run DIR",
        ),
        Ok(mib) if mib < DISK_MIB => subject.limited(
            format!("{mib} MiB free here"),
            format!("a recording takes up to {DISK_MIB} MiB, and loses its begin on a full disk"),
            format!("make room, or take less: weir record --disk {}", (mib / 2).max(DISK_MIB_MIN)),
        ),
        Ok(mib) => subject.ok(format!("{mib} MiB free here"), means),
        Err(why) => subject.unknown(why, means),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::super::check::tests::files;
    use super::*;

    #[test]
    fn limits_are_judged_by_what_they_bound() {
        assert_eq!(open_files(Ok((Some(1024), Some(4096)))).state, State::Limited);
        assert_eq!(open_files(Ok((Some(1024), None))).state, State::Ok);
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max open files            1024                 524288               files     \n\
                    Max locked memory         unlimited            unlimited            bytes     \n";
        let (_folder, told) = files(&[("proc/self/limits", text)]);
        assert_eq!(limit(&told, "Max open files").ok(), Some((Some(1024), Some(524_288))));
        assert_eq!(limit(&told, "Max locked memory").ok(), Some((None, None)));
        assert_eq!(open_files(limit(&told, "Max of nothing")).state, State::Unknown);
        for (mib, expected) in [(100, State::Missing), (1_000, State::Limited), (9_000, State::Ok)] {
            assert_eq!(disk(Ok(mib)).state, expected, "{mib}");
        }
        for (release, expected) in [("5.10.0-32", State::Limited), ("6.1.0", State::Ok)] {
            let (_folder, files) = files(&[("proc/sys/kernel/osrelease", release)]);
            assert_eq!(locked(Ok((Some(65_536), Some(65_536))), &files).state, expected, "{release}");
        }
    }

    #[test]
    fn settings_of_the_network_are_read_as_they_are() {
        let net = "proc/sys/net/ipv4/ip_local_port_range";
        for (text, expected) in
            [("32768\t60999\n", State::Ok), ("60000\t60999\n", State::Limited), ("none", State::Unknown)]
        {
            let (_folder, files) = files(&[(net, text)]);
            assert_eq!(ports(&files).state, expected, "{text:?}");
        }
        let (_folder, files) = files(&[
            ("proc/sys/net/ipv4/tcp_tw_reuse", "0"),
            ("proc/sys/net/core/somaxconn", "128"),
            ("proc/sys/net/netfilter/nf_conntrack_max", "1000"),
            ("proc/sys/net/netfilter/nf_conntrack_count", "900"),
        ]);
        let full = conntrack(&files).expect("the table is there");
        assert_eq!(
            (time_wait(&files).state, backlog(&files).state, full.state),
            (State::Limited, State::Limited, State::Limited)
        );
        assert_eq!(full.remedy.as_deref(), Some("sysctl -w net.netfilter.nf_conntrack_max=4000"));
    }
}
