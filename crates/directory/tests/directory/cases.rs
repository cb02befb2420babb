//! What holds over each engine. A case gets a function that opens the same directory once more.

use crate::support::{insist, wait_for};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weir_directory::atoms::File;
use weir_directory::{
    Digest, Directory, DirectoryError, Epoch, Known, MANIFEST_PIECE_BYTES, Manifest, Node, Notice, POLICY_BYTES_MAX,
    VERSIONS_KEPT, Watch, keys,
};

/// Opens the directory once more.
pub(crate) type Open<'a> = &'a (dyn Fn() -> Box<dyn Directory> + Sync);
/// A name and what holds.
type Case = (&'static str, fn(Open<'_>));

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(2);

pub(crate) const CASES: &[Case] = &[
    ("versions are published, rolled back and numbered on", versions),
    ("a long manifest comes back as it was", long_manifests),
    ("old versions go", old_versions),
    ("one of many publishers wins each version", publishers),
    ("policies have versions", policies),
    ("nodes join, stay and leave", nodes),
    ("removed members stay removed", removed),
    ("many nodes get different numbers", numbers),
    ("locks have one holder and growing epochs", locks),
    ("a lock ends with its time, or is taken over", lost_locks),
    ("concurrent acquirers never hold the same epoch", acquirers),
    ("a watch tells the changes of its prefix", watches),
    ("names and times that cannot be used are refused", refusals),
];

/// Runs all cases, each in a directory of its own.
pub(crate) fn run_all(fresh: &dyn Fn(usize) -> Box<dyn Fn() -> Box<dyn Directory> + Sync>) {
    for (at, (name, case)) in CASES.iter().enumerate() {
        let begun = Instant::now();
        println!("{name}");
        case(&*fresh(at));
        println!("    {:?}", begun.elapsed());
    }
}

pub(crate) fn manifest(files: usize, salt: &str) -> Manifest {
    let file = |at: usize| File {
        path: format!("{salt}/{at:06}.html"),
        digest: Digest::of(format!("{salt}{at}").as_bytes()),
        bytes: at as u64,
        mode: 0o644,
    };
    Manifest::new((0..files).map(file).collect()).expect("a manifest")
}

fn removed(open: Open<'_>) {
    let (one, other) = (open(), open());
    assert_eq!(one.removed().expect("it answers").into_value(), Vec::<String>::new());
    insist(|| one.remove_member("n2")).expect("is removed");
    insist(|| other.remove_member("n1")).expect("is removed");
    insist(|| one.remove_member("n2")).expect("a second time does no harm");
    assert_eq!(other.removed().expect("it answers").into_value(), ["n1", "n2"]);
    assert!(matches!(one.remove_member("a/b"), Err(DirectoryError::Name { .. })));
}

fn current(directory: &dyn Directory, site: &str) -> Option<u64> {
    let known = directory.current(site).expect("it answers");
    assert!(matches!(known, Known::Fresh(_)), "{known:?}");
    known.into_value().map(|publication| publication.version)
}

