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
    refused("rule a: during if cpu > 90% then shed 5%;", 1, 1, &["in the braces of an atom"]);
}

#[test]
fn what_is_meant_by_other_languages_and_at_wrong_places_is_told() {
    for (rule, column, words) in [
        ("rule a: during if cpu > 90% for 5s then shed 5%;", 29, &["`for` stands behind what is done"][..]),
        ("rule a: during if cpu > 90% until cpu < 5% then shed 5%;", 29, &["`until` stands behind what is done"]),
        ("rule a: during if cpu > 90% hold 5s then shed 5%;", 29, &["`hold` stands behind what is done"]),
        ("rule a: during if cpu > 90% cooldown 5s then shed 5%;", 29, &["`cooldown` stands behind"]),
        ("rule a: during if cpu > 90% limit 3 per 5s then shed 5%;", 29, &["`limit` stands behind"]),
        ("rule a: for 5s during if cpu > 90% then shed 5%;", 9, &["`for` stands behind what is done"]),
        ("rule a: during if cpu > 90% then shed 5% every 5s;", 42, &["rule NAME: every 5s if"]),
        ("rule a: during if cpu > 90% then shed 5% during;", 42, &["rule NAME: during if"]),
        ("rule a: during priority 3 if cpu > 90% then shed 5%;", 16, &["rule NAME priority 2:"]),
        ("rule a: during if cpu > 90% over 5s then shed 5%;", 29, &["`over` stands behind what is read"]),
        ("rule a: if cpu > 90% then shed 5%;", 9, &["during if …, or every 5s if"]),
        ("rule a: when cpu > 90% then shed 5%;", 9, &["did you mean `during`?"]),
        ("rule a: during if cpu > 90% shed 5%;", 29, &["`then` is missing before `shed`"]),
        ("rule a: during if cpu > 90% { shed 5%; }", 29, &["rules have no braces"]),
        ("rule a: during if cpu > 90% then shed 5% else if cpu > 50% then shed 1%;", 47, &["write elif"]),
        ("rule a: during if latency > 90ms then shed 5%;", 19, &["did you mean `wait`?"]),
        ("rule a: during if memory > 90% then shed 5%;", 19, &["did you mean `mem`?"]),
        ("rule a: during if cpu_usage > 90% then shed 5%;", 19, &["did you mean `cpu`?"]),
        ("rule a: during if requests > 90rps then shed 5%;", 19, &["did you mean `rate`?"]),
        ("rule a: during if cpu above 90% then shed 5%;", 23, &["did you mean `>`?"]),
        ("rule a: during if cpu > 90% then reject 5%;", 34, &["did you mean `shed`?"]),
        ("rule a: during if cpu > 90% && mem > 9% then shed 5%;", 29, &["`&&` has no meaning", "write `and`"]),
        ("rule a: during if cpu > 90% || mem > 9% then shed 5%;", 29, &["write `or`"]),
        ("rule a: during if !cpu > 90% then shed 5%;", 19, &["write `not`"]),
        ("rule a: during if cpu ≥ 90% then shed 5%;", 23, &["write `>=`"]),
        ("rule a: during if cpu => 90% then shed 5%;", 23, &["did you mean `>=`?"]),
        ("rule a: during if bandwidth in [3kbps,9kbps] then next down;", 44, &["upper end", "`)`"]),
        ("rule a: during if bandwidth < 5MB/s then next down;", 32, &["write 40Mbps"]),
        ("rule a: during if rate > 30r/m then shed 5%;", 28, &["write 0.5rps"]),
        ("rule a: during if cpu > 90% then shed 5%; // busy", 43, &["write `#`"]),
        ("rule a: during if cpu > 90% then alert 'busy';", 40, &["double quotes"]),
        ("rule a: during if cpu[5m] > 90% then shed 5%;", 22, &["avg cpu over 5min > 90%"]),
    ] {
        refused(&with_rules(rule), 4, column, words);
    }
    // Some editors begin a file with a byte order mark.
    accepted(&format!("\u{feff}{}", with_rules("rule a: during if cpu > 90% then shed 5% hold 5s;")));
}

#[test]
fn a_release_by_other_readings_than_those_of_the_condition_is_doubted() {
    for (rule, words) in [
        ("if mem@here > 90% then shed 5% until mem@here < 4GB;", "`mem@here < 4GB` can release while `mem@here > 90%`"),
        ("if errors > 20% then shed 5% until errors < 10rps;", "`errors < 10rps` can release while `errors > 20%`"),
        (
            "if cpu@here > 90% or rate@here > 500rps then shed 5% until cpu@here < 70% or rate@here < 300rps;",
            "`rate@here < 300rps` can release while `cpu@here > 90%` still holds",
        ),
        ("if cpu > 90% then shed 5% until queue < 5jobs;", "`queue < 5jobs` can release while `cpu > 90%`"),
    ] {
        let checked = accepted(&with_rules(&format!("rule a: during {rule}")));
        let told = checked.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(told.contains(words) && checked.warnings.len() == 1, "{rule}: {told}");
    }
    for rule in [
        "if cpu > 90% then shed 5% hold 5s;",
        "if cpu > 90% or rate@here > 500rps then shed 5% until cpu < 70% and rate@here < 300rps;",
        "if cpu > 90% and queue > 5jobs then shed 5% until cpu < 70% or queue < 2jobs;",
        "if rate@atom predicted in 30s > 500rps then shed 5% until rate@atom < 200rps;",
    ] {
        assert_eq!(accepted(&with_rules(&format!("rule a: during {rule}"))).warnings, [], "{rule}");
    }
}

