//! `weir serve --policy`: the server does what rules say, records it such that a replay decides the same, and shows it.

use crate::support;

use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;
use support::adapting::{end, environment, folder, metrics, serve, statuses};
use support::planted::wait_for;
use support::served::Served;
use support::{alone, output};
use weir_testkit::client::Connection;
use weir_testkit::free_port;

fn in_force(shown: &Value) -> usize {
    shown["in_force"].as_array().map_or(0, Vec::len)
}

const SHED: &str =
    "atom \"/news/*\" { rule flash: during if rate@atom > 5rps then shed 25% until rate@atom < 1rps; }\n";

#[test]
fn a_rule_that_sheds_has_its_share_refused_and_nothing_else() {
    let _turn = alone();
    let (_kept, folder) = folder(SHED);
    let served = serve(&folder, &["--policy", "flood.policy"], "site");
    assert!(statuses(served.port, "/news/a.html", 40).iter().all(|status| [200, 503].contains(status)));
    environment(&folder, |shown| in_force(shown) == 1);
    // While it is asked for all the time, the rule stays in force.
    let (asked, port) = (std::sync::atomic::AtomicBool::new(true), served.port);
    let (news, others) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while asked.load(std::sync::atomic::Ordering::Relaxed) {
                statuses(port, "/news/a.html", 1);
            }
        });
        environment(&folder, |shown| in_force(shown) == 1);
        let found = (statuses(served.port, "/news/a.html", 400), statuses(served.port, "/other.txt", 100));
        asked.store(false, std::sync::atomic::Ordering::Relaxed);
        found
    });
    let refused = news.iter().filter(|status| **status == 503).count();
    // Another client takes some of the numbers, so that of these the share is a little more or less.
    assert!((70..=130).contains(&refused), "{refused} of 400");
    assert!(others.iter().all(|status| *status == 200));
    // A refused client is told when to come again, and refusals of ours are no errors of the server's.
    let shown = environment(&folder, |shown| in_force(shown) == 0 && shown["refused"].as_u64() >= Some(refused as u64));
    let errors = shown["readings"].as_array().expect("readings").iter().find(|one| one["resource"] == "errors");
    assert_eq!(errors.map(|errors| errors["value"].as_f64()), Some(Some(0.0)));
    assert!(statuses(served.port, "/news/a.html", 1) == [200], "it was released");
    end(served);
}

#[test]
fn in_a_flood_pages_and_files_are_sent_as_they_were_and_after_it_as_they_are() {
    let _turn = alone();
    let policy =
        "atom \"/news/*\" { rule flash: during if rate@atom > 20rps then stale 60s until rate@atom < 2rps; }\n";
    let (_kept, folder) = folder(policy);
    let write = |name: &str, text: &str| fs::write(folder.join("site").join(name), text).expect("writes");
    write("news/page.shtml", "[<!--#include virtual=\"/other.txt\" -->]");
    let args = ["--policy", "flood.policy", "--loops", "1", "--decisions", "log.jsonl"];
    let served = serve(&folder, &args, "site");
    let count = |name: &str| {
        let metrics = metrics(&folder);
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect("a count");
        line.parse::<f64>().expect("a number") as u64
    };
    let both = || {
        ["/news/page.shtml", "/news/a.html"].map(|path| {
            let mut connection = Connection::open(served.port).expect("connects");
            String::from_utf8(connection.get(path).expect("an answer").body).expect("text")
        })
    };
    assert_eq!(both(), ["[other]", "news"]);
    // The flood, until both atoms' rules hold; then files change under it.
    let (asked, port) = (std::sync::atomic::AtomicBool::new(true), served.port);
    std::thread::scope(|scope| {
        for path in ["/news/page.shtml", "/news/a.html"] {
            let asked = &asked;
            scope.spawn(move || {
                while asked.load(std::sync::atomic::Ordering::Relaxed) {
                    assert!(statuses(port, path, 20).iter().all(|status| *status == 200));
                }
            });
        }
        environment(&folder, |shown| in_force(shown) == 2);
        both();
        let before = [count("weir_pages_assembled_total"), count("weir_cache_fills_total")];
        let requests = count("weir_advised_total");
        write("other.txt", "changed");
        write("news/a.html", "changed");
        wait_for(|| (count("weir_advised_total") > requests + 500).then_some(()));
        assert_eq!(both(), ["[other]", "news"], "as it was");
        assert_eq!(
            [count("weir_pages_assembled_total"), count("weir_cache_fills_total")],
            before,
            "nothing was made or read"
        );
        assert!(count("weir_advice_stale_total") > 500);
        asked.store(false, std::sync::atomic::Ordering::Relaxed);
    });
    environment(&folder, |shown| in_force(shown) == 0);
    assert_eq!(both(), ["[changed]", "changed"]);
    end(served);
    let replayed = support::weir().current_dir(&folder).args(["replay", "flood.policy", "log.jsonl"]).output();
    let said = String::from_utf8_lossy(&replayed.expect("it starts").stdout).into_owned();
    assert!(said.contains("stale 60s") && said.contains("recorded decisions are the same"), "{said}");
}