fn versions(open: Open<'_>) {
    let (one, two) = (open(), open());
    assert_eq!(current(&*one, "shop"), None);
    let first = manifest(3, "first");
    assert_eq!(one.publish("shop", &first, None).expect("published"), 1);
    assert_eq!(current(&*two, "shop"), Some(1));
    let late = two.publish("shop", &manifest(1, "late"), None);
    assert!(matches!(late, Err(DirectoryError::Conflict { expected: 0, found: 1, .. })), "{late:?}");
    assert_eq!(two.publish("shop", &manifest(2, "second"), Some(1)).expect("published"), 2);
    one.roll_back("shop", 1).expect("rolled back");
    assert_eq!(current(&*two, "shop"), Some(1));
    assert!(matches!(one.roll_back("shop", 3), Err(DirectoryError::Missing { .. })));
    assert!(matches!(one.roll_back("other", 1), Err(DirectoryError::Missing { .. })));
    // A number is never given a second time.
    assert_eq!(two.publish("shop", &manifest(2, "third"), Some(1)).expect("published"), 3);
    let kept = one.versions("shop").expect("it answers").into_value();
    assert_eq!(kept.iter().map(|publication| publication.version).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!((kept[0].manifest, kept[0].files, kept[0].bytes), (first.digest(), 3, 3));
    assert_eq!(two.manifest("shop", 1).expect("it answers").into_value(), first);
    assert!(matches!(two.manifest("shop", 4), Err(DirectoryError::Missing { .. })));
    one.publish("blog", &Manifest::default(), None).expect("published");
    assert_eq!(two.sites().expect("it answers").into_value(), ["blog", "shop"]);
    assert!(one.versions("bl").expect("it answers").into_value().is_empty());
}

fn long_manifests(open: Open<'_>) {
    let long = manifest(2 * MANIFEST_PIECE_BYTES / 80, "long");
    assert!(long.to_text().len() > 2 * MANIFEST_PIECE_BYTES, "three pieces");
    open().publish("shop", &long, None).expect("published");
    assert_eq!(open().manifest("shop", 1).expect("it answers").into_value(), long);
}

fn old_versions(open: Open<'_>) {
    let directory = open();
    for version in 0..VERSIONS_KEPT + 2 {
        let expected = Some(version).filter(|version| *version > 0);
        assert_eq!(directory.publish("shop", &manifest(1, "same"), expected).expect("published"), version + 1);
    }
    let kept = directory.versions("shop").expect("it answers").into_value();
    let numbers: Vec<u64> = kept.iter().map(|publication| publication.version).collect();
    assert_eq!(numbers, (3..VERSIONS_KEPT + 3).collect::<Vec<_>>());
    assert!(matches!(directory.manifest("shop", 2), Err(DirectoryError::Missing { .. })));
    assert!(directory.manifest("shop", 3).is_ok());
}

fn publishers(open: Open<'_>) {
    const EACH: usize = 4;
    let publish = |name: usize| {
        let directory = open();
        let mut published = Vec::new();
        while published.len() < EACH {
            let expected = insist(|| directory.current("shop")).expect("it answers").into_value();
            let expected = expected.map(|publication| publication.version);
            let manifest = manifest(1, &format!("{name}-{}", published.len()));
            match directory.publish("shop", &manifest, expected) {
                Ok(version) => published.push((version, manifest)),
                Err(DirectoryError::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        published
    };
    let all: Vec<(u64, Manifest)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|name| scope.spawn(move || publish(name))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it publishes")).collect()
    });
    let numbers: BTreeSet<u64> = all.iter().map(|(version, _)| *version).collect();
    assert_eq!(numbers, (1..=3 * EACH as u64).collect());
    let directory = open();
    for (version, manifest) in all {
        assert_eq!(directory.manifest("shop", version).expect("it answers").into_value(), manifest);
    }
}

fn policies(open: Open<'_>) {
    let (one, two) = (open(), open());
    assert_eq!(one.policy("crowd").expect("it answers").into_value(), None);
    assert_eq!(one.put_policy("crowd", "first", None).expect("put"), 1);
    assert!(matches!(two.put_policy("crowd", "x", None), Err(DirectoryError::Conflict { found: 1, .. })));
    let long = "x".repeat(POLICY_BYTES_MAX);
    assert_eq!(two.put_policy("crowd", &long, Some(1)).expect("put"), 2);
    let policy = one.policy("crowd").expect("it answers").into_value().expect("it is there");
    assert_eq!((policy.version, policy.text), (2, long.clone()));
    let longer = one.put_policy("crowd", &(long + "x"), Some(2));
    assert!(matches!(longer, Err(DirectoryError::TooLarge { .. })), "{longer:?}");
}

fn node(name: &str) -> Node {
    let facts = [("mac".to_owned(), "02:00:00:00:00:01".to_owned())].into();
    Node { name: name.to_owned(), identity: format!("key of {name}"), address: "10.0.0.1:7000".to_owned(), facts }
}

fn nodes(open: Open<'_>) {
    let (one, two) = (open(), open());
    let present = |directory: &dyn Directory| {
        let members = directory.nodes().expect("it answers").into_value();
        let present = |member: &weir_directory::Member| (member.node.name.clone(), member.number, member.is_present);
        members.iter().map(present).collect::<Vec<_>>()
    };
    assert_eq!(one.join(&node("a"), LONG).expect("joined"), 1);
    assert_eq!(two.join(&node("b"), SHORT).expect("joined"), 2);
    // The same node once more, with something new.
    let moved = Node { address: "10.0.0.9:7000".to_owned(), ..node("a") };
    assert_eq!(two.join(&moved, LONG).expect("joined"), 1);
    let other = Node { identity: "another key".to_owned(), ..node("a") };
    assert!(matches!(two.join(&other, LONG), Err(DirectoryError::NodeTaken { .. })));
    assert_eq!(one.nodes().expect("it answers").into_value()[0].node, moved);
    one.stay("b", SHORT).expect("it is there");
    wait_for("the end of a node's presence", || {
        present(&*one) == [("a".to_owned(), 1, true), ("b".to_owned(), 2, false)]
    });
    two.stay("b", LONG).expect("it is there again");
    assert_eq!(present(&*one)[1], ("b".to_owned(), 2, true));
    one.leave("a").expect("left");
    one.leave("a").expect("left before");
    assert!(matches!(two.stay("a", LONG), Err(DirectoryError::Missing { .. })));
    assert_eq!(one.join(&node("c"), LONG).expect("joined"), 1, "the number of a node that has left");
    assert_eq!(present(&*two), [("b".to_owned(), 2, true), ("c".to_owned(), 1, true)]);
}

fn numbers(open: Open<'_>) {
    let join = |name: usize| open().join(&node(&format!("node-{name}")), LONG).expect("joined");
    let numbers: BTreeSet<u16> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|name| scope.spawn(move || join(name))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it joins")).collect()
    });
    assert_eq!(numbers, (1..=4).collect());
}

