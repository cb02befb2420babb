//! A history of the directory's operations while faults are made, for the judge (`make check-directory`).
//!
//! Three members of etcd, each in a network of its own, are killed, stopped, partitioned, given a full disk and a slow
//! one, by a schedule that the seed decides. `WEIR_DIRECTORY_HISTORY` names the file; without it nothing is done.

use crate::support::{certificates_for, wait_for};
use serde_json::json;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weir_directory::supervise::{EtcdServer, Supervisor};
use weir_directory::{Directory, DirectoryError, Epoch, EtcdMembership, EtcdSettings, Known, TlsFiles, open_etcd};
use weir_testkit::namespace::{Namespace, ip};
use weir_testkit::seeded::Choice;
use weir_testkit::{SmallDisk, require};

/// The file of the history.
const FILE: &str = "WEIR_DIRECTORY_HISTORY";
/// How long operations go on, seconds; 40 without it.
const SECONDS: &str = "WEIR_DIRECTORY_SECONDS";
/// Whether some reads are those of one member alone: a fault that the judge must find.
const PLANTED: &str = "WEIR_DIRECTORY_PLANTED";
const MEMBERS: usize = 3;
const CLIENTS: usize = 6;
/// Two segments of etcd's log take 64 MB each.
const DISK_MIB: u32 = 150;
/// How long a client waits for an operation.
const OPERATION: Duration = Duration::from_secs(2);
/// Locks do not end by time: the judge knows no clock.
const TTL: Duration = Duration::from_secs(3600);
const KEYS: [&str; 5] = ["policy/a", "policy/b", "site/shop", "lock/a", "lock/b"];

fn member_address(at: usize) -> String {
    format!("10.78.0.{}", 11 + at)
}

/// Members of etcd in networks of their own, and the clients' network.
struct Stand {
    supervisors: Vec<Supervisor>,
    clients: Namespace,
    members: Vec<Namespace>,
    disks: Vec<SmallDisk>,
    settings: EtcdSettings,
    _switch: Namespace,
    _folder: tempfile::TempDir,
}

impl Stand {
    fn start() -> Option<Self> {
        let switch = Namespace::new("history-switch");
        ip(&["-n", switch.name(), "link", "add", "br0", "type", "bridge", "forward_delay", "0"]);
        ip(&["-n", switch.name(), "link", "set", "br0", "up"]);
        let plug = |name: &str, address: &str, number: usize| {
            let namespace = Namespace::new(name);
            let (own, end) = (namespace.name(), format!("p{number}"));
            ip(&["link", "add", "e0", "netns", own, "type", "veth", "peer", "name", &end, "netns", switch.name()]);
            ip(&["-n", switch.name(), "link", "set", &end, "master", "br0", "up"]);
            ip(&["-n", own, "addr", "add", &format!("{address}/24"), "dev", "e0"]);
            ip(&["-n", own, "link", "set", "e0", "up"]);
            namespace
        };
        let clients = plug("history-clients", "10.78.0.2", 0);
        let folder = tempfile::tempdir().expect("a folder");
        let tls = certificates_for(folder.path(), &(0..MEMBERS).map(member_address).collect::<Vec<_>>());
        let peers: Vec<(String, String)> =
            (0..MEMBERS).map(|at| (format!("member-{at}"), format!("{}:2380", member_address(at)))).collect();
        let (mut members, mut disks, mut supervisors) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..MEMBERS {
            let disk = SmallDisk::mount(DISK_MIB)?;
            let member = plug(&format!("history-m{at}"), &member_address(at), at + 1);
            let client = format!("{}:2379", member_address(at));
            let server = EtcdServer {
                name: peers[at].0.clone(),
                members: peers.clone(),
                data: disk.path().join("data"),
                log: folder.path().join(format!("{at}.log")),
                tls: Some(tls.clone()),
                ..EtcdServer::alone(folder.path(), &client, &peers[at].1)
            };
            supervisors.push(member.within(|| Supervisor::start(server).expect("etcd starts")));
            members.push(member);
            disks.push(disk);
        }
        let endpoints = (0..MEMBERS).map(|at| format!("https://{}:2379", member_address(at))).collect();
        let mut settings = EtcdSettings::new(endpoints, "weir/history/");
        (settings.tls, settings.patience) = (Some(tls), OPERATION);
        let stand = Self { supervisors, clients, members, disks, settings, _switch: switch, _folder: folder };
        let directory = stand.open(0);
        stand.clients.within(|| wait_for("an etcd that agrees", || directory.status().is_reachable));
        Some(stand)
    }