#[test]
fn what_was_recorded_leads_to_the_same_decisions_again() {
    let _turn = alone();
    let variants = "atom \"/v/*\" { variants full > small;\n\
                    rule fit: at start if rtt@client < 10s then use small else use full; }\n";
    let (_kept, folder) = folder(&format!("{SHED}{variants}"));
    let args = ["--policy", "flood.policy", "--decisions", "log.jsonl", "--environment", "env.db"];
    let served = serve(&folder, &args, "site");
    let mut connection = Connection::open(served.port).expect("connects");
    let film = |connection: &mut Connection| connection.get("/v/film.mp4").expect("an answer").body;
    // The kernel may or may not know the first round trip already; after it, it does.
    film(&mut connection);
    wait_for(|| (film(&mut connection) == b"film").then_some(()));
    statuses(served.port, "/news/a.html", 200);
    environment(&folder, |shown| shown["decided"]["flash"]["fired"].as_u64() >= Some(1) && in_force(shown) == 0);
    end(served);
    let (policy, log) = (folder.join("flood.policy"), folder.join("log.jsonl"));
    let paths = [&policy, &log].map(|path| path.to_str().expect("a readable path"));
    let replayed = output(&["replay", "--json", paths[0], paths[1]]);
    let said = String::from_utf8_lossy(&replayed.stdout);
    let last: Value = serde_json::from_str(said.lines().next_back().expect("a summary")).expect("JSON");
    assert!(last["recorded"]["same"].as_u64() >= Some(3), "{said}");
    assert_eq!((&last["recorded"]["others"], &last["recorded"]["lines_lost"]), (&0.into(), &0.into()), "{said}");
    let of = |rule: &str| last["rules"].as_array().expect("rules").iter().find(|one| one["name"] == rule).cloned();
    assert!(of("fit").expect("the rule")["fired"].as_u64() >= Some(1), "{last}");
    // Another policy decides something else, and the replay says so.
    fs::write(&policy, SHED.replace("25%", "30%")).expect("writes");
    let other = output(&["replay", paths[0], paths[1]]);
    assert!(String::from_utf8_lossy(&other.stdout).contains("of other rules"));
    // The server has ended, and what it knew is kept.
    let kept = output(&["env", folder.join("env.db").to_str().expect("a readable path")]);
    let said = String::from_utf8_lossy(&kept.stdout);
    assert!(said.contains("shed 25%") && said.contains("rate@atom > 5rps: ") && said.contains("most asked"), "{said}");
}

#[test]
fn sessions_of_which_nothing_is_decided_are_recorded_by_number_and_others_rules_decide_for_each() {
    let _turn = alone();
    recorded_by_number("");
    // These are looked at later, so that the rules know those that are under way then.
    recorded_by_number("rule drop: during if rtt@client > 90s then next down;");
}