fn locks(open: Open<'_>) {
    let (one, two) = (open(), open());
    let first = one.acquire("director", "a", LONG).expect("it answers").expect("it is free");
    assert!(first > Epoch(1_600_000_000), "an epoch begins with the time, to be above those of lost data: {first}");
    assert_eq!(two.acquire("director", "b", LONG).expect("it answers"), None);
    // Another process of the same name is another holder.
    assert_eq!(two.acquire("director", "a", LONG).expect("it answers"), None);
    let holder = two.holder("director").expect("it answers").into_value().expect("it is held");
    assert_eq!((holder.holder.as_str(), holder.epoch), ("a", first));
    one.renew("director", first).expect("it is held");
    two.release("director", Epoch(first.0 - 1)).expect("of another holder");
    one.renew("director", first).expect("it is still held");
    one.release("director", first).expect("released");
    one.release("director", first).expect("released before");
    let second = two.acquire("director", "b", LONG).expect("it answers").expect("it is free");
    assert_eq!(second, Epoch(first.0 + 1));
    assert!(matches!(one.renew("director", first), Err(DirectoryError::LockLost { .. })));
    assert!(one.acquire("another", "a", LONG).expect("it answers").is_some());
}

fn lost_locks(open: Open<'_>) {
    let (one, two) = (open(), open());
    let first = one.acquire("director", "a", SHORT).expect("it answers").expect("it is free");
    let mut second = None;
    wait_for("the end of a lease", || {
        second = two.acquire("director", "b", LONG).expect("it answers");
        second.is_some()
    });
    let second = second.expect("acquired");
    assert!(second > first);
    assert!(matches!(one.renew("director", first), Err(DirectoryError::LockLost { .. })));
    // Not from a holder that has lost it already.
    assert_eq!(one.take_over("director", "a", LONG, first).expect("it answers"), None);
    let third = one.take_over("director", "a", LONG, second).expect("it answers").expect("taken over");
    assert_eq!(third, Epoch(second.0 + 1));
    assert!(matches!(two.renew("director", second), Err(DirectoryError::LockLost { .. })));
    one.renew("director", third).expect("it is held");
    two.release("director", second).expect("no longer held");
    one.renew("director", third).expect("it is still held");
}

