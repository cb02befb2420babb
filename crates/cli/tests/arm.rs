//! `weir agent` and `weir arm` on a program in C that calls the library, in two processes.
// scripts/test: serves, long

#[path = "arm/console.rs"]
mod console;
#[path = "arm/explained.rs"]
mod explained;
#[path = "arm/hosts.rs"]
mod hosts;
#[path = "arm/script_runs.rs"]
mod script_runs;
#[path = "arm/serve_cost.rs"]
mod serve_cost;
mod support;
#[path = "arm/waits.rs"]
mod waits;
#[path = "arm/watched_requests.rs"]
mod watched_requests;

use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use support::planted::wait_for;
use support::{alone, number, weir};
use weir_testkit::client::Connection;
use weir_testkit::{free_port, require};

/// The library and the programs, built once, among what Cargo builds.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("arm-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("permissions");
        let library = std::env::current_exe().expect("this test").with_file_name("libarm4.so");
        for name in ["libarm4.so", "libarm4.so.4"] {
            fs::copy(&library, folder.join(name)).unwrap_or_else(|error| panic!("{}: {error}", library.display()));
        }
        for program in ["arm_client", "arm_server", "arm_waiter"] {
            let compiled = Command::new("cc")
                .args(["-O1", "-Wall", "-Werror", "-pthread", "-o"])
                .arg(folder.join(program))
                .arg(root.join(format!("crates/cli/tests/support/{program}.c")))
                .arg("-I")
                .arg(root.join("native/include"))
                .arg("-L")
                .arg(&folder)
                .arg("-larm4")
                .arg(format!("-Wl,-rpath,{}", folder.display()))
                .output()
                .expect("cc starts");
            assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        }
        folder
    })
}

/// An ARM directory with what is kept beside it, and the programs that run on it.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
        let arm = folder.path().join("arm");
        fs::create_dir(&arm).expect("a directory");
        fs::set_permissions(&arm, fs::Permissions::from_mode(0o1777)).expect("permissions");
        Self { folder }
    }

    fn directory(&self) -> PathBuf {
        self.folder.path().join("arm")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = weir();
        command.args(arguments).env("WEIR_ARM_DIR", self.directory());
        command
    }

    /// Starts an agent and waits until it answers.
    fn agent(&self) -> Running {
        self.agent_with(&[])
    }

    /// The same with further options.
    fn agent_with(&self, options: &[&str]) -> Running {
        let state = self.folder.path().join("state");
        let mut command = self.command(&["agent", "--state", state.to_str().expect("a readable path")]);
        command.args(options);
        let agent = Running(command.stderr(Stdio::piped()).spawn().expect("it starts"));
        wait_for(|| self.run(&["arm", "list"]).status.success().then_some(()));
        agent
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the command starts")
    }

    /// What a command says that must succeed.
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "weir {} failed: {stderr}", arguments.join(" "));
        String::from_utf8(output.stdout).expect("text")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.text(arguments);
        let told: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("no JSON ({error}): {text}"));
        match arguments {
            ["arm", "tail", ..] => support::schema::conforms("arm-transaction-1", &told),
            ["arm", "show", ..] => support::schema::conforms("arm-show-1", &told),
            _ => support::schema::conforms_to_its_own(&told),
        }
        told
    }

    /// Starts the program.
    fn client(&self, arguments: [&str; 3]) -> Running {
        let mut client = Command::new(built().join("arm_client"));
        client.args(arguments).env("WEIR_ARM_DIR", self.directory()).stdout(Stdio::piped());
        Running(client.spawn().expect("it starts"))
    }

    /// Transactions of a name that are in the store.
    fn kept(&self, transaction: &str) -> [u64; 3] {
        let state = self.folder.path().join("state");
        let state = state.to_str().expect("a readable path");
        let text = self.text(&["arm", "export", "--format", "json", "--state", state, "--transaction", transaction]);
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
        lines.fold([0; 3], |sums, line| {
            let add = |at: usize, name: &str| sums[at] + line[name].as_u64().expect("a count");
            [add(0, "transactions"), add(1, "failed"), add(2, "unfinished")]
        })
    }
}

