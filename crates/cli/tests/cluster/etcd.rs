//! The etcd that `weir cluster init` and `join` run: three members with mutual TLS, one of which is killed.

use crate::stand::{PATIENCE, wait_for, weir};
use serde_json::Value;
use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// Machines of a cluster, each at an address of its own of the loopback network, and what runs there.
struct Machines {
    folder: TempDir,
    /// Folders of clusters whose etcd runs in the background.
    started: Vec<PathBuf>,
    /// For clients of the first one.
    first: SocketAddr,
}

impl Drop for Machines {
    fn drop(&mut self) {
        for folder in &self.started {
            let ended = run(&["cluster", "etcd", text(folder), "--end"]);
            if std::thread::panicking() {
                let log = fs::read_to_string(folder.join("etcd-supervisor.log")).unwrap_or_default();
                eprintln!("--- {}: {}\n{log}", folder.display(), words(&ended));
            }
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("is text")
}

fn run(options: &[&str]) -> Output {
    Command::new(WEIR).args(options).stdin(Stdio::null()).output().expect("weir starts")
}

fn words(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// An address of a machine with two ports that are free, one behind the other.
fn address(number: u8) -> SocketAddr {
    let ip = IpAddr::from([127, 0, 0, number]);
    loop {
        let port = weir_testkit::free_port();
        if port < u16::MAX && TcpListener::bind((ip, port + 1)).is_ok() {
            return (ip, port).into();
        }
    }
}

impl Machines {
    /// Makes a cluster of n1, with a member of etcd.
    fn one() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let first = address(11);
        let mut machines = Self { folder, started: Vec::new(), first };
        let n1 = machines.path("n1");
        machines.started.push(n1.clone());
        let told = weir(&["cluster", "init", text(&n1), "--name", "n1", "--etcd-member", &first.to_string()], None);
        assert!(told.contains("etcd runs in the background, supervised by process"), "{told}");
        machines
    }

    /// Makes a cluster of n1, n2 and n3, each with a member of etcd.
    fn three() -> Self {
        let mut machines = Self::one();
        let n1 = machines.path("n1");
        let admits = format!("127.0.0.1:{}", weir_testkit::free_port());
        let log = machines.path("admit.log");
        let mut admit = Command::new(WEIR)
            .args(["cluster", "admit", text(&n1), "--listen", &admits, "--count", "2"])
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("a file"))
            .spawn()
            .expect("weir starts");
        wait_for(&log, "can join at");
        for (name, number) in [("n2", 12), ("n3", 13)] {
            let (own, to) = (machines.path(name), address(number).to_string());
            let token = weir(&["cluster", "token", text(&n1)], None);
            machines.started.push(own.clone());
            let told = weir(
                &["cluster", "join", text(&own), "--name", name, "--at", &admits, "--etcd-member", &to],
                Some(&token),
            );
            let lines = told.split_once("of the cluster:\n").expect("the lines for members.toml").1.to_owned();
            machines.name_all(&lines);
        }
        assert!(admit.wait().expect("is ours").success(), "all have joined");
        machines
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Names all members of etcd in members.toml of each machine.
    fn name_all(&self, directory: &str) {
        let first = fs::read_to_string(self.path("n1").join("members.toml")).expect("is there");
        let (head, _) = first.rsplit_once("[directory]").expect("init names the directory");
        self.started
            .iter()
            .for_each(|folder| fs::write(folder.join("members.toml"), format!("{head}{directory}")).expect("writes"));
    }

    /// What `weir cluster status` says of the directory; no node runs, which it says as well.
    fn status(&self, name: &str) -> String {
        let output = run(&["cluster", "status", text(&self.path(name))]);
        assert_eq!(output.status.code(), Some(1), "{}", words(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn wait_status(&self, name: &str, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let told = self.status(name);
            if is_so(&told) {
                return told;
            }
            assert!(Instant::now() < deadline, "{what}: {told}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The process of etcd that the supervisor of a machine has started.
    fn etcd(&self, name: &str) -> Option<i32> {
        let own = fs::read_to_string(self.path(name).join("etcd.lock")).ok()?;
        fs::read_to_string(format!("/proc/{0}/task/{0}/children", own.trim())).ok().and_then(|_| {
            // Its supervising thread is the parent by the kernel's account.
            let tasks = fs::read_dir(format!("/proc/{}/task", own.trim())).ok()?;
            let children = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
            children
                .flat_map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
                .next()?
                .parse()
                .ok()
        })
    }

    fn publish(&self, name: &str, content: &str) -> u64 {
        let site = self.path("build");
        fs::create_dir_all(&site).expect("makes");
        fs::write(site.join("a.txt"), content).expect("writes");
        let told = weir(&["cluster", "publish", text(&self.path(name)), text(&site), "--json"], None);
        serde_json::from_str::<Value>(&told).expect("is JSON")["version"].as_u64().expect("a version")
    }
}

fn kill(pid: i32) {
    // SAFETY: the call takes numbers only; the process is an etcd that this test has had started.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
}

/// Asks an etcd with these options of curl for its members, or for its version.
fn curl(url: &str, folder: &Path, keys: Option<&str>) -> Output {
    let authority = folder.join("authority.crt");
    let mut command = Command::new("curl");
    command.args(["-sS", "--http1.1", "--max-time", "10", "--cacert", text(&authority), url]);
    if let Some(keys) = keys {
        let [certificate, key] = ["crt", "key"].map(|end| folder.join(format!("{keys}.{end}")));
        command.args(["--cert", text(&certificate), "--key", text(&key)]);
    }
    command.output().expect("curl starts")
}

/// Clients need a certificate of the cluster, and members one that is for etcd.
fn strangers_are_refused(machines: &Machines) {
    let n1 = machines.path("n1");
    let client = format!("https://{}/version", machines.first);
    assert!(words(&curl(&client, &n1, Some("member"))).contains("etcdserver"), "a member of the cluster may ask");
    assert!(!curl(&client, &n1, None).status.success(), "one without a certificate may not");
    let peer = format!("https://{}:{}/members", machines.first.ip(), machines.first.port() + 1);
    assert!(words(&curl(&peer, &n1, Some("etcd"))).contains("n3"), "members of etcd may ask each other");
    let refused = curl(&peer, &n1, Some("member"));
    assert!(!refused.status.success(), "a node that is none may not: {}", words(&refused));
    for name in ["n1", "n2", "n3"] {
        for (file, mode) in [("etcd", 0o700), ("etcd.key", 0o600), ("etcd.log", 0o600)] {
            let found = fs::metadata(machines.path(name).join(file)).expect(file).permissions().mode() & 0o777;
            assert_eq!(found, mode, "{name}/{file}");
        }
    }
}

#[test]
fn three_members_of_etcd_outlive_the_loss_of_one() {
    if weir_testkit::require::program("etcd").is_none() {
        return;
    }
    let machines = Machines::three();
    let told = machines.status("n1");
    assert_eq!(told.matches(": answers, etcd ").count(), 3, "{told}");
    assert_eq!(told.matches(", leads").count(), 1, "{told}");
    strangers_are_refused(&machines);
    assert_eq!(machines.publish("n2", "one"), 1);

    // A member that is killed is started again, and nothing waits for it.
    let before = machines.etcd("n1").expect("it runs");
    kill(before);
    assert_eq!(machines.publish("n3", "two"), 2);
    machines.wait_status("n2", "it is back", |told| told.matches(": answers, etcd ").count() == 3);
    assert_ne!(machines.etcd("n1").expect("it runs"), before);
    let log = fs::read_to_string(machines.path("n1").join("etcd-supervisor.log")).expect("is there");
    assert!(log.contains("etcd ended (signal: 9 (SIGKILL)); it was started again"), "{log}");

    // Without one the two others agree; a second supervisor is refused.
    let again = run(&["cluster", "etcd", text(&machines.path("n2"))]);
    assert!(words(&again).contains("it runs already, as process"), "{}", words(&again));
    let etcd = machines.etcd("n3").expect("it runs");
    weir(&["cluster", "etcd", text(&machines.path("n3")), "--end"], None);
    assert!(!Path::new(&format!("/proc/{etcd}")).exists(), "etcd has ended with its supervisor");
    assert_eq!(machines.publish("n1", "three"), 3);
    let told = machines.wait_status("n1", "one is away", |told| told.contains("n3 at") && told.contains("fault: "));
    assert!(told.contains("directory etcd at") && told.contains(" answers\n"), "{told}");
    let mut child = start_again(&machines.path("n3"));
    machines.wait_status("n3", "it is back", |told| told.matches(": answers, etcd ").count() == 3);
    a_removed_member_is_refused(&machines);
    weir(&["cluster", "etcd", text(&machines.path("n3")), "--end"], None);
    assert!(child.wait().expect("is ours").success());
}

/// etcd refuses the certificates of a member that was removed, on both of its ports, and no others.
fn a_removed_member_is_refused(machines: &Machines) {
    let (n1, n2, n3) = (machines.path("n1"), machines.path("n2"), machines.path("n3"));
    let client = format!("https://{}/version", machines.first);
    let peer = format!("https://{}:{}/members", machines.first.ip(), machines.first.port() + 1);
    assert!(words(&curl(&client, &n3, Some("member"))).contains("etcdserver"), "before it may ask");
    // A new certificate of its etcd is refused as well.
    let renewed = run(&["cluster", "renew", text(&n1)]);
    assert!(words(&renewed).contains("the certificate of n1 and that of its etcd are renewed"), "{}", words(&renewed));
    let told = words(&run(&["cluster", "remove", text(&n1), "n3"]));
    assert!(told.contains("its etcd is taken out of the cluster's"), "{told}");
    wait_for(&n1.join("etcd-supervisor.log"), "refuses the certificates of removed members");
    machines.wait_status("n2", "n3 is out", |told| {
        told.matches(": answers, etcd ").count() == 2 && !told.contains("n3 at")
    });
    for keys in ["member", "etcd"] {
        for url in [&client, &peer] {
            let refused = curl(url, &n3, Some(keys));
            assert!(!refused.status.success(), "{url} by {keys}: {}", words(&refused));
        }
        assert!(words(&curl(&client, &n2, Some(keys))).contains("etcdserver"), "the others may ask on");
    }
    assert!(words(&curl(&peer, &n2, Some("etcd"))).contains("n2"), "members of etcd may ask each other on");
    assert_eq!(machines.publish("n1", "four"), 4);
}

/// A supervisor that is killed takes etcd along, also one that stands still, and the next one has all that was published.
#[test]
fn etcd_does_not_outlive_a_supervisor_that_is_killed() {
    if weir_testkit::require::program("etcd").is_none() {
        return;
    }
    let machines = Machines::one();
    assert_eq!(machines.publish("n1", "one"), 1);
    let etcd = machines.etcd("n1").expect("it runs");
    // SAFETY: the call takes numbers only; the process is an etcd that this test has had started.
    assert_eq!(unsafe { libc::kill(etcd, libc::SIGSTOP) }, 0);
    kill(fs::read_to_string(machines.path("n1").join("etcd.lock")).expect("is there").parse().expect("a number"));
    let deadline = Instant::now() + PATIENCE;
    while is_running(etcd) {
        assert!(Instant::now() < deadline, "etcd is an orphan");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut child = start_again(&machines.path("n1"));
    machines.wait_status("n1", "it is back", |told| told.matches(": answers, etcd ").count() == 1);
    assert_eq!(machines.publish("n1", "two"), 2);
    weir(&["cluster", "etcd", text(&machines.path("n1")), "--end"], None);
    assert!(child.wait().expect("is ours").success());
}

/// Whether a process is there that has not ended: an orphan whose end is not looked at is a zombie.
fn is_running(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

/// As weir-etcd.service starts it.
fn start_again(folder: &Path) -> Child {
    let log = File::create(folder.join("service.log")).expect("a file");
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all", WEIR, "cluster", "etcd", text(folder)]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("weir starts")
}

#[test]
fn without_etcd_the_directory_is_a_file_and_init_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join("n1");
    let told = weir(&["cluster", "init", text(&own), "--name", "n1"], None);
    assert!(told.contains("in a file (SQLite), for nodes on this machine only"), "{told}");
    let output = run(&["cluster", "status", text(&own)]);
    assert!(words(&output).contains("directory.sqlite answers: a file, for nodes of this machine only"));
    let other = folder.path().join("n2");
    let url = "https://127.0.0.1:1";
    let told = weir(&["cluster", "init", text(&other), "--name", "n2", "--etcd", url], None);
    assert!(told.contains(&format!("in the etcd at {url}")), "{told}");
    let output = run(&["cluster", "status", text(&other)]);
    assert!(words(&output).contains("does not agree on changes now"), "{}", words(&output));
}
