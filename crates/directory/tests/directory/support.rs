//! Members of etcd for the tests, a wire that can be cut, and certificates.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_directory::supervise::{EtcdServer, Supervisor};
use weir_directory::{Directory, DirectoryError, EtcdSettings, TlsFiles, open_etcd};
use weir_testkit::free_port;

/// How long a test waits for a state.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until something holds.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what} did not happen within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Members of one etcd, each supervised.
pub(crate) struct Members {
    pub(crate) servers: Vec<EtcdServer>,
    pub(crate) supervisors: Vec<Supervisor>,
    pub(crate) settings: EtcdSettings,
    _folder: TempDir,
}

impl Members {
    /// Starts so many, and waits until they agree.
    pub(crate) fn start(count: usize) -> Self {
        Self::start_with(count, |_| {})
    }

    /// Starts some that are changed before.
    pub(crate) fn start_with(count: usize, change: impl Fn(&mut EtcdServer)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let address = || format!("127.0.0.1:{}", free_port());
        let places: Vec<(String, String, String)> =
            (0..count).map(|at| (format!("member-{at}"), address(), address())).collect();
        let members: Vec<(String, String)> =
            places.iter().map(|(name, _, peer)| (name.clone(), peer.clone())).collect();
        let server = |(name, client, peer): &(String, String, String)| {
            let mut server = EtcdServer {
                name: name.clone(),
                members: members.clone(),
                ..EtcdServer::alone(&folder.path().join(name), client, peer)
            };
            server.log = folder.path().join(format!("{name}.log"));
            change(&mut server);
            server
        };
        let servers: Vec<EtcdServer> = places.iter().map(server).collect();
        let scheme = if servers[0].tls.is_some() { "https" } else { "http" };
        let endpoints = places.iter().map(|(_, client, _)| format!("{scheme}://{client}")).collect();
        let mut settings = EtcdSettings::new(endpoints, "weir/test/");
        settings.tls = servers[0].tls.clone();
        let supervisors =
            servers.iter().map(|server| Supervisor::start(server.clone()).expect("etcd starts")).collect();
        let members = Self { servers, supervisors, settings, _folder: folder };
        let directory = members.open();
        wait_for("an etcd that agrees", || directory.status().is_reachable);
        members
    }

    pub(crate) fn open(&self) -> Box<dyn Directory> {
        open_etcd(&self.settings).expect("the settings")
    }

    /// The process of a member.
    pub(crate) fn pid(&self, at: usize) -> u32 {
        self.supervisors[at].state().pid.expect("it runs")
    }

    /// The place of the leader.
    pub(crate) fn leader(&self) -> usize {
        let directory = self.open();
        let mut found = None;
        wait_for("a leader", || {
            let leader = directory.status().leader;
            found = self.servers.iter().position(|server| Some(&server.name) == leader.as_ref());
            found.is_some()
        });
        found.expect("a leader")
    }

    pub(crate) fn signal(&self, at: usize, signal: i32) {
        // SAFETY: kill touches no memory; the process is a member that the supervisor has not waited for.
        assert_eq!(unsafe { libc::kill(self.pid(at).cast_signed(), signal) }, 0);
    }
}

/// Repeats a change whose outcome is not known, or for which the engine was away, until it is answered.
pub(crate) fn insist<T>(mut act: impl FnMut() -> Result<T, DirectoryError>) -> Result<T, DirectoryError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match act() {
            Err(error) if error.is_away() && Instant::now() < until => thread::sleep(Duration::from_millis(20)),
            other => return other,
        }
    }
}

/// A wire to an address that can be cut: a cut one takes no connection, and ends those that there are.
pub(crate) struct Wire {
    pub(crate) address: SocketAddr,
    is_cut: Arc<AtomicBool>,
    /// One for the thread that takes connections, and one for each direction of a connection.
    users: Arc<()>,
}

impl Wire {
    pub(crate) fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let is_cut = Arc::new(AtomicBool::new(false));
        let (cut, users) = (Arc::clone(&is_cut), Arc::new(()));
        let own = Arc::clone(&users);
        // Ends with the program of the tests: it has no more than a listening socket.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if cut.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(target) else { continue };
                let pair = |from: &TcpStream, to: &TcpStream| Some((from.try_clone().ok()?, to.try_clone().ok()?));
                for (from, to) in [pair(&client, &server), pair(&server, &client)].into_iter().flatten() {
                    let (cut, own) = (Arc::clone(&cut), Arc::clone(&own));
                    thread::spawn(move || {
                        pass(&from, &to, &cut);
                        drop(own);
                    });
                }
            }
        });
        Self { address, is_cut, users }
    }

    /// Cuts it, and returns when nothing passes any more, or lets connections through again.
    pub(crate) fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::SeqCst);
        wait_for("a wire that is cut", || !is_cut || Arc::strong_count(&self.users) == 2);
    }
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, is_cut: &AtomicBool) {
    let _ = from.set_read_timeout(Some(Duration::from_millis(20)));
    let mut piece = [0; 16 << 10];
    while !is_cut.load(Ordering::SeqCst) {
        match from.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => {
                if to.write_all(&piece[..read]).is_err() {
                    break;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Makes an authority and a certificate of it for 127.0.0.1, for servers and clients.
pub(crate) fn certificates(folder: &Path) -> TlsFiles {
    certificates_for(folder, &["127.0.0.1".to_owned()])
}

/// The same for these addresses.
pub(crate) fn certificates_for(folder: &Path, addresses: &[String]) -> TlsFiles {
    let file = |name: &str| folder.join(name);
    let run = |arguments: &[&str]| {
        let made = Command::new("openssl").args(arguments).current_dir(folder).output().expect("openssl runs");
        assert!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
    };
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let authority = ["req", "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem"];
    run(&[&authority[..], &key[..]].concat());
    run(&[&["req", "-subj", "/CN=node", "-keyout", "node.key", "-out", "node.csr"][..], &key[..]].concat());
    let addresses: Vec<String> = addresses.iter().map(|address| format!("IP:{address}")).collect();
    let purposes = format!("subjectAltName={}\nextendedKeyUsage=serverAuth,clientAuth\n", addresses.join(","));
    std::fs::write(file("extensions"), purposes).expect("written");
    let sign = ["x509", "-req", "-in", "node.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"];
    run(&[&sign[..], &["-days", "2", "-extfile", "extensions", "-out", "node.pem"][..]].concat());
    TlsFiles { ca: file("ca.pem"), certificate: file("node.pem"), key: file("node.key") }
}

/// Whether a process is there, and not dead.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(PathBuf::from(format!("/proc/{pid}/stat"))).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
