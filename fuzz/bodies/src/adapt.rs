//! Policies of the adaptive server, and recorded readings.

use weir_adapt::forecast::Method;
use weir_adapt::{Engine, Policy, Replay, check_policy, format_policy, log};

/// A policy: every mistake has a place in the text; what is well-formed is written the same way again and again, and
/// means the same.
pub fn adapt_policy(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let checked = check_policy(text);
    let lines: Vec<&str> = text.split('\n').collect();
    for mistake in checked.mistakes.iter().chain(&checked.warnings) {
        assert!((1..=lines.len()).contains(&mistake.line) && mistake.column >= 1, "{mistake}");
        assert!(mistake.column <= lines[mistake.line - 1].chars().count() + 1, "{mistake}");
        assert!(!mistake.what.is_empty() && !mistake.remedy.is_empty(), "{mistake}");
    }
    assert_eq!(Policy::read("fuzzed.policy", text).is_ok(), checked.mistakes.is_empty());
    let Ok(formatted) = format_policy(text) else { return };
    assert_eq!(format_policy(&formatted).as_deref(), Ok(&*formatted));
    let again = check_policy(&formatted);
    assert_eq!(again.mistakes.len(), checked.mistakes.len(), "{formatted}");
    assert_eq!(again.warnings.len(), checked.warnings.len(), "{formatted}");
}

/// Recorded readings: each line that is read is written the same way again, and a replay takes them in any order.
pub fn adapt_readings(input: &[u8]) {
    const POLICY: &str = concat!(
        include_str!("../../../crates/adapt/tests/example.policy"),
        "atom \"/asked/*\" { variants full > small;\n\
            rule greedy: during if rate@client > 50rps then shed 90% until rate@client < 20rps;\n\
            rule fit: at start if rate@client > 30rps then use small; }\n"
    );
    // What goes on for very long is left to the bound that the replay has.
    const TICKS_MAX: u64 = 2_000;
    let text = String::from_utf8_lossy(input);
    let mut lines = text.lines();
    let Some(Ok(mut header)) = lines.next().map(log::parse_header) else { return };
    header.tick_ms = header.tick_ms.map(|tick_ms| tick_ms.max(100));
    let (policy, _) = Policy::read("example.policy", POLICY).expect("well-formed");
    let mut replay = Replay::new(Engine::new(policy, &header.here, Method::default()), &header.here.clone(), header);
    let (mut decisions, mut last_ms) = (Vec::new(), None);
    for line in lines {
        let Ok(entry) = log::parse_entry(line) else { continue };
        let again = log::parse_entry(&entry.to_line());
        // What a decision cites is there for people: its last digit may be another one.
        let is_decided = matches!(entry.what, log::Recorded::Decided(_));
        assert!(again.as_ref() == Ok(&entry) || is_decided && again.is_ok(), "{line}");
        let last = *last_ms.get_or_insert(entry.at_ms);
        if entry.at_ms.saturating_sub(last) > 100 * TICKS_MAX {
            continue;
        }
        last_ms = Some(last.max(entry.at_ms));
        let _ = replay.entry(&entry, &mut decisions);
        if replay.counts().ticks > TICKS_MAX {
            break;
        }
    }
    replay.finish(&mut decisions);
    for (number, decision) in decisions.iter().enumerate() {
        assert_eq!(decision.number, number as u64 + 1);
        for cited in decision.readings.iter().filter(|_| decision.outcome.is_fired()) {
            assert!(cited.value.is_none_or(|value| value.is_finite() && value >= 0.0), "{decision:?}");
        }
    }
}
