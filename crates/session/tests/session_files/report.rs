//! The report's form: Perl's own formatting as the second implementation, and a golden file.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use weir_session::report;
use weir_session::runner::{Check, Group, Outcome};
use weir_session::suite::{Show, Terse};
use weir_testkit::require;

fn outcome(name: Option<&str>, terse: Terse, checks: &[(&str, &[(bool, &str)])]) -> Outcome {
    let group = |(title, results): &(&str, &[(bool, &str)])| Group {
        title: (*title).to_owned(),
        results: results.iter().map(|(ok, comment)| Check { ok: *ok, comment: (*comment).to_owned() }).collect(),
    };
    Outcome {
        name: name.map(str::to_owned),
        line: 1,
        address: Some("http://127.0.0.1:8080/page".to_owned()),
        groups: checks.iter().map(group).collect(),
        seconds: 0.25,
        error: None,
        tolerated: Vec::new(),
        show: Show { terse, ..Show::default() },
        step: None,
    }
}

fn outcomes() -> Vec<Outcome> {
    let long = "a text that is longer than the column, so that its end is cut off at the fifty-ninth letter";
    let many: Vec<(bool, &str)> = (0..120).map(|_| (true, "again")).collect();
    let status: (&str, &[(bool, &str)]) = ("Status code check", &[(true, "Expected '200' and got: 200 OK")]);
    let mut all = vec![
        outcome(Some("The front page"), Terse::No, &[status, ("Required text", &[(false, long), (true, "short")])]),
        outcome(None, Terse::No, &[status]),
        outcome(Some(long), Terse::FailedOnly, &[status, ("Forbidden regex", &[(false, "a\tb\nc"), (true, "d")])]),
        outcome(Some("Summary"), Terse::Summary, &[status, ("Required text", &many)]),
    ];
    all.push(outcome(Some("No <answer> & \"more\""), Terse::No, &[("Status code check", &[(false, "no response")])]));
    all[4].error = Some("the connection was refused: nothing listens there".to_owned());
    all
}

#[test]
fn lines_are_those_of_perls_formats() {
    if require::program("perl").is_none() {
        return;
    }
    // The widths of the original's three formats: 6, 6 and 54; 70; 59 and 8.
    let script = r#"my ($c, $n, $t, $m, $v) = ('@' . '|' x 5, '@' . '<' x 53, '@' . '<' x 69, '@' . '<' x 58, '@' . '<' x 7);
        while (<STDIN>) { chomp; my ($kind, @v) = split /\x1f/; s/\x1e/\n/g for @v; local $^A = '';
        formline($kind eq 'row' ? " $c     $c $n\n" : $kind eq 'title' ? "  $t\n" : "    $m  $v\n", @v); print $^A; }"#;
    let mut perl =
        Command::new("perl").args(["-e", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut asked = perl.stdin.take().expect("its standard input");
    for outcome in outcomes() {
        let name = outcome.name.clone().unwrap_or_else(|| "*** no name ***".to_owned());
        writeln!(asked, "row\x1f{}\x1f{}\x1f{name}", outcome.count(false), outcome.count(true)).unwrap();
        for group in outcome.groups.iter().filter(|_| outcome.show.terse != Terse::Summary) {
            let all = outcome.show.terse == Terse::No;
            let shown: Vec<&Check> = group.results.iter().filter(|result| all || !result.ok).collect();
            if !shown.is_empty() {
                writeln!(asked, "title\x1f{}", group.title.to_uppercase()).unwrap();
            }
            for result in shown {
                let comment = result.comment.replace('\n', "\x1e");
                writeln!(asked, "check\x1f{comment}\x1f{}", if result.ok { "SUCCEED" } else { "FAIL" }).unwrap();
            }
        }
    }
    drop(asked);
    let lines = String::from_utf8(perl.wait_with_output().unwrap().stdout).unwrap();
    let ours = report::text(&outcomes());
    assert!(lines.lines().count() > 12, "{lines}");
    for line in lines.lines() {
        assert!(ours.lines().any(|own| own == line), "perl writes {line:?}, which is not in:\n{ours}");
    }
}

#[test]
fn reports_are_as_kept() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let all = outcomes();
    let ran = [report::Ran { file: "tests/a.wt", outcomes: &all, left_out: &[] }];
    for (name, text) in
        [("report.txt", report::text(&all)), ("report.json", report::json(&ran)), ("report.xml", report::junit(&ran))]
    {
        let path = folder.join(name);
        if std::env::var_os("WEIR_BLESS").is_some() {
            fs::write(&path, &text).expect("the golden file can be written");
        }
        let kept = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(text, kept, "{}; after an intended change: WEIR_BLESS=1", path.display());
    }
}
