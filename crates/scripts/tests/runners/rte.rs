//! Run-time environments: unchanged CGI scripts, each with what it is to answer in its head.
//!
//! The first lines of a script in tests/scripts say, as comments: `query` (`%Q` stands for what each request has of its
//! own; default `%Q`), `body` of a POST, `expect` what the body of the response is (`\n` is a line's end) or `contains` a
//! part of it, `status` if it is not 200, `log` what STDERR says at the first request, `needs` a module.

use super::client::{Connection, Response, Stand};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_scripts::Way;

/// A script, and what its first lines say.
struct Expected {
    name: String,
    path: PathBuf,
    says: HashMap<String, String>,
}

impl Expected {
    /// All scripts with an ending, copied into the pool's root.
    fn all(ending: &str, stand: &Stand) -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
        let files = fs::read_dir(folder).expect("the scripts are there").map(|entry| entry.expect("readable").path());
        let mut all = Vec::new();
        for file in files.filter(|file| file.is_file()) {
            let name = file.file_name().expect("a name").to_string_lossy().into_owned();
            let text = fs::read_to_string(&file).expect("text");
            let path = stand.script(&name, &text);
            if name.ends_with(ending) {
                let lines = text.lines().filter_map(|line| line.strip_prefix("# ")?.split_once(": "));
                let says = lines.map(|(what, text)| (what.to_owned(), text.to_owned())).collect();
                all.push(Self { name, path, says });
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all.retain(Self::is_possible);
        all
    }

    fn is_possible(&self) -> bool {
        let (program, arguments) = match self.says.get("needs").map(String::as_str) {
            None => return true,
            Some("CGI.pm") => ("/usr/bin/perl", ["-MCGI", "-e", "1"].as_slice()),
            Some("python's cgi") => ("/usr/bin/python3", ["-W", "ignore", "-c", "import cgi"].as_slice()),
            Some(other) => panic!("{}: {other}", self.name),
        };
        Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
    }

    fn said(&self, what: &str, query: &str) -> Option<String> {
        self.says.get(what).map(|text| text.replace("%Q", query).replace("\\n", "\n"))
    }

    fn ask(&self, conn: &mut Connection, number: usize) -> Response {
        let own = format!("q{number}");
        let query = self.said("query", &own).unwrap_or_else(|| own.clone());
        let mut variables = vec![("QUERY_STRING", query.as_str())];
        let body = self.says.get("body").map_or("", String::as_str);
        if !body.is_empty() {
            variables.push(("CONTENT_TYPE", "application/x-www-form-urlencoded"));
        }
        let response = conn.ask(&self.path, &variables, body.as_bytes());
        let text = response.text().replace("\r\n", "\n");
        let (head, content) =
            text.split_once("\n\n").unwrap_or_else(|| panic!("{} at request {number}: {response:?}", self.name));
        if let Some(expected) = self.said("expect", &own) {
            assert_eq!(content, expected, "{} at request {number}: {response:?}", self.name);
        }
        if let Some(expected) = self.said("contains", &own) {
            assert!(content.contains(&expected), "{} at request {number}: {response:?}", self.name);
        }
        if let Some(status) = self.said("status", &own) {
            assert!(head.contains(&format!("Status: {status}")), "{} at request {number}: {response:?}", self.name);
        } else if !self.says.contains_key("contains") {
            assert!(!head.contains("Status:"), "{} at request {number}: {response:?}", self.name);
        }
        assert_eq!(response.end, Some(0), "{}", self.name);
        response
    }
}

/// Every script answers each time as the first time, with all others in between.
fn answer_alike(ending: &str, program: &str) {
    let stand = Stand::new(Way::Rte, |pool| (pool.workers, pool.is_struct) = (1, true));
    let all = Expected::all(ending, &stand);
    assert!(all.len() > 10, "{ending}");
    let mut conn = stand.connect();
    for round in 0..4 {
        for at in 0..all.len() {
            // Each round in another order: numbers that have no factor in common with the count step through all.
            let step =
                [1, 7, 11, 13].into_iter().cycle().skip(round).find(|&step| gcd(step, all.len()) == 1).unwrap_or(1);
            let script = &all[(at * step + round) % all.len()];
            let response = script.ask(&mut conn, round * 100 + at);
            if round == 0
                && let Some(expected) = script.said("log", &format!("q{at}"))
            {
                assert!(response.log.contains(&expected), "{}: {response:?}", script.name);
            }
        }
    }
    // Perl's shows the name of its script.
    let engines =
        stand.processes().into_iter().filter(|line| line.contains(program) || line.contains("/scripts/")).count();
    assert_eq!(engines, 1, "{:?}", stand.processes());
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[test]
fn scripts_of_perl_answer_each_time_as_the_first_time() {
    answer_alike(".pl", "rte.pl");
}

#[test]
fn scripts_of_python_answer_each_time_as_the_first_time() {
    answer_alike(".py", "rte.py");
}

#[test]
fn a_changed_script_and_a_changed_module_are_compiled_anew() {
    let stand = Stand::new(Way::Rte, |pool| (pool.workers, pool.is_struct) = (1, true));
    let mut conn = stand.connect();
    let perl = "print \"Content-Type: text/plain\\n\\n1\";\n";
    let python = "import beside_it\nprint('Content-Type: text/plain\\n')\nprint(beside_it.NUMBER, end='')\n";
    let of_perl = stand.script("changed.pl", perl);
    stand.script("beside_it.py", "NUMBER = 1\n");
    let of_python = stand.script("changed.py", python);
    for path in [&of_perl, &of_python, &of_perl, &of_python] {
        assert_eq!(conn.ask(path, &[], b"").text(), "Content-Type: text/plain\n\n1");
    }
    stand.script("changed.pl", &perl.replace("n1", "n2"));
    stand.script("beside_it.py", "NUMBER = 2   # longer\n");
    for path in [&of_perl, &of_python] {
        assert_eq!(conn.ask(path, &[], b"").text(), "Content-Type: text/plain\n\n2");
    }
}

#[test]
fn what_perl_warns_of_at_compiling_is_told_once_for_each_change() {
    let stand = Stand::new(Way::Rte, |pool| (pool.workers, pool.is_struct) = (1, true));
    let mut conn = stand.connect();
    // With such a match it is compiled for each request.
    let text = "use warnings;\nmy $twice = 1;\nmy $twice = 2;\nmy $m = 'a' =~ m?a?;\nprint \"A: b\\n\\n$m\";\n";
    for text in [text.to_owned(), format!("{text}# changed\n")] {
        let path = stand.script("warns.pl", &text);
        let answers: Vec<_> = (0..3).map(|_| conn.ask(&path, &[], b"")).collect();
        assert!(answers.iter().all(|answer| answer.text() == "A: b\n\n1"), "{answers:?}");
        let count = |answer: &Response| answer.log.matches("masks earlier declaration").count();
        assert_eq!(answers.iter().map(count).collect::<Vec<_>>(), [1, 0, 0], "{answers:?}");
    }
}

#[test]
fn large_bodies_reach_a_script_whole_and_no_other() {
    let stand = Stand::new(Way::Rte, |pool| (pool.workers, pool.is_struct) = (1, true));
    let mut conn = stand.connect();
    let count = "local $/;\nmy $body = <STDIN>;\nprint \"Content-Type: text/plain\\n\\n\", length $body;\n";
    let ignore = "import os\nprint('Content-Type: text/plain\\n')\nprint('ignored', end='')\n";
    let count_py = "import sys\nprint('Content-Type: text/plain\\n')\nprint(len(sys.stdin.buffer.read()), end='')\n";
    let count = stand.script("count.pl", count);
    let ignore = stand.script("ignore.py", ignore);
    let count_py = stand.script("count.py", count_py);
    for bytes in [1, 4095, 4096, 4097, 65_536, 65_537, 3_000_000] {
        let body = vec![b'x'; bytes];
        let counted = conn.ask(&count, &[], &body);
        assert_eq!(counted.text(), format!("Content-Type: text/plain\n\n{bytes}"), "{counted:?}");
        let ignored = conn.ask(&ignore, &[], &body);
        assert_eq!(ignored.text(), "Content-Type: text/plain\n\nignored", "{bytes}: {ignored:?}");
        assert_eq!(conn.ask(&count_py, &[], &body).text(), format!("Content-Type: text/plain\n\n{bytes}"));
    }
}

#[test]
fn children_that_a_script_leaves_end_with_the_process() {
    let stand = Stand::new(Way::Rte, |pool| (pool.workers, pool.is_struct) = (1, true));
    let mut conn = stand.connect();
    let text = "print \"Content-Type: text/plain\\n\\n$$\";\n$| = 1;\nif (!fork) { sleep 1000 while 1 }\n";
    let path = stand.script("leave.pl", text);
    let first = conn.ask(&path, &[], b"");
    let second = conn.ask(&path, &[], b"");
    assert!(first.text().starts_with("Content-Type: text/plain\n\n"), "{first:?}");
    assert!(second.text().starts_with("Content-Type: text/plain\n\n"), "{second:?}");
    assert_ne!(first.text(), second.text());
}

#[test]
fn hundreds_of_scripts_run_in_one_process() {
    let stand = Stand::new(Way::Rte, |pool| (pool.workers, pool.is_struct) = (1, true));
    let mut conn = stand.connect();
    let text = "#!/usr/bin/perl\nour $n;\n$n++;\nsub own { return 'NUMBER' }\nprint \"Content-Type: text/plain\\n\\n\", own(), $n;\n";
    // Written by this process, as no program runs them itself.
    let paths: Vec<_> = (0..270).map(|number| stand.pool.root.join(format!("{number}.pl"))).collect();
    for (number, path) in paths.iter().enumerate() {
        fs::write(path, text.replace("NUMBER", &number.to_string())).expect("is written");
    }
    let mut log = String::new();
    // The first have made place by then, and come again.
    for (number, path) in paths.iter().enumerate().chain(paths.iter().enumerate().take(20)) {
        let response = conn.ask(path, &[], b"");
        assert_eq!(response.text(), format!("Content-Type: text/plain\n\n{number}1"));
        log.push_str(&response.log);
    }
    assert_eq!(log.matches("more than 256 scripts run in one process").count(), 1, "{log}");
}

#[test]
fn each_request_has_its_own_variables_alone() {
    let stand = Stand::new(Way::Rte, |pool| (pool.workers, pool.is_struct) = (1, true));
    let mut conn = stand.connect();
    let head = "print \"Content-Type: text/plain\\n\\n\";\n";
    let show = stand.script(
        "show.pl",
        &format!("{head}print join ' ', map {{ \"$_=$ENV{{$_}}\" }} grep {{ /^X_/ }} sort keys %ENV;\n"),
    );
    // One that the engine looks after no more than it must, one that changes what comes from outside, one that fails.
    let plain = stand.script("plain.pl", &format!("$| = 1;\n{head}our $n++;\nprint \"plain $n\";\n"));
    let change = stand.script(
        "change.pl",
        &format!("{head}$ENV{{X_A}} = 'mine';\ndelete $ENV{{X_B}};\n$ENV{{X_NEW}} = 1;\nprint 'changed';\n"),
    );
    let fail = stand.script("fail.pl", "die \"it fails\\n\";\n");
    let sets: [&[(&str, &str)]; 6] = [
        &[("X_A", "1"), ("X_B", "2")],
        &[("X_A", "3"), ("X_B", "4")],
        &[("X_A", "34"), ("X_B", "")],
        &[("X_A", "5"), ("X_C", "2")],
        &[("X_B", "1"), ("X_C", "2")],
        &[],
    ];
    for (number, &variables) in sets.iter().cycle().take(24).enumerate() {
        let before = [&plain, &change, &show, &fail][(number + number / 6) % 4];
        let said = conn.ask(before, sets[(number + 1) % sets.len()], b"").text();
        if before == &plain {
            assert_eq!(said, "Content-Type: text/plain\n\nplain 1");
        }
        let expected: Vec<_> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let shown = conn.ask(&show, variables, b"").text();
        assert_eq!(shown, format!("Content-Type: text/plain\n\n{}", expected.join(" ")), "behind {}", before.display());
    }
}
