//! Extensions that fail, and libraries that are none.

use crate::support::Host;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

const PLAIN: &str = "Content-Type: text/plain";

#[test]
fn errors_are_status_500() {
    let mut host = Host::start();
    let functions = host.build("functions.c", "functions.so", &[]);
    for (query, number) in [("error", 4), ("odd", 77)] {
        let answer = host.get(&functions, query);
        answer.expect(&format!("Status: 500 Internal Server Error\r\n{PLAIN}"), "The extension failed.\n");
        assert!(host.log().contains(&format!("it returned {number}")), "{}", host.log());
    }
}

#[test]
fn a_library_that_is_no_extension_is_status_500() {
    let mut host = Host::start();
    let words = r#"-DWORDS="no""#;
    let incomplete = host.build("version.c", "incomplete.so", &[words, "-DINCOMPLETE"]);
    let refusing = host.build("version.c", "refusing.so", &[words, "-DREFUSES"]);
    let text = host.folder.path().join("text.so");
    fs::write(&text, "no library").expect("a file");
    for (script, why) in [
        (&incomplete, "it has no function `HttpExtensionProc`"),
        (&refusing, "its GetExtensionVersion returned FALSE"),
        (&text, "it cannot be loaded: "),
    ] {
        let answer = host.get(script, "");
        answer.expect(
            &format!("Status: 500 Internal Server Error\r\n{PLAIN}"),
            "This extension cannot be run: the server's log says why.\n",
        );
        assert!(host.log().contains(&format!("{}: {why}", script.display())), "{}", host.log());
    }
    let answer = host.get(&host.folder.path().join("missing.so"), "");
    answer.expect(&format!("Status: 404 Not Found\r\n{PLAIN}"), "There is no such extension.\n");
    // The process has outlived all that.
    let good = host.build("version.c", "good.so", &[r#"-DWORDS="good""#]);
    host.get(&good, "").has("good");
    assert!(host.end().success());
}

#[test]
fn a_crash_ends_the_process_without_the_end_of_the_response() {
    let mut host = Host::start();
    let functions = host.build("functions.c", "functions.so", &[]);
    assert!(host.ask(&functions, &[("QUERY_STRING", "crash")], b"").is_none());
    assert_eq!(host.wait().signal(), Some(libc::SIGSEGV));
}

#[test]
fn a_replaced_library_is_loaded_again() {
    let mut host = Host::start();
    for (build, flags) in [("first", &[][..]), ("second", &[]), ("third", &["-Wl,-z,nodelete"]), ("fourth", &[])] {
        let words = format!("-DWORDS=\"{build}\"");
        let script = host.build("version.c", "version.so", &[&[words.as_str()], flags].concat());
        // A busy library is looked at some times a second.
        let mut asked = 0;
        while host.get(&script, "").text() != build {
            asked += 1;
            assert!(asked < 1000, "{build} does not come");
            std::thread::sleep(Duration::from_millis(2));
        }
        host.get(&script, "").expect("Status: 200 OK\r\nContent-Type: text/html", build);
    }
    assert!(host.end().success());
    assert_eq!(host.log(), "ended first 2\nended second 2\nended third 2\nended fourth 2\n");
}

#[test]
fn a_signal_ends_an_idle_process_in_order() {
    let mut host = Host::start();
    let script = host.build("version.c", "version.so", &[r#"-DWORDS="it""#]);
    host.get(&script, "").has("it");
    // Sent again and again: one that comes just before the process waits does not wake it.
    let mut status = None;
    for _ in 0..200 {
        host.terminate();
        std::thread::sleep(Duration::from_millis(20));
        status = host.ended();
        if status.is_some() {
            break;
        }
    }
    assert!(status.expect("the end").success());
    assert_eq!(host.log(), "ended it 2\n");
}

#[test]
fn many_libraries_stay_within_the_bound() {
    let mut host = Host::start();
    let script = host.build("version.c", "version.so", &[r#"-DWORDS="one""#]);
    for at in 0..70 {
        let copy = host.folder.path().join(format!("copy-{at}.so"));
        fs::copy(&script, &copy).expect("a copy");
        host.get(&copy, "").has("one");
    }
    assert_eq!(host.log().matches("ended one").count(), 70 - 64);
    assert!(host.end().success());
    assert_eq!(host.log().matches("ended one").count(), 70);
}

#[test]
fn a_damaged_stream_ends_the_process_with_words() {
    let mut host = Host::start();
    host.send_raw(b"!\nREQUEST_METHOD=GET\n\n");
    assert_eq!(host.wait().code(), Some(1));
    assert!(host.log().contains("needs the variables in struct mode"), "{}", host.log());
}
