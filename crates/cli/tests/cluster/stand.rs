//! A cluster in network namespaces: a client, a director and nodes at one switch, all with the real programs.

use crate::schema::{conforms, conforms_to_its_own};
use crate::services;
use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;
use weir_cluster::{Authority, Identity};
use weir_testkit::namespace::{Namespace, ip, tc};
use weir_testkit::slow_link::{Conditions, SlowLink};
use weir_testkit::tap::Tap;
use weir_testkit::{Certificate, SmallDisk};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// How long anything may take that is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Where clients reach the service.
pub(crate) const SERVICE: &str = "10.79.0.80";
pub(crate) const CLIENT: &str = "10.79.0.2";
/// The kernel answers for an address of the loopback device otherwise, and all nodes have the service's.
const QUIET: [&str; 4] = [
    "net.ipv4.conf.all.arp_ignore=1",
    "net.ipv4.conf.e0.arp_ignore=1",
    "net.ipv4.conf.all.arp_announce=2",
    "net.ipv4.conf.e0.arp_announce=2",
];

/// A cluster that serves files, ended and removed with the value.
pub(crate) struct Stand {
    pub(crate) client: Namespace,
    director: Namespace,
    /// The second director, and what makes it active.
    second: Option<(Namespace, Active)>,
    pub(crate) nodes: Vec<Namespace>,
    processes: Vec<(String, Child)>,
    /// The file system of the last node's directory, if it is soon full.
    disk: Option<SmallDisk>,
    pub(crate) folder: TempDir,
    certificate: Certificate,
    /// Whether the nodes serve what is published, rather than the files of the stand.
    is_published: bool,
    /// Bytes of it that each node keeps, if not all.
    keeps_bytes: Option<u64>,
    has_http3: bool,
    has_policy: bool,
    /// The configuration of the nodes, where files are not all that they serve.
    configuration: Option<String>,
    /// It ends last: the others are plugged in here.
    /// To the client, if it is far away.
    pub(crate) link: Option<SlowLink>,
    switch: Namespace,
}

/// What makes one of two directors active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Active {
    Command,
    /// A directory in SQLite.
    File,
    /// One in etcd, with members at two nodes and at the first director.
    Etcd,
}

impl Stand {
    /// One of so many nodes, which serve these files.
    pub(crate) fn new(nodes: usize, files: &[(&str, &[u8])]) -> Self {
        Self::of(nodes, files, false, None)
    }

    /// The same with two directors; a directory in SQLite makes one of them active, or a command.
    pub(crate) fn pair(nodes: usize, files: &[(&str, &[u8])], has_directory: bool) -> Self {
        Self::of(nodes, files, false, Some(if has_directory { Active::File } else { Active::Command }))
    }

    /// The same with a directory in etcd, of which the first director's machine has a member.
    pub(crate) fn pair_in_etcd(files: &[(&str, &[u8])]) -> Self {
        Self::of(2, files, false, Some(Active::Etcd))
    }

    /// One of so many nodes, which serve what is published; a directory in SQLite is theirs in common.
    pub(crate) fn published(nodes: usize) -> Self {
        Self::of(nodes, &[], true, None)
    }

    /// The same, where each node keeps so many bytes of it.
    pub(crate) fn published_within(nodes: usize, keeps_bytes: u64) -> Self {
        Self::made(nodes, &[], (true, Some(keeps_bytes)), (None, None))
    }

    /// One of two nodes, which serve what is published; the directory of the second is on a disk of so many MiB.
    pub(crate) fn published_on_a_small_disk(mib: u32) -> Option<Self> {
        let mut stand = Self::prepared(2, &[], (true, None), (None, None));
        let (folder, keys) = (stand.path("n2"), stand.path("n2-keys"));
        fs::rename(&folder, &keys).expect("is moved");
        fs::create_dir(&folder).expect("is made");
        stand.disk = Some(SmallDisk::mount_at(&folder, mib)?);
        let copied = Command::new("cp").args(["-a", &format!("{}/.", text(&keys)), text(&folder)]).status();
        assert!(copied.expect("cp is there").success());
        stand.start_all();
        Some(stand)
    }

    /// One of two nodes that share keys of tickets. The certificate of the second one was issued so many days ago.
    pub(crate) fn keyed(files: &[(&str, &[u8])], days: u64) -> Self {
        let mut stand = Self::prepared(2, files, (false, None), (None, None));
        stand.share_tickets();
        let authority = Authority::load(&stand.path("n1")).expect("it is there");
        let mut aged = Identity::load(&stand.path("n2")).expect("it is there");
        let then = SystemTime::now() - Duration::from_secs(days * 86_400);
        aged.certificate = authority.issue(&aged.member, &aged.key.public(), then).expect("is signed");
        aged.save(&stand.path("n2")).expect("is kept");
        stand.start_all();
        stand
    }