fn recorded_by_number(more: &str) {
    let policy = |rtt: &str| {
        let fit = format!("rule fit: at start if rtt@client {rtt} then use small;");
        format!("atom \"/v/*\" {{ variants full > small;\n{fit}\n{more} }}\n")
    };
    let (_kept, folder) = folder(&policy("> 100s"));
    let served = serve(&folder, &["--policy", "flood.policy", "--decisions", "log.jsonl"], "site");
    let mut connection = Connection::open(served.port).expect("connects");
    let began = std::time::Instant::now();
    let mut asked = 0;
    while asked < 2000 || began.elapsed() < Duration::from_millis(500) {
        assert_eq!(connection.get("/v/film.mp4").expect("an answer").body, b"the whole film");
        asked += 1;
    }
    // A request that arrives while the rules are evaluated is answered without them; the next tick counts it.
    std::thread::sleep(Duration::from_millis(200));
    let undecided = |shown: &Value| shown["dropped"]["books"]["undecided"].as_u64();
    let undecided = undecided(&environment(&folder, |shown| undecided(shown).is_some())).expect("it is there");
    end(served);
    let text = fs::read_to_string(folder.join("log.jsonl")).expect("a recording");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let sum = |of: &dyn Fn(&Value) -> u64| lines.iter().map(of).sum::<u64>();
    let passed = sum(&|line| line["passed"].as_u64().unwrap_or(0));
    let begun = sum(&|line| u64::from(line["begin"].is_u64()));
    assert_eq!(passed + begun + undecided, asked, "{undecided} undecided");
    assert!(undecided < asked / 100, "{undecided} of {asked}");
    assert!(passed > asked / 2, "{passed} of {asked}");
    let known = sum(&|line| line["passed"].as_u64().filter(|_| line["rtt"].is_string()).unwrap_or(0))
        + sum(&|line| u64::from(line["session"].is_u64() && line["read"] == "rtt"));
    assert!(known > asked / 2, "{known} of {asked}");
    let replayed = || {
        let paths = ["flood.policy", "log.jsonl"].map(|name| folder.join(name).display().to_string());
        let said = output(&["replay", "--json", &paths[0], &paths[1]]).stdout;
        let said = String::from_utf8_lossy(&said).into_owned();
        serde_json::from_str::<Value>(said.lines().next_back().expect("a summary")).expect("JSON")
    };
    let same = replayed();
    assert_eq!((&same["recorded"]["others"], &same["recorded"]["lines_lost"]), (&0.into(), &0.into()), "{same}");
    assert_eq!(same["rules"][0]["fired"], 0);
    fs::write(folder.join("flood.policy"), policy("< 100s")).expect("writes");
    assert_eq!(replayed()["rules"][0]["fired"], known);
}

#[test]
fn another_policy_is_taken_up_and_a_broken_one_is_not() {
    let _turn = alone();
    let (_kept, folder) = folder(SHED);
    let served = serve(&folder, &["--policy", "flood.policy"], "site");
    statuses(served.port, "/news/a.html", 40);
    environment(&folder, |shown| in_force(shown) == 1);
    fs::write(folder.join("flood.policy"), SHED.replace("25%", "25")).expect("writes");
    served.signal(libc::SIGHUP);
    let line = served.says("flood.policy:1:");
    assert!(line.contains("weir serve: flood.policy:1:67: ") && line.contains("; "), "{line}");
    served.says("was not taken up; the rules before it stay");
    environment(&folder, |shown| shown["policy"]["refused"].is_string() && shown["policy"]["rules"] == 1);
    // A full disk, or an editor that is at work, leaves nothing.
    for nothing in ["", "# nothing\n"] {
        fs::write(folder.join("flood.policy"), nothing).expect("writes");
        served.signal(libc::SIGHUP);
        served.says("flood.policy: the policy has no rules");
        served.says("was not taken up; the rules before it stay");
    }
    environment(&folder, |shown| shown["policy"]["refused"].is_string() && shown["policy"]["rules"] == 1);
    fs::write(
        folder.join("flood.policy"),
        SHED.replace("25%", "100%") + &SHED.replace("flash", "second").replace("during", "every 1h"),
    )
    .expect("writes");
    served.signal(libc::SIGHUP);
    served.says("was read again and its rules hold");
    let shown = environment(&folder, |shown| shown["policy"]["rules"] == 2);
    assert!(shown["policy"]["refused"].is_null(), "{shown}");
    wait_for(|| statuses(served.port, "/news/a.html", 40).contains(&503).then_some(()));
    wait_for(|| statuses(served.port, "/news/a.html", 40).iter().all(|status| *status == 503).then_some(()));
    end(served);
}

