//! Capabilities, and what the kernel forbids beside them.

use super::check::{Check, Files, Job, Subject};

/// Numbers of capabilities, from linux/capability.h.
const DAC_READ_SEARCH: u32 = 2;
const NET_BIND_SERVICE: u32 = 10;
const NET_ADMIN: u32 = 12;
const SYS_PTRACE: u32 = 19;
const SYS_ADMIN: u32 = 21;

const BINARY: &str = "on the weir binary (which weir)";

/// The capabilities that are in effect.
struct Held(u64);

impl Held {
    fn read(files: &Files) -> Self {
        let status = files.text("proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        Self(line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0))
    }

    fn has(&self, capability: u32) -> bool {
        self.0 >> capability & 1 == 1
    }

    /// The first of these that are missing.
    fn lacks(&self, wanted: &[(u32, &'static str)]) -> Vec<&'static str> {
        wanted.iter().filter(|(number, _)| !self.has(*number)).map(|(_, name)| *name).collect()
    }
}

/// All of them.
pub(super) fn checks(files: &Files) -> Vec<Check> {
    let held = Held::read(files);
    vec![
        probes(),
        processes(&held),
        namespaces(&held),
        connections(&held),
        low_ports(&held, files),
        paranoid(files),
        unprivileged(files),
        lockdown(files),
    ]
}

/// By the question that a recording asks.
fn probes() -> Check {
    let subject = Subject("rights", &[Job::Explain]);
    match weir_capture::missing_privilege() {
        None => subject.ok("root, or CAP_BPF and CAP_PERFMON", "kernel probes can be loaded"),
        Some(missing) => subject.missing(
            missing,
            "no kernel probe can be loaded: only /proc is read, and no request is followed",
            format!("run as root, or: sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep {BINARY}"),
        ),
    }
}

fn processes(held: &Held) -> Check {
    let subject = Subject("other-users", &[Job::Explain]);
    let missing = held.lacks(&[(SYS_PTRACE, "CAP_SYS_PTRACE"), (DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH")]);
    if missing.is_empty() {
        return subject.ok("CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH", "servers of other users are found by their ports");
    }
    subject.limited(
        format!("no {}", missing.join(", no ")),
        "a server of another user is not found by its port (--port), only by --pid or --comm",
        format!("run as root, or: sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search+ep {BINARY}"),
    )
}

fn namespaces(held: &Held) -> Check {
    let subject = Subject("namespaces", &[Job::Explain]);
    if held.has(SYS_ADMIN) {
        return subject.ok("CAP_SYS_ADMIN", "connections in other network namespaces, such as containers', are listed");
    }
    subject.limited(
        "no CAP_SYS_ADMIN",
        "connections in other network namespaces that are older than a recording are not listed; reports say where it matters",
        "run as root where servers in containers are explained",
    )
}

fn connections(held: &Held) -> Check {
    let subject = Subject("net-admin", &[Job::Cluster]);
    if held.has(NET_ADMIN) {
        return subject.ok("CAP_NET_ADMIN", "live connections can be read and restored, packets steered");
    }
    subject.limited(
        "no CAP_NET_ADMIN",
        "sessions cannot be moved between nodes, and no director can be run",
        "start `weir keeper` and `weir cluster director` as root; they give up what they do not need",
    )
}

fn low_ports(held: &Held, files: &Files) -> Check {
    let subject = Subject("low-ports", &[Job::Serve]);
    let means = "`weir serve` listens on ports 80 and 443";
    match files.number("proc/sys/net/ipv4/ip_unprivileged_port_start") {
        _ if held.has(NET_BIND_SERVICE) => subject.ok("CAP_NET_BIND_SERVICE", means),
        Ok(first) if first <= 80 => subject.ok(format!("ports from {first} on are free to all"), means),
        Ok(first) => subject.limited(
            format!("no CAP_NET_BIND_SERVICE, and ports below {first} need it"),
            "`weir serve` listens on higher ports only",
            format!("sudo setcap cap_net_bind_service+ep {BINARY}, or start it as root with --user NAME"),
        ),
        Err(why) => subject.unknown(why, "whether ports 80 and 443 can be listened on"),
    }
}

fn paranoid(files: &Files) -> Check {
    let subject = Subject("perf-events", &[Job::Explain]);
    match files.number("proc/sys/kernel/perf_event_paranoid") {
        Ok(level) => {
            let lifted = weir_capture::missing_privilege().is_none();
            let found = format!("kernel.perf_event_paranoid = {level}");
            if lifted || level < 0 {
                subject
                    .ok(found, "samples of stacks (--stacks) and probes in programs can be had: rights lift the limit")
            } else {
                subject.limited(
                    found,
                    "without CAP_PERFMON no stacks are sampled, and no probe is set in a program",
                    "get the rights above; the setting may stay as it is",
                )
            }
        }
        Err(why) => subject.unknown(why, "whether stacks can be sampled"),
    }
}

fn unprivileged(files: &Files) -> Check {
    let subject = Subject("unprivileged-bpf", &[Job::Explain]);
    match files.number("proc/sys/kernel/unprivileged_bpf_disabled") {
        Ok(0) => {
            subject.ok("kernel.unprivileged_bpf_disabled = 0", "weir needs CAP_BPF all the same: its probes trace")
        }
        Ok(level) => subject.ok(
            format!("kernel.unprivileged_bpf_disabled = {level}"),
            "right so: programs without CAP_BPF are kept out, weir has it or asks for it",
        ),
        Err(why) => subject.unknown(why, "whether programs without rights may use BPF, which weir does not need"),
    }
}

fn lockdown(files: &Files) -> Check {
    let subject = Subject("lockdown", &[Job::Explain]);
    match files.chosen("sys/kernel/security/lockdown") {
        Ok(mode) if mode == "none" => subject.ok("none", "the kernel's functions may be probed"),
        Ok(mode) if mode == "integrity" => subject.limited(
            mode,
            "the rung fentry may be refused: on Linux before 6.3 system calls are watched in its place",
            "use Linux 6.3 or later, which needs no fentry, or boot without lockdown=",
        ),
        Ok(mode) => subject.limited(
            mode,
            "probes may not read the kernel's memory: they load, and tell nothing",
            "boot with lockdown=integrity, or without",
        ),
        Err(why) => subject.unknown(why, "whether the kernel restricts probes; the rung below was tried all the same"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::super::check::tests::files;
    use super::*;

    fn state(of: &[(&str, &str)], name: &str) -> (State, String) {
        let (_folder, files) = files(of);
        let check = checks(&files).into_iter().find(|check| check.check == name).expect("such a check");
        (check.state, check.found)
    }

    #[test]
    fn capabilities_are_read_from_the_process() {
        let status = |hex: &str| format!("Name:\tweir\nCapEff:\t{hex}\n");
        for (hex, name, expected) in [
            ("0000000000080004", "other-users", State::Ok),
            ("0000000000080000", "other-users", State::Limited),
            ("0000000000200000", "namespaces", State::Ok),
            ("0000000000001000", "net-admin", State::Ok),
            ("0000000000000000", "net-admin", State::Limited),
            ("0000000000000400", "low-ports", State::Ok),
        ] {
            let (told, found) = state(&[("proc/self/status", &status(hex))], name);
            assert_eq!(told, expected, "{hex} {name}: {found}");
        }
        let port = "proc/sys/net/ipv4/ip_unprivileged_port_start";
        assert_eq!(state(&[(port, "1024\n")], "low-ports").0, State::Limited);
        assert_eq!(state(&[(port, "0\n")], "low-ports").0, State::Ok);
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_said_to_be_unknown() {
        let (told, found) = state(&[], "lockdown");
        assert_eq!(
            (told, found.as_str()),
            (State::Unknown, "cannot be looked at: this machine has no /sys/kernel/security/lockdown")
        );
        let lockdown = "sys/kernel/security/lockdown";
        for (text, expected) in [
            ("[none] integrity confidentiality", State::Ok),
            ("none [integrity] confidentiality", State::Limited),
            ("none integrity [confidentiality]", State::Limited),
            ("strange", State::Unknown),
        ] {
            assert_eq!(state(&[(lockdown, text)], "lockdown").0, expected, "{text}");
        }
    }
}