    /// One of two nodes that share keys of tickets and speak HTTP/3.
    pub(crate) fn keyed_quic(files: &[(&str, &[u8])]) -> Self {
        let mut stand = Self::prepared(2, files, (false, None), (None, None));
        stand.share_tickets();
        stand.has_http3 = true;
        stand.start_all();
        stand
    }

    fn share_tickets(&self) {
        for member in ["n1", "n2", "front"] {
            let path = self.path(member).join("members.toml");
            let members = fs::read_to_string(&path).expect("is there");
            fs::write(path, format!("{members}[tickets]\nshared = true\n")).expect("writes");
        }
    }

    /// One whose nodes have this configuration; the stand's files are in `site` beside it.
    pub(crate) fn configured(nodes: usize, files: &[(&str, &[u8])], configuration: &str) -> Self {
        let mut stand = Self::prepared(nodes, files, (false, None), (None, None));
        fs::write(stand.path("site.toml"), configuration).expect("writes");
        stand.configuration = Some(configuration.to_owned());
        stand.start_all();
        stand
    }

    /// One of two nodes whose servers have this policy.
    pub(crate) fn ruled(files: &[(&str, &[u8])], policy: &str) -> Self {
        let mut stand = Self::prepared(2, files, (false, None), (None, None));
        fs::write(stand.path("site.policy"), policy).expect("writes");
        stand.has_policy = true;
        stand.start_all();
        stand
    }

    /// One of two nodes that speak HTTP/3 as well.
    pub(crate) fn quic(files: &[(&str, &[u8])]) -> Self {
        let mut stand = Self::prepared(2, files, (false, None), (None, None));
        stand.has_http3 = true;
        stand.start_all();
        stand
    }

    /// The same, with this configuration.
    pub(crate) fn quic_configured(configuration: &str) -> Self {
        let mut stand = Self::prepared(2, &[("a.txt", b"hello")], (false, None), (None, None));
        fs::write(stand.path("site.toml"), configuration).expect("writes");
        (stand.has_http3, stand.configuration) = (true, Some(configuration.to_owned()));
        stand.start_all();
        stand
    }

    /// One of two nodes, with these weights in the list of members.
    pub(crate) fn weighted(files: &[(&str, &[u8])], weights: [u16; 2]) -> Self {
        let mut stand = Self::prepared(2, files, (false, None), (None, None));
        for member in ["n1", "n2", "front"] {
            let path = stand.path(member).join("members.toml");
            let mut members = fs::read_to_string(&path).expect("is there");
            for (number, weight) in (1..).zip(weights) {
                members = members
                    .replace(&format!("number = {number}\n"), &format!("number = {number}\nweight = {weight}\n"));
            }
            fs::write(path, members).expect("writes");
        }
        stand.start_all();
        stand
    }

    /// One whose client is far away.
    pub(crate) fn far(nodes: usize, files: &[(&str, &[u8])], conditions: Conditions) -> Self {
        Self::made(nodes, files, (false, None), (None, Some(conditions)))
    }

    fn of(nodes: usize, files: &[(&str, &[u8])], is_published: bool, pair: Option<Active>) -> Self {
        Self::made(nodes, files, (is_published, None), (pair, None))
    }

    fn made(
        nodes: usize,
        files: &[(&str, &[u8])],
        published: (bool, Option<u64>),
        how: (Option<Active>, Option<Conditions>),
    ) -> Self {
        let mut stand = Self::prepared(nodes, files, published, how);
        stand.start_all();
        stand
    }

