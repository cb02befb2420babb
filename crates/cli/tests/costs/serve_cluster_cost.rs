//! What being a node of a cluster costs `weir serve` for a request that is over at once, counted by callgrind and so
//! independent of the machine's load: all that the server's process does, for its node process as well.

use crate::support;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::{alone, planted::wait_for};
use weir_testkit::counts::{settled, total, within};
use weir_testkit::{free_port, require};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// Requests of the shorter run, and how many more the longer one has.
const MANY: (u64, u64) = (200, 4_000);
/// A node's instructions beside those of the server alone. What is done once a second and not for a request is among
/// them; a server that was asked for copies each 10 ms took 1.3 times as many.
const MOST: f64 = 1.02;

#[test]
fn a_request_of_a_node_takes_hardly_more_instructions_than_of_a_server_alone() {
    let _turn = alone();
    if require::program("valgrind").is_none() {
        return;
    }
    let cluster = Cluster::of_two();
    for io in ["epoll", "auto"] {
        settled(|least| {
            let without = least.each(format!("{io}, alone"), MANY, |requests| counted(io, None, requests));
            let with = least.each(format!("{io}, a node"), MANY, |requests| counted(io, Some(&cluster), requests));
            eprintln!("{io}: {with:.0} instructions a request of a node, {without:.0} of a server alone");
            within(&format!("{io}: a node beside a server alone"), with / without, 0.99, MOST)
        });
    }
}

/// Two nodes on this machine, of which the second one runs: without a director and keepers, so no session moves.
struct Cluster {
    folder: tempfile::TempDir,
    _second: Ended,
}

impl Cluster {
    fn of_two() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let at = |name: &str| folder.path().join(name).display().to_string();
        weir(&["cluster", "init", &at("n1"), "--name", "n1"], "");
        let listen = format!("127.0.0.1:{}", free_port());
        let log = fs::File::create(folder.path().join("admit.log")).expect("a file");
        let mut admit = Command::new(WEIR);
        admit.args(["cluster", "admit", &at("n1"), "--listen", &listen, "--count", "2"]);
        let mut admit = Ended(admit.stdout(Stdio::null()).stderr(log).spawn().expect("weir starts"));
        said(&folder.path().join("admit.log"), "can join at");
        for (name, role) in [("n2", None), ("front", Some("--director"))] {
            let at_n1 = at("n1");
            let token: Vec<&str> = ["cluster", "token", at_n1.as_str()].into_iter().chain(role).collect();
            weir(&["cluster", "join", &at(name), "--name", name, "--at", &listen], &weir(&token, ""));
        }
        assert!(admit.0.wait().expect("it is ours").success(), "both have joined");
        let [service, director, first, second] = [(); 4].map(|()| free_port());
        let members = format!(
            "service = [\"127.0.0.1:{service}\"]\n\
             [director]\nname = \"front\"\naddress = \"127.0.0.1:{director}\"\n\
             [[node]]\nname = \"n1\"\nnumber = 1\naddress = \"127.0.0.1:{first}\"\nmac = \"02:79:00:00:00:01\"\n\
             [[node]]\nname = \"n2\"\nnumber = 2\naddress = \"127.0.0.1:{second}\"\nmac = \"02:79:00:00:00:02\"\n"
        );
        for name in ["n1", "n2"] {
            fs::write(folder.path().join(name).join("members.toml"), &members).expect("writes");
        }
        let site = folder.path().join("site");
        fs::create_dir(&site).expect("creates");
        fs::write(site.join("a.txt"), "hello").expect("writes");
        let log = fs::File::create(folder.path().join("n2.log")).expect("a file");
        let second = Command::new(WEIR)
            .args(["serve", "--listen", &format!("127.0.0.1:{}", free_port()), "--cluster", &at("n2")])
            .args(["--keeper", &at("none"), &at("site")])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let second = Ended(second.expect("weir starts"));
        said(&folder.path().join("n2.log"), "this is node n2");
        Self { folder, _second: second }
    }
}

/// Instructions of a server that has answered so many requests of one client.
fn counted(io: &str, cluster: Option<&Cluster>, requests: u64) -> u64 {
    let folder = tempfile::tempdir().expect("a directory");
    let [counts, log] = ["counts", "log"].map(|name| folder.path().join(name));
    let site = folder.path().join("site");
    fs::create_dir(&site).expect("creates");
    fs::write(site.join("a.txt"), "hello").expect("writes");
    let port = free_port();
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "-q"])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(WEIR)
        // A confined server could not write callgrind's file.
        .args(["serve", "--no-sandbox", "--loops", "1", "--io", io, "--listen", &format!("127.0.0.1:{port}")]);
    if let Some(Cluster { folder, .. }) = cluster {
        command.arg("--cluster").arg(folder.path().join("n1")).arg("--keeper").arg(folder.path().join("none"));
    }
    let server = command.arg(&site).stdout(Stdio::null()).stderr(fs::File::create(&log).expect("a file")).spawn();
    let mut server = Ended(server.expect("valgrind starts"));
    wait_for(|| std::net::TcpStream::connect(("127.0.0.1", port)).ok());
    if cluster.is_some() {
        said(&log, "this is node n1");
    }
    let url = format!("http://127.0.0.1:{port}/a.txt");
    let asked = Command::new(WEIR)
        .args(["load", &url, "-q", "-c", "1", "-n", &requests.to_string()])
        .stdout(Stdio::null())
        .status();
    assert!(asked.expect("the command starts").success(), "{io}");
    // SAFETY: the call takes no pointers.
    assert_eq!(unsafe { libc::kill(server.0.id().cast_signed(), libc::SIGTERM) }, 0);
    assert!(server.0.wait().expect("it ends").success(), "it ended otherwise");
    total(&fs::read_to_string(&counts).expect("callgrind's file"))
}

/// Runs weir to its end with this input; what it printed.
fn weir(arguments: &[&str], input: &str) -> String {
    let mut command = Command::new(WEIR);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().expect("weir starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).expect("writes");
    drop(stdin);
    let output = child.wait_with_output().expect("it is ours");
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Waits until a file has these words.
fn said(log: &Path, words: &str) {
    wait_for(|| fs::read_to_string(log).ok().filter(|text| text.contains(words)));
}

/// A process that ends with the value.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It fails only where it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
