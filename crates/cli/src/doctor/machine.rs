//! The CPUs, what stands between them and this program, and the clock.

use super::check::{Check, Files, Job, Subject, Unread};

const CPU: &str = "sys/devices/system/cpu";
/// Of the CPU time since boot: a share from which on it is worth a word.
const STOLEN: f64 = 0.01;
/// Mitigations that cost time at ways into the kernel or at indirect calls, by the words of the kernel's files.
const COSTLY: [(&str, &str); 6] = [
    ("PTI", "page tables are switched at each system call"),
    ("Clear CPU buffers", "buffers are cleared at each way out of the kernel"),
    ("IBRS", "branch speculation is restricted in the kernel"),
    ("Retpoline", "indirect calls of the kernel are slower"),
    ("untrained return thunk", "returns of the kernel are slower"),
    ("Safe RET", "returns of the kernel are slower"),
];

/// All of them.
pub(super) fn checks(files: &Files) -> Vec<Check> {
    let mut checks = vec![cpus(allowed()), quota(files), governor(files)];
    checks.extend(turbo(files));
    checks.extend([threads(files), mitigations(files), hypervisor(files), clock(files), huge_pages(files)]);
    checks
}

/// CPUs that this process may run on.
fn allowed() -> std::io::Result<i32> {
    // SAFETY: the structure is plain numbers, of which any are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a set of ours, as long as is said, which the call fills.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the set was filled.
    Ok(unsafe { libc::CPU_COUNT(&set) })
}

fn cpus(allowed: std::io::Result<i32>) -> Check {
    let subject = Subject("cpus", &[Job::Load, Job::Serve]);
    match allowed {
        Ok(1) => subject.limited(
            "1",
            "load generator, server and collector share one CPU: each measures the others, too",
            "load from another host (weir load --workers), or give this machine more CPUs",
        ),
        Ok(count) => subject.ok(count.to_string(), "CPUs that weir may run on"),
        Err(why) => subject.unknown(why, "how many CPUs weir may run on"),
    }
}

/// The narrowest quota of the control groups above this process (version 2).
fn quota(files: &Files) -> Check {
    let subject = Subject("cpu-quota", &[Job::Load, Job::Serve]);
    let means = "what is held back by a quota of CPU time";
    let groups = match files.text("proc/self/cgroup") {
        Ok(groups) => groups,
        Err(why) => return subject.unknown(why, means),
    };
    let Some(path) = groups.lines().find_map(|line| line.strip_prefix("0::")) else {
        return subject.unknown("control groups of version 1 alone", means);
    };
    // Of the outermost group there is no quota, and no file.
    let levels =
        std::path::Path::new(path.trim_start_matches('/')).ancestors().filter(|level| !level.as_os_str().is_empty());
    let quotas: Vec<(f64, String)> = levels
        .filter_map(|level| {
            let text = files.text(&format!("sys/fs/cgroup/{}/cpu.max", level.display())).ok()?;
            let (most, period) = text.split_once(' ')?;
            Some((most.parse::<f64>().ok()? / period.parse::<f64>().ok()?, format!("/{}", level.display())))
        })
        .collect();
    match quotas.into_iter().min_by(|one, other| one.0.total_cmp(&other.0)) {
        None => subject.ok("none", "no control group holds weir, or what it starts, back"),
        Some((cpus, group)) => subject.limited(
            format!("{cpus:.2} CPUs, by {group}"),
            "weir and what it starts are stopped for the rest of each period once they have used it: latencies show it",
            "raise cpu.max of the group (CPUQuota= of a unit, --cpus of a container), or measure outside of it",
        ),
    }
}

fn governor(files: &Files) -> Check {
    let subject = Subject("governor", &[Job::Load]);
    let means = "how the CPUs' clock follows the work";
    match files.text(&format!("{CPU}/cpu0/cpufreq/scaling_governor")) {
        Ok(governor) if governor == "performance" => subject.ok(governor, "the CPUs run at their highest clock"),
        Ok(governor) => subject.limited(
            governor,
            "an idle CPU answers slower than a busy one: latencies at low rates are those of a slow clock",
            "cpupower frequency-set -g performance",
        ),
        Err(why) => subject.unknown(why, means),
    }
}

fn turbo(files: &Files) -> Option<Check> {
    let subject = Subject("turbo", &[Job::Load]);
    // The two drivers say the opposite of each other.
    let intel = files.number(&format!("{CPU}/intel_pstate/no_turbo")).map(|off| off == 0);
    let is_on = intel.or_else(|_| files.number(&format!("{CPU}/cpufreq/boost")).map(|on| on != 0)).ok()?;
    Some(if is_on {
        subject.limited(
            "on",
            "the clock depends on how many CPUs are busy and how warm they are: figures of one run differ from the next",
            "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > /sys/devices/system/cpu/cpufreq/boost",
        )
    } else {
        subject.ok("off", "the clock does not depend on how many CPUs are busy")
    })
}

