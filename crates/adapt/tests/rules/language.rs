//! What the language accepts, and what it says of what it does not.

use weir_adapt::{Checked, check_policy, format_policy};

const EXAMPLE: &str = include_str!("../example.policy");

/// The atoms of a policy with two pools around some rules for `/v/*`.
fn with_rules(rules: &str) -> String {
    format!(
        "pool main = {{ n1, n2, n3 }};\npool reserve = {{ r1, r2 }};\natom \"/v/*\" {{ variants full > half > small;\n{rules}\n}}\n"
    )
}

/// A text is refused at a line and column, with these words.
fn refused(text: &str, line: usize, column: usize, words: &[&str]) {
    let Checked { mistakes, .. } = check_policy(text);
    let told = mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let Some(mistake) = mistakes.iter().find(|mistake| (mistake.line, mistake.column) == (line, column)) else {
        panic!("nothing at {line}:{column} of\n{text}\nbut: {told}");
    };
    for word in words {
        assert!(mistake.to_string().contains(word), "{word:?} is not said of\n{text}\nbut: {told}");
    }
}

fn accepted(text: &str) -> Checked {
    let checked = check_policy(text);
    assert!(checked.mistakes.is_empty(), "{text}\n{:#?}", checked.mistakes);
    checked
}

#[test]
fn the_examples_of_the_language_are_accepted() {
    let checked = accepted(EXAMPLE);
    // `drop` acts at each tick while its condition holds.
    assert_eq!(checked.warnings.len(), 1, "{:?}", checked.warnings);
    assert!(checked.warnings[0].what.contains("drop") && checked.warnings[0].remedy.contains("until"));
}

#[test]
fn what_cannot_be_read_is_told_with_its_place_and_a_remedy() {
    for (rule, column, words) in [
        (
            "rule a: durnig if cpu > 90% then shed 5%;",
            9,
            &["expected `select`, `at`, `during` or `every`", "did you mean `during`?"][..],
        ),
        ("rule a: during if cpu > 90% thne shed 5%;", 29, &["found `thne`", "did you mean `then`?"]),
        ("rule a: during if cpu > 90 then shed 5%;", 25, &["`90` has no unit", "%"]),
        ("rule a: during if cpu > 5ms then shed 5%;", 25, &["`5ms` is no value of cpu", "write one in %"]),
        ("rule a: during if rtt > 5parsec then shed 5%;", 26, &["`parsec` is not known", "us, ms, s"]),
        ("rule a: during if bandwidth < 5kpbs then next down;", 32, &["did you mean `kbps`?"]),
        ("rule a: during if bandwidth < 5KBPS then next down;", 32, &["did you mean `kbps`?"]),
        ("rule a: during if cpu > 90% then shed 5% hold 5;", 47, &["`5` has no unit", "ms, s, min, h"]),
        ("rule a: during if cpu == 90% then shed 5%;", 23, &["does not compare", "interval"]),
        ("rule a: during if cup > 90% then shed 5%;", 19, &["did you mean `cpu`?"]),
        ("rule a: every 0s if cpu > 90% then shed 5%;", 15, &["no duration"]),
        ("rule a: during if cpu > 90% then shed 120%;", 39, &["no share of requests"]),
        ("rule a: during if cpu > 90% then shed 5% hold 5s hold 6s;", 50, &["twice"]),
        ("rule a: during if rate predicted in 5s fit >= 2 > 5rps then shed 5%;", 47, &["from 0 to 1"]),
        ("rule a: during if cpu > 90% then shed 5% limit 0 per 1s;", 48, &["from 1 to 256"]),
        ("rule a: select best by cpu (any main);", 33, &["expected `of`"]),
        ("rule a: during if cpu > 90% then shed 5% $;", 42, &["`$` has no meaning"]),
        ("rule a: during if cpu > 90% then alert \"x;", 40, &["does not end in its line"]),
        ("rule a: during if cpu > 90% then use here;", 38, &["cannot be a variant"]),
    ] {
        refused(&with_rules(rule), 4, column, words);
    }
    refused("pol main = { a };\natom \"/\" { }", 1, 1, &["did you mean `pool`?"]);
    refused("atom \"/\" { rule a: select best (n1); ", 1, 38, &["expected `rule` or `}`", "end of the file"]);
    refused("atom /x { }", 1, 6, &["double quotes"]);
}

