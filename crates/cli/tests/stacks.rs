//! Which code: sampled stacks tell known functions in their known shares, blocked ones, a real server's and PHP's.

mod support;

use serde_json::Value;
use support::{alone, explain, number};
use weir_testkit::{Faulty, Nginx, PhpFpm, Site, require};

/// What was sampled: (class, part, frames, samples, nanoseconds).
fn stacks(report: &Value) -> Vec<(&str, &str, Vec<&str>, u64, u64)> {
    let all = report["stacks"].as_array().expect("stacks");
    all.iter()
        .map(|stack| {
            let frames = stack["frames"].as_array().expect("frames").iter().filter_map(Value::as_str).collect();
            let name = |field: &str| stack[field].as_str().expect("a text");
            let count = |field: &str| stack[field].as_u64().expect("a count");
            (name("class"), name("part"), frames, count("samples"), count("ns"))
        })
        .collect()
}

/// Whether names of frames occur in this order, each as a part of a frame's.
fn in_order(frames: &[&str], wanted: &[&str]) -> bool {
    let mut rest = frames.iter();
    wanted.iter().all(|want| rest.any(|frame| frame.contains(want)))
}

/// The share of a process's CPU time that it had in its program (proc_pid_stat(5), fields 14 and 15).
fn share_in_program(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process lives");
    let fields = stat.rsplit(')').next().expect("fields").split_ascii_whitespace().skip(11).take(2);
    let ticks: Vec<f64> = fields.map(|field| field.parse().expect("ticks")).collect();
    ticks[0] / (ticks[0] + ticks[1])
}

#[test]
fn two_hot_functions_have_their_shares_of_the_samples() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("functions").start().expect("the server starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let folded = run.path().join("stacks.txt");
    let options = ["-c", "2", "-d", "3s", "--stacks=397", "--folded", folded.to_str().expect("a readable path")];
    let report = explain(&server.url("/"), server.port, &run.path().join("run"), &options);
    let of = |function: &str| {
        let stacks = stacks(&report);
        let seen = stacks.iter().filter(|(class, part, frames, ..)| {
            *class == "GET /" && *part == "run" && in_order(frames, &["weir-faulty", "main", function, "Work::run"])
        });
        seen.map(|(.., samples, _)| samples).sum::<u64>() as f64
    };
    let (hot, warm) = (of("functions::hot_function"), of("functions::warm_function"));
    let all = hot + warm;
    assert!(all > 200.0, "{hot} and {warm} samples: {:#}", report["stacks"]);
    // 6 ms and 2 ms of CPU time; four standard deviations of the binomial distribution.
    let (share, deviation) = (hot / all, (0.75 * 0.25 / all).sqrt());
    assert!((share - 0.75).abs() < 4.0 * deviation, "{hot} of {all} samples, not 75 %");
    // The kernel's own count of both, by its tick.
    let (run, user) = (number(&report, "/parts_ns/run"), number(&report, "/run_parts_ns/run_user"));
    let kernel = number(&report, "/run_parts_ns/run_kernel");
    let counted = share_in_program(server.pid());
    assert!((user + kernel - run).abs() < 1.0, "{user} and {kernel} ns of {run} ns");
    assert!((user / run - counted).abs() < 0.12, "{user} of {run} ns, the kernel counts {counted:.3}");
    assert!(!report["not_observed"].as_array().expect("a list").contains(&Value::from("run_user")));
    let lines = std::fs::read_to_string(folded).expect("the folded stacks");
    let line = lines.lines().find(|line| line.starts_with("GET /;run;weir-faulty;") && line.contains("hot_function"));
    let (names, count) = line.and_then(|line| line.rsplit_once(' ')).expect("a line of the hot function");
    assert!(count.parse::<u64>().is_ok() && names.split(';').count() > 5, "{line:?}");
}