    /// The directory of a client that asks this member first.
    fn open(&self, first: usize) -> Box<dyn Directory> {
        let mut settings = self.settings.clone();
        settings.endpoints.rotate_left(first % MEMBERS);
        open_etcd(&settings).expect("the settings")
    }

    fn leader(&self) -> Option<usize> {
        let membership = EtcdMembership::open(&self.settings).expect("the settings");
        let states = self.clients.within(|| membership.states()).ok()?;
        states.iter().position(|it| it.state.as_ref().is_ok_and(|health| health.is_leader))
    }

    fn signal(&self, at: usize, signal: i32) {
        let Some(pid) = self.supervisors[at].state().pid else { return };
        // SAFETY: kill touches no memory. One that has just ended is still the supervisor's, or is not there.
        unsafe { libc::kill(pid.cast_signed(), signal) };
    }

    /// Cuts a member off from the other members, while clients reach it, or ends that.
    fn partition(&self, at: usize, change: &str) {
        for other in (0..MEMBERS).filter(|other| *other != at) {
            for (from, to) in [(at, other), (other, at)] {
                let to = format!("{}/32", member_address(to));
                ip(&["-n", self.members[from].name(), "route", change, "blackhole", &to]);
            }
        }
    }

    fn make(&self, fault: Fault, at: usize, time: Duration) {
        match fault {
            Fault::Killed => {
                self.signal(at, libc::SIGKILL);
                thread::sleep(time);
            }
            Fault::Stopped => {
                self.signal(at, libc::SIGSTOP);
                thread::sleep(time);
                self.signal(at, libc::SIGCONT);
            }
            Fault::Partitioned => {
                self.partition(at, "add");
                thread::sleep(time);
                self.partition(at, "del");
            }
            Fault::Unplugged => {
                let member = self.members[at].name();
                ip(&["-n", member, "link", "set", "e0", "down"]);
                thread::sleep(time);
                ip(&["-n", member, "link", "set", "e0", "up"]);
            }
            Fault::DiskFull => {
                let path = self.disks[at].path().join("filler");
                // It ends with an error once no byte is free.
                let filled = fs::write(&path, vec![1; (DISK_MIB as usize) << 20]);
                assert!(filled.is_err(), "the disk takes more than it has");
                thread::sleep(time);
                fs::remove_file(&path).expect("is removed");
            }
            Fault::DiskSlow => self.slow_disk(at, time),
        }
    }

    /// Each fsync of a member takes 500 ms longer.
    fn slow_disk(&self, at: usize, time: Duration) {
        let Some(pid) = self.supervisors[at].state().pid else { return };
        let mut strace = Command::new("strace")
            .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync"])
            .args(["-e", "inject=fsync,fdatasync:delay_exit=500000", "-p", &pid.to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("strace starts");
        thread::sleep(time);
        // SAFETY: kill touches no memory; the child was not waited for. It lets the process go on by this signal.
        unsafe { libc::kill(strace.id().cast_signed(), libc::SIGINT) };
        strace.wait().expect("is ours");
    }
}

/// What happens to one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Killed,
    Stopped,
    /// Cut off from the other members.
    Partitioned,
    /// Cut off from all.
    Unplugged,
    DiskFull,
    /// 500 ms for each fsync.
    DiskSlow,
}

const FAULTS: [Fault; 6] =
    [Fault::Killed, Fault::Stopped, Fault::Partitioned, Fault::Unplugged, Fault::DiskFull, Fault::DiskSlow];

/// Writes the history.
struct Recorder {
    out: Mutex<BufWriter<File>>,
    begun: Instant,
    /// Operations with an answer, those without a known outcome, and those that were not carried out.
    counts: [AtomicU64; 3],
}

/// What came of an operation.
enum Outcome {
    /// With a number and a value.
    Done(u64, String),
    /// For this number.
    Refused(u64),
    Unsure,
    /// It was not carried out, or tells nothing.
    Nothing,
}

struct Operation<'a> {
    client: usize,
    key: &'a str,
    what: &'a str,
    id: String,
    expected: u64,
}

