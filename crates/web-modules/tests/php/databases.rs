//! Calls of real databases over sockets.

use crate::{required, run};
use weir_agent::transaction::Status;
use weir_testkit::{MariaDb, Postgres, require};
use weir_web_modules::{Told, context, tree};

#[test]
fn postgresql_by_pdo_and_by_its_own_functions() {
    let Some(()) = required("pdo_pgsql").and_then(|()| require::postgres()) else { return };
    let database = Postgres::new().start().expect("it starts");
    let told = Told::new();
    let code = format!(
        r#"
        $page = (new Arm\Application("shop"))->transaction("page")->start();
        $pdo = new PDO("pgsql:{address}");
        $asked = $pdo->prepare("select pg_sleep(?), 'secret'");
        $asked->execute([0.02]);
        $db = pg_connect("{address}");
        pg_query($db, 'select $$secret$$, \'x\', 17 as "n"');
        pg_query_params($db, "select $1::int", [7]);
        pg_prepare($db, "named", "select $1::int + 1");
        pg_execute($db, "named", [7]);
        @pg_query($db, "select from where");
        $page->stop();
        "#,
        address = database.address
    );
    let (_, all) =
        run(&told, &["extension=pdo", "extension=pgsql", "extension=pdo_pgsql", "arm.automatic=1"], &code, 10);
    let good = |name| (name, Status::Good, Some("page"));
    let expected = [
        ("page", Status::Good, None),
        good("PDO::__construct"),
        good("PDO::prepare"),
        good("PDOStatement::execute"),
        good("pg_connect"),
        good("pg_query"),
        good("pg_query_params"),
        good("pg_prepare"),
        good("pg_execute"),
        ("pg_query", Status::Failed, Some("page")),
    ];
    assert_eq!(tree(&all), expected);
    assert!(all[3].duration_ns >= 20_000_000, "{:?}", all[3]);
    let shapes: Vec<_> = all[3..].iter().map(|one| context(one, "statement").unwrap_or("-")).collect();
    let expected = [
        "select pg_sleep(?), ?",
        "-",
        "select ?, ?, ? as ?",
        "select $1::int",
        "select $1::int + ?",
        "named",
        "select from where",
    ];
    assert_eq!(shapes, expected);
}

#[test]
fn mariadb_by_mysqli() {
    let Some(()) = required("mysqli").and_then(|()| require::mariadb()) else { return };
    let database = MariaDb::new().start().expect("it starts");
    let socket = database.backend.socket.as_ref().expect("it has one");
    let told = Told::new();
    let code = format!(
        r#"
        $db = new mysqli("localhost", "root", "", "weir", 0, "{socket}");
        $db->query("select 1 as one, 'secret'");
        mysqli_query($db, "select 2");
        $asked = $db->prepare("select ?"); $text = "x"; $asked->bind_param("s", $text); $asked->execute();
        $asked->close();
        try {{ $db->query("select from where"); }} catch (mysqli_sql_exception) {{}}
        "#,
        socket = socket.display()
    );
    let (_, all) = run(&told, &["extension=mysqlnd", "extension=mysqli", "arm.automatic=1"], &code, 6);
    let good = |name| (name, Status::Good, None);
    let expected = [
        good("mysqli::__construct"),
        good("mysqli::query"),
        good("mysqli::query"),
        good("mysqli::prepare"),
        good("mysqli_stmt::execute"),
        ("mysqli::query", Status::Failed, None),
    ];
    assert_eq!(tree(&all), expected);
    assert_eq!(context(&all[1], "statement"), Some("select ? as one, ?"));
    assert_eq!(all[5].details.diagnosis.as_deref(), Some("mysqli_sql_exception 1064"));
}
