//! The paper's calls.

use crate::{php, required, run};
use weir_agent::transaction::Status;
use weir_web_modules::{Told, arm_directory, tree};

#[test]
fn the_papers_program_runs_and_is_told() {
    let Some(()) = required("") else { return };
    let told = Told::new();
    let code = r#"
        $app_id = arm_init("PhpApache", "*");
        $tran_id1 = arm_getid($app_id, "PhpApache", "PhpApache Test Page");
        $run_id1 = arm_start($tran_id1);
        $inner = arm_start(arm_getid($app_id, "inner"));
        echo arm_correlator(), " ";
        arm_update($inner, "half of it");
        echo arm_stop($inner, ARM_FAILED, "the card was refused"), arm_stop($run_id1, 0), arm_end($app_id);
        echo $app_id === arm_init("PhpApache", "*") ? " same" : " other";
        echo arm_getid($app_id, "inner") === arm_getid($app_id, "inner") ? " same" : " other";
    "#;
    let (said, all) = run(&told, &[], code, 2);
    assert_eq!(tree(&all), [("PhpApache", Status::Good, None), ("inner", Status::Failed, Some("PhpApache"))]);
    assert_eq!(said, format!("00-{}-{:016x}-01 000 same same", all[1].id.trace_text(), all[1].id.span));
    assert_eq!(
        (all[0].application.as_str(), all[1].details.diagnosis.as_deref()),
        ("PhpApache", Some("the card was refused"))
    );
    assert_eq!(
        (all[0].properties[0].name.as_str(), all[0].properties[0].value.as_str()),
        ("detail", "PhpApache Test Page")
    );
    assert!(all[0].user.is_some(), "* is the user that runs it");
}

#[test]
fn what_is_open_at_the_end_was_aborted_however_it_ends() {
    let Some(()) = required("") else { return };
    let told = Told::new();
    let begin = r#"
        $app = arm_init("ends");
        function begin($name) { return arm_start(arm_getid($GLOBALS["app"], $name)); }
        $outer = begin("outer"); $inner = begin("inner");
        ini_set("display_errors", 0); ini_set("log_errors", 0);
    "#;
    let two = [("outer", Status::Aborted, None), ("inner", Status::Aborted, Some("outer"))];
    let ends = [
        "",
        "exit(3);",
        "function f() { exit; } f();",
        "throw new Exception('it is not caught');",
        "undefined_function();",
        "ini_set('memory_limit', '4M'); $a = str_repeat('x', 1 << 30);",
        "set_time_limit(1); while (true) {}",
        // A stop that is the parent's alone leaves the child open.
        "register_shutdown_function(function () { begin('later'); });",
    ];
    for end in ends {
        let count = if end.contains("later") { 3 } else { 2 };
        let (_, all) = run(&told, &[], &format!("{begin}{end}"), count);
        assert_eq!(tree(&all)[..2], two, "{end}");
        assert!(all.iter().all(|one| one.status == Status::Aborted), "{end}");
    }
    assert!(told.rest().is_empty());
}

#[test]
fn an_error_never_breaks_a_page_and_has_words() {
    let Some(()) = required("") else { return };
    let told = Told::new();
    let code = r#"
        $app = arm_init("errors");
        $one = arm_getid($app, "one");
        $running = arm_start($one);
        foreach ([
            fn() => arm_init(""),
            fn() => arm_getid(77, "x"),
            fn() => arm_getid($app, ""),
            fn() => arm_start(-1),
            fn() => arm_start(arm_getid(-5, "x")),
            fn() => arm_stop(-1),
            fn() => arm_stop(PHP_INT_MAX),
            fn() => arm_update(12345),
            fn() => arm_discard(12345),
            fn() => arm_end(0),
            fn() => arm_stop($running, 9),
            fn() => arm_stop($running),
        ] as $call) { echo $call() < 0 && arm_error() ? "e" : "?"; }
        // Stopped in any order; a discarded one is not counted.
        $a = arm_start($one); $b = arm_start($one); $c = arm_start($one);
        echo arm_stop($a), arm_discard($c), arm_stop($b), " ";
        // A parent that is none, an explicit one, and none at all.
        arm_stop(arm_start($one, "no correlator"));
        arm_stop(arm_start($one, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
        $around = arm_start($one); arm_stop(arm_start($one, "")); arm_stop($around);
        // As many as there is room for, and no more.
        for ($i = 0; $i < 1100; $i++) { $last = arm_start($one); }
        echo $last, " ";
        for ($i = 0; $i < 5000; $i++) { $name = arm_getid($app, "name $i"); }
        echo $name;
    "#;
    let (said, all) = run(&told, &[], code, 1 + 2 + 2 + 2 + 1024);
    assert_eq!(said, "eeeeeeeeeeee000 -5 -4");
    assert_eq!(all[0].status, Status::Unknown, "of a status that there is none");
    let given = all.iter().find(|one| one.parent.is_some_and(|parent| parent.span == 0xb7ad_6b71_6920_3331));
    assert!(given.is_some_and(|one| one.id.trace_text() == "0af7651916cd43dd8448eb211c80319c"), "{given:?}");
    // `around` was started before the root within it.
    assert!(all[5].parent.is_none() && all[6].parent.is_none() && all[5].id.trace != all[6].id.trace);
    assert_eq!(all.iter().filter(|one| one.status == Status::Aborted).count(), 1024);
}

#[test]
fn a_forked_child_tells_of_itself() {
    let Some(()) = required("pcntl") else { return };
    let told = Told::new();
    let code = r#"
        $one = arm_getid(arm_init("forks"), "one");
        $around = arm_start($one);
        $child = pcntl_fork();
        arm_stop(arm_start($one));
        if ($child) { pcntl_waitpid($child, $status); arm_stop($around); }
    "#;
    let (_, all) = run(&told, &[], code, 3);
    let around = all[0].id;
    assert!(all[1..].iter().all(|one| one.parent == Some(around) && one.status == Status::Good), "{all:#?}");
    assert_ne!(all[1].process.pid, all[2].process.pid);
}

#[test]
fn without_library_or_agent_pages_run_all_the_same() {
    let Some(()) = required("") else { return };
    let code = r#"
        $a = arm_init("a"); $t = arm_getid($a, "t"); $r = arm_start($t);
        $o = Arm\Application::current()->transaction("o", ["c"])->start(context: ["c" => "1"]);
        echo $a, $t, $r, arm_stop($r), var_export(arm_correlator(), true), var_export($o->isRecorded(), true);
    "#;
    let unwatched = arm_directory();
    let run = |library: bool| {
        let mut command = php(&[], unwatched.path());
        if !library {
            command.env_remove("LD_LIBRARY_PATH");
        }
        let output = command.arg("-r").arg(code).output().expect("it starts");
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
    };
    assert_eq!(run(true), ("1100NULLfalse".to_owned(), true));
    // Where the library is installed as well, it is found.
    let (said, ran) = run(false);
    assert!(ran && said.ends_with("1100NULLfalse"), "{said}");
    assert!(said.starts_with("1100") || said.contains("nothing will be recorded"), "{said}");
    assert_eq!(std::fs::read_dir(unwatched.path()).expect("it is ours").count(), 0, "nothing is left behind");
}