/// A process that ends with the test.
struct Running(Child);

impl Running {
    fn signal(&self, signal: i32) {
        // SAFETY: the process is a child of ours that was not waited for.
        unsafe { libc::kill(self.0.id() as i32, signal) };
    }

    /// Ends it in order; what it said.
    fn end(mut self) -> String {
        self.signal(libc::SIGTERM);
        let mut said = String::new();
        if let Some(mut out) = self.0.stdout.take() {
            out.read_to_string(&mut said).expect("text");
        }
        if let Some(mut err) = self.0.stderr.take() {
            err.read_to_string(&mut said).expect("text");
        }
        assert!(self.0.wait().expect("it is ours").success(), "{said}");
        said
    }

    /// Ends the program in order; how many orders it made.
    fn made(self) -> u64 {
        self.end().trim().parse().expect("a number")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It fails only when it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn row<'a>(table: &'a Value, list: &str, transaction: &str) -> Option<&'a Value> {
    table[list].as_array().expect("rows").iter().find(|row| row["transaction"] == transaction)
}

#[test]
fn a_program_is_seen_live_whole_and_later() {
    let _turn = alone();
    let place = Place::new();
    let agent = place.agent();
    let client = place.client(["0", "2000", "5"]);
    let top = wait_for(|| {
        let top = place.json(&["arm", "top", "--json"]);
        row(&top, "rows", "order").is_some_and(|row| number(row, "/transactions") > 50.0).then_some(top)
    });
    let (order, payment) =
        (row(&top, "rows", "order").expect("orders"), row(&top, "rows", "payment").expect("payments"));
    assert_eq!((&order["application"], number(&top, "/processes")), (&"shop".into(), 2.0));
    assert!(number(order, "/p50_ns") >= 2e6 && number(order, "/p50_ns") <= number(order, "/p99_ns"), "{order:#}");
    assert!(number(payment, "/failed") >= number(payment, "/transactions") / 5.0 - 1.0, "{payment:#}");
    assert!(number(order, "/blocked_share") > 0.5, "it waits for the bank: {order:#}");
    let table = place.text(&["arm", "top", "--once", "--by", "user"]);
    assert!(table.contains("ann: shop/order") && table.contains("no user: bank/payment"), "{table}");

    // The next that fails, and what it belongs to.
    let failed = place.json(&["arm", "tail", "--failed", "-n", "1", "--json"]);
    assert_eq!((&failed["name"], &failed["status"]), (&"payment".into(), &"failed".into()));
    let id = failed["id"].as_str().expect("an id");
    let tree = wait_for(|| {
        let output = place.run(&["arm", "show", id]);
        let text = String::from_utf8(output.stdout).expect("text");
        text.contains("shop/order").then_some(text)
    });
    assert!(tree.contains(": 2 transactions, 2 processes, 1 host\n"), "{tree}");
    assert!(
        tree.contains("  shop/order user ann in arm_client[") && tree.contains("  `- bank/payment FAILED"),
        "{tree}"
    );
    let whole = place.json(&["arm", "show", id, "--json"]);
    assert_eq!(whole.as_array().map(Vec::len), Some(2));
    let span = id.split('-').nth(1).expect("trace and span");
    assert!(place.text(&["arm", "show", span]).contains("bank/payment FAILED"));

    let list = place.json(&["arm", "list", "--json"]);
    assert_eq!(list["processes"].as_array().map(Vec::len), Some(2), "{list:#}");
    assert!(row(&list, "classes", "order").is_some_and(|order| order["switch"] == "on"), "{list:#}");
    let cost = place.json(&["arm", "overhead", "--seconds", "1", "--json"]);
    assert!(number(&cost, "/pair_ns_listening") > number(&cost, "/pair_ns_idle"), "{cost:#}");
    assert!(number(&cost, "/transactions_per_s") > 50.0 && number(&cost, "/lost") == 0.0, "{cost:#}");

    let made = client.made();
    let said = agent.end();
    assert!(said.contains("lost 0"), "{said}");
    assert_eq!((place.kept("order"), place.kept("payment")), ([made, 0, 0], [made, made / 5, 0]));
    let state = place.folder.path().join("state");
    let state = state.to_str().expect("a readable path");
    let exemplars = place.text(&["arm", "export", "--whole", "--state", state]);
    let kept: Vec<Value> = exemplars.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let failed = kept.iter().find(|kept| kept["status"] == "failed").expect("some that failed are kept whole");
    assert!(kept.iter().any(|kept| kept["id"] == failed["parent"]), "with what they belong to");
    let csv = place.text(&["arm", "export", "--state", state]);
    assert!(csv.starts_with("minute,application,transaction,user,") && csv.contains(",shop,order,ann,"), "{csv}");
}

