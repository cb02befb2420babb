//! Policies and readings that stay, both made of rolls of dice: of all that the language has, in any order.

use crate::support::World;
use weir_adapt::Resource;

/// Dice that roll the same for the same seed (SplitMix64).
#[derive(Debug)]
pub(crate) struct Rolls(u64);

impl Rolls {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn one<'o, T: ?Sized>(&mut self, of: &[&'o T]) -> &'o T {
        of[self.below(of.len())]
    }
}

pub(crate) const NODES: [&str; 5] = ["n1", "n2", "n3", "r1", "r2"];
/// Of each node.
const MEMORY_BYTES: f64 = 8e9;

/// For whom rules are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Sessions,
    Clients,
    Atoms,
    All,
}

/// Shares that thresholds and readings have, so that readings lie at thresholds, too.
const SHARES: [f64; 6] = [10.0, 25.0, 50.0, 70.1, 85.0, 95.0];
const RATES: [f64; 5] = [2.0, 10.0, 45.5, 80.0, 300.0];
const JOBS: [f64; 4] = [0.0, 2.0, 5.0, 9.0];
const SECONDS: [f64; 4] = [0.005, 0.05, 0.2, 1.0];
const BANDWIDTHS: [f64; 4] = [40e3, 100e3, 250e3, 2e6];

/// A reading with where it is taken, and a value of it in a unit of its own.
fn metric_and_value(rolls: &mut Rolls, subject: Subject) -> (String, String) {
    let of_nodes = ["cpu", "cpu", "mem", "memory", "queue", "active", "wait", "rate", "errors", "failed"];
    let of_atoms = ["rate", "rate", "errors", "failed", "queue", "wait", "active"];
    let (word, scope) = match (subject, rolls.below(3)) {
        (Subject::Sessions, 0) => (rolls.one(&["bandwidth", "rtt"]), "@client"),
        (Subject::Clients, 0 | 1) => ("rate", "@client"),
        (Subject::Atoms, 0 | 1) => (rolls.one(&of_atoms), "@atom"),
        (Subject::Sessions, 1) => (rolls.one(&of_atoms), "@atom"),
        _ => (rolls.one(&of_nodes), rolls.one(&["@here", "@here", "@all", "@main", "@n2"])),
    };
    let share = |rolls: &mut Rolls| format!("{}%", SHARES[rolls.below(SHARES.len())]);
    let rate = |rolls: &mut Rolls| format!("{}rps", RATES[rolls.below(RATES.len())]);
    let (word, value) = match word {
        "cpu" => (word, share(rolls)),
        "mem" => (word, share(rolls)),
        "memory" => ("mem", format!("{}MB", SHARES[rolls.below(SHARES.len())] * MEMORY_BYTES / 1e8)),
        "errors" => (word, share(rolls)),
        // Of a rate, a share of that.
        "failed" => ("errors", format!("{}rps", RATES[rolls.below(RATES.len())] / 4.0)),
        "rate" => (word, rate(rolls)),
        "queue" | "active" => (word, format!("{}jobs", JOBS[1 + rolls.below(JOBS.len() - 1)])),
        "bandwidth" => (word, format!("{}kbps", BANDWIDTHS[rolls.below(BANDWIDTHS.len())] / 1e3)),
        _ => (word, format!("{}ms", SECONDS[rolls.below(SECONDS.len())] * 1e3)),
    };
    let mut metric = format!("{word}{scope}");
    match rolls.below(12) {
        0 => metric = format!("{} {metric} over {}s", rolls.one(&["avg", "max", "min", "p95"]), 2 + rolls.below(3)),
        1 => metric = format!("{} {metric}", rolls.one(&["avg", "max", "min", "p99"])),
        2 => metric = format!("{metric} over 6s predicted in {}s", 1 + rolls.below(3)),
        3 => metric = format!("{metric} over 5s predicted in 3s fit >= 0.8"),
        _ => {}
    }
    (metric, value)
}

fn test(rolls: &mut Rolls, subject: Subject) -> String {
    let (metric, value) = metric_and_value(rolls, subject);
    let relation = rolls.one(&[">", "<", ">=", "<="]);
    let test = format!("{metric} {relation} {value}");
    if rolls.percent(10) { format!("not {test}") } else { test }
}