fn threads(files: &Files) -> Check {
    let subject = Subject("smt", &[Job::Load]);
    match files.number(&format!("{CPU}/smt/active")) {
        Ok(0) => subject.ok("one thread a core", "no CPU shares its core with another"),
        Ok(_) => subject.limited(
            "several threads a core",
            "a CPU is slower while the other one of its core is busy, such as with the load generator",
            "keep server and generator on different cores (taskset, weir load --cpu), or echo off > /sys/devices/system/cpu/smt/control",
        ),
        Err(why) => subject.unknown(why, "whether CPUs share cores"),
    }
}

fn mitigations(files: &Files) -> Check {
    let subject = Subject("mitigations", &[Job::Load, Job::Serve]);
    let folder = format!("{CPU}/vulnerabilities");
    let names = files.names(&folder);
    if names.is_empty() {
        return subject.unknown(Unread::Absent(format!("/{folder}")), "which mitigations cost time");
    }
    let told: Vec<(String, String)> =
        names.into_iter().filter_map(|name| Some((files.text(&format!("{folder}/{name}")).ok()?, name))).collect();
    let on: Vec<&str> =
        told.iter().filter(|(text, _)| text.starts_with("Mitigation")).map(|(_, name)| name.as_str()).collect();
    let mut costs: Vec<&str> = Vec::new();
    for (word, cost) in COSTLY {
        // `PBRSB-eIBRS` and `Enhanced / Automatic IBRS` are done by the processor, at no cost worth a word.
        let has = |text: &str| {
            let parts = text.split([';', ',', ':']).map(str::trim);
            parts.filter(|part| !part.contains("eIBRS") && !part.contains("Enhanced")).any(|part| part.contains(word))
        };
        if told.iter().any(|(text, _)| text.starts_with("Mitigation") && has(text)) && !costs.contains(&cost) {
            costs.push(cost);
        }
    }
    let found = if on.is_empty() { "none is on".to_owned() } else { format!("on: {}", on.join(", ")) };
    if costs.is_empty() {
        return subject.ok(found, "none of them makes system calls much dearer");
    }
    subject.ok(
        found,
        format!(
            "{}: this machine's figures hold for machines with the same ones; `weir compare` cancels them out",
            costs.join("; ")
        ),
    )
}

/// From the flags of the CPUs; and what the host has taken of them since boot (proc_stat(5)).
fn hypervisor(files: &Files) -> Check {
    let subject = Subject("hypervisor", &[Job::Load]);
    let info = match files.text("proc/cpuinfo") {
        Ok(info) => info,
        Err(why) => return subject.unknown(why, "whether this is a virtual machine"),
    };
    let is_virtual =
        info.lines().any(|line| line.starts_with("flags") && line.split(' ').any(|flag| flag == "hypervisor"));
    if !is_virtual {
        return subject.ok("none is told", "the CPUs are this machine's own");
    }
    let vendor = files.text("sys/class/dmi/id/sys_vendor").map_or_else(|_| String::new(), |name| format!(" ({name})"));
    let stolen = stolen(&files.text("proc/stat").unwrap_or_default());
    let words = stolen.map_or("what its host takes is not told".to_owned(), |share| {
        format!("its host took {:.1} % of the CPU time since boot", 100.0 * share)
    });
    let found = format!("a virtual machine{vendor}; {words}");
    if stolen.is_some_and(|share| share >= STOLEN) {
        return subject.limited(
            found,
            "what the host takes shows as latency: reports name it (steal)",
            "compare by weir compare, which measures in turns; or use a machine of its own",
        );
    }
    subject.ok(found, "neighbours on the host may show as latency all the same: reports name it (steal)")
}

/// The share of the time of all CPUs that the host had for others.
fn stolen(stat: &str) -> Option<f64> {
    let fields = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = fields.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
    // Guests' time, behind these eight, is in the user's already.
    let all: u64 = ticks.get(..8)?.iter().fold(0, |all, ticks| all.saturating_add(*ticks));
    (all > 0).then(|| ticks[7] as f64 / all as f64)
}

fn clock(files: &Files) -> Check {
    let subject = Subject("clock-source", &[Job::Explain, Job::Load]);
    match files.text("sys/devices/system/clocksource/clocksource0/current_clocksource") {
        Ok(source) if ["hpet", "acpi_pm", "jiffies", "pit"].contains(&source.as_str()) => subject.limited(
            source,
            "each reading of the clock is a system call of a microsecond: what times a lot gets slower",
            "boot with clocksource=tsc, if the kernel did not find it unstable (dmesg | grep -i tsc)",
        ),
        Ok(source) => subject.ok(source, "the clock is read without a system call"),
        Err(why) => subject.unknown(why, "what reading the clock costs"),
    }
}