/// It has given up all directories but those that were there when it began.
#[test]
fn a_confined_server_that_begins_before_its_agent_is_heard() {
    let _turn = alone();
    let place = Place::new();
    fs::remove_dir(place.directory()).expect("nothing is in it");
    let folder = place.folder.path();
    let rules = folder.join("rules");
    fs::write(&rules, "Arm On\nArmApplication shop\nArmMatch ^/ page\n").expect("writes");
    let site = folder.join("site");
    fs::create_dir(&site).expect("a directory");
    fs::write(site.join("a.txt"), "a").expect("writes");
    let port = free_port();
    let mut command = place.command(&["serve", "--listen", &format!("127.0.0.1:{port}"), "--arm"]);
    command.args([&rules, &site]).stderr(Stdio::null());
    let server = Running(command.spawn().expect("it starts"));
    let mut connection = wait_for(|| Connection::open(port).ok());
    let agent = place.agent();
    wait_for(|| {
        assert_eq!(connection.get("/a.txt").expect("an answer").status, 200);
        let list = place.json(&["arm", "list", "--json"]);
        row(&list, "classes", "page").filter(|row| number(row, "/transactions") > 0.0).map(|_| ())
    });
    drop(connection);
    server.end();
    agent.end();
}

#[test]
fn switches_hold_at_once_and_outlive_the_agent() {
    let _turn = alone();
    let place = Place::new();
    let agent = place.agent();
    let client = place.client(["0", "200", "0"]);
    let ended = |place: &Place, name: &str| {
        let list = place.json(&["arm", "list", "--json"]);
        row(&list, "classes", name).map_or(0.0, |row| number(row, "/transactions"))
    };
    wait_for(|| (ended(&place, "order") > 20.0).then_some(()));
    let said = place.text(&["arm", "off", "shop/order"]);
    assert!(
        said.starts_with("shop/order: off, changed in 1 process") && said.contains("  shop/order: off\n"),
        "{said}"
    );
    // What had begun ends, and is told; from then on nothing comes, while payments go on: the bank is not switched off.
    let payments_alone = || {
        wait_for(|| {
            let (orders, payments) = (ended(&place, "order"), ended(&place, "payment"));
            std::thread::sleep(Duration::from_millis(300));
            (ended(&place, "order") == orders && ended(&place, "payment") > payments).then_some(())
        });
    };
    payments_alone();
    // Another agent, and a program that comes later.
    assert!(agent.end().contains("left out by switches"));
    drop(client);
    let agent = place.agent();
    let client = place.client(["0", "200", "0"]);
    wait_for(|| (ended(&place, "payment") > 20.0).then_some(()));
    // The rule holds for processes that come later.
    payments_alone();
    // One of four counts for four.
    place.text(&["arm", "sample", "1/4", "shop/order"]);
    wait_for(|| (ended(&place, "order") > 100.0).then_some(()));
    let top = place.json(&["arm", "top", "--json"]);
    assert_eq!(row(&top, "rows", "order").expect("orders")["switch"], serde_json::json!({"one_in": 4}));
    let tail = place.json(&["arm", "tail", "-n", "1", "--transaction", "order", "--json"]);
    assert_eq!(number(&tail, "/one_in"), 4.0);
    let said = place.text(&["arm", "on", "--forget", "shop/order"]);
    assert!(said.contains("no rule of its own") && said.contains("no rule is set"), "{said}");
    place.text(&["arm", "off", "*"]);
    let refused = place.run(&["arm", "sample", "2/4", "shop"]);
    assert_eq!(refused.status.code(), Some(2));
    client.end();
    agent.end();
}

