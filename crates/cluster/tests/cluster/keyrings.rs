//! Keys that change without a restart: renewed certificates, a new secret, and the list of those that are revoked.

use crate::{PATIENCE, cluster, name, node, patient};
use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use weir_cluster::{
    Admission, Answering, Authority, Identity, Joining, Keyring, KeyringAnswers, KeysWord, LinkClient, LinkServer,
    Member, Members, Message, REVOKED, RenewError, Role, Shared, TicketKey, Tokens, Trust, renew, show_newest,
};

const DAY: Duration = Duration::from_secs(86_400);

/// Nothing else is asked.
struct Nothing;

impl Answering for Nothing {
    fn answer(&self, _: &Member, _: Message) -> Message {
        Message::Noted
    }
}

/// The first member, with the authority, which answers; and a second one that has joined, with etcd.
struct Two {
    first: TempDir,
    second: TempDir,
    keyring: Arc<Keyring>,
    removed: Arc<Members>,
    address: SocketAddr,
    _server: LinkServer,
}

impl Two {
    fn new() -> Self {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (_, identity) = cluster(first.path());
        join(first.path(), &second.path().join("keys"));
        let (keyring, removed) = (Arc::new(Keyring::open(first.path()).unwrap()), Arc::<Members>::default());
        let answers = KeyringAnswers::new(Arc::new(Nothing), Arc::clone(&keyring), Arc::clone(&removed));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let trust = Trust::new(&identity, Arc::clone(&removed)).unwrap();
        let server = LinkServer::start(listener, trust, patient(), Arc::default(), Arc::new(answers)).unwrap();
        Self { first, second, keyring, removed, address, _server: server }
    }

    fn keys(&self) -> std::path::PathBuf {
        self.second.path().join("keys")
    }

    fn link(&self, trust: &Trust) -> LinkClient {
        LinkClient::new(node("first"), self.address, trust.clone(), patient(), Arc::default())
    }
}

/// A machine joins with a member of etcd.
fn join(authority: &Path, to: &Path) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let admission = Admission::open(authority).unwrap().with_etcd(vec!["https://127.0.0.1:1".to_owned()]);
    let identity = Identity::load(authority).unwrap();
    let token = Tokens::of(authority).make(&identity, Role::Node, DAY, SystemTime::now()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| admission.admit(listener.accept().unwrap().0, SystemTime::now()).expect("joins"));
        let second = name("second");
        let joining = Joining::new(address, &token, &second).with_etcd(Some("127.0.0.2".parse().unwrap()));
        joining.join(to, SystemTime::now()).expect("joins");
    });
}

/// Gives a member the certificate that it would have had so long ago.
fn age(two: &Two, by: Duration) {
    let mut identity = Identity::load(&two.keys()).unwrap();
    let authority = Authority::load(two.first.path()).unwrap();
    let then = SystemTime::now() - by;
    identity.certificate = authority.issue(&identity.member, &identity.key.public(), then).unwrap();
    identity.save(&two.keys()).unwrap();
}

fn left(two: &Two) -> Duration {
    Identity::load(&two.keys()).unwrap().validity().unwrap().left(SystemTime::now())
}

