//! php-fpm: a pool that is too small, and programs compiled anew for each request.

use super::case::{Case, Draft};
use crate::configuration::{Found, ini};
use crate::finding::{Finding, Setting};
use crate::servers::{Address, Kind, Server, available_bytes, listens, resident_bytes};
use weir_measure::part::Part;
use weir_measure::queueing::{Saving, Shared, at_once, least_wait_ns, staffed};
use weir_report::nanoseconds;

/// From this share of the mean response queueing is looked into.
const WORTH_LOOKING: f64 = 0.05;
/// Of the memory that is free, as much may go to new children.
const MEMORY_SHARE: f64 = 0.5;
/// Of the server's memory a child takes at least this, where it cannot be looked up.
const CHILD_BYTES: u64 = 32 << 20;

/// `pm.max_children` below what is asked of the pool.
pub(super) fn pool_too_small(case: &Case<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, server) in case.servers.of(Kind::PhpFpm) {
        for children in server.configuration.all("pm.max_children") {
            findings.extend(pool(case, number, server, &children));
        }
    }
    // With several pools the one that is really asked cannot be told apart by name: the smallest is the likeliest.
    findings.sort_by(|a, b| b.effect.saved_ns.likely_ns.total_cmp(&a.effect.saved_ns.likely_ns));
    findings.truncate(1);
    findings
}

fn pool(case: &Case<'_>, number: usize, server: &Server, found: &Found<'_>) -> Option<Finding> {
    let observed = case.observed;
    let limit: u32 = found.word().parse().ok()?;
    let pool = found.scope().pop().unwrap_or_default();
    let is_php = |who: &str| Case::is_of(who, Kind::PhpFpm) || is_address(server, &pool, who);
    let evidence_ns = |part: Part| observed.of_whom(part.name(), is_php);
    // Followed into the pool: its queue is seen as such.
    let (accept_ns, worker_ns) = (evidence_ns(Part::AcceptQueue), evidence_ns(Part::WorkerQueue));
    let seen_ns = accept_ns + worker_ns;
    // Not followed: of those that are at the pool no more than its children can be served, the others wait.
    let behind_ns = at_the_pool_ns(case, is_php);
    let reckoned_ns = least_wait_ns(observed.rate_per_s, behind_ns, f64::from(limit));
    let queue_ns = seen_ns.max(reckoned_ns);
    if observed.share(queue_ns) < WORTH_LOOKING {
        return None;
    }
    let there = at_once(observed.rate_per_s, behind_ns.max(seen_ns)).max(f64::from(limit))
        + if seen_ns > reckoned_ns { f64::from(limit) } else { 0.0 };
    let child_bytes =
        server.children.iter().filter_map(|&pid| resident_bytes(pid)).max().unwrap_or(CHILD_BYTES).max(1 << 20);
    let fit = available_bytes().map_or(u32::MAX, |free| (free as f64 * MEMORY_SHARE / child_bytes as f64) as u32);
    let proposed = staffed(there).clamp(limit + 1, limit.saturating_add(fit.max(1)));
    let configuration = &server.configuration;
    let mut settings = vec![Setting::of(number, configuration, found, &proposed.to_string())];
    settings.extend(spare(server, number, &pool, proposed));
    let mut evidence = Vec::new();
    for (part, ns) in [(Part::AcceptQueue, accept_ns), (Part::WorkerQueue, worker_ns)] {
        if observed.share(ns) >= super::case::WORTH_IT {
            evidence.push(case.evidence(part, ns));
        }
    }
    if evidence.is_empty() {
        evidence.push(case.evidence(Part::WaitProcess, behind_ns));
    }
    // A child that is busy all the time serves a request each 1/rate; how much of that is CPU is only known if seen.
    let service_ns = f64::from(limit) * 1e9 / observed.rate_per_s.max(1e-9);
    let php_run_ns: f64 =
        observed.processes.iter().filter(|process| is_php(&process.name)).map(|process| process.run_ns).sum();
    let shared = Shared {
        response_ns: observed.response_ns(),
        queue_ns,
        in_flight: observed.in_flight(),
        cpus: case.cpus(),
        cpu_low_ns: observed.cpu_ns(),
        cpu_high_ns: if php_run_ns > 0.0 { 1.2 * observed.cpu_ns() } else { observed.cpu_ns() + service_ns },
    };
    let effect = case.effect(
        shared.saving(),
        format!(
            "{} of queueing goes away; then {:.1} requests in flight share {} CPUs at {} to {} each (asymptotic bounds of a closed system)",
            nanoseconds(queue_ns),
            shared.in_flight,
            case.cpus(),
            nanoseconds(shared.cpu_low_ns),
            nanoseconds(shared.cpu_high_ns)
        ),
    );
    let facts = vec![
        format!(
            "the pool [{pool}] of {} has at most {limit} child{}",
            server.label(),
            if limit == 1 { "" } else { "ren" }
        ),
        format!("by Little's law {there:.1} requests are at the pool at a time ({:.0} a second)", observed.rate_per_s),
    ];
    let reasoning = format!(
        "{there:.1} requests at a time, and twice the square root of that, so that few wait (square-root staffing): {proposed}; a child takes about {} MB",
        child_bytes >> 20
    );
    let against = [
        "each child takes memory, and a connection to the database where the program keeps one: its max_connections must allow it",
        "where the children are busy with the CPU, more of them only share it",
    ];
    let title = format!("the pool of PHP is too small: pm.max_children = {limit}");
    Some(Draft::new("php_pool_too_small", title, evidence, effect).set(settings, facts, reasoning, &against))
}