#[test]
fn several_mistakes_are_told_at_once_and_the_rest_is_read() {
    let text = with_rules("rule a: durnig;\nrule b: during if cpu > 90 then shed 5%;\nrule c: select best (n1);");
    let lines: Vec<usize> = check_policy(&text).mistakes.iter().map(|mistake| mistake.line).collect();
    assert_eq!(lines, [4, 5]);
}

#[test]
fn what_can_never_be_is_refused() {
    for (rule, column, words) in [
        ("rule a: during if cpu > 120% then shed 5%;", 19, &["`cpu > 120%` is impossible", "100%"][..]),
        ("rule a: during if cpu > 100% then shed 5%;", 19, &["impossible"]),
        ("rule a: during if cpu <= 100% then shed 5%;", 19, &["always true"]),
        ("rule a: during if rate@here < 0rps then shed 5%;", 19, &["impossible", "negative"]),
        ("rule a: during if bandwidth in [100kbps,30kbps) then next down;", 19, &["holds no value"]),
        ("rule a: during if cpu > 90% and cpu < 50% then shed 5%;", 19, &["can never hold", "contradict"]),
        ("rule a: during if cpu > 50% then shed 5% elif cpu > 90% then shed 9%;", 62, &["never reached"]),
        ("rule a: during if cpu > 90% then shed 5% until cpu < 95%;", 48, &["can release while", "gap"]),
        ("rule a: during if cpu > 90% then shed 5% until cpu < 90%;", 48, &["without a gap"]),
        ("rule a: at start if cpu > 90% then use half hold 5s;", 45, &["once"]),
        ("rule a: during if cpu@client > 90% then shed 5%;", 19, &["nobody measures cpu of clients"]),
        ("rule a: during if avg rate predicted in 5s > 5rps then shed 5%;", 19, &["one value"]),
        ("rule a: during if rate@atom > 5rps then grow main by 1 hold 5s;", 41, &["for each atom", "of its own"]),
        ("rule a: during if cpu > 90% then next down, shed 5% hold 5s;", 45, &["for each session"]),
    ] {
        refused(&with_rules(rule), 4, column, words);
    }
    accepted(&with_rules("rule a: during if max cpu over 60s > 90% and cpu < 50% then shed 5% hold 5s;"));
    accepted(&with_rules(
        "rule a: during if cpu > 90% and queue > 5jobs then shed 5% until cpu < 70% or queue < 2jobs;",
    ));
}

#[test]
fn how_old_an_answer_may_be_is_said_with_a_unit_and_for_all() {
    accepted(&with_rules("rule a: every 5s if cpu > 50% then stale 30s until cpu < 20%;"));
    accepted(&with_rules("rule a: every 5s if rate@atom > 50rps then stale 1.5s, shed 5% for 2s hold 5s;"));
    for (rule, column, words) in [
        ("rule a: every 5s if cpu > 50% then stale;", 41, &["expected"][..]),
        ("rule a: every 5s if cpu > 50% then stale 30;", 42, &[]),
        ("rule a: every 5s if cpu > 50% then stale 30rps;", 44, &[]),
        ("rule a: every 5s if cpu > 50% then stale 0s;", 42, &[]),
        ("rule a: every 5s if cpu > 50% then stlae 3s;", 36, &["did you mean `stale`?"]),
        ("rule a: at start if cpu > 50% then stale 3s;", 36, &["which would stale every time"]),
        ("rule a: during if rtt@client > 50ms then stale 3s hold 5s;", 42, &["for each session"]),
    ] {
        refused(&with_rules(rule), 4, column, words);
    }
}