impl Recorder {
    fn record(&self, operation: &Operation<'_>, act: impl FnOnce() -> Outcome) {
        let now = || u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let call = now();
        let outcome = act();
        let back = now();
        let (word, number, value) = match outcome {
            Outcome::Nothing => {
                self.counts[2].fetch_add(1, Ordering::Relaxed);
                return;
            }
            Outcome::Done(number, value) => ("done", number, value),
            Outcome::Refused(number) => ("refused", number, String::new()),
            Outcome::Unsure => ("unsure", 0, String::new()),
        };
        self.counts[usize::from(word == "unsure")].fetch_add(1, Ordering::Relaxed);
        let Operation { client, key, what, id, expected } = operation;
        let line = json!({
            "client": client, "key": key, "what": what, "id": id, "expected": expected, "call": call, "return": back,
            "outcome": word, "number": number, "value": value,
        });
        let mut out = self.out.lock().expect("no panic with it");
        writeln!(out, "{line}").expect("the history is written");
    }
}

/// A client that does one operation after the other.
struct Client<'a> {
    number: usize,
    directory: Box<dyn Directory>,
    recorder: &'a Recorder,
    choice: Choice,
    /// Of its operations.
    made: u64,
    /// How it reads from one member alone, where that is planted.
    planted: Option<Planted>,
}

fn of_change<T>(result: Result<T, DirectoryError>, done: impl FnOnce(T) -> Outcome) -> Outcome {
    match result {
        Ok(told) => done(told),
        Err(DirectoryError::Conflict { found, .. }) => Outcome::Refused(found),
        Err(DirectoryError::Unsure { .. }) => Outcome::Unsure,
        // Full disks refuse before anything is done; contention is told after it.
        Err(DirectoryError::Away { .. } | DirectoryError::Full { .. }) => Outcome::Nothing,
        Err(DirectoryError::Contended { .. } | DirectoryError::TooSlow { .. }) => Outcome::Unsure,
        Err(error) => panic!("{error}"),
    }
}

