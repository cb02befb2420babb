//! Rules over nodes: sessions switch away from a loaded node, and a reserve node is woken and sleeps again.

use crate::is_whole;
use crate::stand::{PATIENCE, SERVICE, Stand, wait_for, weir};
use serde_json::Value;
use std::fs;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const CLIENTS: u16 = 12;

/// Gives all members the same rules.
fn give_rules(stand: &Stand, rules: &str) {
    let nodes = (1..=stand.nodes.len()).map(|number| format!("n{number}"));
    for member in nodes.chain(["front".to_owned()]) {
        fs::write(stand.path(&member).join("cluster.policy"), rules).expect("writes");
    }
    wait_for(&stand.path("director.log"), "of cluster.policy hold");
    (1..=stand.nodes.len()).for_each(|number| wait_for(&stand.path(&format!("serve{number}.log")), "over nodes hold"));
}

/// The kernels keep some megabytes of each download otherwise, and a server is done long before its client.
fn keep_little_under_way(stand: &Stand) {
    for namespace in stand.nodes.iter().chain([&stand.client]) {
        namespace.within(|| {
            let sizes = ["net.ipv4.tcp_wmem=4096 65536 262144", "net.ipv4.tcp_rmem=4096 131072 262144"];
            let set = Command::new("sysctl").arg("-qw").args(sizes).status().expect("procps is there");
            assert!(set.success());
        });
    }
}

fn status(stand: &Stand, node: usize) -> Value {
    let folder = stand.path(&format!("n{node}"));
    let told = weir(&["cluster", "status", folder.to_str().expect("is text"), "--json"], None);
    serde_json::from_str::<Value>(&told).expect("is JSON")["status"]["rules"].clone()
}

fn decisions(stand: &Stand, member: &str) -> Vec<Value> {
    let text = fs::read_to_string(stand.path(member).join("events.jsonl")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["what"] == "decided").collect()
}

