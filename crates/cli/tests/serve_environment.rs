//! What `weir serve --policy` shows of what it knows: methods of forecasts beside each other, and the environment database
//! as a table to ask.
// scripts/test: waits

mod support;

use serde_json::Value;
use std::fs;
use std::process::Command;
use support::adapting::{end, environment, folder, metrics, serve, statuses};
use support::planted::wait_for;
use support::{alone, output};

#[test]
fn methods_of_forecasts_stand_beside_each_other_and_a_policy_that_is_read_again_goes_on_with_them() {
    let _turn = alone();
    let policy = |name: &str| {
        format!(
            "atom \"/news/*\" {{ rule {name}: during if rate@here predicted in 4s > 90000rps then shed 5% until rate@here < 1rps;\n \
             rule {name}2: during if rate@atom predicted in 4s > 90000rps then shed 5% until rate@atom < 1rps; }}"
        )
    };
    let (_kept, folder) = folder(&policy("first"));
    let recorded = ["--policy", "flood.policy", "--decisions", "told.jsonl"];
    let served = serve(&folder, &[&recorded[..], &["--forecast", "robust"]].concat(), "site");
    let judged = |forecast: &Value| forecast["judged"].as_u64().unwrap_or(0);
    let shown = wait_for(|| {
        statuses(served.port, "/news/a.html", 20);
        let shown = environment(&folder, |_| true);
        let forecasts = shown["forecasts"].as_array()?;
        let is_judged = |forecast: &Value| judged(forecast) > 3 && judged(&forecast["methods"][1]) > 1;
        (forecasts.len() == 2 && forecasts.iter().all(is_judged)).then_some(shown)
    });
    let methods = shown["forecasts"][0]["methods"].as_array().expect("methods").clone();
    let named = |method: &Value| (method["method"].as_str().unwrap_or("").to_owned(), method["is_chosen"] == true);
    let wanted = [("least-squares", false), ("robust", true), ("seasonal", false)];
    assert_eq!(methods.iter().map(named).collect::<Vec<_>>(), wanted.map(|(name, is)| (name.to_owned(), is)));
    assert!(methods[0]["error"].is_number() && methods[2]["value"].is_null(), "{shown}");
    assert_eq!(shown["forecasts"][1]["atom"], "/news/a.html");
    let admin = format!("unix:{}", folder.join("admin.sock").display());
    let words = String::from_utf8(output(&["env", &admin]).stdout).expect("text");
    assert!(
        words.contains("    * robust ")
            && words.contains("      least-squares ")
            && words.contains("a second /news/a.html"),
        "{words}"
    );
    let told = metrics(&folder);
    for family in ["weir_forecast_error", "weir_forecast_fit", "weir_forecast_by_method", "weir_forecasts_judged_total"]
    {
        let of = "metric=\"rate@here predicted in 4s\",of=\"here\",method=\"robust\",chosen=\"true\"";
        assert!(told.contains(&format!("\n{family}{{{of}}} ")), "{family}: {told}");
    }
    assert!(
        told.contains("\nweir_atom_requests_per_second{path=\"/news/a.html\"} ")
            && told.contains("\nweir_adapt_sessions "),
        "{told}"
    );
    fs::write(folder.join("flood.policy"), policy("second")).expect("writes");
    served.signal(libc::SIGHUP);
    served.says("was read again and its rules hold");
    let again = environment(&folder, |shown| shown["policy"]["names"][0]["rule"] == "second");
    for (before, after) in
        shown["forecasts"].as_array().into_iter().flatten().zip(again["forecasts"].as_array().into_iter().flatten())
    {
        assert!(judged(after) >= judged(before), "{before} {after}");
        assert!(after["value"].is_number(), "readings go on: {after}");
        assert!(judged(&after["methods"][1]) >= judged(&before["methods"][1]), "{before} {after}");
    }
    end(served);
    // The part of the recording behind the other policy begins with what was handed over.
    let lines = fs::read_to_string(folder.join("told.jsonl")).expect("reads");
    let behind = lines.rsplit_once("{\"format\":").expect("a header").1;
    let handed = behind
        .lines()
        .skip(1)
        .take_while(|line| !line.contains("\"tick\""))
        .filter(|line| line.contains("\"read\":\"rate\""));
    assert!(handed.count() >= 10, "{behind}");
}

#[test]
fn the_environment_database_answers_questions_in_sql() {
    let _turn = alone();
    let policy = "atom \"/news/*\" { rule flash: during if rate@atom > 5rps then shed 25% until rate@atom < 1rps;\n \
        rule later: during if rate@here predicted in 400ms > 90000rps then shed 5% until rate@here < 1rps; }\n";
    let (_kept, folder) = folder(policy);
    // A database of before, without views.
    let database = folder.join("environment.db");
    drop(weir_store::Store::open(&database, weir_store::Limits::default()).expect("opens"));
    let served = serve(&folder, &["--policy", "flood.policy", "--environment", "environment.db"], "site");
    // By another program than the one that wrote it.
    let asked = |query: &str| -> Vec<Vec<String>> {
        let program = "import json, sqlite3, sys\nrows = sqlite3.connect(sys.argv[1]).execute(sys.argv[2])\n\
            print(json.dumps([['' if cell is None else str(cell) for cell in row] for row in rows]))";
        let python = Command::new("python3").args(["-c", program]).arg(&database).arg(query).output().expect("python3");
        let said = String::from_utf8_lossy(&python.stderr);
        // The server makes its views with its first look.
        if said.contains("no such table: ") {
            return Vec::new();
        }
        serde_json::from_slice(&python.stdout).unwrap_or_else(|error| panic!("{query}: {error}: {said}"))
    };
    // A look is kept each ten seconds: the first, which has seen no request, and one behind it.
    let popular = wait_for(|| {
        statuses(served.port, "/news/a.html", 20);
        statuses(served.port, "/v/film.mp4", 1);
        let popular = asked("select path, count, rate_per_s, bytes, sha256 from popular where sha256 is not null");
        popular.first().cloned()
    });
    // Of `news`, by coreutils.
    assert_eq!((&*popular[0], &*popular[3]), ("/news/a.html", "4"));
    assert_eq!(popular[4], "19fba0e995b9794fc2c26217bf3b725c2f0d9eeda16719fe75e3ba23ca73bfc4");
    let rates = asked("select at, unit, \"of\", max(value) from reading where resource = 'rate' and \"of\" = 'here'");
    assert!(rates[0][0].starts_with("20") && rates[0][0].ends_with('Z') && rates[0][1] == "rps", "{rates:?}");
    assert!(rates[0][3].parse::<f64>().is_ok_and(|most| most > 1.0), "{rates:?}");
    let methods = asked("select distinct metric, \"of\", method, is_chosen from forecast order by method");
    let methods: Vec<_> = methods.iter().map(|row| row.join(" ")).collect();
    let of = "rate@here predicted in 400ms here";
    assert_eq!(methods, [format!("{of} least-squares 1"), format!("{of} robust 0"), format!("{of} seasonal 0")]);
    let fired =
        asked("select rule, file, line, path, json_extract(orders, '$[0]') is not null, outcome from decision limit 1");
    assert_eq!(fired[0], ["flash", "flood.policy", "1", "/news/a.html", "1", "fired"]);
    let links = asked("select distinct kind, rtt_s > 0 from link order by kind");
    assert_eq!(links, [["addresses", "1"], ["networks", "1"]]);
    assert_eq!(asked("select place from link where kind = 'networks'")[0], ["127.0.0.0/24"]);
    assert!(asked("select place from link where place like '127.0.0.1%'").is_empty(), "addresses are hidden");
    end(served);
}
