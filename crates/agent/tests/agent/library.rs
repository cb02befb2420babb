//! The client's library, in processes of its own, with the agent that reads it.

use crate::{agent, next, wait_for};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use weir_agent::protocol::Filter;
use weir_agent::transaction::{Status, Transaction, Wanted};
use weir_arm::{Begin, CORRELATED, Field, Handle, Identity, Report, Sort};

const ROLE: &str = "WEIR_ARM_TEST_CLIENT";
const SHORT: &str = "WEIR_ARM_TEST_SHORT";
const PARENT: &str = "WEIR_ARM_TEST_PARENT";

fn client(directory: &Path, parent: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["library::as_a_client", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, "yes").env(PARENT, parent).env("WEIR_ARM_DIR", directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("it starts")
}

fn named(sort: Sort, of: u16, name: &str) -> u16 {
    weir_arm::define(sort, 4, of, |writer| {
        writer.piece(Field::Name, 0, name.as_bytes());
    })
}

/// Does nothing where it runs as a test; the test below runs it in a process of its own, and that one in another.
#[test]
fn as_a_client() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let parent = std::env::var(PARENT).ok().as_deref().and_then(Identity::of_traceparent);
    let application = named(Sort::Application, 0, if parent.is_some() { "back" } else { "front" });
    let transaction = named(Sort::Transaction, application, "work");
    let instance = weir_arm::define(Sort::Instance, 4, application, |writer| {
        writer.piece(Field::Group, 0, b"tests");
    });
    wait_for("the agent", weir_arm::listening);
    let begin = Begin { transaction, instance, flags: CORRELATED, parent, arrival_ns: weir_arm::now_ns() - 1_000_000 };
    let handle = weir_arm::start_with(&begin, |telling| telling.piece(Field::User, 0, b"customer"));
    assert!(handle.0 > 0);
    let identity = weir_arm::identity(handle, parent, false);
    if parent.is_none() {
        // Four threads, each with children; one child in another process.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let of = Begin { transaction, instance, parent: Some(identity), ..Begin::default() };
                        let child = weir_arm::start_with(&of, |_| {});
                        assert!(weir_arm::stop(child, 0));
                    }
                });
            }
        });
        let directory = std::env::var_os("WEIR_ARM_DIR").expect("it was given");
        let mut other = client(Path::new(&directory), &identity.traceparent());
        assert!(other.wait().expect("it ends").success());
        let own = weir_arm::generate(&begun_elsewhere(transaction, instance, identity), |_| {});
        let report = Report {
            transaction,
            instance,
            response_ns: 5_000_000,
            stopped_realtime_ms: u64::MAX,
            parent: Some(identity),
            own: Some(own),
            ..Report::default()
        };
        assert!(weir_arm::report_with(&report, |telling| telling.piece(Field::Diagnosis, 0, b"far away")));
    }
    let block = weir_arm::block(handle, |_| {}).expect("ours");
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert!(weir_arm::unblock(handle, block));
    let diagnosis = "a long story. ".repeat(100);
    assert!(weir_arm::stop_with(handle, 2, |telling| telling.piece(Field::Diagnosis, 0, diagnosis.as_bytes())));
    assert!(!weir_arm::stop(Handle(1 << 62), 0), "another process's");
}

/// Does nothing where it runs as a test; the test below runs it in processes of its own.
#[test]
fn as_a_short_client() {
    if std::env::var_os(SHORT).is_none() {
        return;
    }
    // Where the announcement would stand there are folders: the agent learns of it by the handed-over memory alone.
    let directory = std::env::var_os("WEIR_ARM_DIR").expect("it was given");
    for descriptor in 0..64 {
        let name = format!("{}-{descriptor}", std::process::id());
        std::fs::create_dir(Path::new(&directory).join(name)).expect("a new folder");
    }
    let application = named(Sort::Application, 0, "short");
    let transaction = named(Sort::Transaction, application, "work");
    let handle = weir_arm::start(transaction, 0);
    let is_recorded = handle.0 > 0 && weir_arm::stop(handle, 0);
    // SAFETY: nothing of this process is needed any more.
    unsafe { libc::_exit(i32::from(!is_recorded)) };
}

#[test]
fn a_program_that_ends_at_once_is_not_missed() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = agent(folder.path());
    for _ in 0..20 {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["library::as_a_short_client", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(SHORT, "yes").env("WEIR_ARM_DIR", folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        assert!(command.status().expect("it starts").success(), "it was not recorded");
    }
    // The last one may be known only some time after it has ended.
    wait_for("all of them, and their ends", || {
        let status = crate::status(&agent);
        status.counts.started == 20 && status.processes == 0
    });
    let counts = crate::status(&agent).counts;
    assert_eq!((counts.started, counts.finished, counts.unfinished, counts.lost()), (20, 20, 0, 0));
}

fn begun_elsewhere(transaction: u16, instance: u16, parent: Identity) -> Begin {
    Begin { transaction, instance, parent: Some(parent), ..Begin::default() }
}

#[test]
fn what_the_library_tells_the_agent_knows() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = agent(folder.path());
    let all = agent.subscribe(Filter::default(), 10_000).expect("it runs");
    let mut front = client(folder.path(), "");
    assert!(front.wait().expect("it ends").success());
    // The parent, 400 children in threads, one in another process, one reported.
    let told = next(&all, 403);
    let root: &Transaction = told.iter().find(|one| one.parent.is_none()).expect("the parent");
    assert_eq!((root.application.as_str(), root.name.as_str(), root.status), ("front", "work", Status::Failed));
    assert_eq!((root.group.as_deref(), root.user.as_deref()), (Some("tests"), Some("customer")));
    assert_eq!(root.details.diagnosis.as_deref(), Some("a long story. ".repeat(100).as_str()));
    assert!(root.queued_ns >= 1_000_000 && root.blocked_ns >= 5_000_000, "{root:?}");
    let trace = Wanted::Trace(root.id.trace);
    assert!(told.iter().all(|one| trace.is(&one.id)), "all are of one trace");
    let children: Vec<_> = told.iter().filter(|one| one.parent == Some(root.id)).collect();
    assert!(children.len() == 402 && children.iter().all(|child| child.parent_here));
    let back: Vec<_> = children.iter().filter(|one| one.application == "back").collect();
    assert!(back.len() == 1 && back[0].process.pid != root.process.pid);
    let reported = children.iter().find(|one| one.reported).expect("the reported one");
    assert_eq!((reported.details.diagnosis.as_deref(), reported.duration_ns), (Some("far away"), 5_000_000));
    let threads: std::collections::BTreeSet<u32> = children.iter().map(|child| child.thread).collect();
    assert!(threads.len() >= 5, "{threads:?}");
    let counts = crate::status(&agent).counts;
    assert_eq!((counts.started, counts.finished, counts.lost()), (403, 403, 0));
}
