//! `weir watch` of requests that a policy decides about: the rule with its line, what it orders, and the variant.

use super::watch::watch;
use crate::support;

use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use support::adapting::{end, folder, serve};
use support::alone;
use weir_testkit::client::Connection;

const POLICY: &str = "atom \"/news/*\" { rule flash: during if rate@atom > 5rps then shed 25% until rate@atom < 1rps; }\n\
    atom \"/v/*\" { variants full > small;\n\
    rule fit: at start if rtt@client < 10s then use small else use full; }\n";

/// What is told of a request of a filter, for which a path is asked again and again.
fn seen(folder: &Path, port: u16, filter: &[&str], path: &str) -> (Value, String) {
    let args = [&["-n", "1", "--show", "rules"], filter].concat();
    let (mut json, mut text) = (watch(folder, &[&["--json"], &args[..]].concat()), watch(folder, &args));
    let mut connection = Connection::open(port).expect("connects");
    for _ in 0..1000 {
        let ended = [&mut json, &mut text].map(|child| child.try_wait().expect("asks").is_some());
        if ended == [true, true] {
            break;
        }
        connection.get(path).expect("an answer");
        std::thread::sleep(Duration::from_millis(20));
    }
    let told = [json, text].map(|mut child| {
        let _ended = child.kill();
        String::from_utf8(child.wait_with_output().expect("ends").stdout).expect("text")
    });
    let line = told[0].lines().find(|line| line.contains("\"type\":\"request\"")).unwrap_or_else(|| panic!("{told:?}"));
    (serde_json::from_str(line).expect("JSON"), told[1].clone())
}

#[test]
fn the_rule_that_decided_and_the_variant_are_told() {
    let _turn = alone();
    let (_kept, folder) = folder(POLICY);
    let served = serve(&folder, &["--policy", "flood.policy"], "site");
    // Of the requests that are asked for all the time, those that are refused.
    let (refused, text) = seen(&folder, served.port, &["rule=flash", "status=503"], "/news/a.html");
    let rules = &refused["rules"];
    assert_eq!(rules["decided"].as_array().map(Vec::len), Some(1), "{refused:#}");
    assert_eq!((&rules["decided"][0]["rule"], &rules["decided"][0]["line"]), (&"flash".into(), &1.into()));
    assert_eq!(rules["decided"][0]["orders"], "shed 25%", "{refused:#}");
    assert!(text.contains("rule flash (flood.policy:1): shed 25%"), "{text}");

    let (chosen, text) = seen(&folder, served.port, &["rule=fit"], "/v/film.mp4");
    let rules = &chosen["rules"];
    assert_eq!((&rules["asked"], &rules["chosen"], &rules["variant"]), (&true.into(), &true.into(), &"small".into()));
    let decided = &rules["decided"][0];
    assert_eq!(
        (&decided["rule"], &decided["line"], &decided["orders"]),
        (&"fit".into(), &3.into(), &"use small".into())
    );
    assert!(
        text.contains("it chose the variant small") && text.contains("rule fit (flood.policy:3): use small"),
        "{text}"
    );

    // No rule decides about a file that none is for.
    let (free, _text) = seen(&folder, served.port, &["path=/other.txt"], "/other.txt");
    assert_eq!((free["rules"].get("decided"), &free["rules"]["asked"]), (None, &false.into()), "{free:#}");
    end(served);
}
