//! The agent's switches hold at once; without an agent or without its library the server serves and its log has times.

use crate::{armed, get, line_of, required, site};
use std::path::Path;
use weir_agent::protocol::{Answer, Ask, Switch};
use weir_testkit::{Apache, Cgi};
use weir_web_modules::{Told, arm_directory, wait_for};

const PRINTS_ITS_ENVIRONMENT: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv\n";

#[test]
fn the_agents_switch_holds_at_once() {
    if required().is_none() {
        return;
    }
    let site = site(&[("env.cgi", PRINTS_ITS_ENVIRONMENT)]);
    let arm = arm_directory();
    let told = Told::over(arm.path());
    let apache = Apache::prefork().workers(2).root(site.path()).cgi(Cgi::Direct);
    let server = armed(apache, arm.path()).directive("Arm On\nArmApplication pages").start().expect("it starts");
    told.next(1);
    let switch = |to| {
        let ask = Ask::Switch { application: "pages".to_owned(), transaction: Some("/env.cgi".to_owned()), to };
        assert!(matches!(told.agent.ask(ask), Answer::Switched { .. }));
    };
    for _ in 0..4 {
        assert!(get(server.port, "/env.cgi").body.contains("ARM_CORRELATOR=001cd740"));
    }
    told.next(4);
    switch(Some(Switch::Off));
    for _ in 0..4 {
        let printed = get(server.port, "/env.cgi").body;
        // What it starts has no parent then, but still the application.
        assert!(printed.contains("ARM_APPLICATION=pages") && !printed.contains("ARM_CORRELATOR"), "{printed}");
    }
    assert!(told.rest().is_empty());
    switch(Some(Switch::On));
    get(server.port, "/env.cgi");
    told.next(1);
}

#[test]
fn without_an_agent_or_a_library_the_log_has_times() {
    if required().is_none() {
        return;
    }
    let site = site(&[("a.txt", "a")]);
    let arm = arm_directory();
    for has_library in [true, false] {
        let log = site.path().join(format!("{has_library}.log"));
        let format = r#"LogFormat "%U %{arm-id}n %{arm-first-byte}n %{arm-last-byte}n %D" arm"#;
        let directives = format!("{format}\nCustomLog \"{}\" arm\nArm On\nArmSample 2", log.display());
        let mut apache = armed(Apache::prefork().workers(1).root(site.path()), arm.path()).directive(&directives);
        if !has_library {
            apache = apache.environment("LD_LIBRARY_PATH", Path::new("/nowhere"));
        }
        let server = apache.start().expect("it starts");
        for _ in 0..2 {
            assert_eq!(get(server.port, "/a.txt").status, 200);
        }
        let line = line_of(&log, "/a.txt");
        let words: Vec<&str> = line.split(' ').collect();
        let times: Vec<i64> = words[2..].iter().map(|word| word.parse().expect("a time")).collect();
        assert!(words[1] == "-" && times[0] <= times[1] && times[1] <= times[2], "{line}");
        let said = "mod_arm: the ARM library is not loaded: libarm4.so.4";
        assert_eq!(server.log().contains(said), !has_library, "{}", server.log());
        assert!(has_library || server.log().contains("restart"), "it says what to do");
    }
}

#[test]
fn a_process_that_is_told_nothing_makes_no_memory() {
    if required().is_none() {
        return;
    }
    let arm = arm_directory();
    let told = Told::over(arm.path());
    let status = || match told.agent.ask(Ask::Status) {
        Answer::Status(status) => status,
        other => panic!("{other:?}"),
    };
    let off = armed(Apache::prefork().workers(3), arm.path()).directive("Arm Off\nArmTransaction x");
    let server = off.start().expect("it starts");
    get(server.port, "/");
    assert!(told.rest().is_empty() && status().processes == 0);
    drop(server);
    let on = armed(Apache::prefork().workers(3), arm.path()).directive("<Location \"/on\">\nArm On\n</Location>");
    let server = on.start().expect("it starts");
    // Registered when they start, before any request that is on: each child, and not the parent.
    wait_for("the children", || status().processes == 3);
    get(server.port, "/");
    assert!(told.rest().is_empty());
    drop(server);
    wait_for("their ends", || status().processes == 0);
}