fn huge_pages(files: &Files) -> Check {
    let subject = Subject("huge-pages", &[Job::Serve]);
    let path = "sys/kernel/mm/transparent_hugepage";
    let chosen = files.chosen(&format!("{path}/enabled"));
    match (chosen, files.chosen(&format!("{path}/defrag"))) {
        (Ok(on), Ok(defrag)) if on == "always" && defrag == "always" => subject.limited(
            "always, defrag always",
            "a server may stand still while the kernel makes room for a page of 2 MiB",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/defrag",
        ),
        (Ok(on), Ok(defrag)) => subject
            .ok(format!("{on}, defrag {defrag}"), "no server stands still for pages of 2 MiB that it did not ask for"),
        (Err(why), _) | (_, Err(why)) => subject.unknown(why, "whether pages of 2 MiB may hold a server up"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::super::check::tests::files;
    use super::*;

    const CPU0: &str = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    const VULNERABILITIES: &str = "sys/devices/system/cpu/vulnerabilities";

    #[test]
    fn the_narrowest_quota_holds() {
        let group = ("proc/self/cgroup", "1:name=systemd:/x\n0::/system.slice/shop.service\n");
        let (_folder, none) = files(&[group, ("sys/fs/cgroup/system.slice/shop.service/cpu.max", "max 100000\n")]);
        assert_eq!(quota(&none).state, State::Ok);
        let (_folder, narrow) = files(&[
            group,
            ("sys/fs/cgroup/system.slice/shop.service/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/system.slice/cpu.max", "50000 100000\n"),
        ]);
        assert_eq!(quota(&narrow).found, "0.50 CPUs, by /system.slice");
        let (_folder, old) = files(&[("proc/self/cgroup", "4:cpu:/\n")]);
        assert_eq!(quota(&old).state, State::Unknown);
    }

    #[test]
    fn mitigations_are_named_with_what_they_cost() {
        let (_folder, of) = files(&[
            (&format!("{VULNERABILITIES}/meltdown"), "Mitigation: PTI\n"),
            (&format!("{VULNERABILITIES}/spectre_v2"), "Mitigation: Retpolines; PBRSB-eIBRS: Not affected\n"),
            (&format!("{VULNERABILITIES}/mds"), "Vulnerable: Clear CPU buffers attempted, no microcode\n"),
            (&format!("{VULNERABILITIES}/l1tf"), "Not affected\n"),
        ]);
        let told = mitigations(&of);
        assert_eq!(told.found, "on: meltdown, spectre_v2");
        let costs = "page tables are switched at each system call; indirect calls of the kernel are slower: ";
        assert!(told.means.starts_with(costs), "{}", told.means);
        let (_folder, none) = files(&[]);
        assert_eq!(mitigations(&none).state, State::Unknown);
    }

    #[test]
    fn the_machine_is_judged_by_what_it_tells() {
        let clocks = "sys/devices/system/clocksource/clocksource0/current_clocksource";
        let (_folder, slow) = files(&[
            (CPU0, "powersave"),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "0"),
            ("sys/devices/system/cpu/smt/active", "1"),
            (clocks, "hpet"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
            ("sys/kernel/mm/transparent_hugepage/defrag", "[always] defer madvise never"),
            ("proc/cpuinfo", "flags\t\t: fpu hypervisor sse\n"),
            ("proc/stat", "cpu  100 0 100 700 0 0 0 100 0 0\ncpu0 1 1 1 1\n"),
        ]);
        let states = |files: &Files| {
            let all = [governor(files), threads(files), clock(files), huge_pages(files), hypervisor(files)];
            all.map(|check| check.state)
        };
        assert_eq!(states(&slow), [State::Limited; 5]);
        assert_eq!(turbo(&slow).map(|check| check.state), Some(State::Limited));
        assert!(hypervisor(&slow).found.ends_with("took 10.0 % of the CPU time since boot"));
        let (_folder, fine) = files(&[
            (CPU0, "performance"),
            ("sys/devices/system/cpu/cpufreq/boost", "0"),
            ("sys/devices/system/cpu/smt/active", "0"),
            (clocks, "tsc"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
            ("sys/kernel/mm/transparent_hugepage/defrag", "always defer [madvise] never"),
            ("proc/cpuinfo", "flags\t\t: fpu sse\n"),
        ]);
        assert_eq!(states(&fine), [State::Ok; 5]);
        assert_eq!(turbo(&fine).map(|check| check.state), Some(State::Ok));
        assert_eq!(cpus(Ok(1)).state, State::Limited);
    }
}
