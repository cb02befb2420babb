//! The example of ten lines does what it says.
// scripts/test: waits

mod server;

use server::Server;
use std::process::Command;

#[test]
fn the_example_prints_the_times_of_each_request() {
    let server = Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    // Cargo builds the examples of a package before it runs its tests.
    let built = std::env::current_exe().expect("this test");
    let example = built.parent().and_then(|deps| deps.parent()).expect("two folders").join("examples/ten_lines");
    let output = Command::new(&example)
        .arg(server.url().to_string())
        .output()
        .expect("the example: without --test, `cargo test` builds it first");
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
    assert_eq!(said.lines().filter(|line| line.ends_with(" us, status 200")).count(), 10_000);
    assert!(told.contains("requests/s, p99 "), "{told}");
}