impl Client<'_> {
    fn step(&mut self) {
        self.made += 1;
        let id = format!("c{}-{}", self.number, self.made);
        let key = *self.choice.pick(&KEYS);
        match key.split_once('/') {
            Some(("policy", name)) => self.policy(key, name, &id),
            Some(("site", name)) => self.site(key, name, &id),
            Some((_, name)) => self.lock(key, name, &id),
            None => {}
        }
    }

    fn operation<'k>(&self, key: &'k str, what: &'k str, id: &str, expected: u64) -> Operation<'k> {
        Operation { client: self.number, key, what, id: id.to_owned(), expected }
    }

    fn policy(&mut self, key: &str, name: &str, id: &str) {
        let mut found = None;
        let read = self.operation(key, "read", id, 0);
        self.recorder.record(&read, || {
            let told = match &self.planted {
                Some(planted) => planted.read(name),
                None => match self.directory.policy(name) {
                    Ok(Known::Fresh(policy)) => Some(policy.map_or((0, String::new()), |it| (it.version, it.text))),
                    _ => None,
                },
            };
            let Some((version, text)) = told else { return Outcome::Nothing };
            found = Some(version);
            Outcome::Done(version, text)
        });
        let Some(version) = found.filter(|_| self.choice.below(2) == 0) else { return };
        let put = self.operation(key, "put", id, version);
        let expected = (version > 0).then_some(version);
        self.recorder.record(&put, || {
            of_change(self.directory.put_policy(name, id, expected), |number| Outcome::Done(number, String::new()))
        });
    }

    fn site(&mut self, key: &str, name: &str, id: &str) {
        let mut found = None;
        let read = self.operation(key, "read", id, 0);
        self.recorder.record(&read, || {
            let Ok(Known::Fresh(current)) = self.directory.current(name) else { return Outcome::Nothing };
            let told = current.map_or((0, String::new()), |it| (it.version, it.manifest.to_string()));
            found = Some(told.0);
            Outcome::Done(told.0, told.1)
        });
        let Some(version) = found.filter(|_| self.choice.below(2) == 0) else { return };
        let manifest = crate::cases::manifest(1, id);
        let put = self.operation(key, "put", &manifest.digest().to_string(), version);
        let expected = (version > 0).then_some(version);
        self.recorder.record(&put, || {
            of_change(self.directory.publish(name, &manifest, expected), |number| Outcome::Done(number, String::new()))
        });
    }

    fn lock(&mut self, key: &str, name: &str, id: &str) {
        let mut holder = None;
        let asked = self.operation(key, "holder", id, 0);
        self.recorder.record(&asked, || {
            let Ok(Known::Fresh(found)) = self.directory.holder(name) else { return Outcome::Nothing };
            let told = found.map_or((0, String::new()), |it| (it.epoch.0, it.holder));
            holder = Some(told.0);
            Outcome::Done(told.0, told.1)
        });
        let Some(epoch) = holder else { return };
        let of_taken = |result| {
            of_change(result, |taken: Option<Epoch>| match taken {
                Some(epoch) => Outcome::Done(epoch.0, String::new()),
                None => Outcome::Refused(0),
            })
        };
        match (epoch, self.choice.below(3)) {
            (0, _) | (_, 0) => {
                let operation = self.operation(key, "acquire", id, 0);
                self.recorder.record(&operation, || of_taken(self.directory.acquire(name, id, TTL)));
            }
            (_, 1) => {
                let operation = self.operation(key, "take_over", id, epoch);
                self.recorder.record(&operation, || of_taken(self.directory.take_over(name, id, TTL, Epoch(epoch))));
            }
            _ => {
                let operation = self.operation(key, "release", id, epoch);
                self.recorder.record(&operation, || {
                    of_change(self.directory.release(name, Epoch(epoch)), |()| Outcome::Done(0, String::new()))
                });
            }
        }
    }
}

/// Reads that one member answers by what it has, without asking the others.
struct Planted {
    url: String,
    tls: TlsFiles,
}

impl Planted {
    fn read(&self, policy: &str) -> Option<(u64, String)> {
        let key = base64(&format!("weir/history/policies/{policy}"));
        let body = json!({ "key": key, "serializable": true }).to_string();
        let output = Command::new("curl")
            .args(["-sS", "--max-time", "2", "-X", "POST", "-d", &body, &format!("{}/v3/kv/range", self.url)])
            .args(["--cacert".as_ref(), self.tls.ca.as_os_str(), "--cert".as_ref(), self.tls.certificate.as_os_str()])
            .args(["--key".as_ref(), self.tls.key.as_os_str()])
            .output()
            .ok()?;
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        answer.get("header")?;
        let Some(value) = answer["kvs"][0]["value"].as_str() else { return Some((0, String::new())) };
        let policy: weir_directory::Policy = serde_json::from_slice(&from_base64(value)?).ok()?;
        Some((policy.version, policy.text))
    }
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(text: &str) -> String {
    let mut out = String::new();
    for part in text.as_bytes().chunks(3) {
        let bits = part.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at)) as usize & 63];
            out.push(if at > part.len() { '=' } else { letter as char });
        }
    }
    out
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for part in text.as_bytes().chunks(4) {
        let mut bits = 0u32;
        for byte in part.iter().filter(|byte| **byte != b'=') {
            bits = bits << 6 | u32::try_from(LETTERS.iter().position(|letter| letter == byte)?).ok()?;
        }
        let count = part.iter().filter(|byte| **byte != b'=').count();
        let bytes = (bits << (6 * (4 - count))).to_be_bytes();
        out.extend(&bytes[1..count]);
    }
    Some(out)
}