/// Killed in the middle of a load: what is kept in the end is what the program did, to the last one.
#[test]
fn an_agent_that_is_killed_loses_nothing_that_the_rings_hold() {
    let _turn = alone();
    let place = Place::new();
    let mut agent = place.agent();
    let client = place.client(["0", "100", "0"]);
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(350));
        agent.signal(libc::SIGKILL);
        drop(agent);
        agent = place.agent();
    }
    let made = client.made();
    // Its processes are gone; what they left is read to the end.
    wait_for(|| place.json(&["arm", "list", "--json"])["processes"].as_array()?.is_empty().then_some(()));
    let said = agent.end();
    assert!(said.contains("lost 0"), "{said}");
    assert_eq!((place.kept("order"), place.kept("payment")), ([made, 0, 0], [made, 0, 0]));
    assert!(made > 500, "{made}");
}

#[test]
fn without_an_agent_it_is_said_how_to_start_one() {
    let place = Place::new();
    for arguments in [&["arm", "top"][..], &["arm", "list"], &["arm", "off", "shop"], &["arm", "tail"]] {
        let output = place.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("weir agent") && said.contains("arm"), "{said}");
    }
    let cost = place.text(&["arm", "overhead", "--seconds", "1"]);
    assert!(cost.starts_with("a transaction   ") && cost.contains("weir agent"), "{cost}");
    let nothing = place.run(&["arm", "export", "--state", place.folder.path().to_str().expect("readable")]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("transactions.sqlite"));
    let twice = place.agent();
    let second = place.run(&["agent", "--no-state"]);
    assert_eq!(second.status.code(), Some(1), "one agent a directory");
    drop(twice);
}

