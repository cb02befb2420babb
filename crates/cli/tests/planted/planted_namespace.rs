//! weir and the server in a pid namespace of their own, as in a container: numbers and names are those of the namespace.

use crate::support;

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use support::planted::{first, said};
use support::recording::begun;
use support::{alone, number, output, weir};
use weir_testkit::{Site, require};
use weir_trace::RunReader;
use weir_wire::{Kind, text_from_slots};

/// Two threads that serve, and sleep before each answer.
const SERVER: &str = "#!/usr/bin/python3
import pathlib, socket, sys, threading, time
server = socket.create_server(('127.0.0.1', 0), backlog=64)
def serve():
    while True:
        client, _ = server.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while client.recv(4096):
            time.sleep(0.005)
            client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok')
for _ in range(2):
    threading.Thread(target=serve, daemon=True).start()
pathlib.Path(sys.argv[1] + '.part').write_text(str(server.getsockname()[1]))
pathlib.Path(sys.argv[1] + '.part').rename(sys.argv[1])
time.sleep(60)
";

/// Within the namespace: starts the server, records it by its number there, and lists its threads.
const SCRIPT: &str = "cd \"$1\"
./inner-server port & pid=$!
for _ in $(seq 200); do [ -e port ] && break; sleep 0.05; done
\"$2\" record --pid $pid -d 2s --run run
ls /proc/$pid/task > tasks
echo $pid > pid
kill $pid
";

#[test]
fn numbers_and_names_are_those_of_the_namespace() {
    let _turn = alone();
    if require::root_and_bpf().is_none() || require::program("python3").is_none() {
        return;
    }
    let site = Site::empty().expect("a directory");
    site.write_program("inner-server", SERVER.as_bytes()).expect("the server");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--mount", "sh", "-c", SCRIPT, "sh"]);
    command.arg(site.path()).arg(weir().get_program()).stdin(Stdio::null());
    let recording = begun(command);
    let read = |name: &str| fs::read_to_string(site.path().join(name)).expect("it is written");
    let url = format!("http://127.0.0.1:{}/", read("port"));
    let loaded = output(&["load", "-c", "2", "-d", "700ms", &url]);
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    let (status, told) = recording.end();
    assert!(status.success(), "{told}");
    let number_of = |text: &str| text.trim().parse::<u32>().expect("a number");
    let (pid, threads) = (number_of(&read("pid")), read("tasks").lines().map(number_of).collect::<BTreeSet<u32>>());
    assert!(pid < 1_000 && threads.len() == 3, "{pid}: {threads:?}");
    let (mut named, run) = (BTreeSet::new(), site.path().join("run"));
    RunReader::open(&run).expect("a run").merge().each(|sourced| {
        if sourced.record.kind == Kind::TaskName as u16 && text_from_slots(sourced.payload) == "inner-server" {
            let (task, process) = sourced.record.a_halves();
            assert_eq!(process, pid, "the server is one process");
            named.insert(task);
        }
        true
    });
    // The first thread sleeps all the while, and may be named or not.
    named.insert(pid);
    assert_eq!(named, threads);
    let run = run.to_str().expect("a readable path");
    let explained = output(&["explain", "--json", run]);
    let report: Value = serde_json::from_slice(&explained.stdout).expect("a report");
    assert!(number(&report, "/joined_fraction") > 0.99 && number(&report, "/requests") > 50.0, "{}", said(&report));
    let (part, who) = first(&report);
    assert!(part == "wait_timer" && who.contains("inner-server"), "{part} {who}: {}", said(&report));
}