/// Makes one fault after the other until the time is over; each kind comes once in a round, in an order of the seed.
fn make_faults(stand: &Stand, choice: &mut Choice, until: Instant) -> Vec<Fault> {
    let (mut left, mut made) = (Vec::new(), Vec::new());
    while Instant::now() < until {
        if left.is_empty() {
            left.extend(FAULTS);
        }
        let fault = left.swap_remove(usize::try_from(choice.below(left.len() as u64)).unwrap_or(0));
        let any = usize::try_from(choice.below(MEMBERS as u64)).unwrap_or(0);
        // Mostly the leader: its loss is what others notice.
        let at = if choice.below(3) > 0 { stand.leader().unwrap_or(any) } else { any };
        let time = Duration::from_millis(1500 + choice.below(2000));
        println!("member {at} is {fault:?} for {} ms", time.as_millis());
        stand.make(fault, at, time);
        made.push(fault);
        thread::sleep(Duration::from_millis(500 + choice.below(1000)));
    }
    made
}

#[test]
fn a_history_under_faults_is_written() {
    let Some(path) = std::env::var_os(FILE).map(PathBuf::from) else { return };
    if require::program("etcd").is_none() || require::program("strace").is_none() {
        return;
    }
    let seconds = std::env::var(SECONDS).ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    let mut choice = Choice::from_environment();
    println!("seed {}", choice.seed());
    let stand = Stand::start().expect("file systems can be mounted");
    let out = Mutex::new(BufWriter::new(File::create(path).expect("the file of the history")));
    let counts = [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];
    let recorder = Recorder { out, begun: Instant::now(), counts };
    let has_planted = std::env::var_os(PLANTED).is_some();
    let client = |number: usize, seed: u64| Client {
        number,
        directory: stand.open(number),
        recorder: &recorder,
        choice: Choice::from_seed(seed),
        made: 0,
        planted: (has_planted && number < MEMBERS).then(|| Planted {
            url: stand.settings.endpoints[number].clone(),
            tls: stand.settings.tls.clone().expect("they speak TLS"),
        }),
    };
    // The first epoch of a lock is known before any answer can be lost.
    stand.clients.within(|| {
        let mut first = client(CLIENTS, 0);
        for (key, name) in KEYS.iter().filter_map(|key| Some((key, key.strip_prefix("lock/")?))) {
            first.lock(key, name, &format!("first-{name}"));
        }
    });
    let stops = AtomicBool::new(false);
    let made = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|number| client(number, choice.next_u64())).collect();
        let stops = &stops;
        for mut client in clients {
            let namespace = &stand.clients;
            scope.spawn(move || {
                namespace.within(move || {
                    while !stops.load(Ordering::SeqCst) {
                        client.step();
                        thread::sleep(Duration::from_millis(5));
                    }
                });
            });
        }
        let faults = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            make_faults(&stand, &mut choice, Instant::now() + Duration::from_secs(seconds))
        }));
        stops.store(true, Ordering::SeqCst);
        faults.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    recorder.out.lock().expect("no panic with it").flush().expect("the history is written");
    let [known, unsure, nothing] = recorder.counts.map(AtomicU64::into_inner);
    println!("{known} operations with an answer, {unsure} without a known outcome, {nothing} not carried out or stale");
    println!("{} faults: {made:?}", made.len());
    assert!(known > 100, "the faults left {known} operations");
    assert!(made.len() < FAULTS.len() || FAULTS.iter().all(|fault| made.contains(fault)), "a fault was left out");
}
