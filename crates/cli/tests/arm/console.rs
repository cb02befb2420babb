//! `weir console --arm` on a real agent and a program in two processes: the figures of `weir arm top`, what was kept, and
//! the tree of `weir arm show`.

use super::{Place, Running, alone, row, wait_for};
use crate::support::consoled::Consoled;
use serde_json::Value;

fn rows(told: &Value, list: &str) -> Vec<Value> {
    told[list].as_array().expect("a list").clone()
}

#[test]
fn the_console_tells_of_transactions_and_leads_to_the_tree_of_a_failed_one() {
    let _turn = alone();
    let place = Place::new();
    let agent = place.agent();
    let client = place.client(["0", "2000", "5"]);
    let shown = Consoled::start(place.command(&["console", "--arm", place.folder.path().to_str().expect("readable")]));
    let has = shown.told("has");
    assert_eq!(has["agent"]["directory"].as_str(), place.directory().to_str(), "as weir arm has it");
    assert!(has["rooms"].as_array().is_some_and(|rooms| rooms.contains(&"transactions".into())), "{has}");
    let top = wait_for(|| {
        let top = shown.told("transactions?seconds=5");
        row(&top, "rows", "payment").is_some_and(|row| row["failed"].as_u64() > Some(3)).then_some(top)
    });
    let shares: Vec<f64> = rows(&top, "rows").iter().map(|row| row["time_share"].as_f64().expect("a share")).collect();
    assert!(shares.is_sorted_by(|one, next| one >= next), "{shares:?}");
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
    let payment = row(&top, "rows", "payment").expect("payments");
    assert!(payment["failed_share"].as_f64().is_some_and(|share| (0.1..0.3).contains(&share)), "{payment}");
    let command = place.json(&["arm", "top", "--json", "--sort", "time", "--seconds", "5"]);
    let names = |told: &Value| rows(told, "rows").iter().map(|row| row["transaction"].clone()).collect::<Vec<_>>();
    assert_eq!((names(&command), &command["schema"]), (names(&top), &top["schema"]));
    drop(client);
    // At its end it keeps what it would have kept within some seconds.
    agent.end();
    for call in ["transactions", "kept", "transaction?id=00f067aa0ba902b7"] {
        shown.refuses(call, 502, "start one with `weir agent`");
    }
    let agent = place.agent();
    let kept = rows(&shown.told("kept?application=bank&transaction=payment&only=failed&most=3"), "transactions");
    assert_eq!(kept.len(), 3, "{kept:?}");
    assert!(kept.iter().all(|one| one["status"] == "failed" && one["application"] == "bank"), "{kept:?}");
    assert!(kept.is_sorted_by(|one, next| one["end_unix_us"].as_u64() >= next["end_unix_us"].as_u64()), "{kept:?}");
    let tree = shown.told(&format!("transaction?id={}", kept[2]["id"].as_str().expect("an id")));
    let lines = rows(&tree, "lines");
    assert_eq!((&lines[0]["name"], &lines[1]["name"]), (&"order".into(), &"payment".into()), "{tree:#}");
    assert!(tree["processes"] == 2 && lines[1]["depth"] == 1 && lines[1]["offset_ns"].as_u64() > Some(0), "{tree:#}");
    let parts = ["own_ns", "children_ns", "blocked_ns", "queued_ns"].map(|part| lines[0][part].as_u64());
    assert_eq!(parts.into_iter().sum::<Option<u64>>(), lines[0]["duration_ns"].as_u64(), "to the nanosecond");
    refusals(&shown);
    agent.end();
    let _forgetful = Running(place.command(&["agent", "--no-state"]).spawn().expect("it starts"));
    wait_for(|| place.run(&["arm", "list"]).status.success().then_some(()));
    shown.refuses("kept", 502, "start it without --no-state");
}

fn refusals(shown: &Consoled) {
    shown.refuses("transaction?id=shop", 400, "hexadecimal digits");
    shown.refuses("transaction?id=00f067aa0ba902b7", 404, "the agent keeps those of the last seconds");
    shown.refuses("transaction", 400, "id: is missing");
    for call in ["transactions?seconds=61", "transactions?sort=name", "kept?most=201", "kept?only=slow", "kept?x=1"] {
        assert_eq!(shown.asked("GET", call).0, 400, "{call}");
    }
    for call in ["transactions", "kept", "transaction?id=00f067aa0ba902b7"] {
        assert_eq!(shown.asked("POST", call).0, 405, "{call} only reads");
    }
    shown.refuses("cluster", 404, "start it with --cluster DIR");
}