    /// One whose processes are not started yet.
    fn prepared(
        nodes: usize,
        files: &[(&str, &[u8])],
        (is_published, keeps_bytes): (bool, Option<u64>),
        (pair, conditions): (Option<Active>, Option<Conditions>),
    ) -> Self {
        let switch = Namespace::new("cluster-switch");
        ip(&["-n", switch.name(), "link", "add", "br0", "type", "bridge", "forward_delay", "0"]);
        ip(&["-n", switch.name(), "link", "set", "br0", "up"]);
        let folder = tempfile::tempdir().expect("a folder");
        for (name, bytes) in files {
            let path = folder.path().join("site").join(name);
            fs::create_dir_all(path.parent().expect("has one")).expect("makes");
            fs::write(path, bytes).expect("writes");
        }
        let client = Namespace::new("cluster-client");
        let link = conditions.map(|conditions| SlowLink::new(&client, &mac_of(2), (&switch, "p2"), conditions));
        if link.is_none() {
            plug(&switch, &client, 2);
        }
        address(&switch, &client, (CLIENT, 2));
        let director = member(&switch, "cluster-director", "10.79.0.1", 1);
        // Two directors add it themselves.
        if pair.is_none() {
            ip(&["-n", director.name(), "addr", "add", &format!("{SERVICE}/32"), "dev", "e0"]);
        }
        let second = pair.map(|active| (member(&switch, "cluster-director2", "10.79.0.3", 3), active));
        let members = (1..=nodes).map(|number| {
            let node = member(&switch, &format!("cluster-n{number}"), &address_of(number), 10 + number);
            node.within(|| {
                let set = Command::new("sysctl").arg("-qw").args(QUIET).status().expect("procps is there");
                assert!(set.success());
            });
            ip(&["-n", node.name(), "addr", "add", &format!("{SERVICE}/32"), "dev", "lo"]);
            node
        });
        let nodes = members.collect();
        let certificate = Certificate::self_signed().expect("openssl makes one");
        let processes = Vec::new();
        let mut stand = Self {
            client,
            director,
            second,
            nodes,
            processes,
            disk: None,
            folder,
            certificate,
            is_published,
            keeps_bytes,
            has_http3: false,
            has_policy: false,
            configuration: None,
            link,
            switch,
        };
        stand.make_keys();
        stand
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the member of etcd of a machine, as its service does.
    fn start_etcd(&mut self, name: &str) {
        let (folder, log) = (self.path(name), File::create(self.path(&format!("etcd-{name}.log"))).expect("a file"));
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all", WEIR, "cluster", "etcd", text(&folder)]);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
        let namespace = if name == "front" { &self.director } else { self.node_of(name) };
        let child = namespace.within(move || command.spawn().expect("weir starts"));
        self.processes.push((format!("etcd-{name}"), child));
        wait_for(&self.path(&format!("etcd-{name}.log")), if name == "n1" { "runs" } else { "votes" });
    }

    fn node_of(&self, name: &str) -> &Namespace {
        &self.nodes[name.trim_start_matches('n').parse::<usize>().expect("a number") - 1]
    }

    /// Three machines with a member of etcd each, and the lines of members.toml for it.
    fn make_etcd(&mut self) -> String {
        let etcd = |at: &str| ["--etcd-member".to_owned(), at.to_owned(), "--no-start".to_owned()];
        let n1 = text(&self.path("n1")).to_owned();
        let own = etcd("10.79.0.11");
        let own = own.iter().map(String::as_str).collect::<Vec<_>>();
        weir(&[&["cluster", "init", &n1, "--name", "n1"][..], &own].concat(), None);
        self.start_etcd("n1");
        let log = self.path("admit-etcd.log");
        let mut admit = Command::new(WEIR);
        admit.args(["cluster", "admit", &n1, "--listen", "10.79.0.11:7701", "--count", "2"]).stdout(Stdio::null());
        admit.stderr(File::create(&log).expect("a file"));
        let mut admit = self.nodes[0].within(move || admit.spawn().expect("weir starts"));
        wait_for(&log, "can join at");
        let mut lines = String::new();
        for (name, at) in [("n2", "10.79.0.12"), ("front", "10.79.0.1")] {
            let role: &[&str] = if name == "front" { &["--director"] } else { &[] };
            let token = weir(&[&["cluster", "token", &n1][..], role].concat(), None);
            let folder = text(&self.path(name)).to_owned();
            let namespace = if name == "front" { &self.director } else { self.node_of(name) };
            let told = namespace.within(|| {
                let own = etcd(at);
                let own = own.iter().map(String::as_str).collect::<Vec<_>>();
                let join = ["cluster", "join", &folder, "--name", name, "--at", "10.79.0.11:7701"];
                weir(&[&join[..], &own].concat(), Some(&token))
            });
            lines = told.rsplit_once("of the cluster:\n").expect("the lines for members.toml").1.to_owned();
            self.start_etcd(name);
        }
        assert!(admit.wait().expect("is ours").success(), "all have joined");
        lines
    }

    fn make_keys(&mut self) {
        let n1 = self.path("n1");
        let etcd = matches!(self.second, Some((_, Active::Etcd))).then(|| self.make_etcd());
        if etcd.is_none() {
            weir(&["cluster", "init", text(&n1), "--name", "n1"], None);
        }
        let port = weir_testkit::free_port();
        let at = format!("127.0.0.1:{port}");
        let have_joined = if etcd.is_some() { 2 } else { 0 };
        let count = (self.nodes.len() + usize::from(self.second.is_some()) - have_joined).to_string();
        let mut admit = Command::new(WEIR)
            .args(["cluster", "admit", text(&n1), "--listen", &at, "--count", &count])
            .stdout(Stdio::null())
            .stderr(File::create(self.path("admit.log")).expect("a file"))
            .spawn()
            .expect("weir starts");
        wait_for(&self.path("admit.log"), "can join at");
        let is_new = |name: &str| !self.path(name).join("member.key").exists();
        for name in (2..=self.nodes.len()).map(|number| format!("n{number}")).filter(|name| is_new(name)) {
            let token = weir(&["cluster", "token", text(&n1)], None);
            weir(&["cluster", "join", text(&self.path(&name)), "--name", &name, "--at", &at], Some(&token));
        }
        let directors = ["front", "front2"].into_iter().take(1 + usize::from(self.second.is_some()));
        for name in directors.clone().filter(|name| is_new(name)) {
            let token = weir(&["cluster", "token", text(&n1), "--director"], None);
            weir(&["cluster", "join", text(&self.path(name)), "--name", name, "--at", &at], Some(&token));
        }
        assert!(admit.wait().expect("is ours").success(), "all have joined");
        let mut members = format!(
            "service = [\"{SERVICE}:80\", \"{SERVICE}:443\"]\n[director]\nname = \"front\"\naddress = \"10.79.0.1:7700\"\n"
        );
        for number in 1..=self.nodes.len() {
            let (address, mac) = (address_of(number), mac_of(10 + number));
            members += &format!(
                "[[node]]\nname = \"n{number}\"\nnumber = {number}\naddress = \"{address}:7700\"\nmac = \"{mac}\"\n"
            );
        }
        if self.second.is_some() {
            members += "[standby]\nname = \"front2\"\naddress = \"10.79.0.3:7700\"\n";
        }
        if let Some(lines) = &etcd {
            members += lines;
        } else if self.is_published || matches!(self.second, Some((_, Active::File))) {
            members += &format!("[directory]\nsqlite = {:?}\n", text(&self.path("directory.sqlite")));
            if let Some(keeps_bytes) = self.keeps_bytes {
                members += &format!("keeps_bytes = {keeps_bytes}\n");
            }
        }
        let names = (1..=self.nodes.len()).map(|number| format!("n{number}")).chain(directors.map(str::to_owned));
        names.for_each(|name| fs::write(self.path(&name).join("members.toml"), &members).expect("writes"));
    }

    fn start_all(&mut self) {
        let front = text(&self.path("front")).to_owned();
        self.start(
            None,
            "director",
            &["cluster", "director", &front, "--interface", "e0", "--metrics", "127.0.0.1:9100"],
        );
        if self.second.is_some() {
            self.start_director(2, "director2");
        }
        for number in 1..=self.nodes.len() {
            self.start_keeper(number);
        }
        wait_for(&self.path("director.log"), "members ask at");
        for number in 1..=self.nodes.len() {
            self.start_server(number);
        }
        for number in 1..=self.nodes.len() {
            wait_for(&self.path(&format!("serve{number}.log")), "sessions move");
        }
    }

    pub(crate) fn start_keeper(&mut self, number: usize) {
        let (folder, socket) = (self.path(&format!("n{number}")), self.path(&format!("keeper{number}.sock")));
        let options = ["keeper", "--cluster", text(&folder), "--interface", "e0", "--socket", text(&socket)];
        self.start(Some(number), &format!("keeper{number}"), &options);
        wait_for(&self.path(&format!("keeper{number}.log")), "ready at");
    }

    pub(crate) fn start_server(&mut self, number: usize) {
        let published = format!("n{number}/sites/www/current");
        let configured = if self.configuration.is_some() { "site.toml" } else { "site" };
        let site = if self.is_published { published.as_str() } else { configured };
        let [folder, socket, log, site] =
            [&format!("n{number}"), &format!("keeper{number}.sock"), &format!("access{number}.log"), site]
                .map(|name| text(&self.path(name)).to_owned());
        let admin = format!("unix:{}", text(&self.path(&format!("admin{number}.sock"))));
        let (clear, secure) = (format!("{SERVICE}:80"), format!("{SERVICE}:443"));
        let [certificate, key] =
            [self.certificate.certificate(), self.certificate.key()].map(|path| text(&path).to_owned());
        let mut options = vec![
            "serve",
            &site,
            "--listen",
            &secure,
            "--tls-cert",
            &certificate,
            "--tls-key",
            &key,
            "--listen-clear",
            &clear,
            "--cluster",
            &folder,
            "--keeper",
            &socket,
            "--access-log",
            &log,
            "--admin",
            &admin,
        ];
        options.extend(self.has_http3.then_some("--http3"));
        let policy = text(&self.path("site.policy")).to_owned();
        options.extend(self.has_policy.then_some(["--policy", &policy]).into_iter().flatten());
        self.start(Some(number), &format!("serve{number}"), &options);
    }

    /// Starts the first or the second director of a pair, with its output in a file of this name.
    pub(crate) fn start_director(&mut self, seat: usize, name: &str) {
        let folder = self.path(["front", "front2"][seat - 1]);
        let log = File::create(self.path(&format!("{name}.log"))).expect("a file");
        let mut command = Command::new("setpriv");
        command.args(services::rights_of("director")).arg(WEIR);
        command.args(["cluster", "director", text(&folder), "--interface", "e0"]);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
        let child = self.seat(seat).within(move || command.spawn().expect("weir starts"));
        self.processes.push((name.to_owned(), child));
    }

    fn seat(&self, seat: usize) -> &Namespace {
        match &self.second {
            Some((second, _)) if seat == 2 => second,
            _ => &self.director,
        }
    }

    /// Cuts a director off, and ends its process, which says nothing any more.
    pub(crate) fn power_off(&mut self, seat: usize, name: &str) {
        ip(&["-n", self.seat(seat).name(), "link", "set", "e0", "down"]);
        self.end(name);
    }

    /// Its machine is there again, as after a boot: without the service's address and without a filter.
    pub(crate) fn power_on(&self, seat: usize) {
        let namespace = self.seat(seat).name();
        let flushed = ["-n", namespace, "addr", "flush", "dev", "e0", "to", SERVICE];
        ip(&flushed);
        tc(&["-n", namespace, "qdisc", "del", "dev", "e0", "clsact"]);
        ip(&["-n", namespace, "link", "set", "e0", "up"]);
    }

    /// What `weir cluster status` says at a director's machine, with more options.
    pub(crate) fn seat_status(&self, folder: &str, more: &[&str]) -> String {
        let seat = if folder == "front" { 1 } else { 2 };
        let folder = self.path(folder);
        self.seat(seat).within(|| weir(&[&["cluster", "status", text(&folder)], more].concat(), None))
    }

    /// Whether the interface of a director has the service's address.
    pub(crate) fn has_address(&self, seat: usize) -> bool {
        let output =
            Command::new("ip").args(["-n", self.seat(seat).name(), "addr", "show", "dev", "e0"]).output().expect("ip");
        String::from_utf8_lossy(&output.stdout).contains(&format!("inet {SERVICE}/"))
    }

    /// Asks a process to end, and waits until it has.
    pub(crate) fn ask_to_end(&mut self, name: &str) {
        let at = self.processes.iter().position(|(known, _)| known == name).expect("is started");
        let (_, mut child) = self.processes.remove(at);
        // SAFETY: the call takes numbers only; the child is ours and was not waited for.
        assert_eq!(unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) }, 0);
        assert!(child.wait().expect("is ours").success(), "{}", self.said(name));
    }

    /// Starts weir at a node, or at the director, with its output in a file of this name.
    fn start(&mut self, node: Option<usize>, name: &str, options: &[&str]) {
        let log = File::create(self.path(&format!("{name}.log"))).expect("a file");
        let namespace = node.map_or(&self.director, |number| &self.nodes[number - 1]);
        // With no more rights than the manifest for Kubernetes gives to it.
        let mut command = Command::new("setpriv");
        command.args(services::rights_of(name.trim_end_matches(|digit: char| digit.is_ascii_digit()))).arg(WEIR);
        command.args(options).stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
        let child = namespace.within(move || command.spawn().expect("weir starts"));
        self.processes.push((name.to_owned(), child));
    }

    /// Kills a process and waits for its end.
    pub(crate) fn end(&mut self, name: &str) {
        let at = self.processes.iter().position(|(known, _)| known == name).expect("is started");
        let (_, mut child) = self.processes.remove(at);
        child.kill().expect("is ours");
        child.wait().expect("is ours");
    }

    /// The processes of a node: its server with those that it has started, and its keeper.
    pub(crate) fn processes_of(&self, number: usize) -> Vec<u32> {
        let names = [format!("serve{number}"), format!("keeper{number}")];
        let own = self.processes.iter().filter(|(name, _)| names.contains(name)).map(|(_, child)| child.id());
        let mut all: Vec<u32> = own.collect();
        let mut at = 0;
        while at < all.len() {
            all.extend(children(all[at]));
            at += 1;
        }
        all
    }

    /// The process of a node that moves its sessions: it is started by another one beside the server.
    pub(crate) fn node_process(&self, number: usize) -> u32 {
        let (_, serve) = self.processes.iter().find(|(name, _)| *name == format!("serve{number}")).expect("it runs");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let attendants = children(serve.id());
            if let Some(node) = attendants.into_iter().flat_map(children).next() {
                return node;
            }
            assert!(Instant::now() < deadline, "node {number} has no node process");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The process of the director.
    pub(crate) fn director_process(&self) -> u32 {
        let found = self.processes.iter().find(|(name, _)| name == "director");
        found.map_or(0, |(_, child)| child.id())
    }

    /// Has all nodes together send so much to the client at most.
    pub(crate) fn slow_client(&self, rate: &str) {
        let filter = ["dev", "p2", "root", "tbf", "rate", rate, "burst", "64kb", "limit", "1mb"];
        tc(&[&["-n", self.switch.name(), "qdisc", "add"], &filter[..]].concat());
    }

    /// Has what the client sends to the service get lost, or not any more.
    pub(crate) fn lose_client(&self, loses: bool) {
        let change = if loses { "add" } else { "del" };
        ip(&["-n", self.client.name(), "route", change, "blackhole", &format!("{SERVICE}/32")]);
    }

    /// Listens to what a node sends.
    pub(crate) fn tap(&self, number: usize) -> Tap {
        Tap::new(&self.switch, &format!("p{}", 10 + number))
    }

    /// Cuts a node off by `down`, or has it reached again by `up`.
    pub(crate) fn link_node(&self, number: usize, change: &str) {
        ip(&["-n", self.switch.name(), "link", "set", &format!("p{}", 10 + number), change]);
    }

    /// Takes a node away as a loss of power does: its link first, so that nothing is said of its end.
    pub(crate) fn power_off_node(&mut self, number: usize) {
        self.link_node(number, "down");
        self.end(&format!("serve{number}"));
        self.end(&format!("keeper{number}"));
    }

    /// Brings a node back that was taken away, as after a boot: its kernel has nothing of the connections of before.
    pub(crate) fn power_on_node(&mut self, number: usize) {
        self.nodes[number - 1].within(|| {
            let status = Command::new("ss").args(["-HtK", "dst", CLIENT]).stdout(Stdio::null()).status().expect("ss");
            assert!(status.success());
        });
        // Nor has it packets that wait for an answer of ARP, with which it would end these connections now.
        for state in ["down", "up"] {
            ip(&["-n", self.nodes[number - 1].name(), "link", "set", "e0", state]);
        }
        ip(&["-n", self.switch.name(), "link", "set", &format!("p{}", 10 + number), "up"]);
        self.start_keeper(number);
        self.start_server(number);
        wait_for(&self.path(&format!("serve{number}.log")), "sessions move");
    }

    /// What a node answers to a request of its own machine, with the head.
    pub(crate) fn ask_node(&self, number: usize, path: &str) -> Output {
        let url = format!("http://{SERVICE}/{path}");
        let mut command = Command::new("curl");
        command.args(["-sS", "-i", "--max-time", "10", &url]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.nodes[number - 1].within(move || command.spawn().expect("curl starts"));
        child.wait_with_output().expect("is ours")
    }

    /// Starts curl at the client, from this port.
    pub(crate) fn curl(&self, port: u16, options: &[&str]) -> Child {
        let mut command = Command::new("curl");
        command.args(["-sS", "-k", "--local-port", &port.to_string()]).args(options);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        self.client.within(move || command.spawn().expect("curl starts"))
    }

    /// Gives the client further addresses, so that no bound on one address holds.
    pub(crate) fn more_clients(&self, count: u8) -> Vec<IpAddr> {
        let more = (0..count).map(|number| {
            let address = format!("10.79.0.{}", 100 + number);
            ip(&["-n", self.client.name(), "addr", "add", &format!("{address}/24"), "dev", "e0"]);
            address.parse().expect("an address")
        });
        more.collect()
    }

    /// The figures of a node, as its server shows them.
    pub(crate) fn metrics(&self, node: usize) -> String {
        let socket = self.path(&format!("admin{node}.sock"));
        let output = Command::new("curl")
            .args(["-sS", "--max-time", "10", "--unix-socket", text(&socket), "http://w/metrics"])
            .output()
            .expect("curl starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The figures of the director.
    pub(crate) fn director_metrics(&self, at: &str) -> String {
        let url = format!("http://{at}/metrics");
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "10", &url]);
        let output = self.director.within(move || command.output().expect("curl starts"));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Follows the events of a member into a file.
    pub(crate) fn follow_events(&self, member: &str, to: &Path) -> Child {
        let out = File::create(to).expect("a file");
        let folder = self.path(member);
        let mut command = Command::new(WEIR);
        command.args(["cluster", "events", text(&folder), "--follow"]).stdin(Stdio::null()).stdout(out);
        // Where a test fails it is left behind, and would keep the reader of what the test says waiting.
        command.stderr(Stdio::null());
        command.spawn().expect("weir starts")
    }

    /// Starts a load at the client that writes a run.
    pub(crate) fn load(&self, run: &Path, options: &[&str]) -> Child {
        let log = File::create(self.path("load.log")).expect("a file");
        let mut command = Command::new(WEIR);
        command.args(["load", "--run", text(run)]).args(options).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a file")).stderr(log);
        self.client.within(move || command.spawn().expect("weir starts"))
    }

    /// Asks a node to move the session of a client.
    pub(crate) fn move_client(&self, from: usize, to: usize, client: &str) -> Output {
        let (folder, to, service) = (self.path(&format!("n{from}")), format!("n{to}"), format!("{SERVICE}:80"));
        Command::new(WEIR)
            .args(["cluster", "move", text(&folder), client, "--to", &to, "--service", &service])
            .output()
            .expect("weir starts")
    }

    /// Asks a node to move the session of the client's port.
    pub(crate) fn shift(&self, from: usize, to: usize, port: u16, service_port: u16) -> Output {
        let (folder, client, to) = (self.path(&format!("n{from}")), format!("{CLIENT}:{port}"), format!("n{to}"));
        let service = format!("{SERVICE}:{service_port}");
        Command::new(WEIR)
            .args(["cluster", "move", text(&folder), &client, "--to", &to, "--service", &service])
            .output()
            .expect("weir starts")
    }

    /// The node that has the session of the client's port, which is asked to move to itself.
    pub(crate) fn holder(&self, port: u16, service_port: u16) -> usize {
        let service: SocketAddr = format!("{SERVICE}:{service_port}").parse().expect("an address");
        let deadline = Instant::now() + PATIENCE;
        loop {
            for number in 1..=self.nodes.len() {
                let found = self.nodes[number - 1].within(|| connections(service));
                if found.contains(&format!("{CLIENT}:{port}")) {
                    return number;
                }
            }
            assert!(Instant::now() < deadline, "no node has a connection of port {port}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Which node has which of the client's ports, of all its connections with this port of the service.
    pub(crate) fn holders(&self, service_port: u16) -> Vec<(usize, u16)> {
        let service: SocketAddr = format!("{SERVICE}:{service_port}").parse().expect("an address");
        let of_node = |number: usize| {
            let found = self.nodes[number - 1].within(|| connections(service));
            found.into_iter().filter_map(move |peer| {
                let peer: SocketAddr = peer.parse().ok()?;
                (peer.ip().to_string() == CLIENT).then_some((number, peer.port()))
            })
        };
        (1..=self.nodes.len()).flat_map(of_node).collect()
    }

    /// How many connections a node has.
    pub(crate) fn connected(&self, node: usize) -> usize {
        let folder = self.path(&format!("n{node}"));
        weir(&["cluster", "sessions", text(&folder)], None).matches(&format!(" {SERVICE}:")).count()
    }

    /// Bytes that the kernel of a node still sends to the client.
    pub(crate) fn unacknowledged(&self, node: usize) -> u64 {
        let output = self.nodes[node - 1].within(|| Command::new("ss").args(["-Htn", "dst", CLIENT]).output());
        let told = String::from_utf8_lossy(&output.expect("ss").stdout).into_owned();
        // The state, then what is to be read, then this.
        told.lines().filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok()).sum()
    }

    /// How often a node has logged this.
    pub(crate) fn logged(&self, node: usize, what: &str) -> usize {
        let log = fs::read_to_string(self.path(&format!("access{node}.log"))).unwrap_or_default();
        log.matches(what).count()
    }

    /// What the kernel lets a process do, as /proc has it.
    pub(crate) fn limits(&self, name: &str) -> String {
        let (_, process) = self.processes.iter().find(|(known, _)| known == name).expect("it was started");
        fs::read_to_string(format!("/proc/{}/limits", process.id())).expect("it runs")
    }

    /// What a process has said.
    pub(crate) fn said(&self, name: &str) -> String {
        fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default()
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        for (name, child) in &mut self.processes {
            if name.starts_with("etcd-") {
                // In order: etcd itself would outlive a supervisor that is killed.
                signal(&[child.id()], libc::SIGTERM);
                let _ = child.wait();
            }
            let _ = child.kill();
            let _ = child.wait();
            if std::thread::panicking() {
                let log = fs::read_to_string(self.folder.path().join(format!("{name}.log"))).unwrap_or_default();
                eprintln!("--- {name}\n{log}");
            }
        }
    }
}

/// The processes that a process has started.
fn children(of: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("is there").filter_map(|entry| {
        let number: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        // Behind the name, which may hold anything: the state, and the parent.
        let parent: u32 = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
        (parent == of).then_some(number)
    });
    all.collect()
}

/// The clients whose connections with a service are established here, as ss(8) shows them.
fn connections(service: SocketAddr) -> Vec<String> {
    let filter = format!("src {service}");
    let output =
        Command::new("ss").args(["-Htn", "state", "established", &filter]).output().expect("iproute2 is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.split_whitespace().last().map(str::to_owned)).collect()
}

fn member(switch: &Namespace, name: &str, own_address: &str, number: usize) -> Namespace {
    let namespace = Namespace::new(name);
    plug(switch, &namespace, number);
    address(switch, &namespace, (own_address, number));
    namespace
}

/// Gives it a device, at the other end of which there is one of the switch.
fn plug(switch: &Namespace, member: &Namespace, number: usize) {
    let (own, plug) = (member.name(), format!("p{number}"));
    let link = ["link", "add", "e0", "netns", own, "address", &mac_of(number), "type", "veth", "peer", "name", &plug];
    ip(&[&link[..], &["netns", switch.name()]].concat());
}

fn address(switch: &Namespace, member: &Namespace, (address, number): (&str, usize)) {
    ip(&["-n", switch.name(), "link", "set", &format!("p{number}"), "master", "br0", "up"]);
    ip(&["-n", member.name(), "addr", "add", &format!("{address}/24"), "dev", "e0"]);
    ip(&["-n", member.name(), "link", "set", "e0", "up"]);
}

fn address_of(node: usize) -> String {
    format!("10.79.0.{}", 10 + node)
}

fn mac_of(number: usize) -> String {
    format!("02:79:00:00:00:{number:02x}")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("is text")
}

/// Sends a signal to processes of a stand.
pub(crate) fn signal(processes: &[u32], signal: i32) {
    for process in processes {
        // SAFETY: the call takes numbers only; the processes are of the stand.
        let sent = unsafe { libc::kill(*process as i32, signal) };
        assert_eq!(sent, 0, "{}", std::io::Error::last_os_error());
    }
}

/// Runs weir to its end; what it printed.
pub(crate) fn weir(options: &[&str], input: Option<&str>) -> String {
    use std::io::Write;
    let mut command = Command::new(WEIR);
    command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("weir starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input.unwrap_or_default().as_bytes()).expect("writes");
    drop(stdin);
    let output = child.wait_with_output().expect("is ours");
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("is text");
    if options.contains(&"--json") {
        described(options, &text);
    }
    text
}

/// What is printed as JSON is as its schema says.
fn described(options: &[&str], text: &str) {
    match options[1] {
        "events" => {
            text.lines().for_each(|line| conforms("cluster-event-1", &serde_json::from_str(line).expect("JSON")));
        }
        "versions" => conforms("cluster-versions-1", &serde_json::from_str(text).expect("JSON")),
        _ => conforms_to_its_own(&serde_json::from_str(text).expect("JSON")),
    }
}

/// Waits until a file has this text.
pub(crate) fn wait_for(file: &Path, wanted: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !fs::read_to_string(file).unwrap_or_default().contains(wanted) {
        let there = fs::read_to_string(file).unwrap_or_default();
        assert!(Instant::now() < deadline, "{} does not say {wanted:?}: {there}", file.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}