/// Waits until this is so.
fn until(stand: &Stand, what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        let said = ["director", "serve1", "serve2"].map(|name| stand.said(name)).join("\n");
        let all = ["front", "n1", "n2"].map(|member| decisions(stand, member));
        assert!(Instant::now() < deadline, "{what}\n{said}\n{all:#?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Begins downloads of so many bytes a second each.
fn downloads(stand: &Stand, first: u16, rate: &str) -> Vec<Child> {
    let start = |number: u16| {
        let got = stand.path(&format!("got-{number}"));
        let url = format!("http://{SERVICE}/v/large.bin");
        stand.curl(first + number, &["--limit-rate", rate, "-o", got.to_str().expect("is text"), &url])
    };
    (0..CLIENTS).map(start).collect()
}

fn all_are_whole(stand: &Stand, clients: Vec<Child>, content: &[u8]) {
    for (number, client) in clients.into_iter().enumerate() {
        let output = client.wait_with_output().expect("is ours");
        assert!(output.status.success(), "{number}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(is_whole(stand, &format!("got-{number}"), content), "client {number}");
    }
}

#[test]
fn rules_move_sessions_and_wake_a_reserve_node() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let content: Vec<u8> = (0..9_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let stand = Stand::new(3, &[("v/large.bin", &content), ("a.txt", b"hello")]);
    keep_little_under_way(&stand);
    // A node of the reserve gets no connection before a rule wakes it.
    give_rules(
        &stand,
        "pool main = { n1, n2 }; pool reserve = { n3 };\n\
         atom \"/**\" {\n\
         rule more: every 1s if active@main > 8jobs then grow reserve by 1 cooldown 2s;\n\
         rule less: every 1s if active@main < 2jobs and active@reserve < 2jobs then shrink reserve by 1 cooldown 2s;\n\
         }\n\
         atom \"/v/*\" { rule away: during if active@here > 3jobs then switch n3 hold 2s cooldown 5s; }\n",
    );
    wait_for(&stand.path("director.log"), "node n3 sleeps");
    until(&stand, "node 3 sleeps", || status(&stand, 3)["state"] == "asleep");
    let ask = |port: u16| {
        let output = stand.curl(port, &[&format!("http://{SERVICE}/a.txt")]).wait_with_output().expect("is ours");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "hello", "{}", String::from_utf8_lossy(&output.stderr));
    };
    (0..20).for_each(|number| ask(45_000 + number));
    assert_eq!(stand.logged(3, "GET /a.txt"), 0, "a node that sleeps gets no connection");

    let clients = downloads(&stand, 46_000, "1M");
    wait_for(&stand.path("director.log"), "node n3 is woken");
    // A rule moves sessions to the node, which was no target while it slept.
    until(&stand, "sessions switch to node 3", || {
        [1, 2].iter().map(|node| status(&stand, *node)["switched"].as_u64().unwrap_or(0)).sum::<u64>() > 0
    });
    until(&stand, "node 3 has them", || stand.connected(3) > 0);
    (0..30).for_each(|number| ask(47_000 + number));
    all_are_whole(&stand, clients, &content);

    // What was done is written down with the rule and its readings.
    let woken = decisions(&stand, "front");
    let woken = woken.iter().find(|line| line["done"] == "n3 woken").expect("is written down");
    assert!(woken["rule"].as_str().is_some_and(|rule| rule.ends_with("cluster.policy:3 more")), "{woken}");
    assert!(woken["epoch"].as_u64().is_some_and(|epoch| epoch > 0), "{woken}");
    assert!(woken["why"].as_str().is_some_and(|why| why.starts_with("active@main > 8jobs: ")), "{woken}");
    let moved = [1, 2].iter().flat_map(|node| decisions(&stand, &format!("n{node}"))).collect::<Vec<_>>();
    let moved = moved.iter().filter(|line| line["done"].as_str().is_some_and(|done| done.ends_with("goes on at n3")));
    assert!(moved.count() > 0, "switches are events");

    // The load is over: the node is drained and sleeps again.
    until(&stand, "node 3 sleeps again", || status(&stand, 3)["state"] == "asleep");
    until(&stand, "it has no connection", || stand.connected(3) == 0);
    wait_for(&stand.path("director.log"), "n3 drained, to sleep");
    let n1 = stand.path("n1");
    until(&stand, "the other nodes hear that it sleeps", || {
        let shown = weir(&["cluster", "nodes", n1.to_str().expect("is text")], None);
        shown.lines().any(|line| line.contains("n3") && line.contains("asleep"))
    });
    let before = stand.logged(3, "GET /a.txt");
    assert!(before > 0, "new connections came while it was awake");
    (0..20).for_each(|number| ask(48_000 + number));
    std::thread::sleep(Duration::from_millis(1_200));
    assert_eq!(stand.logged(3, "GET /a.txt"), before, "none come any more");
}

#[test]
fn published_rules_outlive_their_director() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let mut stand = Stand::pair(2, &[("a.txt", b"hello")], true);
    let n1 = stand.path("n1");
    let n1 = n1.to_str().expect("is text");
    let rules = stand.path("nodes.policy");
    let file = rules.to_str().expect("is text").to_owned();
    // What no cluster can do is refused before it is published, and by weir check.
    fs::write(
        &rules,
        "pool main = { n1, n9 };\natom \"/**\" { rule a: every 1s if cpu@main > 90% then shed 5% hold 5s; }",
    )
    .expect("writes");
    for options in [&["cluster", "rules", n1, &file][..], &["check", "--cluster", n1, &file]] {
        let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(options).output().expect("weir starts");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("nodes.policy:2:14: rule `a` has `shed`") && said.contains("`n9` is no node"), "{said}");
    }
    // It fires as soon as the nodes have said how they stand, and not again for a long time; the other one also when the
    // reserve has grown, but for its limit.
    fs::write(
        &rules,
        "pool main = { n1 }; pool reserve = { n2 };\n\
         atom \"/**\" {\n\
         rule more: every 1s if mem@main > 1% and errors@main < 9rps and wait@main < 9s and queue@main < 99jobs\n\
         then grow reserve by 1 cooldown 10min;\n\
         rule tell: every 1s if mem@main > 1MB then alert \"there\" limit 2 per 10min;\n\
         }",
    )
    .expect("writes");
    assert!(weir(&["check", "--cluster", n1, &file], None).contains("without mistakes"));
    assert!(weir(&["cluster", "rules", n1, &file, "--expect", "0"], None).starts_with("version 1 "));
    let awake = |stand: &Stand, since: u64| {
        let told = status(stand, 2);
        let epoch = told["follows"][0].as_u64().unwrap_or(0);
        (told["state"] == "awake" && epoch > since).then_some(epoch)
    };
    let alerts = |stand: &Stand, member: &str| {
        decisions(stand, member).iter().filter(|line| line["done"] == "alert: there").count()
    };
    until(&stand, "the first director decides", || {
        decisions(&stand, "front").iter().any(|line| line["done"] == "n2 woken") && alerts(&stand, "front") == 2
    });
    // What the first one has said reaches the second as it reaches the nodes: the word of both alerts is its third at least.
    let has_heard = |node: usize| status(&stand, node)["follows"][1].as_u64().is_some_and(|number| number >= 3);
    until(&stand, "the nodes hear the last word", || has_heard(1) && has_heard(2));
    std::thread::sleep(Duration::from_secs(3));
    let mut epoch = 0;
    until(&stand, "node 2 follows", || awake(&stand, 0).map(|found| epoch = found).is_some());
    // The other one stands by, and goes on when the first one is gone.
    wait_for(&stand.path("director2.log"), "of cluster.policy hold");
    stand.power_off(1, "director");
    until(&stand, "node 2 follows the second director", || awake(&stand, epoch).is_some());
    let woken = decisions(&stand, "front2");
    assert!(!woken.iter().any(|line| line["done"] == "n2 woken"), "its cooldown goes on: {woken:?}");
    // Ticks come each half second, and the rule would have fired at the first one.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(
        (alerts(&stand, "front"), alerts(&stand, "front2")),
        (2, 0),
        "the limit counts what the first one has done"
    );
    let said = fs::read_to_string(stand.path("director2.log")).unwrap_or_default();
    assert!(said.matches("n2 sleeps").count() <= 1, "{said}");
}

