//! Calls of other extensions that are transactions by themselves.

use crate::{php, required, run};
use std::io::{Read, Write};
use std::net::TcpListener;
use weir_agent::transaction::{Status, Transaction};
use weir_web_modules::{Told, context, tree};

const PDO: [&str; 3] = ["extension=pdo", "extension=pdo_sqlite", "arm.automatic=1"];

/// An HTTP server that answers so many requests with these heads, one after the other.
fn answering(heads: &'static [&'static str]) -> (u16, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it listens").port();
    let serving = std::thread::spawn(move || {
        for head in heads {
            let mut stream = listener.accept().expect("a request comes").0;
            let _ = stream.read(&mut [0; 4096]);
            std::thread::sleep(std::time::Duration::from_millis(20));
            let _ = stream.write_all(head.as_bytes());
        }
    });
    (port, serving)
}

fn uris(all: &[Transaction]) -> Vec<&str> {
    all.iter().map(|one| one.details.uri.as_deref().unwrap_or_default()).collect()
}

#[test]
fn each_call_of_a_database_is_one_with_the_shape_of_its_statement() {
    let Some(()) = required("pdo_sqlite") else { return };
    let told = Told::new();
    let code = r#"
        $page = (new Arm\Application("shop"))->transaction("page")->start();
        class Mine extends PDO {}
        $pdo = new Mine("sqlite::memory:");
        $pdo->exec("create table users (id int, name text)");
        $pdo->beginTransaction();
        $insert = $pdo->prepare("insert into users values (?, ?)");
        $insert->execute([1, "ann"]);
        $pdo->commit();
        foreach ($pdo->query("select * from users\n  where name = 'O''Neil' and id in (1, 2.5) -- who\n limit 10") as $row);
        try { $pdo->query("select nothing from nowhere"); } catch (PDOException) {}
        $pdo->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_SILENT);
        $pdo->exec("insert into nowhere values ('secret\\', 'secret')");
        [$pdo, "query"]("select 1");
        $page->stop();
    "#;
    let (_, all) = run(&told, &PDO, code, 11);
    let of_page = |name| (name, Status::Good, Some("page"));
    let failed = |name| (name, Status::Failed, Some("page"));
    let expected = [
        ("page", Status::Good, None),
        of_page("PDO::__construct"),
        of_page("PDO::exec"),
        of_page("PDO::beginTransaction"),
        of_page("PDO::prepare"),
        of_page("PDOStatement::execute"),
        of_page("PDO::commit"),
        of_page("PDO::query"),
        failed("PDO::query"),
        failed("PDO::exec"),
        of_page("PDO::query"),
    ];
    assert_eq!(tree(&all), expected);
    let shapes: Vec<_> = all.iter().map(|one| context(one, "statement").unwrap_or("-")).collect();
    let expected = [
        "-",
        "-",
        "create table users (id int, name text)",
        "-",
        "insert into users values (?, ?)",
        "insert into users values (?, ?)",
        "-",
        "select * from users where name = ? and id in (?, ?) limit ?",
        "select nothing from nowhere",
        // A backslash hides the end of a text in some databases and not in others: nothing behind it is told.
        "insert into nowhere values (?...",
        "select ?",
    ];
    assert_eq!(shapes, expected);
    assert_eq!(all[8].details.diagnosis.as_deref(), Some("PDOException HY000"), "not its message, which may quote");
    assert!(all[1..].iter().all(|one| one.application == "PHP"));
}

#[test]
fn statements_are_not_told_where_that_is_off_and_nothing_is_timed_by_itself() {
    let Some(()) = required("pdo_sqlite") else { return };
    let told = Told::new();
    let code = r#"(new PDO("sqlite::memory:"))->exec("create table a (b int)");"#;
    let (_, all) = run(&told, &[&PDO[..], &["arm.statements=0", "arm.application=mine"]].concat(), code, 2);
    assert!(all.iter().all(|one| one.application == "mine" && one.details.context.is_empty()));
    let (_, none) = run(&told, &PDO[..2], code, 0);
    assert!(none.is_empty() && told.rest().is_empty());
}

#[test]
fn addresses_that_are_opened_are_ones_too() {
    let Some(()) = required("curl") else { return };
    const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
    const NONE: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
    let (port, serving) = answering(&[GOOD, NONE, GOOD]);
    let told = Told::new();
    let code = format!(
        r#"
        echo file_get_contents("http://ann:word@127.0.0.1:{port}/a?secret#b");
        @file_get_contents("http://127.0.0.1:{port}/b");
        echo str_contains(error_get_last()["message"], "404") ? " its words " : error_get_last()["message"];
        $c = curl_init("http://127.0.0.1:{port}/c?secret"); curl_setopt($c, CURLOPT_RETURNTRANSFER, true); echo curl_exec($c);
        $c = curl_init("http://127.0.0.1:1/d"); curl_exec($c);
        echo file_get_contents("data:,x"), filesize("/etc/passwd") > 0;
        "#
    );
    let (said, all) = run(&told, &["extension=curl", "arm.automatic=1"], &code, 4);
    serving.join().expect("it served");
    assert_eq!(said, "hi its words hix1");
    let expected = [
        ("open http", Status::Good, None),
        ("open http", Status::Failed, None),
        ("curl_exec", Status::Good, None),
        ("curl_exec", Status::Failed, None),
    ];
    assert_eq!(tree(&all), expected);
    let at = |path| format!("http://127.0.0.1:{port}/{path}");
    assert_eq!(uris(&all), [&at("a"), &at("b"), &at("c"), "http://127.0.0.1:1/d"]);
    assert!(all[..3].iter().all(|one| one.duration_ns >= 20_000_000), "{all:#?}");
    assert!(all[3].details.diagnosis.as_ref().is_some_and(|words| words.contains("connect")), "{:?}", all[3]);
}

#[test]
fn a_fatal_error_within_a_timed_call_aborts_it() {
    let Some(()) = required("pdo_sqlite") else { return };
    let told = Told::new();
    let code = r#"
        ini_set("display_errors", 0); ini_set("log_errors", 0);
        $pdo = new PDO("sqlite::memory:");
        $pdo->sqliteCreateFunction("leave", function () { exit(0); });
        $pdo->sqliteCreateFunction("fatal", function () { ini_set("memory_limit", "4M"); return str_repeat("x", 1 << 30); });
        if ($argv[1] == "exit") { $pdo->query("select leave()"); }
        $pdo->query("select fatal()");
    "#;
    for way in ["exit", "fatal"] {
        let mut command = php(&PDO, told.arm());
        command.args(["-r", code, way]);
        command.output().expect("it starts");
        let all = told.next(2);
        let expected = [("PDO::__construct", Status::Good, None), ("PDO::query", Status::Aborted, None)];
        assert_eq!(tree(&all), expected, "{way}");
    }
}
