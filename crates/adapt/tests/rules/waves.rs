//! Loads that go up and down: each rule fires where the wave lets it, and none oftener, sooner or shorter than it says.

use crate::support;

use proptest::prelude::*;
use support::World;
use weir_adapt::{Outcome, Resource};

/// From one look at the rules to the next.
const STEP_MS: u64 = 250;
const PERIODS_S: std::ops::RangeInclusive<u64> = 1..=300;
/// What is told while the wave is up, and while it is down: percent, or requests a second.
const UP: f64 = 95.0;
const DOWN: f64 = 10.0;
/// A tick may be so early for a look of a rule with `every`.
const EARLY_MS: u64 = 50;

/// A rule, and what it promises; times in milliseconds.
struct Rule {
    name: &'static str,
    /// Its condition is true while the wave is up, else while it is down.
    is_for_up: bool,
    /// Of what its condition is an average.
    over_ms: u64,
    /// 0: `during`.
    every_ms: u64,
    condition: &'static str,
    acts: &'static str,
    for_ms: u64,
    /// The release, where it has one.
    until: &'static str,
    hold_ms: u64,
    cooldown_ms: u64,
    limit: Option<(usize, u64)>,
}

const PLAIN: Rule = Rule {
    name: "",
    is_for_up: true,
    over_ms: 0,
    every_ms: 0,
    condition: "cpu > 60%",
    acts: "",
    for_ms: 0,
    until: "",
    hold_ms: 0,
    cooldown_ms: 0,
    limit: None,
};
const CALM: &str = "cpu < 40%";

/// At least one for each class of action; no two stand in each other's way, so that each is bound by its own clauses.
const RULES: [Rule; 15] = [
    Rule { name: "place", acts: "switch any of main", until: CALM, cooldown_ms: 9_000, ..PLAIN },
    Rule { name: "down", acts: "next down", limit: Some((2, 20_000)), ..PLAIN },
    Rule { name: "up", condition: "cpu < 30%", is_for_up: false, acts: "next up", limit: Some((2, 20_000)), ..PLAIN },
    Rule { name: "copies", acts: "replicate to 3 on main", until: CALM, hold_ms: 5_000, every_ms: 2_000, ..PLAIN },
    Rule { name: "spread", acts: "spread over spare", for_ms: 3_000, until: CALM, cooldown_ms: 20_000, ..PLAIN },
    Rule { name: "shed", acts: "shed 5%", for_ms: 750, hold_ms: 7_000, limit: Some((3, 60_000)), ..PLAIN },
    Rule { name: "stale", acts: "stale 30s", until: CALM, hold_ms: 2_000, limit: Some((2, 45_000)), ..PLAIN },
    Rule { name: "grow", acts: "grow main by 1", every_ms: 2_000, for_ms: 4_000, limit: Some((3, 60_000)), ..PLAIN },
    Rule {
        name: "shrink",
        condition: "cpu < 30%",
        is_for_up: false,
        acts: "shrink main by 1",
        every_ms: 5_000,
        cooldown_ms: 12_000,
        ..PLAIN
    },
    Rule {
        name: "alert",
        condition: "avg cpu@all over 4s > 70%",
        over_ms: 4_000,
        every_ms: 2_000,
        acts: "alert \"hot\"",
        cooldown_ms: 4_000,
        limit: Some((3, 30_000)),
        ..PLAIN
    },
    Rule { name: "late", acts: "alert \"long\"", for_ms: 60_000, hold_ms: 1_000, ..PLAIN },
    Rule {
        name: "low",
        condition: "not cpu >= 40%",
        is_for_up: false,
        acts: "alert \"calm\"",
        until: "cpu > 60%",
        cooldown_ms: 3_000,
        ..PLAIN
    },
    Rule {
        name: "atom",
        condition: "rate@atom > 60rps",
        acts: "shed 10%",
        every_ms: 1_000,
        until: "rate@atom < 40rps",
        hold_ms: 3_000,
        limit: Some((4, 60_000)),
        ..PLAIN
    },
    Rule {
        name: "client",
        condition: "rate@client > 60rps",
        acts: "shed 90%",
        for_ms: 1_000,
        until: "rate@client < 40rps",
        cooldown_ms: 6_000,
        ..PLAIN
    },
    Rule {
        name: "session",
        condition: "rate@atom > 60rps",
        acts: "best by cpu (n1, n2), alert \"there\"",
        hold_ms: 4_000,
        limit: Some((5, 30_000)),
        ..PLAIN
    },
];

