//! The cases over each engine, and what only one of them can show.

use crate::cases;
use crate::support::{Members, Wire, certificates, wait_for};
use std::time::{Duration, Instant};
use weir_directory::{DirectoryError, EtcdSettings, Known, Notice, keys, open_etcd, open_sqlite};
use weir_testkit::{SmallDisk, require};

const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn all_cases_hold_over_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    cases::run_all(&|at| {
        let path = folder.path().join(format!("{at}.sqlite"));
        Box::new(move || open_sqlite(&path, PATIENCE).expect("it opens"))
    });
}

#[test]
fn all_cases_hold_over_etcd() {
    if require::program("etcd").is_none() {
        return;
    }
    let members = Members::start(1);
    cases::run_all(&|at| {
        let settings = EtcdSettings { prefix: format!("weir/{at}/"), patience: PATIENCE, ..members.settings.clone() };
        Box::new(move || open_etcd(&settings).expect("the settings"))
    });
}

#[test]
fn sqlite_says_when_others_write_or_the_file_is_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("directory.sqlite");
    let directory = open_sqlite(&path, Duration::from_millis(200)).expect("it opens");
    directory.put_policy("a", "x", None).expect("put");
    let other = rusqlite::Connection::open(&path).expect("it opens");
    other.execute_batch("begin immediate").expect("it writes");
    let begun = Instant::now();
    let error = directory.put_policy("a", "y", Some(1)).expect_err("another process writes");
    assert!(error.is_away() && begun.elapsed() < Duration::from_secs(5), "{error}");
    assert_eq!(directory.policy("a").expect("readers do not wait").into_value().expect("a policy").text, "x");
    other.execute_batch("rollback").expect("it ends");
    assert_eq!(directory.put_policy("a", "y", Some(1)).expect("put"), 2);

    let foreign = folder.path().join("foreign.sqlite");
    let made = rusqlite::Connection::open(&foreign).expect("it opens");
    made.execute_batch("create table t (x)").expect("made");
    let error = open_sqlite(&foreign, PATIENCE).err().expect("another program's");
    assert!(error.to_string().contains("another program"), "{error}");
    let text = folder.path().join("text");
    std::fs::write(&text, "no database at all, but a text that is long enough to be read".repeat(20)).expect("written");
    assert!(matches!(open_sqlite(&text, PATIENCE).err(), Some(DirectoryError::Damaged { .. })));
    assert!(matches!(open_sqlite(folder.path(), PATIENCE).err(), Some(DirectoryError::File { .. })));
}

/// The file that the other process writes to.
const FILE: &str = "WEIR_TEST_DIRECTORY_FILE";

/// Not a test by itself: the next one starts it as another process.
#[test]
fn a_process_that_writes_and_ends() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let directory = open_sqlite(path.as_ref(), PATIENCE).expect("it opens");
    let before = directory.policy("a").expect("it answers").into_value().expect("a policy").version;
    directory.put_policy("a", "others", Some(before)).expect("put");
}

/// SQLite removes its log with the last process that uses the file: the others must count.
#[test]
fn what_a_process_writes_that_ends_is_seen_and_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("directory.sqlite");
    let directory = open_sqlite(&path, PATIENCE).expect("it opens");
    let mut version = directory.put_policy("a", "own", None).expect("put");
    for _ in 0..2 {
        // A second connection of this process comes, and goes again.
        let watch = directory.watch(keys::SITES).expect("it follows");
        drop(open_sqlite(&path, PATIENCE).expect("it opens"));
        let mut other = std::process::Command::new(std::env::current_exe().expect("this program"));
        other.args(["--exact", "engines::a_process_that_writes_and_ends"]).env(FILE, &path);
        assert!(other.output().expect("it starts").status.success());
        let seen = directory.policy("a").expect("it answers").into_value().expect("a policy");
        assert_eq!((seen.text.as_str(), seen.version), ("others", version + 1));
        version = directory.put_policy("a", "own", Some(version + 1)).expect("put");
        drop(watch);
    }
    drop(directory);
    let kept = open_sqlite(&path, PATIENCE).expect("it opens again").policy("a").expect("it answers");
    assert_eq!(kept.into_value().map(|policy| policy.version), Some(version));
}

#[test]
fn sqlite_loses_nothing_on_a_full_disk() {
    let Some(disk) = SmallDisk::mount(2) else { return };
    let path = disk.path().join("directory.sqlite");
    let directory = open_sqlite(&path, PATIENCE).expect("it opens");
    let text = "x".repeat(64 << 10);
    let put = |at: u32| directory.put_policy(&format!("policy-{at}"), &text, None);
    let (mut last, mut error) = (0, None);
    for at in 1..200 {
        match put(at) {
            Ok(_) => last = at,
            Err(full) => {
                error = Some(full);
                break;
            }
        }
    }
    assert!(matches!(error, Some(DirectoryError::Full { .. })), "{error:?}");
    assert!(last > 3, "{last}");
    drop(directory);
    let directory = open_sqlite(&path, PATIENCE).expect("it opens again");
    for at in 1..=last {
        assert!(directory.policy(&format!("policy-{at}")).expect("it answers").into_value().is_some(), "{at}");
    }
}