/// How long a request is at the pool, where the pool is not followed.
fn at_the_pool_ns(case: &Case<'_>, is_php: impl Fn(&str) -> bool) -> f64 {
    let observed = case.observed;
    let blamed = observed.of_whom(Part::WaitProcess.name(), &is_php);
    if blamed > 0.0 || !observed.blamed(Part::WaitProcess.name()).is_empty() {
        return blamed;
    }
    // No task is blamed. Where no database stands behind the server, the pool is all that it can wait for.
    let others = case.servers.list.iter().any(|server| matches!(server.kind, Kind::Postgres | Kind::Mariadb));
    if others { 0.0 } else { observed.part_ns(Part::WaitProcess.name()) }
}

/// Whether a name is the address of the pool.
fn is_address(server: &Server, pool: &str, who: &str) -> bool {
    let Some(address) = Address::parse(who.trim_start_matches("unix ")) else { return false };
    listens(&server.configuration).iter().any(|(of, listen)| of == pool && listen.is(&address))
}

/// What must stay within the number of children: with `pm = dynamic` nothing grows too slowly for a burst.
fn spare(server: &Server, number: usize, pool: &str, proposed: u32) -> Vec<Setting> {
    let configuration = &server.configuration;
    let of_pool = |name: &str| {
        configuration.all(name).into_iter().rfind(|found| found.scope().last().is_some_and(|scope| scope == pool))
    };
    if of_pool("pm").is_none_or(|found| found.word() != "dynamic") {
        return Vec::new();
    }
    let wanted = [("pm.max_spare_servers", proposed), ("pm.start_servers", proposed.div_ceil(2))];
    let mut settings = Vec::new();
    for (name, value) in wanted {
        match of_pool(name) {
            Some(found) if found.word().parse::<u32>().is_ok_and(|now| now < value) => {
                settings.push(Setting::of(number, configuration, &found, &value.to_string()));
            }
            _ => {}
        }
    }
    settings
}

/// Without the opcode cache every request compiles its programs again.
pub(super) fn opcache_off(case: &Case<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, server) in case.servers.of(Kind::PhpFpm) {
        let Some((fact, setting)) = off(number, server) else { continue };
        let observed = case.observed;
        let seen: f64 = observed
            .processes
            .iter()
            .filter(|process| Case::is_of(&process.name, Kind::PhpFpm))
            .map(|process| process.run_ns)
            .sum();
        let (part, run_ns, basis) = if seen > 0.0 {
            (Part::Run, seen, "of what PHP runs for a response")
        } else {
            let ns = at_the_pool_ns(case, |who| Case::is_of(who, Kind::PhpFpm));
            (Part::WaitProcess, ns, "of the wait for PHP, whose own running was not recorded")
        };
        let effect = case.effect(
            Saving::shares(run_ns, 0.05, 0.3, 0.8),
            format!("compiling takes between 5 and 80 % {basis}, the more the larger the program is; 30 % is usual"),
        );
        let against = [
            "programs that are changed in place are seen after opcache.revalidate_freq seconds (2 unless set)",
            "it takes opcache.memory_consumption of shared memory (128 MB unless set)",
        ];
        let reasoning = "compiled programs are kept in shared memory and not compiled for each request".to_owned();
        let draft = Draft::new(
            "opcache_off",
            "PHP compiles its programs for every request",
            vec![case.evidence(part, run_ns)],
            effect,
        );
        findings.push(match setting {
            Some(setting) => draft.set(vec![setting], vec![fact], reasoning, &against),
            None => {
                let commands = vec!["phpenmod opcache && systemctl reload php-fpm".to_owned()];
                draft.told(
                    commands,
                    vec![fact],
                    reasoning,
                    &against,
                    "the module is not loaded at all; that is not one line of the configuration",
                )
            }
        });
    }
    findings
}

/// What switches the cache off, and the setting that says so.
fn off(number: usize, server: &Server) -> Option<(String, Option<Setting>)> {
    let names = [
        "php_admin_value[opcache.enable]",
        "php_admin_flag[opcache.enable]",
        "php_value[opcache.enable]",
        "php_flag[opcache.enable]",
    ];
    for found in names.iter().flat_map(|name| server.configuration.all(name)) {
        if !ini::is_on(found.word()) {
            let setting = Setting::of(number, &server.configuration, &found, "1");
            return Some((format!("the pool says {} = {}", found.directive.name, found.word()), Some(setting)));
        }
    }
    let pool_says_on = names.iter().any(|name| !server.configuration.all(name).is_empty());
    match server.ini.configuration.last("opcache.enable") {
        Some(found) if !ini::is_on(found.word()) && !pool_says_on => {
            let place = server.ini.configuration.file(found.directive.place).display().to_string();
            let fact = format!("{place}:{} says opcache.enable = {}", found.directive.place.line, found.word());
            // Said in the pool, which counts above php.ini: the copy of a trial needs no php.ini of its own.
            let pool = server.configuration.sections().into_iter().find(|name| *name != "global")?.to_owned();
            let setting = Setting::added(number, &server.configuration, names[0], &[pool], "0", "1");
            Some((fact, Some(setting)))
        }
        _ => is_missing(server).then(|| (format!("{} has not loaded opcache.so", server.label()), None)),
    }
}

/// Whether the running server lacks the module; not known counts as no.
fn is_missing(server: &Server) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", server.process.pid)).unwrap_or_default();
    let built_in = maps.is_empty() || maps.contains("opcache.so");
    // From 8.5 on it is part of PHP itself and shows in no map.
    let version = server
        .process
        .program
        .to_string_lossy()
        .rsplit("php-fpm")
        .next()
        .and_then(|version| version.parse::<f64>().ok());
    !built_in && version.is_some_and(|version| version < 8.5)
}