#[test]
fn what_a_client_asks_for_is_read_for_each_client_and_of_no_atom() {
    accepted(&with_rules(
        "rule a: during if rate@client > 50rps then shed 90%, alert \"much\" until rate@client < 9rps;",
    ));
    accepted(&with_rules("rule a: every 5s if avg rate@client over 5s > 50rps and cpu > 50% then shed 50% hold 5s;"));
    accepted(&with_rules("rule a: at start if rate@client > 50rps then use small;"));
    accepted(&with_rules("rule a: during if rate@client > 50rps and rtt@client < 1s then next down limit 3 per 60s;"));
    for (rule, column, words) in [
        ("rule a: during if rate@cleint > 50rps then shed 5%;", 24, &["did you mean `client`?"][..]),
        ("rule a: during if rate@client > 50 then shed 5%;", 33, &["`50` has no unit", "rps"]),
        ("rule a: during if rate@client > 50kbps then shed 5%;", 33, &["no value of rate", "rps, krps"]),
        ("rule a: during if errors@client > 5% then shed 5%;", 19, &["nobody measures errors of clients", "@atom"]),
        (
            "rule a: during if wait@client > 5ms then shed 5%;",
            19,
            &["nobody measures wait of clients", "@here or @atom"],
        ),
        (
            "rule a: every 5s if rate@client > 50rps then shed 5%;",
            46,
            &["does not say for how long", "hold and a time"],
        ),
        ("rule a: during if rate@client > 50rps then stale 5s hold 5s;", 44, &["for each client", "without @client"]),
        ("rule a: during if rate@client > 50rps then spread over main hold 5s;", 44, &["for each client"]),
        ("rule a: during if rate@client > 50rps then grow main by 1 hold 5s;", 44, &["for each client", "of its own"]),
        (
            "rule a: during if rate@client > 50rps and rate@atom > 9rps then shed 5% hold 5s;",
            43,
            &["looked at for each client, and `rate@atom` is of an atom", "write @here"],
        ),
        (
            "rule a: during if rate@client > 5rps then shed 5% until wait@atom < 2ms;",
            57,
            &["`wait@atom` is of an atom"],
        ),
        ("rule a: during if rate@client > 5rps then shed 5% until rate@client < 5rps;", 57, &["without a gap"]),
        ("rule a: during if rate@client > 5rps and rtt@client > 1s then shed 5% hold 5s;", 63, &["for each session"]),
    ] {
        refused(&with_rules(rule), 4, column, words);
    }
    let long =
        "atom \"/**\" { rule greedy: during if avg rate@client over 5s>50rps then shed 90% until rate@client<20rps; }";
    let formatted = format_policy(long).expect("well-formed");
    assert!(formatted.contains("avg rate@client over 5s > 50rps"), "{formatted}");
    assert_eq!(format_policy(&formatted), Ok(formatted));
}

#[test]
fn names_must_lead_somewhere() {
    for (rule, column, words) in [
        ("rule a: every 5s if cpu@all > 50% then grow mian by 1;", 45, &["no pool `mian`", "did you mean `main`?"][..]),
        ("rule a: every 5s if cpu@rezerve > 50% then shed 5%;", 25, &["did you mean `reserve`?"]),
        ("rule a: at start if cpu > 50% then use hlaf;", 40, &["no variant `hlaf`", "did you mean `half`?"]),
        ("rule a: select best (n1, n9);", 26, &["no pool has a node `n9`"]),
        ("rule a: select best (n1.tiny);", 25, &["no variant `tiny`", "full, half, small"]),
        ("rule a: every 5s if cpu > 50% then replicate to 4 on main;", 36, &["which has 3 nodes"]),
        ("rule a: every 5s if cpu@all > 50% then grow main by 4;", 40, &["3 nodes"]),
        ("rule a: select best (n1);\nrule a: select best (n2);", 0, &[]),
    ] {
        if column > 0 {
            refused(&with_rules(rule), 4, column, words);
        } else {
            refused(&with_rules(rule), 5, 6, &["has a rule `a` already"]);
        }
    }
    refused("atom \"v\" { }", 1, 6, &["fits no atom"]);
    refused("pool a = { x };\npool a = { x, x };", 2, 6, &["twice"]);
    refused("pool a = { x };\npool a = { x, x };", 2, 15, &["twice"]);
    refused("atom \"/\" { variants a > a; }", 1, 25, &["twice"]);
    refused("atom \"/\" { rule x: during if cpu > 50% then next down hold 5s; }", 1, 45, &["needs variants"]);
    // Without pools, nodes are whoever is named as one.
    accepted("atom \"/\" { rule pick: select best by cpu (n1, n2); }");
}