/// A director without a second one that is killed and started again has its last word on its disk.
#[test]
fn a_single_director_goes_on_with_its_last_word() {
    if weir_testkit::require::root_and_bpf().is_none() {
        return;
    }
    let mut stand = Stand::new(2, &[("a.txt", b"hello")]);
    // Both would fire at once at a director that knows nothing of before.
    give_rules(
        &stand,
        "pool main = { n1 }; pool reserve = { n2 };\n\
         atom \"/**\" {\n\
         rule more: every 1s if mem@main > 1% and errors@main < 9rps and wait@main < 9s and queue@main < 99jobs\n\
         then grow reserve by 1 cooldown 10min;\n\
         rule tell: every 1s if mem@main > 1MB then alert \"there\" limit 2 per 10min;\n\
         }",
    );
    let count =
        |stand: &Stand, done: &str| decisions(stand, "front").iter().filter(|line| line["done"] == done).count();
    let now = |stand: &Stand| (count(stand, "n2 woken"), count(stand, "alert: there"));
    until(&stand, "the director decides", || now(&stand) == (1, 2) && status(&stand, 2)["state"] == "awake");
    // The nodes forget what they have heard of it as well: what it goes on with is on its disk alone.
    stand.end("director");
    ["serve1", "serve2"].iter().for_each(|name| stand.end(name));
    stand.start_director(1, "director");
    wait_for(&stand.path("director.log"), "members ask at");
    for node in [1, 2] {
        stand.start_server(node);
        wait_for(&stand.path(&format!("serve{node}.log")), "sessions move");
    }
    let epoch = |stand: &Stand| status(stand, 2)["follows"][0].as_u64().unwrap_or(0);
    until(&stand, "node 2 follows it again", || epoch(&stand) > 0 && status(&stand, 2)["state"] == "awake");
    // Ticks come each half second, and the rules would have fired at the first one.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(now(&stand), (1, 2), "the cooldown and the limit hold");
    assert!(!stand.said("director").contains("n2 sleeps"), "{}", stand.said("director"));
    // The clock of its machine is of no use: the next epoch is above the last one all the same.
    let word = stand.path("front").join("director.word");
    let told = fs::read_to_string(&word).expect("is there");
    let far = 1_u64 << 60;
    let last = told.split(' ').nth(2).expect("an epoch").to_owned();
    stand.end("director");
    fs::write(&word, told.replacen(&last, &far.to_string(), 1)).expect("writes");
    stand.start_director(1, "director");
    until(&stand, "the nodes follow a newer epoch", || epoch(&stand) > far);
}