#[test]
fn alerts_are_posted_and_a_webhook_that_is_gone_holds_nothing_up() {
    let _turn = alone();
    let policy = "atom \"/**\" { rule many: during if rate@here > 5rps then alert \"many come\" cooldown 1h; }\n";
    let (_kept, folder) = folder(policy);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/alerts", listener.local_addr().expect("its address"));
    let (sender, came) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = sender.send(posted(&mut stream));
        }
    });
    let served = serve(&folder, &["--policy", "flood.policy", "--webhook", &url], "site");
    // From the second look on there are rates.
    environment(&folder, |shown| shown["work"]["ticks"].as_u64() >= Some(2));
    statuses(served.port, "/other.txt", 40);
    served.says("alert: many come (rule many, flood.policy:1)");
    let alert: Value =
        serde_json::from_str(&came.recv_timeout(Duration::from_secs(20)).expect("a post")).expect("JSON");
    assert_eq!((&alert["text"], &alert["node"]), (&"many come".into(), &"here".into()));
    assert!(alert["more"]["readings"][0].as_str().is_some_and(|cited| cited.contains("rate@here > 5rps: ")), "{alert}");
    end(served);
    // No server listens at this port.
    let gone = format!("http://127.0.0.1:{}/", free_port());
    let served = serve(&folder, &["--policy", "flood.policy", "--webhook", &gone], "site");
    environment(&folder, |shown| shown["work"]["ticks"].as_u64() >= Some(2));
    statuses(served.port, "/other.txt", 40);
    served.says("the webhook: ");
    assert!(statuses(served.port, "/other.txt", 40).iter().all(|status| *status == 200));
    served.signal(libc::SIGTERM);
    served.says("1 alerts could not be delivered to the webhook, 0 were");
}

/// The body of a request, which is answered.
fn posted(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).expect("reads");
        text.extend_from_slice(&piece[..count]);
        let whole = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = whole.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if count == 0 || length.is_some_and(|length: usize| body.len() >= length) {
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            return body.to_owned();
        }
    }
}

#[test]
fn more_copies_are_loops_of_the_reserve_until_they_are_given_back() {
    let _turn = alone();
    let policy = "pool main = { n1, n2, n3 };\n\
        atom \"/news/*\" { rule flash: during if rate@atom > 5rps then replicate to 3 on main until rate@atom < 1rps; }\n";
    let (_kept, folder) = folder(policy);
    let args = ["--policy", "flood.policy", "--node", "n1", "--loops", "1", "--reserve-loops", "2"];
    let served = serve(&folder, &args, "site");
    let serving = |count: u64| {
        environment(&folder, |shown| {
            statuses(served.port, "/news/a.html", usize::from(count > 0) * 40);
            shown["work"]["loops_more"] == count
        })
    };
    serving(2);
    let admin = format!("unix:{}", folder.join("admin.sock").display());
    assert!(String::from_utf8_lossy(&output(&["env", &admin]).stdout).contains("replicate to 3 on main"));
    serving(0);
    end(served);
}

#[test]
fn one_copy_is_kept_in_memory_and_needs_no_reserve() {
    let _turn = alone();
    let policy = "pool main = { n1, n2 };\n\
        atom \"/news/*\" { rule keep: during if rate@atom > 5rps then replicate to 1 on main until rate@atom < 1rps; }\n";
    let (_kept, folder) = folder(policy);
    let served = serve(&folder, &["--policy", "flood.policy", "--node", "n1", "--loops", "1"], "site");
    let pinned =
        || metrics(&folder).lines().find_map(|line| line.strip_prefix("weir_cache_pinned_entries ")?.parse().ok());
    wait_for(|| {
        statuses(served.port, "/news/a.html", 40);
        (pinned() == Some(1)).then_some(())
    });
    environment(&folder, |shown| in_force(shown) == 0 && shown["work"]["loops_more"] == 0);
    wait_for(|| (pinned() == Some(0)).then_some(()));
    end(served);
}