#[test]
fn rules_that_undo_each_other_need_a_gap() {
    let pair = |grow: &str, shrink: &str| {
        with_rules(&format!(
            "rule up: every 5s if {grow} then grow main by 1;\nrule down: every 5s if {shrink} then shrink main by 1;"
        ))
    };
    accepted(&pair("cpu@all > 60%", "cpu@all < 40%"));
    accepted(&pair("avg cpu@all over 60s > 60%", "cpu@all < 40% and max queue@main < 2jobs"));
    accepted(&pair("cpu@all > 60% or queue@main > 9jobs", "cpu@all < 40% and queue@main < 2jobs"));
    refused(&pair("cpu@all > 60%", "cpu@all < 60%"), 5, 24, &["undoes `grow` of rule `up` (line 4)", "no gap"]);
    refused(&pair("cpu@all > 60%", "cpu@all < 70%"), 5, 24, &["both can hold"]);
    refused(&pair("cpu@all > 60%", "queue@main < 2jobs"), 5, 48, &["look at different things"]);
    refused(&pair("cpu@all > 60% or queue@main > 9jobs", "cpu@all < 40%"), 5, 43, &["look at different things"]);
    // One node can be busy while they are idle on average; of one node it is the same, as of all what is above or below.
    refused(&pair("max cpu@all > 60%", "cpu@all < 40%"), 5, 43, &["look at different things"]);
    refused(&pair("p95 cpu@main > 60%", "avg cpu@main < 40%"), 5, 48, &["look at different things"]);
    refused(&pair("rate@all > 60rps", "avg rate@all < 40rps"), 5, 50, &["look at different things"]);
    accepted(&pair("max cpu@n1 over 9s > 60%", "cpu@n1 < 40%"));
    accepted(&pair("cpu@all > 60%", "max cpu@all < 40%"));
    accepted(&pair("min cpu@all > 60%", "avg cpu@all over 9s < 40%"));
    accepted(&pair("p95 cpu@all > 60%", "p99 cpu@all < 40%"));
    accepted(&pair("max rate@all > 60rps", "rate@all < 40rps"));
    refused(&pair("cpu@all > 60%", "max cpu@all < 60%"), 5, 24, &["no gap"]);
}

#[test]
fn variants_and_nodes_are_undone_too() {
    let rules = "rule a: during if bandwidth < 80kbps then next down hold 5s;\nrule b: during if bandwidth > 70kbps then next up hold 5s;";
    refused(&with_rules(rules), 5, 19, &["both can hold"]);
    let rules = "rule a: during if cpu@n1 > 80% then switch n2 hold 5s;\nrule b: during if cpu@n2 > 80% then switch n1 hold 5s;";
    refused(&with_rules(rules), 5, 37, &["look at different things"]);
    let rules = "rule a: during if cpu@n1 > 80% and cpu@n2 < 50% then switch n2 hold 5s;\n\
                 rule b: during if cpu@n2 > 80% and cpu@n1 < 50% then switch n1 hold 5s;";
    accepted(&with_rules(rules));
    // At the start nothing is undone.
    accepted(&with_rules(
        "rule a: at start if bandwidth < 80kbps then use half;\nrule b: at start if rtt > 80ms then use small;",
    ));
}

/// Two rules of `/v/*`, each in a line, of which the second undoes the first.
fn undone(rules: [&str; 2], column: usize, words: &[&str]) {
    refused(&with_rules(&rules.join("\n")), 5, column, words);
}

