//! Each directive, for a server, a virtual host, a directory, a location and files; and what a transaction tells.

use crate::{armed, ask, get, required, site};
use weir_agent::transaction::Status;
use weir_testkit::{Apache, Cgi, StartError};
use weir_web_modules::{Told, arm_directory, context, metric};

#[test]
fn directives_hold_where_they_stand() {
    if required().is_none() {
        return;
    }
    let site = site(&[
        ("index.html", "home"),
        ("a.txt", "a"),
        ("dir/page.txt", "page"),
        ("dir/secret.txt", "secret"),
        ("dir/off/x.txt", "off"),
        ("shop/cart.txt", "cart"),
        ("denied.txt", "denied"),
        ("fail.cgi", "#!/bin/sh\nexit 1\n"),
    ]);
    let root = site.path().display();
    let arm = arm_directory();
    let told = Told::over(arm.path());
    let apache = armed(Apache::event().workers(4).processes(2).root(site.path()).cgi(Cgi::Daemon), arm.path());
    let server = apache
        .directive(&format!(
            r#"
Arm On
ArmApplication server everywhere
ArmUser visitor
<Directory "{root}/dir">
  ArmTransaction "from the directory"
  ArmTransactionInfo "pages of a directory"
  ArmUser reader
</Directory>
<Directory "{root}/dir/off">
  Arm Off
</Directory>
<Location "/shop">
  ArmApplication shop
  ArmTransaction buy
</Location>
<Files "secret.txt">
  ArmTransaction secret
</Files>
<Location "/denied.txt">
  Require all denied
</Location>
<VirtualHost *:*>
  ServerName 127.0.0.1
</VirtualHost>
<VirtualHost *:*>
  ServerName other
  ArmApplication other
  ArmUser guest
</VirtualHost>"#
        ))
        .start()
        .expect("it starts");
    // What the launcher asked until the server answered.
    told.next(1);
    let expected = [
        ("/", "127.0.0.1", Some(("server", "/", "visitor", None))),
        ("/a.txt", "127.0.0.1", Some(("server", "/a.txt", "visitor", None))),
        ("/a.txt", "other", Some(("other", "/a.txt", "guest", None))),
        ("/dir/page.txt", "127.0.0.1", Some(("server", "from the directory", "reader", Some("pages of a directory")))),
        ("/dir/page.txt", "other", Some(("other", "from the directory", "reader", Some("pages of a directory")))),
        ("/dir/secret.txt", "127.0.0.1", Some(("server", "secret", "reader", Some("pages of a directory")))),
        ("/dir/off/x.txt", "127.0.0.1", None),
        ("/shop/cart.txt", "127.0.0.1", Some(("shop", "buy", "visitor", None))),
        ("/shop/cart.txt", "other", Some(("shop", "buy", "guest", None))),
        ("/nothing/here", "127.0.0.1", Some(("server", "(other)", "visitor", None))),
    ];
    for (path, host, what) in expected {
        let answer = ask(server.port, &format!("GET {path}?secret=1 HTTP/1.1\r\nHost: {host}"));
        let Some((application, name, user, info)) = what else {
            assert!(answer.status == 200 && told.rest().is_empty(), "{path}: it is off");
            continue;
        };
        let one = &told.next(1)[0];
        let found = (one.application.as_str(), one.name.as_str(), one.user.as_deref());
        assert_eq!(found, (application, name, Some(user)), "{path} of {host}");
        assert_eq!(one.properties.iter().map(|it| it.value.as_str()).next(), info, "{path} of {host}");
        assert_eq!(metric(one, "status"), Some(i64::from(answer.status)), "{path}");
        assert_eq!(metric(one, "bytes"), Some(answer.body.len() as i64), "{path}");
        assert_eq!((context(one, "method"), context(one, "host")), (Some("GET"), Some(host)));
        assert_eq!(one.details.address.as_deref(), Some(answer.from.to_string().as_str()), "the client");
        assert_eq!(one.details.uri.as_deref(), Some(path), "the query is not told");
        // From the request's line on, in which it waits for nothing; a first byte comes before the last one.
        let (first, last) = (metric(one, "first byte"), metric(one, "last byte"));
        assert!(Some(0) < first && first <= last, "{first:?} {last:?}");
        let took = (one.duration_ns / 1000) as i64;
        assert!(last.is_some_and(|last| took.abs_diff(last) <= took as u64 / 2 + 2_000), "{took} {last:?}");
        assert!(one.queued_ns > 0 && one.queued_ns <= one.duration_ns);
        assert_eq!(one.status, Status::Good);
        if application == "server" {
            assert_eq!(one.group.as_deref(), Some("everywhere"));
        }
    }

    // Refused before a handler runs, failed, and not even read.
    assert_eq!(get(server.port, "/denied.txt").status, 403);
    assert_eq!(metric(&told.next(1)[0], "status"), Some(403));
    assert_eq!(get(server.port, "/fail.cgi").status, 500);
    let failed = &told.next(1)[0];
    assert_eq!(
        (failed.status, failed.details.diagnosis.as_deref()),
        (Status::Failed, Some("500 Internal Server Error"))
    );
    assert_eq!(ask(server.port, "GET / HTTP/1.1\r\nno field\r\nHost: 127.0.0.1").status, 400);
    let refused = &told.next(1)[0];
    assert!(refused.reported && metric(refused, "status") == Some(400), "{refused:?}");
    assert!(told.rest().is_empty());
}

#[test]
fn what_a_directive_cannot_mean_is_said_in_words() {
    if required().is_none() {
        return;
    }
    let arm = arm_directory();
    for (line, said) in [
        ("ArmSample 0", "neither a whole number N"),
        ("ArmSample 101%", "neither a whole number N"),
        ("ArmClient 10.0.0.0/99", "no network as 192.0.2.0/24"),
        ("ArmMatch \"(\" x", "no regular expression"),
        ("ArmTransaction \"\"", "takes one argument, the name of requests"),
    ] {
        let refused = armed(Apache::prefork().workers(1), arm.path()).directive(line).start();
        let Err(StartError::Ended { log, .. }) = refused else { panic!("{line}: {refused:?}") };
        assert!(log.contains(said), "{line}: {log}");
    }
}
