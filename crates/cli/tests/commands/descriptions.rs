//! `weir scenario --from` as its users run it: what is written, what is told, and what is refused.

use crate::support::weir;
use std::path::Path;
use std::process::Output;

fn scenario(folder: &Path, arguments: &[&str]) -> Output {
    weir().arg("scenario").args(arguments).current_dir(folder).output().expect("weir runs")
}

fn told(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_scenario_is_written_and_losses_are_told() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    std::fs::write(folder.join("a.sh"), "curl -u a:b http://h/x\ncurl --http3 http://h/y\n").expect("a file");
    let (status, words) = told(&scenario(folder, &["--from", "a.sh", "--out", "a.toml", "--users", "3"]));
    assert_eq!(status, Some(1), "{words}");
    assert!(words.contains("a.sh:2: --http3 is not carried over; a scenario goes over HTTP/1.1"), "{words}");
    let text = std::fs::read_to_string(folder.join("a.toml")).expect("the scenario");
    assert!(text.contains("NOT CARRIED OVER (1):") && text.contains("users = 3\nduration = \"10s\""), "{text}");
    assert_eq!(told(&scenario(folder, &["a.toml", "--check"])).0, Some(0));
    let (status, words) = told(&scenario(folder, &["--from", "a.sh", "--out", "a.toml"]));
    assert_eq!((status, words.contains("add --force")), (Some(2), true), "{words}");
    let output = scenario(folder, &["--from", "a.sh"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("get = \"/x\""), "{output:?}");
}

#[test]
fn data_of_a_plan_is_found_from_where_the_scenario_lies() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    std::fs::create_dir(folder.join("plans")).expect("a directory");
    let data = |name: &str, value: &str| format!("<stringProp name=\"{name}\">{value}</stringProp>");
    let plan = format!(
        "<jmeterTestPlan><hashTree><TestPlan/><hashTree><ThreadGroup>{}</ThreadGroup><hashTree><CSVDataSet>{}{}</CSVDataSet>\
         <hashTree/><HTTPSamplerProxy testname=\"a\">{}{}</HTTPSamplerProxy><hashTree/></hashTree></hashTree></hashTree>\
         </jmeterTestPlan>",
        data("ThreadGroup.num_threads", "1"),
        data("filename", "users.csv"),
        data("variableNames", "name"),
        data("HTTPSampler.domain", "h"),
        data("HTTPSampler.path", "/${name}"),
    );
    std::fs::write(folder.join("plans/p.jmx"), plan).expect("a file");
    std::fs::write(folder.join("plans/users.csv"), "ann\n").expect("a file");
    let (status, words) = told(&scenario(folder, &["--from", "plans/p.jmx", "--out", "p.toml"]));
    assert_eq!(status, Some(0), "{words}");
    let (status, words) = told(&scenario(folder, &["p.toml", "--check"]));
    assert_eq!(status, Some(0), "{words}");
}

#[test]
fn wrong_files_are_refused_with_line_and_remedy() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    let refused = |name: &str, text: &str, arguments: &[&str]| {
        std::fs::write(folder.join(name), text).expect("a file");
        let all: Vec<&str> = ["--from", name].into_iter().chain(arguments.iter().copied()).collect();
        let output = scenario(folder, &all);
        let (status, words) = told(&output);
        assert_eq!((status, output.stdout.len()), (Some(2), 0), "{name}: {words}");
        words
    };
    for (name, text, arguments, wanted) in [
        ("a.yaml", "openapi: 3.0.0\npaths:\n  /a: [\n", &[][..], "a.yaml:4:1: "),
        ("b.yaml", "openapi: 3.0.0\npaths: { /a: { $ref: '#/b' } }\n", &[], "b.yaml:2:22: #/b leads nowhere; write"),
        ("c.sh", "curl http://h/\ncurl --headr a http://h/\n", &[], "c.sh:2:1: curl has no option --headr"),
        ("d.jmx", "<jmeterTestPlan>\n</x>", &[], "d.jmx:2:1: "),
        ("e.json", "{\"info\": {}, \"item\": [}", &["--as", "postman"], "e.json:1:23: "),
        ("f.txt", "what is this", &[], "this is no description that is known"),
        (
            "g.yaml",
            "openapi: 3.0.0\npaths: { /a: { post: {} } }\n",
            &[],
            "POST /a may change data, and is left out; add --all",
        ),
        ("h.sh", "curl http://h/\n", &["--all"], "--all is of OpenAPI"),
    ] {
        let words = refused(name, text, arguments);
        assert!(words.contains(wanted), "{name}: {words}");
    }
    let (status, words) = told(&scenario(folder, &["--from", "nothing.yaml"]));
    assert_eq!((status, words.contains("nothing.yaml")), (Some(2), true), "{words}");
}