#[test]
fn a_configuration_names_its_policy_which_is_checked_with_it() {
    let _turn = alone();
    let (_kept, folder) = folder(SHED);
    let toml = folder.join("weir.toml");
    fs::write(&toml, "policy = \"flood.policy\"\n[[host]]\nroot = \"site\"\n").expect("writes");
    let toml = toml.to_str().expect("a readable path");
    let checked = output(&["check", toml]);
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{said}{}", String::from_utf8_lossy(&checked.stderr));
    assert!(said.contains("configuration without mistakes") && said.contains("policy without mistakes"), "{said}");
    let served = serve(&folder, &[], "weir.toml");
    statuses(served.port, "/news/a.html", 40);
    environment(&folder, |shown| in_force(shown) == 1);
    drop(served);
    fs::write(folder.join("flood.policy"), SHED.replace("rate@atom > 5rps", "rate@atom > 5bps")).expect("writes");
    let checked = output(&["check", toml]);
    assert_eq!(checked.status.code(), Some(1), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn a_configuration_says_all_of_it_and_options_count_more() {
    let _turn = alone();
    let (_kept, folder) = folder(SHED);
    let toml = "[policy]\nfile = \"flood.policy\"\ntick = \"40 ms\"\nnode = \"n1\"\nforecast = \"robust\"\n\
        decisions = \"log.jsonl\"\nenvironment = \"env.db\"\nwebhook = \"http://127.0.0.1:1/\"\n\
        [admin]\nlisten = \"unix:admin.sock\"\n[[host]]\nroot = \"site\"\n";
    fs::write(folder.join("weir.toml"), toml).expect("writes");
    for (args, tick_ms) in [(&[][..], 40), (&["--tick", "70ms", "--decisions", "other.jsonl"], 70)] {
        let served = Served::start(&folder, args, "weir.toml");
        let shown = environment(&folder, |shown| shown["work"]["tick_ms"] == tick_ms);
        assert_eq!(shown["here"], "n1");
        // The message names the settings that need a restart.
        fs::write(folder.join("weir.toml"), toml.replace("40 ms", "50 ms")).expect("writes");
        served.signal(libc::SIGHUP);
        served.says("only after a restart: policy (all but what the file says)");
        fs::write(folder.join("weir.toml"), toml).expect("writes");
        end(served);
    }
    for name in ["log.jsonl", "other.jsonl"] {
        let text = fs::read_to_string(folder.join(name)).expect("a recording");
        assert!(text.starts_with("{\"format\":\"weir-readings\"") && text.contains("\"here\":\"n1\""), "{text}");
    }
    assert!(folder.join("env.db").is_file());
}

/// The subjects of all rules that have fired, of the decisions that are shown.
fn fired_for(shown: &Value) -> Vec<String> {
    let decisions: Vec<weir_adapt::Decision> =
        serde_json::from_value(shown["decisions"].clone()).expect("decisions of this version");
    let mut fired: Vec<_> =
        decisions.iter().filter(|one| one.outcome.is_fired()).map(|one| one.subject.to_string()).collect();
    fired.sort();
    fired.dedup();
    fired
}

/// The recording of a run leads to the decisions of the run, and none of it was lost.
fn replays_the_same(folder: &Path, least: u64) {
    let paths = ["flood.policy", "log.jsonl"].map(|name| folder.join(name).display().to_string());
    let replayed = output(&["replay", "--json", &paths[0], &paths[1]]);
    let said = String::from_utf8_lossy(&replayed.stdout);
    let last: Value = serde_json::from_str(said.lines().next_back().expect("a summary")).expect("JSON");
    assert!(last["recorded"]["same"].as_u64() >= Some(least), "{said}");
    assert_eq!((&last["recorded"]["others"], &last["recorded"]["lines_lost"]), (&0.into(), &0.into()), "{said}");
}

#[test]
fn a_greedy_client_is_held_in_check_and_a_modest_one_gets_every_answer() {
    let _turn = alone();
    let policy = "atom \"/**\" { rule greedy: during if avg rate@client over 500ms > 100rps\n\
        then shed 90%, alert \"a client asks for too much\" until avg rate@client over 500ms < 40rps; }\n";
    let (_kept, folder) = folder(policy);
    let served = serve(&folder, &["--policy", "flood.policy", "--decisions", "log.jsonl"], "site");
    let url = format!("http://127.0.0.1:{}/news/a.html", served.port);
    let mut greedy = support::weir()
        .args(["load", "-q", "--source", "127.0.0.2", "-c", "2", "--rate", "400", "-d", "6s", &url])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    // Some 20 requests a second, and several at once now and then, as a browser asks for a page.
    let mut connection = Connection::open(served.port).expect("connects");
    let mut asked = 0;
    let mut metrics_of_clients = 0;
    let ended = loop {
        for _ in 0..if asked % 20 == 0 { 3 } else { 1 } {
            asked += 1;
            let path = if asked % 2 == 0 { "/news/a.html" } else { "/other.txt" };
            let reply = connection.get(path).expect("an answer");
            assert_eq!(reply.status, 200, "request {asked} of the modest client");
        }
        let metrics = metrics(&folder);
        let of_clients = metrics.lines().filter(|line| line.starts_with("weir_reading{") && line.contains("client "));
        metrics_of_clients = metrics_of_clients.max(of_clients.count());
        std::thread::sleep(Duration::from_millis(50));
        if let Some(ended) = greedy.try_wait().expect("it is a child") {
            break ended;
        }
    };
    // The load counts refused requests as failed.
    assert!(ended.code().is_some_and(|code| code < 2), "{ended}");
    assert!(asked > 60 && metrics_of_clients == 2, "{asked}, {metrics_of_clients}");
    served.says("alert: a client asks for too much (rule greedy, flood.policy:1)");
    let shown = environment(&folder, |shown| in_force(shown) == 0 && shown["decided"]["greedy"]["released"] == 1);
    assert_eq!(fired_for(&shown), ["/** client 127.0.0.2"]);
    let refused = shown["refused"].as_u64().expect("a count");
    assert!(refused > 1000, "{refused} of some 2,400");
    assert_eq!(shown["decided"]["greedy"]["fired"], 1);
    end(served);
    replays_the_same(&folder, 2);
}

#[test]
fn an_atom_whose_requests_have_to_wait_is_decided_on_and_its_neighbour_is_not() {
    let _turn = alone();
    let policy = "atom \"/**\" { rule slow: during if wait@atom > 100ms then shed 50%, alert \"slow\"\n\
        until wait@atom < 20ms; }\n";
    let (_kept, folder) = folder(policy);
    let toml = "policy = \"flood.policy\"\n[[throttle]]\npath = \"/news/**\"\nrunning = 1\nqueue = 9\nwait = \"10 s\"\n\
        [[host]]\nroot = \"site\"\n";
    fs::write(folder.join("weir.toml"), toml).expect("writes");
    let large = fs::File::create(folder.join("site/news/large.bin")).expect("creates");
    large.set_len(64 << 20).expect("makes it long");
    let served = serve(&folder, &["--decisions", "log.jsonl"], "weir.toml");
    let mut others = Connection::open(served.port).expect("connects");
    std::thread::scope(|scope| {
        // The response of a client that reads nothing of a large file is in flight all that time.
        let mut held = TcpStream::connect(("127.0.0.1", served.port)).expect("connects");
        held.write_all(b"GET /news/large.bin HTTP/1.1\r\nHost: a\r\n\r\n").expect("sends");
        held.read_exact(&mut [0; 1000]).expect("it is answered");
        let port = served.port;
        let waiting = scope.spawn(move || statuses(port, "/news/a.html", 1));
        for _ in 0..20 {
            assert_eq!(others.get("/other.txt").expect("an answer").status, 200);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!waiting.is_finished(), "it waits for its turn");
        drop(held);
        assert_eq!(waiting.join().expect("no panic"), [200]);
    });
    served.says("alert: slow (rule slow, ");
    // When no client has asked for it for a while, none waits, and the rule is released.
    let shown = environment(&folder, |shown| in_force(shown) == 0 && shown["decided"]["slow"]["released"] == 1);
    assert_eq!(fired_for(&shown), ["/news/a.html"]);
    let told = shown["decisions"].as_array().expect("a list").iter().find(|one| one["outcome"]["kind"] == "fired");
    let wait_s = told.and_then(|told| told["readings"][0]["value"].as_f64()).expect("a reading");
    assert!((0.3..10.0).contains(&wait_s), "{wait_s} s");
    end(served);
    replays_the_same(&folder, 2);
}

/// `weir check` finds what `weir serve` refuses before it listens, with the same words and the place.
#[test]
fn a_check_finds_all_that_would_be_refused_at_the_start() {
    let _turn = alone();
    let elsewhere = "pool main = { n1, n2 };\natom \"/\" { rule pick: select best by cpu (n1, n2); }\n";
    let grow = "pool main = { n1, n2 };\natom \"/\" {\n  rule more: every 5s if cpu > 90% then grow main by 1 cooldown 5s;\n}\n";
    for (policy, toml, words) in [
        (elsewhere, "policy = \"flood.policy\"", "flood.policy:2:12: rule `pick` serves sessions at other nodes"),
        (grow, "policy = \"flood.policy\"", "flood.policy:3:3: rule `more` asks for more copies or nodes"),
        (SHED, "[policy]\ntick = \"1 s\"", "weir.toml:1:1: it does not say where the rules are"),
        (SHED, "[policy]\nfile = \"flood.policy\"\ntick = \"1 ms\"", "weir.toml:3:8: `tick` is no time from"),
        (
            SHED,
            "[policy]\nfile = \"flood.policy\"\ntikc = \"1 s\"",
            "weir.toml:3:1: `tikc` is not known in [policy]; did you mean `tick`?",
        ),
        (
            SHED,
            "[policy]\nfile = \"flood.policy\"\nforecast = \"magic\"",
            "weir.toml:3:12: there is no forecast method",
        ),
        (SHED, "[policy]\nfile = \"flood.policy\"\ndecisions = \"site\"", "site is no regular file"),
        (SHED, "[policy]\nfile = \"flood.policy\"\ndecisions = \"site/other.txt\"", "weir.toml:3:13: "),
        (SHED, "[policy]\nfile = \"flood.policy\"\nenvironment = \"site/other.txt\"", "this is no database of weir's"),
        (SHED, "[policy]\nfile = \"flood.policy\"\nwebhook = \"nowhere\"", "weir.toml:3:11: nowhere: "),
        (SHED, "user = \"no-user-of-this-name\"", "weir.toml:1:1: there is no user"),
        (SHED, "[log]\nfile = \"none/access.log\"", "weir.toml:2:1: the log cannot be made"),
    ] {
        let (_kept, folder) = folder(policy);
        fs::write(folder.join("weir.toml"), format!("{toml}\n[[host]]\nroot = \"site\"\n")).expect("writes");
        let weir = |args: &[&str]| support::weir().current_dir(&folder).args(args).output().expect("it starts");
        let checked = weir(&["check", "weir.toml"]);
        let said = String::from_utf8_lossy(&checked.stdout);
        assert_eq!(checked.status.code(), Some(1), "{toml}: {said}");
        assert!(said.contains(words), "{words}: {said}");
        let served = weir(&["serve", "--listen", "127.0.0.1:0", "weir.toml"]);
        let told = String::from_utf8_lossy(&served.stderr);
        assert!(!served.status.success(), "{toml}: {told}");
        // Nothing of it is touched.
        assert_eq!(fs::read_to_string(folder.join("site/other.txt")).expect("as it was"), "other");
    }
    let (_kept, folder) = folder(grow);
    let toml = "reserve_loops = 1\n[policy]\nfile = \"flood.policy\"\nnode = \"n1\"\n[[host]]\nroot = \"site\"\n";
    fs::write(folder.join("weir.toml"), toml).expect("writes");
    let checked = support::weir().current_dir(&folder).args(["check", "weir.toml"]).output().expect("it starts");
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && !said.contains("warning"), "{said}");
    fs::write(folder.join("weir.toml"), toml.replace("n1", "n9")).expect("writes");
    let checked = support::weir().current_dir(&folder).args(["check", "weir.toml"]).output().expect("it starts");
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && said.contains("warning: no pool has the node `n9`"), "{said}");
}

