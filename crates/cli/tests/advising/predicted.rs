//! What `weir predict` and `weir what-if` say of a real server from one run, and what that server does then.

use crate::support;

use std::fs;
use std::path::Path;
use support::advice::{json, site};
use support::{alone, number};
use weir_testkit::{Apache, PhpFpm, require};

/// A page that sleeps for so long.
fn page(milliseconds: u32) -> String {
    format!("<?php usleep({milliseconds}000); echo 'hello';")
}

#[test]
fn a_run_foretells_another_rate_another_pool_and_a_shorter_sleep() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::php_fpm().is_none() || require::apache().is_none() {
        return;
    }
    let site = site("page.php", &page(20));
    let php = PhpFpm::new().processes(2).start().expect("php-fpm starts");
    let server = Apache::event().root(site.path()).php_fpm(&php).start().expect("Apache starts");
    let (url, folder) = (server.url("/page.php"), tempfile::tempdir().expect("a temporary directory"));
    let run = folder.path().join("run");
    let run = run.to_str().expect("a readable path");
    let (port, pid) = (server.port.to_string(), php.pid().to_string());
    let load = ["explain", "--json", "--load", &url, "--port", &port, "--pid", &pid, "--run", run];
    json(&[&load[..], &["--rate", "60", "--poisson", "-c", "32", "-d", "4s"]].concat());

    // Two workers that sleep for 20 ms serve at most 100 requests a second.
    let told = json(&["predict", run, "--at", "rate=3x", "--json"]);
    let bottleneck = &told["prediction"]["bottleneck"];
    assert!(bottleneck["name"].as_str().is_some_and(|name| name.starts_with("php-fpm")), "{bottleneck:#}");
    let most_per_s = number(bottleneck, "/most_per_s");
    assert!((75.0..=101.0).contains(&most_per_s), "{bottleneck:#}");
    assert!(told["prediction"]["predicted"].is_null(), "more comes than is served");
    let told = json(&["predict", run, "--at", "rate=3x", "--workers", "php-fpm=16", "--json"]);
    let mean_ns = number(&told, "/prediction/predicted/mean_ns/value");
    assert!((15e6..30e6).contains(&mean_ns), "{told:#}");

    // A copy of these servers that has 16 workers serves it, and ends with the command.
    let of_copy = ["predict", run, "--at", "rate=3x", "--workers", "php-fpm=16", "--check", "--check-seconds", "1"];
    let told = json(&[&of_copy[..], &["--json"]].concat());
    assert_eq!(told["measured"]["copy_with"].as_str().map(|with| with.contains("pm.max_children = 16")), Some(true));
    assert_eq!(processes_of_copies(), Vec::<String>::new(), "they have ended with the command");
    assert!(number(&told, "/measured/throughput_per_s") > 130.0, "more than two workers can: {told:#}");
    let (predicted, measured) =
        (number(&told, "/prediction/predicted/p50_ns/value"), number(&told, "/measured/p50_ns"));
    assert!((predicted / measured - 1.0).abs() < 0.3, "{predicted} predicted, {measured} measured");

    // A real load of the recorded URL stands beside.
    let told = json(&["predict", run, "--at", "rate=0.5x", "--check", "--check-seconds", "1", "--json"]);
    let (predicted, measured) =
        (number(&told, "/prediction/predicted/p50_ns/value"), number(&told, "/measured/p50_ns"));
    assert!((predicted / measured - 1.0).abs() < 0.3, "{predicted} predicted, {measured} measured");

    // Half of the sleep is taken away, in the model and in the page.
    let told = json(&["what-if", "--faster", "50%", "php-fpm:wait_timer", "--run", run, "--json"]);
    let predicted = number(&told, "/predicted/2");
    let short = shortened(site.path());
    let told = json(&["load", "--json", "--rate", "60", "--poisson", "-c", "32", "-d", "1s", &server.url(&short)]);
    let measured = number(&told, "/latency_ns/p50");
    assert!((predicted / measured - 1.0).abs() < 0.3, "{predicted} predicted, {measured} measured");
}

/// The command lines of processes that work on files of copies.
fn processes_of_copies() -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("Linux has it").flatten();
    let lines = processes.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
    lines.filter(|line| line.contains("weir-trial-")).collect()
}

/// The path of a page that sleeps for half as long: one of its own, as PHP keeps the other for some seconds.
fn shortened(site: &Path) -> String {
    fs::write(site.join("short.php"), page(10)).expect("the page");
    "/short.php".to_owned()
}