fn openssl(arguments: &[&str]) -> String {
    let output = Command::new("openssl").args(arguments).output().expect("openssl is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_certificate_is_renewed_over_the_link_and_shown_without_a_restart() {
    let two = Two::new();
    let fresh = Identity::load(&two.keys()).unwrap().validity().unwrap();
    assert!(!fresh.is_due(SystemTime::now()) && left(&two) > 364 * DAY);
    age(&two, 300 * DAY);
    let etcd = fs::read(two.keys().join("etcd.crt")).unwrap();
    let identity = Identity::load(&two.keys()).unwrap();
    assert!(identity.validity().unwrap().is_due(SystemTime::now()) && left(&two) < 66 * DAY);
    let trust = Trust::new(&identity, Arc::default()).unwrap();
    let (link, keyring) = (two.link(&trust), Keyring::open(&two.keys()).unwrap());
    assert!(renew(&keyring, &identity.member, &[&link], SystemTime::now()).expect("is renewed"), "its etcd as well");
    assert!(left(&two) > 364 * DAY);
    assert_ne!(fs::read(two.keys().join("etcd.crt")).unwrap(), etcd);
    assert!(show_newest(&keyring, &trust).unwrap() && !show_newest(&keyring, &trust).unwrap());
    let asked = two.link(&trust).ask(&Message::keys(KeysWord::Ask), PATIENCE);
    assert!(matches!(asked, Ok(Message::Keys(_))), "{asked:?}");
    // The key is the one of before, so that both files always belong together.
    assert_eq!(Identity::load(&two.keys()).unwrap().key.public(), identity.key.public());
    let [authority, own] = ["authority.crt", "member.crt"].map(|file| two.keys().join(file).display().to_string());
    assert!(openssl(&["verify", "-CAfile", &authority, &own]).contains("OK"));
}

#[test]
fn one_that_has_ended_is_refused_and_shows_the_new_one_to_the_next_link() {
    let two = Two::new();
    age(&two, 366 * DAY);
    let identity = Identity::load(&two.keys()).unwrap();
    assert_eq!(left(&two), Duration::ZERO);
    let trust = Trust::new(&identity, Arc::default()).unwrap();
    let keyring = Keyring::open(&two.keys()).unwrap();
    let refused = renew(&keyring, &identity.member, &[&two.link(&trust)], SystemTime::now());
    assert!(matches!(&refused, Err(RenewError::NoAuthority(faults)) if faults.len() == 1), "{refused:?}");
    // Where the authority is its own, it needs no link.
    let authority = Authority::load(two.first.path()).unwrap();
    let certificate = authority.issue(&identity.member, &identity.key.public(), SystemTime::now()).unwrap();
    assert!(trust.show(certificate).unwrap());
    assert!(two.link(&trust).ask(&Message::keys(KeysWord::Ask), PATIENCE).is_ok());
    let first = Keyring::open(two.first.path()).unwrap();
    renew(&first, &node("first"), &[], SystemTime::now()).expect("signs its own");
}

#[test]
fn a_certificate_of_another_key_is_not_shown_and_no_other_member_is_signed() {
    let two = Two::new();
    let identity = Identity::load(&two.keys()).unwrap();
    let trust = Trust::new(&identity, Arc::default()).unwrap();
    let other = Identity::load(two.first.path()).unwrap().certificate;
    assert!(trust.show(other).is_err());
    two.removed.remove(name("second"));
    let keyring = Keyring::open(&two.keys()).unwrap();
    let refused = renew(&keyring, &identity.member, &[&two.link(&trust)], SystemTime::now());
    assert!(refused.is_err(), "a removed member gets none");
}

#[test]
fn the_list_names_all_certificates_of_a_removed_member_and_no_others() {
    let two = Two::new();
    let serial = |folder: &Path, file: &str| {
        let path = folder.join(file).display().to_string();
        openssl(&["x509", "-in", &path, "-noout", "-serial"]).trim().trim_start_matches("serial=").to_owned()
    };
    let mut own: BTreeSet<String> = ["member.crt", "etcd.crt"].map(|file| serial(&two.keys(), file)).into();
    let identity = Identity::load(&two.keys()).unwrap();
    let trust = Trust::new(&identity, Arc::default()).unwrap();
    let keyring = Keyring::open(&two.keys()).unwrap();
    renew(&keyring, &identity.member, &[&two.link(&trust)], SystemTime::now()).expect("is renewed");
    own.extend(["member.crt", "etcd.crt"].map(|file| serial(&two.keys(), file)));
    assert_eq!(own.len(), 4, "each has its own number");
    assert!(two.keyring.revoke(&BTreeSet::from([name("second")]), SystemTime::now()).expect("is signed"));
    let again = two.keyring.revoke(&BTreeSet::from([name("second")]), SystemTime::now());
    assert!(!again.expect("is known"), "nothing is new");
    let [list, authority] = [REVOKED, "authority.crt"].map(|file| two.first.path().join(file).display().to_string());
    let text = openssl(&["crl", "-inform", "DER", "-in", &list, "-noout", "-text", "-CAfile", &authority]);
    let named: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Serial Number: ").map(|digits| digits.trim().to_owned()))
        .collect();
    assert_eq!(named, own, "{text}");
    assert!(!named.contains(&serial(two.first.path(), "member.crt")));
    // Others take it over the link, and know its number after a start.
    let shared = two.keyring.shared();
    keyring.take(&shared, SystemTime::now()).expect("is kept");
    let read = Keyring::open(&two.keys()).expect("is read").shared().revoked.expect("a list");
    assert_eq!(Some(&read.der), shared.revoked.as_ref().map(|list| &list.der));
}

#[test]
fn what_is_newer_takes_the_place_of_what_was_and_the_secret_outlives_a_start() {
    let folder = tempfile::tempdir().unwrap();
    cluster(folder.path());
    let keyring = Keyring::open(folder.path()).unwrap();
    let (now, old) = (SystemTime::now(), keyring.shared());
    let next = Shared { secret: old.secret.next(&name("n3")).unwrap(), ..old.clone() };
    keyring.take(&next, now).unwrap();
    keyring.take(&old, now).unwrap();
    assert_eq!(keyring.shared().secret, next.secret, "an older one changes nothing");
    let again = Keyring::open(folder.path()).unwrap();
    assert_eq!((again.shared().secret, again.shared().tickets.len()), (next.secret, 0));
    let mode = fs::metadata(folder.path().join("cluster.secret")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    // What another process of this machine has written.
    let third = Shared { secret: keyring.shared().secret.next(&name("n4")).unwrap(), ..old };
    again.take(&third, now).unwrap();
    keyring.look().unwrap();
    assert_eq!(keyring.shared().secret, third.secret);
}

#[test]
fn of_two_members_the_first_makes_the_key_of_tickets_and_old_ones_go() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let rings = folders.each_ref().map(|folder| {
        cluster(folder.path());
        Keyring::open(folder.path()).unwrap()
    });
    let now = SystemTime::now();
    rings[0].turn_tickets(0, now).unwrap();
    rings[1].take(&rings[0].shared(), now).unwrap();
    assert_eq!(rings[1].shared().tickets, rings[0].shared().tickets);
    let at = |ring: &Keyring, rank, hours: u32, seconds| {
        ring.turn_tickets(rank, now + Duration::from_secs(seconds) + DAY / 24 * hours).unwrap();
        ring.shared().tickets.len()
    };
    assert_eq!(at(&rings[0], 0, 11, 3_000), 1);
    assert_eq!(at(&rings[1], 1, 12, 1), 1, "it leaves it to the first");
    assert_eq!(at(&rings[0], 0, 12, 1), 2);
    let later = now + DAY / 24 * 12 + Duration::from_secs(2);
    rings[1].take(&rings[0].shared(), later).unwrap();
    assert_eq!(at(&rings[1], 1, 12, 15), 2, "the first one has made it");
    assert_eq!(at(&rings[1], 1, 24, 60), 2, "the first key has had its day");
    // A clock that is far ahead makes no key that others would use for long.
    let ahead = TicketKey::generate(u64::MAX).unwrap();
    rings[0].take(&Shared { tickets: vec![ahead], ..rings[0].shared() }, later).unwrap();
    assert!(rings[0].shared().tickets.iter().all(|key| key.made_unix_s < u64::MAX));
    let shown = format!("{:?} {:?}", rings[0].shared(), rings[0]);
    assert!(shown.contains("TicketKey(.., made") && shown.contains("ClusterSecret(..)"), "{shown}");
}
