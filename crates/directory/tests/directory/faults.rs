//! Three members with faults: nothing that was acknowledged is lost. `WEIR_CLUSTER_ROUNDS` repeats the faults.

use crate::cases::manifest;
use crate::support::{Members, PATIENCE, insist, wait_for};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weir_directory::{Directory, DirectoryError, EtcdSettings, Known, Manifest, keys, open_etcd};
use weir_testkit::{SmallDisk, require};

/// How often each fault is made; `make test-cluster` takes more.
fn rounds() -> usize {
    std::env::var("WEIR_CLUSTER_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

/// The highest version that any operation has shown which is over. An operation that begins later must not show an
/// older one: with numbers that only grow, this is linearizability.
#[derive(Default)]
struct Shown(AtomicU64);

impl Shown {
    fn before(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn show(&self, version: u64) {
        self.0.fetch_max(version, Ordering::SeqCst);
    }
}

/// Publishes versions one after the other, until it shall stop.
struct Publisher {
    directory: Box<dyn Directory>,
    /// What was acknowledged.
    published: Vec<(u64, Manifest)>,
    longest_gap: Duration,
}

impl Publisher {
    fn publish_until(mut self, stops: &AtomicBool, shown: &Shown) -> Self {
        let mut expected = None;
        let mut last = Instant::now();
        let until = Instant::now() + PATIENCE * 20;
        while !stops.load(Ordering::SeqCst) && Instant::now() < until {
            let next = manifest(1, &format!("version-{}", self.published.len()));
            let before = shown.before();
            match self.directory.publish("shop", &next, expected) {
                Ok(version) => {
                    assert!(version > before, "version {version} was published after {before} was there");
                    shown.show(version);
                    self.longest_gap = self.longest_gap.max(last.elapsed());
                    last = Instant::now();
                    self.published.push((version, next));
                    expected = Some(version);
                }
                // Not known whether it was published: the next one goes behind what is current.
                Err(error) if error.is_away() => {}
                Err(DirectoryError::Conflict { .. }) => {
                    let current = insist(|| self.directory.current("shop")).expect("it answers");
                    if let Known::Fresh(current) = current {
                        expected = current.map(|publication| publication.version);
                    }
                }
                Err(error) => panic!("{error}"),
            }
        }
        self
    }

    /// All acknowledged versions that are kept are there as they were published.
    fn check(&self, directory: &dyn Directory) {
        let kept = insist(|| directory.versions("shop")).expect("it answers");
        assert!(matches!(kept, Known::Fresh(_)));
        let kept = kept.into_value();
        let oldest = kept.first().expect("a version").version;
        let mut checked = 0;
        for (version, manifest) in self.published.iter().filter(|(version, _)| *version >= oldest) {
            let found = kept.iter().find(|publication| publication.version == *version);
            assert_eq!(found.map(|found| found.manifest), Some(manifest.digest()), "version {version}");
            match insist(|| directory.manifest("shop", *version)) {
                Ok(found) => {
                    assert_eq!(&found.into_value(), manifest);
                    checked += 1;
                }
                // A publication whose answer did not come may be carried out later, and displaces the oldest version.
                Err(DirectoryError::Missing { what }) => {
                    let kept = insist(|| directory.versions("shop")).expect("it answers").into_value();
                    assert!(kept.first().is_some_and(|first| first.version > *version), "{what}");
                }
                Err(error) => panic!("{error}"),
            }
        }
        println!("{checked} versions are there, the longest gap was {:?}", self.longest_gap);
        assert!(checked > 0);
    }
}

/// Reads the current version by way of each member, until it shall stop; returns how often it was fresh.
fn read_until(directories: &[Box<dyn Directory>], stops: &AtomicBool, shown: &Shown) -> u64 {
    let mut fresh = 0;
    while !stops.load(Ordering::SeqCst) {
        for directory in directories {
            let before = shown.before();
            if let Ok(Known::Fresh(current)) = directory.current("shop") {
                let version = current.map_or(0, |publication| publication.version);
                assert!(version >= before, "version {version} was read after {before} was there");
                shown.show(version);
                fresh += 1;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
    fresh
}

/// Makes a fault again and again while versions are published, and checks that none is lost.
fn publish_through(members: &Members, fault: impl Fn()) {
    let (stops, shown) = (AtomicBool::new(false), Shown::default());
    let publisher = Publisher { directory: members.open(), published: Vec::new(), longest_gap: Duration::ZERO };
    let through = |endpoint: &String| {
        let patience = Duration::from_secs(1);
        let settings = EtcdSettings { endpoints: vec![endpoint.clone()], patience, ..members.settings.clone() };
        open_etcd(&settings).expect("the settings")
    };
    let directories: Vec<_> = members.settings.endpoints.iter().map(through).collect();
    let publisher = thread::scope(|scope| {
        let publishing = scope.spawn(|| publisher.publish_until(&stops, &shown));
        let reading = scope.spawn(|| read_until(&directories, &stops, &shown));
        let newest = || shown.before();
        // The publisher ends also where the fault panics.
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..rounds() {
                let begun = newest();
                wait_for("publications", || newest() >= begun + 3);
                fault();
                let after = newest();
                wait_for("publications after a fault", || newest() >= after + 3);
            }
        }));
        stops.store(true, Ordering::SeqCst);
        let publisher = publishing.join().expect("it publishes");
        println!("{} reads were fresh, and none was older than one before", reading.join().expect("it reads"));
        made.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        publisher
    });
    publisher.check(&*members.open());
}

#[test]
fn a_killed_leader_loses_no_acknowledged_publication() {
    if require::program("etcd").is_none() {
        return;
    }
    let members = Members::start(3);
    publish_through(&members, || {
        let leader = members.leader();
        let restarts = members.supervisors[leader].state().restarts;
        members.signal(leader, libc::SIGKILL);
        // It is started again, and takes part again.
        wait_for("a new start", || {
            let state = members.supervisors[leader].state();
            state.restarts > restarts && state.pid.is_some()
        });
    });
}

#[test]
fn a_stopped_member_holds_nothing_up_and_two_of_three_stop_changes_only() {
    if require::program("etcd").is_none() {
        return;
    }
    let members = Members::start(3);
    publish_through(&members, || {
        let leader = members.leader();
        members.signal(leader, libc::SIGSTOP);
        let settings = EtcdSettings { patience: Duration::from_secs(6), ..members.settings.clone() };
        let directory = open_etcd(&settings).expect("the settings");
        // It is asked first, and does not answer.
        wait_for("an answer of the others", || matches!(directory.sites(), Ok(Known::Fresh(_))));
        members.signal(leader, libc::SIGCONT);
    });

    let settings = EtcdSettings { patience: Duration::from_secs(2), ..members.settings.clone() };
    let directory = open_etcd(&settings).expect("the settings");
    let sites = insist(|| directory.sites()).expect("it answers").into_value();
    let running = members.leader();
    let stopped: Vec<usize> = (0..3).filter(|at| *at != running).collect();
    // At the member that goes on alone: its streams must not keep silent.
    let alone = EtcdSettings { endpoints: vec![members.settings.endpoints[running].clone()], ..settings.clone() };
    let alone = open_etcd(&alone).expect("the settings");
    let watch = alone.watch(keys::POLICIES).expect("it answers");
    stopped.iter().for_each(|at| members.signal(*at, libc::SIGSTOP));
    let begun = Instant::now();
    let refused = directory.put_policy("alone", "x", None);
    let known = directory.sites();
    let took = begun.elapsed();
    wait_for("a watch that says that etcd is away", || watch.away_since().is_some());
    println!("the watch was away after {:?}", begun.elapsed());
    stopped.iter().for_each(|at| members.signal(*at, libc::SIGCONT));
    assert!(refused.as_ref().is_err_and(DirectoryError::is_away), "{refused:?}");
    let known = known.expect("it is known");
    assert!(known.age().is_some() && known.into_value() == sites);
    assert!(took < Duration::from_secs(10), "{took:?}");
    wait_for("agreement", || matches!(directory.sites(), Ok(Known::Fresh(_))));
    wait_for("a watch that says that etcd is there", || watch.away_since().is_none());
    // It may or may not have been carried out; with what is there now, the next change is.
    let found = insist(|| directory.policy("alone")).expect("it answers").into_value().map(|policy| policy.version);
    let put = insist(|| directory.put_policy("alone", "y", found));
    assert!(matches!(put, Ok(1..=2) | Err(DirectoryError::Conflict { .. })), "{put:?}");
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing_that_was_acknowledged() {
    if require::program("etcd").is_none() {
        return;
    }
    // Two segments of etcd's log take 64 MB each.
    let Some(disk) = SmallDisk::mount(140) else { return };
    let data = disk.path().join("data");
    let members = Members::start_with(1, |server| server.data.clone_from(&data));
    let settings = EtcdSettings { patience: Duration::from_secs(2), ..members.settings.clone() };
    let directory = open_etcd(&settings).expect("the settings");
    let text = "x".repeat(60 << 10);
    let (mut last, mut failed) = (0, None);
    for at in 1..2000 {
        match directory.put_policy(&format!("policy-{at}"), &text, None) {
            Ok(_) => last = at,
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    let failed = failed.expect("the disk is full");
    assert!(failed.is_away() || matches!(failed, DirectoryError::Full { .. }), "{failed}");
    println!("after {last} policies: {failed}");
    // Room is made: the disk is made larger, and etcd is started again.
    let larger = std::process::Command::new("mount").args(["-o", "remount,size=400m"]).arg(disk.path()).status();
    assert!(larger.expect("mount runs").success());
    wait_for("an etcd that has room again", || directory.status().is_reachable);
    for at in 1..=last {
        let policy = insist(|| directory.policy(&format!("policy-{at}"))).expect("it answers");
        assert!(matches!(policy, Known::Fresh(Some(_))), "policy {at} of {last}");
    }
}
