//! CPUs: taken by others, or bounded by a quota.

use super::case::{Case, Draft};
use crate::finding::Finding;
use crate::servers::{self, Kind, Process, Quota, unit};
use weir_measure::part::Part;
use weir_measure::queueing::Saving;

/// From this share of the mean response a wait for a CPU is looked into.
const WORTH_LOOKING: f64 = 0.05;
/// A quota that was not seen to stop a task counts if this share of it is used.
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
    // The number is the process's, the name that of the thread that took the CPU.
    let process = pid.and_then(Process::read).filter(|process| process.has_task(name));
    let pid = process.as_ref().map(|process| process.pid);
    let told = match &process {
        Some(process) if process.name != name => format!("{} (its thread {name})", process.name),
        _ => name.to_owned(),
    };
    let their_unit = pid.and_then(unit);
    let is_real_time = pid.is_some_and(servers::is_real_time);
    let mut commands = match (&their_unit, pid) {
        (Some(unit), _) => vec![format!("systemctl set-property --runtime {unit} CPUWeight={LOW_WEIGHT}")],
        (None, Some(pid)) => vec![
            // Of a number alone it takes the first thread only.
            format!("renice -n 10 -p $(ls /proc/{pid}/task)"),
            format!("or on other CPUs than the server's: taskset -a -p -c CPUS {pid}"),
        ],
        (None, None) => vec![
            format!("renice -n 10 -p $({})", tasks_named(name)),
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
        facts.push(format!(
            "{name} is a real-time task, which goes before every ordinary task; its weight does not count"
        ));
    }
    let reasoning = "the server's tasks are ready to run and wait for what takes the CPU".to_owned();
    let against = [
        "what it does takes longer then",
        "if it works for the server after all (a job of the application), it is not a neighbour",
    ];
    let draft = Draft::new(
        "noisy_neighbour",
        format!("{told} takes the server's CPU"),
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

/// A command that prints the numbers of all tasks of a name: threads, too, which `pgrep` passes over.
fn tasks_named(name: &str) -> String {
    let quoted = name.replace('\'', r"'\''");
    format!("grep -slxF -- '{quoted}' /proc/[0-9]*/task/[0-9]*/comm | cut -d/ -f5")
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
    // Waits for the quota that the kernel reported are certain; else we count the waits that no other task caused.
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
        "a shorter period with the same share makes the stops shorter, too, and takes CPU time from no other program",
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_is_found_by_its_name_and_told_by_its_process() {
        let (told, begun) = channel();
        let (end, ended) = channel::<()>();
        // As rustc calls the threads of its code generation.
        let work = move || {
            // SAFETY: gettid has no preconditions.
            told.send(unsafe { libc::gettid() }).expect("the test listens");
            let _over = ended.recv();
        };
        let thread = std::thread::Builder::new().name("opt cgu.06'x".into()).spawn(work).expect("a thread");
        let task = begun.recv().expect("it runs").to_string();
        let output = std::process::Command::new("sh").args(["-c", &tasks_named("opt cgu.06'x")]).output();
        let output = String::from_utf8(output.expect("a shell").stdout).expect("numbers");
        assert_eq!(output.lines().collect::<Vec<_>>(), [task]);
        let pid = std::process::id();
        let text = format!(
            r#"{{"response_ns": {{"mean": 10e6}}, "parts_ns": {{"wait_cpu": 4e6}}, "causes": [
                {{"part": "wait_cpu", "mean_ns": 4e6, "who": [["opt cgu.06'x ({pid})", 1.0]]}}]}}"#
        );
        let observed = serde_json::from_str(&text).expect("an explanation");
        let (recorded, servers) = (Default::default(), Default::default());
        let found = noisy_neighbour(&Case { observed: &observed, recorded: &recorded, servers: &servers });
        assert!(found[0].title.contains("(its thread opt cgu.06'x)"), "{}", found[0].title);
        let command = &found[0].commands[0];
        assert!(command.contains(&format!("/proc/{pid}/task")) || command.starts_with("systemctl"), "{command}");
        drop(end);
        thread.join().expect("it ends");
    }
}