fn condition(rolls: &mut Rolls, subject: Subject) -> String {
    let parts = 1 + [0, 0, 0, 1, 1, 2][rolls.below(6)];
    let mut text = test(rolls, subject);
    for _ in 1..parts {
        let next = match rolls.below(4) {
            0 => format!("not ({} and {})", test(rolls, subject), test(rolls, subject)),
            1 => format!("({} or {})", test(rolls, subject), test(rolls, subject)),
            _ => test(rolls, subject),
        };
        text = format!("{text} {} {next}", rolls.one(&["and", "or", "or"]));
    }
    text
}

const OF_SESSIONS: [&str; 12] = [
    "use full",
    "use half",
    "use small",
    "next down",
    "next up",
    "switch n2",
    "switch n3.half",
    "switch any of main",
    "best by cpu (n1, n2)",
    "best by queue (n2.small, any of main)",
    "use small, switch n3",
    "use half, alert \"less\"",
];
const OF_CLIENTS: [&str; 4] = ["shed 90%", "shed 30%", "alert \"much\", shed 90%", "alert \"much\""];
const OF_ATOMS: [&str; 9] = [
    "shed 10%",
    "shed 50%",
    "stale 5s",
    "stale 60s, shed 10%",
    "replicate to 2 on main",
    "replicate to 3 on main, spread over spare",
    "spread over main",
    "alert \"hot\"",
    "shed 50%, alert \"hot\"",
];
const OF_ALL: [&str; 6] = [
    "grow main by 1",
    "shrink main by 1",
    "grow spare by 1, shed 10%",
    "shrink spare by 1",
    "workers 4 of main",
    "workers 9 of spare, stale 5s",
];

fn acts(rolls: &mut Rolls, subject: Subject) -> String {
    match subject {
        Subject::Sessions => rolls.one(&OF_SESSIONS).to_owned(),
        Subject::Clients => rolls.one(&OF_CLIENTS).to_owned(),
        Subject::All if rolls.percent(20) => rolls.one(&OF_ALL).to_owned(),
        Subject::Atoms | Subject::All => rolls.one(&OF_ATOMS).to_owned(),
    }
}

/// A rule; one that stays active once it has fired has `keeps` behind its name.
fn rule(rolls: &mut Rolls, number: usize, subject: Subject) -> String {
    let when = rolls.one(&["during", "during", "during", "every 1s", "every 2s"]);
    let mut text = format!("{when} if {} then {}", condition(rolls, subject), acts(rolls, subject));
    for _ in 0..[0, 0, 0, 1, 2][rolls.below(5)] {
        text += &format!(" elif {} then {}", condition(rolls, subject), acts(rolls, subject));
    }
    if rolls.percent(10) {
        text += &format!(" else {}", acts(rolls, subject));
    }
    let (holds, ends) = (rolls.percent(40), rolls.percent(50));
    if rolls.percent(20) {
        text += " for 2s";
    }
    if ends {
        text += &format!(" until {}", condition(rolls, subject));
    }
    if holds {
        text += &format!(" hold {}s", 1 + rolls.below(3));
    }
    if rolls.percent(15) {
        text += &format!(" cooldown {}s", 1 + rolls.below(4));
    }
    if rolls.percent(15) {
        text += &format!(" limit {} per 6s", 1 + rolls.below(2));
    }
    let keeps = if holds || ends { " keeps" } else { "" };
    let priority = if rolls.percent(75) { format!(" priority {}", rolls.below(5)) } else { String::new() };
    format!("    rule r{number}{keeps}{priority}: {text};\n")
}

/// A policy of some rules for one or two patterns.
pub(crate) fn policy(rolls: &mut Rolls) -> String {
    let mut text = "pool main = { n1, n2, n3 };\npool spare = { r1, r2 };\n".to_owned();
    let subjects = [Subject::Sessions, Subject::Clients, Subject::Atoms, Subject::All];
    let mut number = 0;
    for (at, glob) in ["/v/*", "/**"].iter().enumerate() {
        if at == 1 && rolls.percent(70) {
            break;
        }
        text += &format!("atom \"{glob}\" {{\n    variants full > half > small;\n");
        let subject = subjects[rolls.below(4)];
        for _ in 0..[1, 2, 2, 3, 3, 4][rolls.below(6)] {
            let subject = if rolls.percent(80) { subject } else { subjects[rolls.below(4)] };
            text += &rule(rolls, number, subject);
            number += 1;
        }
        text += "}\n";
    }
    text
}