#[test]
fn what_one_node_cannot_do_is_refused_at_the_start_with_the_reason() {
    let _turn = alone();
    for (policy, words) in [
        (
            "pool main = { n1, n2 }; atom \"/\" { rule pick: select best by cpu (n1, n2); }",
            "flood.policy:1: rule `pick` serves sessions at other nodes",
        ),
        (
            "pool main = { n1, n2 }; atom \"/\" { rule more: every 5s if cpu > 90% then grow main by 1 cooldown 5s; }",
            "rule `more` asks for more copies or nodes",
        ),
        (
            "atom \"/\" { rule hot: every 5s if cpu > 190% then shed 5%; }",
            "flood.policy:1:34: `cpu > 190%` is impossible; ",
        ),
    ] {
        let (_kept, folder) = folder(policy);
        let weir = |args: &[&str]| support::weir().current_dir(&folder).args(args).output().expect("it starts");
        let refused = weir(&["serve", "--listen", "127.0.0.1:0", "--policy", "flood.policy", "site"]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{words}: {said}");
        let unused = weir(&["serve", "--listen", "127.0.0.1:0", "--decisions", "x", "site"]);
        assert!(String::from_utf8_lossy(&unused.stderr).contains("--decisions: it is for rules; add --policy FILE"));
    }
}