/// An etcd behind a wire that can be cut, and how it is reached past the wire.
fn wired() -> (Members, Wire, EtcdSettings) {
    let members = Members::start(1);
    let wire = Wire::to(members.servers[0].client.parse().expect("an address"));
    let patience = Duration::from_secs(2);
    let endpoints = vec![format!("http://{}", wire.address)];
    let settings = EtcdSettings { endpoints, patience, ..members.settings.clone() };
    (members, wire, settings)
}

#[test]
fn a_lost_etcd_is_an_error_in_time_and_what_is_known_can_be_read() {
    if require::program("etcd").is_none() {
        return;
    }
    let (_members, wire, settings) = wired();
    let directory = open_etcd(&settings).expect("the settings");
    directory.put_policy("a", "x", None).expect("put");
    directory.publish("shop", &cases::manifest(2, "m"), None).expect("published");
    let policy = directory.policy("a").expect("it answers").into_value();
    let manifest = directory.manifest("shop", 1).expect("it answers").into_value();
    let watch = directory.watch(keys::POLICIES).expect("it answers");
    let read = Instant::now();

    wire.cut(true);
    let begun = Instant::now();
    let stale = directory.policy("a").expect("it is known");
    assert!(matches!(stale, Known::Stale { since, .. } if since <= read), "{stale:?}");
    assert!(stale.age().is_some() && stale.into_value() == policy);
    assert_eq!(directory.manifest("shop", 1).expect("it is known").into_value(), manifest);
    let unknown = directory.policy("never-read").expect_err("it is not known");
    assert!(unknown.is_away(), "{unknown}");
    let written = directory.put_policy("a", "y", Some(1)).expect_err("it is away");
    assert!(written.is_away(), "{written}");
    let status = directory.status();
    assert!(!status.is_reachable && status.stale_since.is_some(), "{status:?}");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    wait_for("a watch that says that etcd is away", || watch.away_since().is_some());

    wire.cut(false);
    wait_for("fresh values", || matches!(directory.policy("a").expect("it is known"), Known::Fresh(_)));
    assert_eq!(directory.status().stale_since, None);
    directory.put_policy("after", "x", None).expect("put");
    assert_eq!(cases::seen_until(&watch, "policies/after"), [("policies/after".to_owned(), false)]);
    assert_eq!(watch.away_since(), None);
}

#[test]
fn a_watch_goes_on_where_it_was_and_says_what_compaction_took() {
    if require::program("etcd").is_none() {
        return;
    }
    let (members, wire, settings) = wired();
    let (watcher, writer) = (open_etcd(&settings).expect("the settings"), members.open());
    let watch = watcher.watch(keys::POLICIES).expect("it answers");
    writer.put_policy("a", "x", None).expect("put");
    cases::seen_until(&watch, "policies/a");

    // Changes while the wire is cut come later.
    wire.cut(true);
    writer.put_policy("b", "x", None).expect("put");
    writer.put_policy("c", "x", None).expect("put");
    wire.cut(false);
    assert_eq!(
        cases::seen_until(&watch, "policies/c"),
        [("policies/b".to_owned(), false), ("policies/c".to_owned(), false)]
    );

    wire.cut(true);
    writer.put_policy("d", "x", None).expect("put");
    writer.put_policy("e", "x", None).expect("put");
    let revision = writer.status().revision;
    let body = format!("{{\"revision\":\"{revision}\"}}");
    let url = format!("http://{}/v3/kv/compaction", members.servers[0].client);
    let answer = ureq::post(&url).header("content-type", "application/json").send(&body).expect("compacted");
    assert_eq!(answer.status().as_u16(), 200);
    wire.cut(false);
    let mut notices = Vec::new();
    wait_for("a watch that says what it lost", || {
        notices.extend(watch.next(Duration::from_millis(100)));
        notices.contains(&Notice::Lost)
    });
    writer.put_policy("f", "x", None).expect("put");
    let seen = cases::seen_until(&watch, "policies/f");
    assert!(seen.iter().all(|(key, _)| ["policies/e", "policies/f"].contains(&key.as_str())), "{seen:?}");
}

#[test]
fn etcd_is_spoken_to_by_mutual_tls() {
    if require::program("etcd").and(require::program("openssl")).is_none() {
        return;
    }
    let (folder, strange) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (own, others) = (certificates(folder.path()), certificates(strange.path()));
    let members = Members::start_with(1, |server| server.tls = Some(own.clone()));
    let directory = members.open();
    directory.put_policy("a", "x", None).expect("put");
    assert_eq!(directory.status().leader.as_deref(), Some("member-0"));
    let watch = directory.watch(keys::POLICIES).expect("it answers");
    directory.put_policy("b", "x", None).expect("put");
    cases::seen_until(&watch, "policies/b");

    let with = |tls| {
        let settings = EtcdSettings { tls: Some(tls), patience: Duration::from_secs(1), ..members.settings.clone() };
        let directory = open_etcd(&settings).expect("the settings");
        directory.put_policy("c", "x", None).expect_err("it is not trusted")
    };
    let mut stranger = own.clone();
    (stranger.certificate, stranger.key) = (others.certificate.clone(), others.key.clone());
    for (tls, who) in [(stranger, "a client of another authority"), (others, "a server of another authority")] {
        let error = with(tls);
        assert!(error.is_away(), "{who}: {error}");
    }
    assert_eq!(directory.policy("c").expect("it answers").into_value(), None);
}
