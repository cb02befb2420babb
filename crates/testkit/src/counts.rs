//! Instructions and system calls as other programs count them; a busy machine adds some and never takes one away.

use std::collections::BTreeMap;

/// How often we count again before we believe a count above the bound.
const LOOKS: u32 = 6;
/// From this one on they are counted anew.
const AFRESH: u32 = 4;

/// Has `look` count and compare until it finds no fault, at most a fixed number of times, with the least count so far.
///
/// A busy machine only adds to a count: timers fire more often, and loops turn in vain. So one count over the bound
/// says little, and the least of several is nearest to the truth. A count below the lower bound is wrong and would stay
/// the least, so all counts are then dropped. They are also dropped after half of the looks, because a program that is
/// ended early may do less of its one-time work.
///
/// # Panics
///
/// With what the last look found.
pub fn settled(mut look: impl FnMut(&mut Least) -> Result<(), Fault>) {
    let mut least = Least::default();
    let mut text = String::new();
    for number in 0..LOOKS {
        if number == AFRESH {
            least = Least::default();
        }
        match look(&mut least) {
            Ok(()) => return,
            Err(fault) => {
                eprintln!("counted again: {}", fault.text);
                if fault.is_too_few {
                    least = Least::default();
                }
                text = fault.text;
            }
        }
    }
    panic!("after {LOOKS} looks: {text}; the least counts: {:?}", least.counts);
}

/// What is wrong with a count.
#[derive(Debug)]
pub struct Fault {
    text: String,
    is_too_few: bool,
}

/// The least of what was counted so far, by what and for how many requests.
#[derive(Debug, Default)]
pub struct Least {
    counts: BTreeMap<(String, u64), u64>,
}

impl Least {
    /// The count for one request of `what`: that of `few + more` requests minus that of `few`, without one-time work.
    pub fn each(&mut self, what: impl Into<String>, (few, more): (u64, u64), mut count: impl FnMut(u64) -> u64) -> f64 {
        let what = what.into();
        let mut least = |requests| {
            let counted = count(requests);
            let least = self.counts.entry((what.clone(), requests)).or_insert(counted);
            *least = (*least).min(counted);
            *least as f64
        };
        (least(few + more) - least(few)) / more as f64
    }
}

/// What callgrind wrote of all that it counted.
///
/// # Panics
///
/// Where there is no total in it.
pub fn total(text: &str) -> u64 {
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    total.and_then(|total| total.trim().parse().ok()).expect("a total")
}

/// What each function took by itself, without those that it called: of the names that callgrind wrote, which are those
/// of symbols. What the compiler has inlined counts for the function that it stands in.
pub fn by_function(text: &str) -> BTreeMap<String, u64> {
    // A name is written once, with a number that stands for it from then on: `fn=(7) name`, `fn=(7)`.
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    let mut own: BTreeMap<String, u64> = BTreeMap::new();
    let (mut current, mut is_of_a_call) = (String::new(), false);
    for line in text.lines() {
        if let Some((of, name)) = line.split_once("fn=").filter(|(of, _)| matches!(*of, "" | "c")) {
            let (number, rest) = name.split_once(')').unwrap_or((name, ""));
            // A function that calls itself has a name for each depth: `name'2`.
            let rest = rest.trim().split('\'').next().unwrap_or_default();
            if !rest.is_empty() {
                names.insert(number, rest.to_owned());
            }
            if of.is_empty() {
                current = names.get(number).cloned().unwrap_or_default();
            }
        } else if line.starts_with("calls=") {
            // The line after it is what the called function took.
            is_of_a_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost = line.split_whitespace().nth(1).and_then(|cost| cost.parse::<u64>().ok()).unwrap_or(0);
            if !std::mem::take(&mut is_of_a_call) {
                *own.entry(current.clone()).or_default() += cost;
            }
        }
    }
    own
}

/// Refuses a count that is not within `least` and `most`, both left out.
///
/// # Errors
///
/// `what` with the count.
pub fn within(what: &str, each: f64, least: f64, most: f64) -> Result<(), Fault> {
    match each > least && each < most {
        true => Ok(()),
        false => Err(Fault {
            text: format!("{what}: {each:.3}, asked are {least:.1} to {most:.1}"),
            is_too_few: each <= least,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_several_looks_is_taken() {
        let noise = std::cell::Cell::new(3_000);
        settled(|least| {
            noise.set(noise.get() - 1_000);
            let each = least.each("all", (10, 100), |requests| 7 * requests + noise.get());
            assert_eq!(each, 7.0, "noise that is the same in both is no part");
            let each = least.each("long", (10, 100), |requests| 7 * requests + (requests / 100) * noise.get());
            within("long", each, 6.0, 8.0)
        });
        assert_eq!(noise.get(), 0, "it was looked at three times");
    }

    #[test]
    fn a_count_that_is_too_low_does_not_stand() {
        let looks = std::cell::Cell::new(0);
        settled(|least| {
            looks.set(looks.get() + 1);
            let lacks = if looks.get() == 1 { 500 } else { 0 };
            let each = least.each("all", (10, 100), |requests| 7 * requests - (requests / 100) * lacks);
            within("all", each, 6.0, 8.0)
        });
        assert_eq!(looks.get(), 2);
    }

    #[test]
    #[should_panic(expected = "after 6 looks: too many: 7.000, asked are 1.0 to 6.0")]
    fn what_is_too_many_each_time_is_refused() {
        settled(|least| within("too many", least.each("all", (10, 100), |requests| 7 * requests), 1.0, 6.0));
    }

    #[test]
    fn functions_have_what_they_took_by_themselves() {
        let text = "events: Ir\nfl=(1) ???\nfn=(1) a::b\n0 5\ncfn=(2) c::d\ncalls=1 0\n0 70\n0 6\n\nfn=(2)\n+3 30\n* 40\n\n\
                    fn=(3) c::d'2\n0 1\n\ntotals: 82\n";
        let found = by_function(text);
        assert_eq!(found, BTreeMap::from([("a::b".to_owned(), 11), ("c::d".to_owned(), 71)]));
        assert_eq!(found.values().sum::<u64>(), total(text));
    }

    #[test]
    fn totals_are_read() {
        assert_eq!((total("a\ntotals: 12\n"), total("summary: 5 \n")), (12, 5));
    }
}