/// A live table, on a pseudo-terminal.
#[test]
fn top_is_live_on_a_terminal_and_ends_at_a_signal() {
    let _turn = alone();
    let place = Place::new();
    let _agent = place.agent();
    let _client = place.client(["0", "1000", "0"]);
    let (mut ours, mut theirs) = (0, 0);
    let none = std::ptr::null_mut::<libc::c_char>();
    let size = libc::winsize { ws_row: 24, ws_col: 70, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: both places are valid for the results, and the size is read only.
    let made = unsafe {
        libc::openpty(&raw mut ours, &raw mut theirs, none, std::ptr::null_mut(), (&raw const size).cast_mut())
    };
    assert_eq!(made, 0, "a pseudo-terminal can be made");
    // SAFETY: both descriptors were just made, and nothing else owns them.
    let (mut ours, theirs) = unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    // SAFETY: the call takes numbers only.
    unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
    let mut command = place.command(&["arm", "top", "--every", "100ms"]);
    let mut live = Running(command.stdout(theirs).spawn().expect("it starts"));
    let mut seen = Vec::new();
    wait_for(|| {
        // Ends with an error: there is no more now.
        let _ = ours.read_to_end(&mut seen);
        let text = String::from_utf8_lossy(&seen);
        (text.matches("transactions/s over").count() > 2 && text.contains("shop/order")).then_some(())
    });
    live.signal(libc::SIGINT);
    let begin = Instant::now();
    assert!(live.0.wait().expect("it is ours").success());
    assert!(begin.elapsed() < Duration::from_secs(2));
    let text = String::from_utf8_lossy(&seen);
    // Drawn in its place, and no line beyond the terminal's columns.
    assert!(text.contains("\x1b["), "{text}");
    for line in text.split("\r\n") {
        let plain = line.rsplit("\x1b[").next().unwrap_or_default().trim_start_matches(|letter: char| {
            letter.is_ascii_digit() || ['A', 'J', 'K', 'H', ';', '\r'].contains(&letter)
        });
        assert!(plain.chars().count() < 70, "{plain:?}");
    }
}

/// The rights that the systemd unit grants suffice for programs of other users; without them the agent says what is
/// missing.
#[test]
fn the_units_capabilities_suffice() {
    let _turn = alone();
    // SAFETY: the call takes and changes nothing.
    let root = unsafe { libc::geteuid() } == 0;
    if require::or_skip(root, "needs root").is_none() || require::program("setpriv").is_none() {
        return;
    }
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let unit = fs::read_to_string(packaging.join("weir-agent.service")).expect("the unit");
    let granted = unit.lines().find_map(|line| line.strip_prefix("AmbientCapabilities=")).expect("its capabilities");
    let granted: Vec<String> =
        granted.split_whitespace().map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase())).collect();
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/weir ")).expect("its command");
    let place = Place::new();
    // Its files are as the unit has them: the directory open to all, the state its own.
    let state = place.folder.path().join("own");
    fs::create_dir(&state).expect("a directory");
    std::os::unix::fs::chown(&state, Some(65534), Some(65534)).expect("it is given away");
    let program = place.folder.path().join("weir");
    fs::copy(env!("CARGO_BIN_EXE_weir"), &program).expect("the command can be copied");
    let line = line.replace("/run/weir/arm", place.directory().to_str().expect("a readable path"));
    let line = line.replace("${STATE_DIRECTORY}", state.to_str().expect("a readable path")).replace("$WEIR_AGENT", "");
    let starting = |granted: &str, option: Option<&str>| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"]);
        command.args(["--inh-caps", granted, "--ambient-caps", granted, "--bounding-set", granted]);
        command.arg(&program).args(line.split_whitespace()).args(option).stderr(Stdio::piped());
        command
    };
    let as_nobody = |granted: &str, option: Option<&str>| {
        let agent = Running(starting(granted, option).spawn().expect("setpriv starts"));
        wait_for(|| place.run(&["arm", "list"]).status.success().then_some(()));
        agent
    };
    let client = place.client(["0", "1000", "0"]);
    let granted = format!("-all,{}", granted.join(","));
    // Waits need two more capabilities, and without these the agent names them.
    let refused = starting(&granted, Some("--capture")).output().expect("setpriv starts");
    let words = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && words.contains("CAP_BPF and CAP_PERFMON"), "{words}");
    let captures = require::root_and_bpf().is_some();
    let more = if captures { format!("{granted},+bpf,+perfmon") } else { granted };
    let agent = as_nobody(&more, captures.then_some("--capture"));
    let seen = || row(&place.json(&["arm", "top", "--json"]), "rows", "order").map(|row| number(row, "/transactions"));
    wait_for(|| seen().filter(|orders| *orders > 20.0));
    let told = place.json(&["arm", "tail", "-n", "1", "--transaction", "order", "--json"]);
    assert_eq!(told.get("threads").is_some(), captures, "{told:#}");
    agent.end();
    let agent = as_nobody("-all", None);
    let list = wait_for(|| {
        let list = place.text(&["arm", "list"]);
        list.contains("not read:").then_some(list)
    });
    assert!(list.contains("root"), "whom it may not read, and what to do: {list}");
    agent.end();
    client.end();
    let tmpfiles = fs::read_to_string(packaging.join("weir-agent.tmpfiles")).expect("the directory's line");
    assert!(tmpfiles.contains("d /run/weir/arm 1777 root root -"), "{tmpfiles}");
}
