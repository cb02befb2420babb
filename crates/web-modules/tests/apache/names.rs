//! What transactions are called, by patterns or by their objects, with a bound; and whose requests are measured.

use crate::{armed, get, required, site};
use std::collections::BTreeSet;
use weir_testkit::{Apache, Cgi};
use weir_web_modules::{Told, arm_directory};

#[test]
fn names_come_from_patterns_then_from_the_section_then_from_the_object() {
    if required().is_none() {
        return;
    }
    let site = site(&[
        ("page.txt", "page"),
        ("index.php.txt", "front"),
        ("script.cgi", "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nhere'\n"),
        ("fixed/page.txt", "fixed"),
    ]);
    let arm = arm_directory();
    let told = Told::over(arm.path());
    let apache = Apache::prefork().workers(1).root(site.path()).cgi(Cgi::Direct).module("rewrite");
    let server = armed(apache, arm.path())
        .directive(
            r#"
RewriteEngine On
RewriteRule "^/wiki/" "/index.php.txt"
Arm On
ArmMatch "^/wiki/.*\?.*do=edit" "edit a page"
ArmMatch "^/wiki/" "read a page"
ArmMatch "^/orders/([0-9]+)/items$" "items of an order"
ArmMatch "^/by/([a-z]+)" "by $1"
<Location "/orders/7">
  ArmMatch "items$" "of order seven"
</Location>
<Location "/wiki/fixed">
  ArmTransaction "one of its own"
</Location>"#,
        )
        .start()
        .expect("it starts");
    told.next(1);
    for (path, name) in [
        ("/wiki/start?do=edit&x=1", "edit a page"),
        ("/wiki/start?do=show", "read a page"),
        ("/orders/12/items", "items of an order"),
        ("/orders/7/items", "of order seven"),
        ("/by/name", "by name"),
        ("/wiki/fixed?do=edit", "one of its own"),
        ("/page.txt?x=1", "/page.txt"),
        ("/script.cgi/path/info", "/script.cgi"),
        ("/made/up/by/a/client", "(other)"),
    ] {
        get(server.port, path);
        assert_eq!(told.next(1)[0].name, name, "{path}");
    }
}

#[test]
fn clients_cannot_make_names_without_end() {
    if required().is_none() {
        return;
    }
    let arm = arm_directory();
    let told = Told::over(arm.path());
    let server = armed(Apache::event().workers(16).processes(1), arm.path())
        .directive("Arm On\nArmMatch \"^/n/(.*)\" \"n $1\"\n<Location \"/known\">\nArmTransaction known\n</Location>")
        .start()
        .expect("it starts");
    told.next(1);
    let ask = |path: &str, connection: &mut weir_testkit::client::Connection| {
        assert_eq!(connection.get(path).expect("an answer").status, 404);
    };
    std::thread::scope(|scope| {
        for part in 0..4 {
            let port = server.port;
            scope.spawn(move || {
                let mut connection = weir_testkit::client::Connection::open(port).expect("it listens");
                for number in 0..300 {
                    // Each name from two threads, which register it at the same time or not.
                    ask(&format!("/n/{}", part / 2 * 600 + number), &mut connection);
                    ask(&format!("/n/{}", part / 2 * 600 + 300 + number), &mut connection);
                }
            });
        }
    });
    let mut all = told.next(2400);
    let names: BTreeSet<String> = all.iter().map(|one| one.name.clone()).filter(|name| name != "(other)").collect();
    // What two threads register at once may take two places for a moment.
    assert!((990..=1000).contains(&names.len()), "{}", names.len());
    all.retain(|one| one.name == "(other)");
    assert!((2 * 200..2 * 230).contains(&all.len()), "{}", all.len());
    get(server.port, "/known");
    assert_eq!(told.next(1)[0].name, "known", "what the configuration names has room");
}

#[test]
fn only_some_requests_and_only_some_clients() {
    if required().is_none() {
        return;
    }
    let arm = arm_directory();
    let told = Told::over(arm.path());
    let server = armed(Apache::prefork().workers(1), arm.path())
        .directive(
            r#"
<Location "/tenth">
  Arm On
  ArmSample 10
</Location>
<Location "/share">
  Arm On
  ArmSample 2.5%
</Location>
<Location "/others">
  Arm On
  ArmClient 10.0.0.0/8 192.0.2.7 ::1
</Location>
<Location "/ours">
  Arm On
  ArmClient 192.0.2.0/24 127.0.0.0/8
</Location>
<Location "/others/all">
  ArmClient all
</Location>"#,
        )
        .start()
        .expect("it starts");
    let mut connection = weir_testkit::client::Connection::open(server.port).expect("it listens");
    let mut ask = |path: &str, times: u32| {
        for _ in 0..times {
            connection.get(path).expect("an answer");
        }
    };
    ask("/tenth", 200);
    assert_eq!(told.next(20).len(), 20);
    ask("/share", 200);
    assert_eq!(told.next(5).len(), 5);
    ask("/others", 5);
    assert!(told.rest().is_empty());
    ask("/ours", 5);
    ask("/others/all", 5);
    told.next(10);
    assert!(told.rest().is_empty());
}