/// Readings of a place that stay; those of one thing in several units say the same.
#[derive(Debug, Clone, Copy)]
struct Place {
    cpu_percent: f64,
    mem_percent: f64,
    queue_jobs: f64,
    active_jobs: f64,
    wait_s: f64,
    rate_per_s: f64,
    errors_percent: f64,
}

impl Place {
    fn new(rolls: &mut Rolls) -> Self {
        let share = |rolls: &mut Rolls| SHARES[rolls.below(SHARES.len())];
        Self {
            cpu_percent: share(rolls),
            mem_percent: share(rolls),
            queue_jobs: JOBS[rolls.below(JOBS.len())],
            active_jobs: JOBS[rolls.below(JOBS.len())],
            wait_s: SECONDS[rolls.below(SECONDS.len())],
            rate_per_s: RATES[rolls.below(RATES.len())],
            errors_percent: share(rolls),
        }
    }

    /// What is read of nodes and of atoms.
    fn of_both(&self) -> [(Resource, f64); 6] {
        [
            (Resource::Queue, self.queue_jobs),
            (Resource::Active, self.active_jobs),
            (Resource::Wait, self.wait_s),
            (Resource::Rate, self.rate_per_s),
            (Resource::ErrorShare, self.errors_percent),
            (Resource::Errors, self.rate_per_s * self.errors_percent / 100.0),
        ]
    }

    /// What is read of nodes.
    fn of_node(&self) -> [(Resource, f64); 3] {
        [
            (Resource::Cpu, self.cpu_percent),
            (Resource::MemShare, self.mem_percent),
            (Resource::Mem, self.mem_percent / 100.0 * MEMORY_BYTES),
        ]
    }
}

/// A world in which each reading stays as it is.
#[derive(Debug)]
pub(crate) struct Steady {
    nodes: [Place; 5],
    atoms: [Place; 2],
    client_rate_per_s: f64,
    bandwidth_bps: f64,
    rtt_s: f64,
    /// Of one node and one atom there are no readings.
    is_part_unknown: bool,
}

const ATOMS: [&str; 2] = ["/v/a", "/w/b"];
const CLIENT: &str = "192.0.2.7";

impl Steady {
    pub(crate) fn new(rolls: &mut Rolls) -> Self {
        Self {
            nodes: std::array::from_fn(|_| Place::new(rolls)),
            atoms: std::array::from_fn(|_| Place::new(rolls)),
            client_rate_per_s: RATES[rolls.below(RATES.len())],
            bandwidth_bps: BANDWIDTHS[rolls.below(BANDWIDTHS.len())],
            rtt_s: SECONDS[rolls.below(SECONDS.len())],
            is_part_unknown: rolls.percent(10),
        }
    }

    /// A session of each atom begins.
    pub(crate) fn begin(&self, world: &mut World) {
        for (number, path) in ATOMS.iter().enumerate() {
            world.begin_of(0, number as u64, path, CLIENT);
        }
    }

    /// Tells all readings.
    pub(crate) fn tell(&self, world: &mut World, at_ms: u64) {
        let leave = usize::from(self.is_part_unknown);
        for (name, place) in NODES.iter().zip(&self.nodes).skip(leave) {
            place.of_node().into_iter().chain(place.of_both()).for_each(|(resource, value)| {
                world.node(at_ms, name, resource, value);
            });
        }
        for (path, place) in ATOMS.iter().zip(&self.atoms).skip(leave) {
            place.of_both().into_iter().for_each(|(resource, value)| world.atom(at_ms, path, resource, value));
        }
        for session in 0..ATOMS.len() as u64 {
            world.client(at_ms, session, Resource::Bandwidth, self.bandwidth_bps);
            world.client(at_ms, session, Resource::Rtt, self.rtt_s);
        }
        world.asks(at_ms, CLIENT, self.client_rate_per_s);
    }
}