#[test]
fn a_variant_by_its_name_and_the_next_one_undo_each_other_but_at_the_ends() {
    let small = "rule a: during if bandwidth@client < 80kbps then use small hold 5s;";
    let up = "rule b: during if bandwidth@client < 200kbps then next up hold 5s;";
    undone([small, up], 19, &["`next up` of rule `b` undoes `use` of rule `a` (line 4)", "both can hold"]);
    let up = "rule b: during if bandwidth@client > 80kbps then next up hold 5s;";
    undone([small, up], 19, &["no gap"]);
    let up = "rule b: during if bandwidth@client > 90kbps then next up hold 5s;";
    accepted(&with_rules(&format!("{small}\n{up}")));
    // Without a scope it is the same reading.
    undone([small, "rule b: during if bandwidth < 200kbps then next up hold 5s;"], 19, &["both can hold"]);
    for (use_of, next, is_undone) in [
        ("full", "down", true),
        ("half", "down", true),
        ("small", "down", false),
        ("full", "up", false),
        ("half", "up", true),
        ("small", "up", true),
    ] {
        let rules =
            format!("rule a: during if cpu > 80% then use {use_of};\nrule b: during if cpu > 90% then next {next};");
        assert_eq!(!check_policy(&with_rules(&rules)).mistakes.is_empty(), is_undone, "{rules}");
    }
    let there = "rule b: during if cpu > 90% then switch n2.half hold 5s;";
    undone(["rule a: during if cpu > 80% then next down hold 5s;", there], 19, &["`switch` of rule `b` undoes"]);
    undone(["rule a: during if cpu > 80% then use small hold 5s;", there], 19, &["`switch` of rule `b` undoes"]);
    accepted(&with_rules(&format!("rule a: during if cpu > 80% then use half hold 5s;\n{there}")));
}

#[test]
fn places_undo_each_other_unless_they_are_the_same() {
    let node = "rule a: during if cpu > 80% then switch n2 hold 5s;";
    let any = "rule b: during if cpu > 70% then switch any of main until cpu < 50%;";
    undone([node, any], 19, &["`switch` of rule `b` undoes `switch` of rule `a`", "both can hold"]);
    let best = "rule b: during if cpu > 70% then best by cpu (n1, n3) hold 5s;";
    undone([node, best], 19, &["`best` of rule `b` undoes `switch` of rule `a`"]);
    let queue = "rule a: during if cpu > 80% then best by queue (n1, n3) hold 5s;";
    undone([queue, best], 19, &["`best` of rule `b` undoes `best` of rule `a`"]);
    undone([&best.replace("rule b", "rule a"), any], 19, &["`switch` of rule `b` undoes `best`"]);
    for same in [
        "rule b: during if queue > 9jobs then switch n2 hold 5s;",
        "rule b: during if queue > 9jobs then switch n2.half hold 5s;",
        "rule b: during if queue > 9jobs then best (n2) hold 5s;",
        "rule b: during if cpu < 60% then switch any of main until cpu > 90%;",
    ] {
        accepted(&with_rules(&format!("{node}\n{same}")));
    }
    let copies = "rule a: during if cpu > 80% then replicate to 3 on main until cpu < 50%;";
    undone(
        [copies, "rule b: during if cpu > 90% then replicate to 2 on reserve hold 5s;"],
        19,
        &["undoes `replicate`"],
    );
    let spread = "rule a: during if cpu > 80% then spread over main until cpu < 50%;";
    undone([spread, "rule b: during if cpu > 90% then spread over reserve hold 5s;"], 19, &["undoes `spread`"]);
}

#[test]
fn priority_decides_between_two_only_while_the_first_keeps_what_it_decided() {
    let low = "rule low: during if cpu > 50% then use half hold 5s;";
    for (high, why) in [
        ("during if queue > 5jobs then use small hold 5s", "lets go when its `hold` is over"),
        ("during if queue > 5jobs then use small until cpu > 10%", "`until` that can be true while its condition is"),
        ("every 3s if queue > 5jobs then use small", "looks each 3s only"),
        ("during if queue > 5jobs then use small for 3s", "lets others in by its `for`"),
        ("during if queue > 5jobs then use small cooldown 3s", "lets others in by its `cooldown`"),
        ("during if queue > 5jobs then use small limit 3 per 9s", "lets others in by its `limit`"),
    ] {
        let high = format!("rule high priority 1: {high};");
        undone(
            [low, &high],
            high.find("then").expect("an action") + 6,
            &["look at different things", "comes first, but", why],
        );
    }
    for high in [
        "during if queue > 5jobs then use small until queue < 2jobs",
        "every 3s if queue > 5jobs then use small for 9s until queue < 2jobs hold 3s cooldown 9s limit 1 per 9s",
        "during if queue > 5jobs then use small",
    ] {
        accepted(&with_rules(&format!("{low}\nrule high priority 1: {high};")));
    }
    // It is the first by priority that must keep it, not the other.
    let steady = "rule low: during if cpu > 50% then use half until cpu < 30%;";
    undone(
        [steady, "rule high priority 1: during if cpu > 60% then use small hold 5s;"],
        33,
        &["`high` comes first, but"],
    );
    // One that a third takes the place of now and then does not keep the others out.
    let rules = |third: &str| {
        with_rules(&format!(
            "rule low: during if cpu > 50% then use half hold 5s;\n\
             rule high priority 1: during if cpu > 50% then use small, switch n2 until cpu < 30%;\n\
             rule third priority 2: during if {third} then switch n2 hold 5s;"
        ))
    };
    refused(&rules("queue > 9jobs"), 5, 33, &["gives way to rule `third` now and then"]);
    accepted(&rules("cpu < 20%"));
    let keeps = |when: &str| rules("queue > 9jobs").replace("priority 2: during", &format!("priority 2: {when}"));
    let keeps = |when: &str| keeps(when).replace("switch n2 hold 5s", "switch n2 until queue < 5jobs");
    accepted(&keeps("during"));
    // One that finds it done is not active, and claims the place when it looks only.
    refused(&keeps("every 2s"), 5, 33, &["gives way to rule `third` now and then"]);
    // Rules for each atom and for all together do not wait for each other.
    let copies = "rule a: during if cpu > 80% then replicate to 3 on main until cpu < 50%;";
    let atom = "rule b priority 1: during if rate@atom > 5rps then replicate to 2 on main until rate@atom < 2rps;";
    undone([copies, atom], 52, &["not looked at together"]);
}