fn acquirers(open: Open<'_>) {
    const EACH: usize = 4;
    let holders = AtomicU32::new(0);
    let acquire = |name: usize| {
        let directory = open();
        let mut epochs = Vec::new();
        let until = Instant::now() + crate::support::PATIENCE;
        while epochs.len() < EACH {
            assert!(Instant::now() < until, "{name} waits too long for the lock");
            match directory.acquire("director", &format!("holder-{name}"), LONG) {
                Ok(Some(epoch)) => {
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "one holder at a time");
                    epochs.push(epoch);
                    holders.fetch_sub(1, Ordering::SeqCst);
                    directory.release("director", epoch).expect("released");
                }
                Ok(None) | Err(DirectoryError::Contended { .. }) => thread::sleep(Duration::from_millis(2)),
                Err(error) => panic!("{error}"),
            }
        }
        assert!(epochs.windows(2).all(|pair| pair[0] < pair[1]), "{epochs:?}");
        epochs
    };
    let epochs: Vec<Epoch> = thread::scope(|scope| {
        let acquire = &acquire;
        let threads: Vec<_> = (0..3).map(|name| scope.spawn(move || acquire(name))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it acquires")).collect()
    });
    let different: BTreeSet<Epoch> = epochs.iter().copied().collect();
    assert_eq!(different.len(), 3 * EACH, "{epochs:?}");
}

/// The keys that change, until one of them does.
pub(crate) fn seen_until(watch: &Watch, last: &str) -> Vec<(String, bool)> {
    let mut seen = Vec::new();
    wait_for("a change that is watched", || {
        while let Some(notice) = watch.next(Duration::from_millis(100)) {
            let Notice::Changed(change) = notice else { panic!("changes were lost after {seen:?}") };
            seen.push((change.key, change.is_gone));
        }
        seen.iter().any(|(key, _)| key == last)
    });
    seen
}

fn watches(open: Open<'_>) {
    let (one, two) = (open(), open());
    one.put_policy("before", "x", None).expect("put");
    let (policies, locks) =
        (two.watch(keys::POLICIES).expect("it answers"), two.watch(keys::LOCKS).expect("it answers"));
    one.publish("shop", &Manifest::default(), None).expect("published");
    one.put_policy("a", "x", None).expect("put");
    two.put_policy("b", "x", None).expect("put");
    one.put_policy("a", "y", Some(1)).expect("put");
    one.put_policy("last", "x", None).expect("put");
    let seen = seen_until(&policies, "policies/last");
    let expected = ["policies/a", "policies/b", "policies/a", "policies/last"];
    assert_eq!(seen, expected.map(|key| (key.to_owned(), false)));
    // The end of a lease is a change as well, and no call makes it.
    one.acquire("short", "a", SHORT).expect("it answers").expect("it is free");
    let mut seen = seen_until(&locks, "locks/short");
    if seen.len() < 2 {
        seen.extend(seen_until(&locks, "locks/short"));
    }
    assert_eq!(seen, [("locks/short".to_owned(), false), ("locks/short".to_owned(), true)]);
    assert_eq!(policies.away_since(), None);
}

fn refusals(open: Open<'_>) {
    let directory = open();
    let is_name = |error: DirectoryError| matches!(error, DirectoryError::Name { .. });
    assert!(is_name(directory.publish("a/b", &Manifest::default(), None).expect_err("a name")));
    assert!(is_name(directory.versions("../x").expect_err("a name")));
    assert!(is_name(directory.put_policy("", "x", None).expect_err("a name")));
    assert!(is_name(directory.join(&node("a b"), LONG).expect_err("a name")));
    assert!(is_name(directory.acquire("a", "b/c", LONG).expect_err("a name")));
    for ttl in [Duration::ZERO, Duration::from_millis(999), Duration::from_secs(100_000)] {
        assert!(matches!(directory.acquire("a", "b", ttl), Err(DirectoryError::TimeToLive { .. })), "{ttl:?}");
    }
    let status = directory.status();
    assert!(status.is_reachable && status.members == 1 && status.stale_since.is_none(), "{status:?}");
}
