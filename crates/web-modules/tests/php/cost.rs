//! What it costs, in instructions; and that it is clean under valgrind and for PHP with threads.

use crate::{php, required};
use std::fs;
use std::path::Path;
use std::process::Command;
use weir_agent::{Agent, Settings};
use weir_testkit::require;
use weir_web_modules::{arm_directory, make};

/// Instructions of a start and a stop of a page, the library's included; measured with gcc 12 and Rust 1.95: … while an
/// agent listens, … while none does.
const MOST_INSTRUCTIONS: [(bool, u64); 2] = [(true, 830), (false, 525)];
const PAIRS: u64 = 4000;

/// Runs PHP under a tool of valgrind's; gives what valgrind said of errors.
fn under_valgrind(options: &[&str], ini: &[&str], code: &str, arm: &Path) -> String {
    let plain = php(ini, arm);
    let mut command = Command::new("timeout");
    command.args(["60", "valgrind"]).args(options);
    // Without PHP's own allocator, so that each block is seen.
    command.args(plain.get_args().skip(1).collect::<Vec<_>>()).args(["-r", code]).env("USE_ZEND_ALLOC", "0");
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", output.status);
    said
}

#[test]
fn a_start_and_a_stop_are_few_instructions() {
    let Some(()) = required("").and_then(|()| require::program("valgrind")) else { return };
    for (listens, most) in MOST_INSTRUCTIONS {
        let (arm, results) = (arm_directory(), tempfile::tempdir().expect("a folder"));
        let settings = Settings { directory: arm.path().to_owned(), ..Settings::default() };
        let agent = listens.then(|| Agent::start(settings, None, None).expect("it starts"));
        let file = results.path().join("costs");
        let option = format!("--callgrind-out-file={}", file.display());
        let options =
            ["--tool=callgrind", "--toggle-collect=zif_arm_start", "--toggle-collect=zif_arm_stop", option.as_str()];
        let code = format!(
            r#"$t = arm_getid(arm_init("cost"), "one"); for ($i = 0; $i < {PAIRS}; $i++) {{ arm_stop(arm_start($t)); }}"#
        );
        under_valgrind(&options, &[], &code, arm.path());
        let costs = fs::read_to_string(&file).expect("callgrind wrote it");
        let all = costs.lines().find_map(|line| line.strip_prefix("summary: ")?.parse::<u64>().ok());
        let each = all.expect("a sum") / PAIRS;
        println!("a start and a stop: {each} instructions, listened to: {listens}");
        assert!(each > 50 && each <= most, "{each} instructions, listened to: {listens}");
        drop(agent);
    }
}

#[test]
fn valgrind_finds_nothing() {
    let Some(()) = required("pdo_sqlite").and_then(|()| required("curl")).and_then(|()| require::program("valgrind"))
    else {
        return;
    };
    let arm = arm_directory();
    let settings = Settings { directory: arm.path().to_owned(), ..Settings::default() };
    let _agent = Agent::start(settings, None, None).expect("it starts");
    let code = r#"
        $app = new Arm\Application("clean", "*");
        $one = $app->transaction("one", ["a", "b"], ["n" => ARM_GAUGE32, "s" => ARM_STRING32]);
        function f($one) { $r = $one->start(context: ["a" => 1, "b" => "text"], metrics: ["n" => 1, "s" => "text"]); throw new Exception("x"); }
        try { f($one); } catch (Exception) {}
        for ($i = 0; $i < 20; $i++) { $all[] = arm_start(arm_getid(arm_init("app $i"), "tran $i")); }
        arm_stop($all[3], ARM_FAILED, "words"); arm_discard($all[7]);
        $pdo = new PDO("sqlite::memory:"); $pdo->exec("create table a (b)"); @file_get_contents("http://127.0.0.1:1/");
        try { $pdo->query("select '"); } catch (PDOException) {}
        $list = stream_context_create(["http" => ["header" => ["X-Own: 1"]]]); @file_get_contents("http://127.0.0.1:1/", false, $list);
        $c = curl_init("http://127.0.0.1:1/"); curl_setopt($c, CURLOPT_HTTPHEADER, ["X-Own: 1"]); curl_exec($c);
        $multi = curl_multi_init(); curl_multi_add_handle($multi, $c); curl_multi_add_handle($multi, curl_copy_handle($c));
        exit(0);
    "#;
    let options = ["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"];
    let said = under_valgrind(
        &options,
        &["extension=pdo", "extension=pdo_sqlite", "extension=curl", "arm.automatic=1"],
        code,
        arm.path(),
    );
    assert!(said.is_empty(), "{said}");
}

#[test]
fn it_compiles_for_php_with_threads() {
    let Some(()) = required("") else { return };
    let output = make("php", &["threads"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