#[test]
fn a_policy_that_a_program_wrote_is_checked_to_its_end() {
    let branches = |number: usize, most: usize| {
        let more = (0..number).map(|at| format!(" elif cpu over {}ms > {}% then shed 9%", at + 1, at % most + 2));
        with_rules(&format!("rule r: during if cpu > 1% then shed 1%{} hold 5s;", more.collect::<String>()))
    };
    let began = std::time::Instant::now();
    assert_eq!(accepted(&branches(4_000, 90)).warnings, []);
    // The last of thousands of branches is known not to be reached, as the first has its reading.
    let mut text = branches(2_000, 90).replace(" hold 5s;", " elif cpu over 1ms > 50% then shed 3% hold 5s;");
    let column = text.lines().nth(3).and_then(|line| line.find("shed 3%")).expect("a branch") + 1;
    refused(&text, 4, column, &["`shed` in rule `r` is never reached"]);
    // More alternatives than are compared are told.
    text = with_rules(&format!(
        "rule r: during if {} then shed 1% hold 5s;",
        (1..20_000).map(|at| format!("cpu over {at}ms > 5%")).collect::<Vec<_>>().join(" or ")
    ));
    let told = accepted(&text).warnings;
    assert!(told.len() == 1 && told[0].what.contains("more than 256 alternatives"), "{told:?}");
    text = text.replace(" or ", " and ");
    assert_eq!(accepted(&text).warnings, []);
    // The cube of the branches would be minutes, on any machine.
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
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
        ("rule a: during if cpu@client > 90% then shed 5%;", 19, &["weir does not measure cpu of clients"]),
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
fn workers_are_of_a_pool_and_for_a_time() {
    accepted(&with_rules("rule a: every 5s if cpu > 50% then workers 16 of main until cpu < 20%;"));
    accepted(&with_rules("rule a: every 5s if wait@n1 > 50ms then workers 16 of main, shed 5% hold 30s;"));
    for (rule, column, words) in [
        ("rule a: every 5s if cpu > 50% then workers 16 of main;", 36, &["for how long", "hold and a time"][..]),
        ("rule a: every 5s if cpu > 50% then workers 0 of main hold 5s;", 44, &[]),
        ("rule a: every 5s if cpu > 50% then workers of main hold 5s;", 44, &[]),
        ("rule a: every 5s if cpu > 50% then workers 3 of mian hold 5s;", 49, &["did you mean `main`?"]),
        ("rule a: every 5s if cpu > 50% then worker 3 of main hold 5s;", 36, &["did you mean `workers`?"]),
        ("rule a: every 5s if rate@atom > 5rps then workers 3 of main hold 5s;", 43, &["for each atom"]),
        ("rule a: every 5s if cpu > 50% then workers 3 of main, workers 4 of main hold 5s;", 55, &["workers"]),
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
        (
            "rule a: during if errors@client > 5% then shed 5%;",
            19,
            &["weir does not measure errors of clients", "@atom"],
        ),
        (
            "rule a: during if wait@client > 5ms then shed 5%;",
            19,
            &["weir does not measure wait of clients", "@here or @atom"],
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
    // Without pools, every name that stands for a node is one.
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
fn priority_decides_between_two_rules_of_the_same_subject() {
    let low = "rule low: during if cpu > 50% then use half hold 5s;";
    // Each keeps the other out for as long as its condition holds, which `rest.rs` tries.
    for high in [
        "during if queue > 5jobs then use small hold 5s",
        "during if queue > 5jobs then use small until cpu > 10%",
        "every 3s if queue > 5jobs then use small",
        "during if queue > 5jobs then use small for 3s",
        "during if queue > 5jobs then use small cooldown 3s",
        "during if queue > 5jobs then use small limit 3 per 9s",
        "during if queue > 5jobs then use small until queue < 2jobs",
        "every 3s if queue > 5jobs then use small for 9s until queue < 2jobs hold 3s cooldown 9s limit 1 per 9s",
        "during if queue > 5jobs then use small",
    ] {
        accepted(&with_rules(&format!("{low}\nrule high priority 1: {high};")));
        // Of the same priority it is not said which of them counts.
        refused(
            &with_rules(&format!("{low}\nrule high: {high};")),
            5,
            high.find("then").expect("an act") + 17,
            &["look at different things"],
        );
    }
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
            "rule a: every 5s if cpu > 50% then switch any of main cooldown 9s;",
            36,
            &["to and fro within pool `main`", "acts each 5s", "hold and a time"],
        ),
        ("rule a: during if cpu > 50% then switch any of main;", 34, &["acts at each tick"]),
    ] {
        refused(&with_rules(rule), 4, column, words);
    }
    accepted(&with_rules("rule a: during if cpu > 50% then switch any of main hold 5s;"));
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
