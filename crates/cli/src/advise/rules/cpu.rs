//! CPUs: taken by others, or bounded by a quota.

use super::super::finding::Finding;
use super::super::servers::{self, Kind, Process, Quota, unit};
use super::{Case, Draft};
use weir_measure::part::Part;
use weir_measure::queueing::Saving;

/// From this share of the mean response a wait for a CPU is looked into.
const WORTH_LOOKING: f64 = 0.05;
/// A quota that was not seen to stop anybody counts if so much of it is used.
const NEAR: f64 = 0.7;
/// What `CPUWeight` is unless it is set.
const USUAL_WEIGHT: f64 = 100.0;
/// What is proposed for a neighbour.
const LOW_WEIGHT: f64 = 10.0;

/// A process that is no part of the servers takes their CPU.
pub(super) fn noisy_neighbour(case: &Case<'_>) -> Vec<Finding> {
    let observed = case.observed;
    let serving = observed.serving();
    let is_foreign = |who: &str| {
        let name = who.split(" (").next().unwrap_or(who);
        let is_load = name == "weir" || name.starts_with("weir-load");
        Kind::of(name).is_none() && !is_quota(who) && !is_load && !serving.contains(name)
    };
    let mut blamed = observed.blamed(Part::WaitCpu.name());
    blamed.retain(|(who, _)| is_foreign(who));
    blamed.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some((who, _)) = blamed.first() else { return Vec::new() };
    let ns: f64 = blamed.iter().map(|(_, ns)| ns).sum();
    if observed.share(ns) < WORTH_LOOKING {
        return Vec::new();
    }
    let pid = who.rsplit_once(" (").and_then(|(_, rest)| rest.trim_end_matches(')').parse::<u32>().ok());
    let name = who.split(" (").next().unwrap_or(who);
    let pid = pid.filter(|&pid| Process::read(pid).is_some_and(|process| process.name == name));
    let their_unit = pid.and_then(unit);
    let is_real_time = pid.is_some_and(servers::is_real_time);
    let mut commands = match (&their_unit, pid) {
        (Some(unit), _) => vec![format!("systemctl set-property --runtime {unit} CPUWeight={LOW_WEIGHT}")],
        (None, Some(pid)) => vec![
            format!("renice -n 10 -p {pid}"),
            format!("or on other CPUs than the server's: taskset -a -p -c CPUS {pid}"),
        ],
        (None, None) => vec![
            format!("renice -n 10 -p $(pgrep -d' ' -x '{name}')"),
            format!("or on other CPUs than the server's: taskset -a -p -c CPUS PID of {name}"),
        ],
    };
    if let (true, Some(pid)) = (is_real_time, pid) {
        commands.insert(0, format!("chrt --all-tasks --other --pid 0 {pid}"));
    }
    let remains = LOW_WEIGHT / (LOW_WEIGHT + USUAL_WEIGHT);
    let effect = case.effect(
        Saving::shares(ns, 0.5, 1.0 - remains, 1.0),
        format!("with a tenth of the weight it has {:.0} % of a CPU that both want, not half; pinned elsewhere it has nothing of it", 100.0 * remains),
    );
    let mut facts = vec![match &their_unit {
        Some(unit) => format!("{who} belongs to {unit}, and is no part of the servers"),
        None => format!("{who} is no part of the servers"),
    }];
    if is_real_time {
        facts.push(format!("{name} is a real-time task, which goes before every other whatever its weight"));
    }
    let reasoning = "the server's tasks are ready to run and wait for what takes the CPU".to_owned();
    let against = [
        "what it does takes longer then",
        "if it works for the server after all (a job of the application), it is not a neighbour",
    ];
    let draft = Draft::new(
        "noisy_neighbour",
        format!("{name} takes the server's CPU"),
        vec![case.evidence(Part::WaitCpu, ns)],
        effect,
    );
    vec![draft.told(
        commands,
        facts,
        reasoning,
        &against,
        "another process is not ours to slow down; the commands can be taken back (renice -n 0, CPUWeight=100)",
    )]
}

/// The tightest quota on a server's CPU time, with the server's number.
fn tightest(case: &Case<'_>) -> Option<(usize, Quota)> {
    let servers = case.servers.list.iter().enumerate().filter(|(_, server)| server.process.pid != 0);
    servers
        .filter_map(|(number, server)| Some((number, servers::quota(server.process.pid)?)))
        .min_by(|a, b| a.1.cpus.total_cmp(&b.1.cpus))
}

/// Whether a wait for a CPU is blamed on a quota, as the kernel told of it.
fn is_quota(who: &str) -> bool {
    who.starts_with("the CPU quota")
}

/// A quota that stops the server although CPUs are idle.
pub(super) fn quota(case: &Case<'_>) -> Vec<Finding> {
    let observed = case.observed;
    let wait_ns = observed.part_ns(Part::WaitCpu.name());
    let Some((number, quota)) = tightest(case).filter(|(_, quota)| quota.cpus < case.cpus()) else { return Vec::new() };
    let used = observed.server_cpu.utilisation;
    // What the kernel told of the quota is certain; else it is what nobody else is to blame for.
    let told_ns = observed.of_whom(Part::WaitCpu.name(), is_quota);
    let others_ns = observed.of_whom(Part::WaitCpu.name(), |who| Kind::of(who).is_none() && !is_quota(who));
    let ns = if told_ns > 0.0 { told_ns } else { (wait_ns - others_ns).max(0.0) };
    let stops = told_ns > 0.0 || quota.throttled > 0 || used >= NEAR * quota.cpus;
    if !stops || observed.share(ns) < WORTH_LOOKING {
        return Vec::new();
    }
    let server = &case.servers.list[number];
    // The demand without the bound: what was used, and what waited as if it had run.
    let wanted = (used * 2.0).max(quota.cpus * 2.0).min(case.cpus());
    let effect = case.effect(
        Saving::shares(ns, 0.3, 0.8, 1.0),
        "the group is stopped no more; what remains is waiting for CPUs that are really taken",
    );
    let facts = vec![
        format!(
            "{}: {} allows {:.2} CPUs on average over {:.0} ms; it was stopped in {} periods since it was made",
            server.label(),
            quota.file.display(),
            quota.cpus,
            quota.period_us / 1e3,
            quota.throttled
        ),
        format!("its tasks used {used:.2} CPUs, of {} that there are", case.cpus()),
    ];
    let commands = match unit(server.process.pid) {
        Some(unit) => vec![format!("systemctl set-property --runtime {unit} CPUQuota={:.0}%", wanted * 100.0)],
        None if quota.is_v2 => {
            vec![format!("echo '{:.0} {:.0}' > {}", wanted * quota.period_us, quota.period_us, quota.file.display())]
        }
        None => vec![format!("echo {:.0} > {}", wanted * quota.period_us, quota.file.display())],
    };
    let reasoning = format!(
        "twice what is allowed, at most all CPUs: {wanted:.2} CPUs in the place of {:.2} ({:?})",
        quota.cpus, quota.text
    );
    let against = [
        "the quota may be there for others on the host, or be what is paid for",
        "a shorter period with the same share stops for shorter, too, and costs nobody anything",
    ];
    let draft = Draft::new(
        "cpu_quota",
        format!("a quota of {:.2} CPUs stops the server", quota.cpus),
        vec![case.evidence(Part::WaitCpu, ns)],
        effect,
    );
    vec![draft.told(
        commands,
        facts,
        reasoning,
        &against,
        "a control group is not part of the server's configuration; the command can be taken back at once",
    )]
}