fn policy() -> String {
    let rules = RULES.iter().map(|rule| {
        let ms = |word: &str, ms: u64| if ms > 0 { format!(" {word} {ms}ms") } else { String::new() };
        let when = if rule.every_ms > 0 { format!("every {}ms", rule.every_ms) } else { "during".to_owned() };
        let until = if rule.until.is_empty() { String::new() } else { format!(" until {}", rule.until) };
        let limit = rule.limit.map_or_else(String::new, |(times, per_ms)| format!(" limit {times} per {per_ms}ms"));
        format!(
            "rule {}: {when} if {} then {}{}{until}{}{}{limit};\n",
            rule.name,
            rule.condition,
            rule.acts,
            ms("for", rule.for_ms),
            ms("hold", rule.hold_ms),
            ms("cooldown", rule.cooldown_ms),
        )
    });
    let (of_others, of_place): (Vec<String>, Vec<String>) = rules.partition(|rule| !rule.starts_with("rule session"));
    format!(
        "pool main = {{ n1, n2, n3 }}; pool spare = {{ r1 }};\n\
         atom \"/v/*\" {{ variants full > half > small;\n{}}}\natom \"/w/*\" {{\n{}}}",
        of_others.concat(),
        of_place.concat()
    )
}

/// A square wave: half of each period up.
#[derive(Debug, Clone, Copy)]
struct Wave {
    period_s: u64,
    phase_ms: u64,
}

impl Wave {
    fn half_ms(self) -> u64 {
        500 * self.period_s
    }

    fn is_up(self, at_ms: u64) -> bool {
        ((at_ms + self.phase_ms) / self.half_ms()).is_multiple_of(2)
    }

    /// Four times up and down, and as long as the longest clause needs.
    fn length_ms(self) -> u64 {
        4_000 * self.period_s + 120_000
    }

    fn run(self, policy: &str) -> World {
        let mut world = World::new(policy);
        world.begin(0, 1, "/v/a");
        world.begin(0, 2, "/w/a");
        for at_ms in (0..self.length_ms()).step_by(STEP_MS as usize) {
            let value = if self.is_up(at_ms) { UP } else { DOWN };
            for node in ["n1", "n2", "n3", "r1"] {
                world.node(at_ms, node, Resource::Cpu, value);
            }
            world.atom(at_ms, "/v/a", Resource::Rate, value);
            world.atom(at_ms, "/w/a", Resource::Rate, value);
            world.asks(at_ms, "192.0.2.7", value);
            world.tick(at_ms);
        }
        world
    }
}

impl Rule {
    /// Whether a wave must let it fire in any phase. A half of the wave then has a look whose average is of that half
    /// alone, and another look after the time that `for` says.
    fn must_fire(&self, wave: Wave) -> bool {
        let look_ms = self.every_ms.max(STEP_MS);
        wave.half_ms() >= look_ms * (1 + self.for_ms.div_ceil(look_ms)) + self.over_ms
    }

    /// Whether no phase of a wave lets it fire. Looks that are far apart can find a fast wave up each time.
    fn cannot_fire(&self, wave: Wave) -> bool {
        self.every_ms == 0 && self.over_ms == 0 && !self.must_fire(wave)
    }