#[test]
fn a_blocked_function_has_the_time_of_its_part() {
    let _turn = alone();
    if require::root_and_bpf().is_none() {
        return;
    }
    let server = Faulty::new("sleep").args(["--ms", "15"]).start().expect("the server starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let report = explain(&server.url("/"), server.port, &run.path().join("run"), &["-c", "4", "-d", "3s", "--stacks"]);
    let stacks = stacks(&report);
    let waits: Vec<_> = stacks.iter().filter(|(class, part, ..)| *class == "GET /" && *part == "wait_timer").collect();
    let asleep = |frames: &[&str]| in_order(frames, &["blocking::talk", "Work::run", "nanosleep", "nanosleep_[k]"]);
    let sum = |asleep_only: bool| -> f64 {
        let counted = waits.iter().filter(|(_, _, frames, ..)| !asleep_only || asleep(frames));
        counted.map(|(.., ns)| *ns as f64).sum()
    };
    let truth = number(&report, "/parts_ns/wait_timer") * number(&report, "/requests");
    assert!(sum(true) > 0.95 * sum(false), "{waits:#?}");
    // Each sleep is longer than the time between two looks; those of the beginning lack, and those of a late look.
    assert!((0.7..1.1).contains(&(sum(true) / truth)), "{} s of {} s", sum(true) / 1e9, truth / 1e9);
}

#[test]
fn nginx_tells_its_functions_and_the_kernels() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::nginx().is_none() {
        return;
    }
    let server = Nginx::new().start().expect("nginx starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let report =
        explain(&server.url("/1k.txt"), server.port, &run.path().join("run"), &["-c", "8", "-d", "2s", "--stacks"]);
    let stacks = stacks(&report);
    let kernel = stacks.iter().filter(|(class, _, frames, ..)| {
        *class == "GET /1k.txt" && in_order(frames, &["nginx", "ngx_", "entry_SYSCALL_64", "_[k]"])
    });
    assert!(kernel.count() > 0, "{:#}", report["stacks"]);
    let rooted = |frames: &[&str]| in_order(frames, &["nginx", "main", "ngx_master_process_cycle", "ngx_"]);
    let (whole, all) = stacks
        .iter()
        .filter(|(_, part, ..)| *part == "run")
        .fold((0, 0), |(whole, all), stack| (whole + if rooted(&stack.2) { stack.3 } else { 0 }, all + stack.3));
    assert!(whole * 10 > all * 8, "{whole} of {all} samples are walked to their root: {:#}", report["stacks"]);
}

#[test]
fn functions_of_php_stand_above_those_of_its_engine() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::nginx().is_none() || require::php_fpm().is_none() {
        return;
    }
    let site = Site::empty().expect("a site");
    let page = "<?php\n\
        class Page { function render() { hot(4); pause(); } }\n\
        function hot($ms) { $end = hrtime(true) + $ms * 1e6; while (hrtime(true) < $end) {} }\n\
        function pause() { usleep(15000); }\n\
        (new Page)->render();\n\
        echo 'done';\n";
    site.write("page.php", page.as_bytes()).expect("the page is written");
    let php = PhpFpm::new().processes(2).start().expect("php-fpm starts");
    let nginx = Nginx::new().root(site.path()).php_fpm(&php).start().expect("nginx starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let master = php.pids()[0].to_string();
    let options = ["-c", "2", "-d", "3s", "--stacks", "--pid", &master];
    let report = explain(&nginx.url("/page.php"), nginx.port, &run.path().join("run"), &options);
    let stacks = stacks(&report);
    let samples = |part: &str, wanted: &[&str]| -> u64 {
        let seen =
            stacks.iter().filter(|stack| (stack.0, stack.1) == ("GET /page.php", part) && in_order(&stack.2, wanted));
        seen.map(|(.., samples, _)| samples).sum()
    };
    let (main, render) = ("php: {main} (", "php: Page::render (");
    let hot = samples("run", &["php-fpm", "execute_ex", main, render, "php: hot ("]);
    let pause = samples(
        "wait_timer",
        &["php-fpm", "execute_ex", main, render, "php: pause (", "php: usleep", "nanosleep", "_[k]"],
    );
    let warnings = &report["warnings"];
    assert!(hot > 10 && pause > 20, "{hot} and {pause} samples; {warnings:#}; {:#}", report["stacks"]);
    let line = |frame: &str| frame.contains("/page.php:3)") || !frame.starts_with("php: hot (");
    assert!(stacks.iter().flat_map(|(_, _, frames, ..)| frames).all(|frame| line(frame)), "{:#}", report["stacks"]);
}

/// Without the right to look into other processes: said before the recording and in its report, and the rest is whole.
#[test]
fn without_the_right_to_look_into_processes_it_says_what_is_missing() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::program("setpriv").is_none() {
        return;
    }
    let server = Faulty::new("sleep").start().expect("the server starts");
    let run = tempfile::tempdir().expect("a temporary directory");
    let run = run.path().join("run");
    let (url, pid) = (server.url("/"), server.pid().to_string());
    let output = std::process::Command::new("setpriv")
        .args(["--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace", env!("CARGO_BIN_EXE_weir")])
        .args(["explain", "--json", "--load", &url, "--pid", &pid, "-c", "2", "-d", "2s", "--stacks=397", "--run"])
        .arg(&run)
        .output()
        .expect("setpriv starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("CAP_SYS_PTRACE") && stderr.contains("parts, causes and who waited"), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let told = report["warnings"].to_string();
    assert!(told.contains("lack the program's frames") && told.contains("CAP_SYS_PTRACE"), "{told}");
    // What remains: the kernel's frames of tasks that are blocked, and everything that is not a stack.
    let stacks = stacks(&report);
    let mut asleep = stacks.iter().filter(|(_, part, ..)| *part == "wait_timer").map(|(_, _, frames, ..)| frames);
    assert!(asleep.clone().count() > 0 && asleep.all(|frames| !in_order(frames, &["main"])), "{:#}", report["stacks"]);
    assert_eq!(report["causes"][0]["part"], "wait_timer", "{:#}", report["causes"]);
    assert!(number(&report, "/joined_fraction") > 0.99);
}