#[test]
fn a_rule_does_not_undo_itself() {
    for (rule, column, words) in [
        (
            "rule a: during if cpu > 50% then use half, use small hold 5s;",
            44,
            &["`use` undoes the `use` before it"][..],
        ),
        ("rule a: during if cpu > 50% then next down, next up hold 5s;", 45, &["`next up` undoes the `next down`"]),
        ("rule a: during if cpu > 50% then switch n1, switch n2 hold 5s;", 45, &["rule `a` does both"]),
        ("rule a: every 5s if cpu > 50% then shed 5%, shed 9%;", 45, &["rule `a` does both"]),
        ("rule a: every 5s if cpu > 50% then grow main by 1, shrink main by 1;", 52, &["rule `a` does both"]),
        (
            "rule a: during if cpu > 50% then switch any of main hold 5s;",
            34,
            &["to and fro within pool `main`", "`hold`"],
        ),
        ("rule a: during if cpu > 50% then switch any of main;", 34, &["acts at each tick"]),
        ("rule a: during if cpu > 50% then switch any of main until queue < 5jobs;", 34, &["`until` that can be true"]),
    ] {
        refused(&with_rules(rule), 4, column, words);
    }
    accepted(&with_rules("rule a: during if cpu > 50% then use half, switch n2.half, alert \"x\" hold 5s;"));
    accepted("pool one = { n1 }; atom \"/\" { rule a: during if cpu > 50% then switch any of one hold 5s; }");
    accepted(&with_rules("rule a: during if cpu > 50% then use half elif cpu > 30% then next down hold 5s;"));
    accepted(&with_rules("rule a: at start if cpu > 50% then use half, use small;"));
}

#[test]
fn the_format_is_stable_and_says_the_same() {
    let formatted = format_policy(EXAMPLE).expect("well-formed");
    assert_eq!(format_policy(&formatted).as_deref(), Ok(&*formatted));
    assert_eq!(check_policy(&formatted).mistakes, []);
    assert!(format_policy("pool").is_err());
    for line in formatted.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn brackets_are_bounded_and_long_words_harmless() {
    let deep = format!("rule a: during if {} cpu > 5% then shed 5%;", "(".repeat(10_000));
    refused(&with_rules(&deep), 4, 51, &["32 brackets"]);
    let long = "x".repeat(100_000);
    let checked = check_policy(&with_rules(&format!("rule {long} {long}: {long};")));
    assert!(checked.mistakes.iter().all(|mistake| mistake.to_string().len() < 1000));
    // Conditions whose alternatives multiply.
    let wide = (0..40).map(|n| format!("(cpu@n1 > {n}% or rtt > {n}ms)")).collect::<Vec<_>>().join(" and ");
    check_policy(&with_rules(&format!("rule a: during if {} then next down hold 5s;", wide.replace(" 0%", " 1%"))));
}