    fn keeps_its_word(&self, wave: Wave, world: &World) {
        let name = self.name;
        let fired = world.fired(name);
        let why = || format!("{name} at {wave:?}: {fired:?}");
        // Four times up and down are enough to fire again, with any `hold`, `cooldown` and `limit`.
        assert!(!self.must_fire(wave) || fired.len() > 1, "not fired, or never again: {}", why());
        assert!(!self.cannot_fire(wave) || fired.is_empty(), "{}", why());
        let holds = |at_ms: u64| wave.is_up(at_ms) == self.is_for_up;
        if self.over_ms == 0 {
            assert!(fired.iter().all(|at_ms| holds(*at_ms)), "{}", why());
        }
        if self.every_ms == 0 {
            let is_true =
                |at_ms: &u64| (at_ms.saturating_sub(self.for_ms)..=*at_ms).step_by(STEP_MS as usize).all(holds);
            assert!(fired.iter().all(|at_ms| *at_ms >= self.for_ms && is_true(at_ms)), "not for so long: {}", why());
        }
        let apart_ms = self.cooldown_ms.max(self.every_ms.saturating_sub(EARLY_MS)).max(self.hold_ms);
        assert!(fired.windows(2).all(|pair| pair[1] - pair[0] >= apart_ms), "too soon: {}", why());
        if let Some((times, per_ms)) = self.limit {
            assert!(fired.windows(times + 1).all(|some| some[times] - some[0] >= per_ms), "too often: {}", why());
        }
        let ended = world.decisions.iter().filter(|one| one.rule == name && one.outcome == Outcome::Released);
        let ended: Vec<u64> = ended.map(|one| one.at_ms).collect();
        if self.until.is_empty() && self.hold_ms == 0 {
            return assert!(ended.is_empty(), "{}", why());
        }
        for (number, at_ms) in fired.iter().enumerate() {
            let end = ended.get(number).copied();
            // It is released at the first look at which its time is over and the wave has turned: with `hold` alone, too.
            let is_over = |look_ms: &u64| look_ms - at_ms >= self.hold_ms && !holds(*look_ms);
            let due = (at_ms + STEP_MS..wave.length_ms()).step_by(STEP_MS as usize).find(is_over);
            assert_eq!(end, due, "the release of {at_ms}: {}", why());
            let next = fired.get(number + 1);
            let rests = next.zip(end).is_none_or(|(next, end)| *next > end && next - end >= self.cooldown_ms);
            assert!(rests, "after the release at {end:?}: {}", why());
        }
        assert!(ended.len() <= fired.len(), "{}", why());
    }
}

/// A number from a seed and another one, in no order.
fn mixed(seed: u64, number: u64) -> u64 {
    let mut z = seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2, max_shrink_iters: 0, ..ProptestConfig::default() })]

    /// Square waves of each period, each with a phase by the seed.
    #[test]
    fn square_waves_of_any_period_and_phase_fire_each_rule_within_its_clauses(seed in any::<u64>()) {
        let policy = policy();
        for period_s in PERIODS_S {
            let wave = Wave { period_s, phase_ms: mixed(seed, period_s) % (1000 * period_s) };
            let world = wave.run(&policy);
            RULES.iter().for_each(|rule| rule.keeps_its_word(wave, &world));
        }
    }
}

/// What the waves must and cannot have fire is not empty for any rule, and a phase can make the difference for looks that
/// are far apart.
#[test]
fn each_rule_has_waves_that_let_it_fire() {
    for rule in &RULES {
        let must = PERIODS_S.filter(|period_s| rule.must_fire(Wave { period_s: *period_s, phase_ms: 0 })).count();
        assert!(must >= 180, "{}: {must} periods", rule.name);
    }
    let least = |name: &str| {
        let rule = RULES.iter().find(|rule| rule.name == name).expect("a rule of the list");
        PERIODS_S.into_iter().find(|period_s| rule.must_fire(Wave { period_s: *period_s, phase_ms: 0 }))
    };
    // Half a period must be as long as the look, `for` and the average need.
    assert_eq!(["place", "up", "shed", "client"].map(least), [Some(1), Some(1), Some(2), Some(3)]);
    assert_eq!(["copies", "spread", "grow", "alert"].map(least), [Some(4), Some(7), Some(12), Some(12)]);
    assert_eq!(["shrink", "late"].map(least), [Some(10), Some(121)]);
}
