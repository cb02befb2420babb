//! The agent trusts no client: it refuses a wrong announcement with a reason, counts damage, and goes on with the
//! others.

use crate::notes::{self, Notes};
use crate::writer::{Writer, memory_file};
use crate::{agent, settings, status, wait_for};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use weir_agent::{Agent, Settings};
use weir_testkit::SmallDisk;
use weir_wire::arm::{
    DEFINITIONS_AT, HANDOVER_NAME, HEAD_DEFINED_BYTES, HEAD_LANES_USED, HEAD_MAGIC, HEAD_PID, LANE_READ, LANE_WRITTEN,
    LANES, LANES_AT, MEMORY_BYTES,
};

const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// Some transactions, which must all come through.
fn works(agent: &Agent, client: &Writer, transaction: u16, count: u64) {
    let before = status(agent).counts.finished;
    for _ in 0..count {
        let handle = client.start(0, transaction, 0, None).expect("room");
        assert!(client.stop(0, handle, 0));
    }
    wait_for("its transactions", || status(agent).counts.finished == before + count);
}

#[test]
fn what_is_announced_wrongly_is_refused_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid = std::process::id();
    let announce = |name: &str| fs::write(folder.path().join(name), "").expect("announced");
    let unsealed = memory_file(libc::F_SEAL_SHRINK, MEMORY_BYTES as u64);
    let short = memory_file(SEALS, MEMORY_BYTES as u64 - 4096);
    let plain = tempfile::tempfile().expect("a file");
    let other_version = Writer::new(folder.path());
    other_version.word(HEAD_MAGIC).store(7, Ordering::Relaxed);
    let other_process = Writer::new(folder.path());
    other_process.word(HEAD_PID).store(1, Ordering::Relaxed);
    let wrong = [
        (unsealed.as_raw_fd(), "with seals 0x2"),
        (short.as_raw_fd(), "memory file of"),
        (plain.as_raw_fd(), "not an ARM client's memory"),
        (other_version.file.as_raw_fd(), "another version"),
        (other_process.file.as_raw_fd(), "the memory of process 1"),
    ];
    for (descriptor, _) in &wrong {
        announce(&format!("{pid}-{descriptor}"));
    }
    // Of a process that is gone: it is removed.
    let mut gone = std::process::Command::new("true").spawn().expect("a program");
    gone.wait().expect("it ends");
    announce(&format!("{}-3", gone.id()));
    announce("something else");
    let agent = agent(folder.path());
    wait_for("all reasons", || status(&agent).refused.len() == wrong.len());
    let refused = status(&agent).refused;
    for (descriptor, reason) in wrong {
        let name = format!("{pid}-{descriptor}");
        let told = refused.iter().find(|refused| refused.announcement == name).expect("a reason");
        assert!(told.reason.contains(reason), "{told:?}");
    }
    assert!(!folder.path().join(format!("{}-3", gone.id())).exists());
    assert!(folder.path().join("something else").exists(), "it is no business of the agent's");
    assert_eq!(status(&agent).processes, 0);
    // What was mended is read when it is tried again.
    other_process.word(HEAD_PID).store(u64::from(pid), Ordering::Relaxed);
    wait_for("the mended one", || status(&agent).processes == 1);
}

#[test]
fn another_users_announcement_of_our_process_is_refused() {
    // SAFETY: the call has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root can give a file away");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // SAFETY: the calls have no arguments.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // The child is another user's, and waits; it does nothing that is not allowed after a fork.
        // SAFETY: calls with numbers.
        unsafe {
            libc::setresuid(12_345, 12_345, 12_345);
            libc::sleep(20);
            libc::_exit(0);
        }
    }
    let theirs = folder.path().join(format!("{child}-1"));
    fs::write(&theirs, "").expect("announced");
    std::os::unix::fs::chown(&theirs, Some(54_321), None).expect("given away");
    wait_for("the child's user", || {
        fs::read_to_string(format!("/proc/{child}/status")).is_ok_and(|status| status.contains("12345"))
    });
    let agent = agent(folder.path());
    wait_for("the refusal", || !status(&agent).refused.is_empty());
    let refused = status(&agent).refused;
    // SAFETY: our own child.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    assert!(refused[0].reason.contains("user 54321 announced it, but"), "{refused:?}");
    wait_for("the end of it", || status(&agent).refused.is_empty() && !theirs.exists());
}

#[test]
fn announcements_may_be_cut_removed_and_made_read_only_and_the_directory_be_full() {
    let folder = tempfile::tempdir().expect("a folder");
    for at in 0..3000 {
        fs::write(folder.path().join(format!("junk{at}")), "").expect("written");
    }
    let agent = agent(folder.path());
    let mut client = Writer::new(folder.path());
    let buy = client.define_shop("buy");
    works(&agent, &client, buy, 10);
    fs::set_permissions(&client.announcement, fs::Permissions::from_mode(0o000)).expect("ours");
    works(&agent, &client, buy, 10);
    fs::OpenOptions::new().write(true).truncate(true).open(&client.announcement).ok();
    works(&agent, &client, buy, 10);
    fs::remove_file(&client.announcement).expect("ours");
    works(&agent, &client, buy, 10);
    // Announced again, it is the same client.
    fs::write(&client.announcement, "").expect("announced");
    works(&agent, &client, buy, 10);
    assert_eq!(status(&agent).processes, 1);
}

#[test]
fn more_processes_than_allowed_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings { most_processes: 2, ..settings(folder.path()) };
    let agent = Agent::start(settings, None, None).expect("it starts");
    let clients: Vec<Writer> = (0..3).map(|_| Writer::new(folder.path())).collect();
    wait_for("the third", || status(&agent).refused.len() == 1);
    assert_eq!((status(&agent).processes, clients.len()), (2, 3));
    assert!(status(&agent).refused[0].reason.contains("2 processes are being read"));
}

#[test]
fn a_ring_that_no_agent_reads_in_time_counts_what_it_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut client = Writer::new(folder.path());
    let buy = client.define_shop("buy");
    // No agent listens yet: the ring fills up.
    let (mut made, mut refused) = (0u64, 0u64);
    for _ in 0..20_000 {
        match client.start(0, buy, 0, None) {
            Some(handle) => {
                made += 1;
                refused += u64::from(!client.stop(0, handle, 0));
            }
            None => refused += 1,
        }
    }
    assert_eq!(made, 8192);
    let first = agent(folder.path());
    wait_for("what is there", || status(&first).counts.finished == made);
    let counts = first.stop().counts;
    assert_eq!((counts.dropped, counts.unmatched), (refused, 0));
    let second = agent(folder.path());
    works(&second, &client, buy, 1);
    assert_eq!(status(&second).counts.dropped, 0, "they were counted once");
}

/// Where and what a malicious client writes.
fn attack() -> impl Strategy<Value = Vec<(usize, u64)>> {
    let word = prop_oneof![any::<u64>(), 0u64..20_000, Just(u64::MAX), Just(0), 0x0600u64..0x0610];
    let head = prop_oneof![Just(HEAD_LANES_USED), Just(HEAD_DEFINED_BYTES), 8usize..24];
    let positions = (0..LANES, prop_oneof![Just(LANE_WRITTEN), Just(LANE_READ), 0usize..24]);
    let positions = positions.prop_map(|(lane, word)| weir_wire::arm::POSITIONS_AT / 8 + lane * 24 + word);
    let definitions = (0usize..4096).prop_map(|word| DEFINITIONS_AT / 8 + word);
    let slots = (0usize..3, 0usize..65_536).prop_map(|(lane, word)| LANES_AT / 8 + lane * 65_536 + word);
    let place = prop_oneof![head, positions, definitions, slots];
    proptest::collection::vec((place, word), 1..60)
}

#[test]
fn a_malicious_client_harms_no_other_client() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = agent(folder.path());
    let mut honest = Writer::new(folder.path());
    let buy = honest.define_shop("buy");
    works(&agent, &honest, buy, 1);
    let malicious = std::cell::RefCell::new(Writer::new(folder.path()));
    malicious.borrow_mut().define_shop("steal");
    let mut round = 0;
    let mut runner = TestRunner::new(Config { cases: 150, failure_persistence: None, ..Config::default() });
    let done = runner.run(&attack(), |words| {
        for (word, value) in words {
            malicious.borrow().word(word).store(value, Ordering::Release);
        }
        Ok(())
    });
    done.expect("only writes");
    // Now with the agent looking at each attack.
    let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
    let done = runner.run(&attack(), |words| {
        for (word, value) in &words {
            malicious.borrow().word(*word).store(*value, Ordering::Release);
        }
        let handles: Vec<_> = (0..50).filter_map(|_| honest.start(0, buy, 0, None)).collect();
        prop_assert_eq!(handles.len(), 50, "the honest one has room");
        handles.into_iter().for_each(|handle| assert!(honest.stop(0, handle, 0)));
        Ok(())
    });
    done.expect("the honest client is served");
    // A new one begins where the malicious one has wrecked its own memory, again and again.
    while round < 5 {
        let damaged = status(&agent).counts.damaged;
        let mut again = Writer::new(folder.path());
        again.scribble(DEFINITIONS_AT, &[0xff; 4096]);
        again.word(HEAD_DEFINED_BYTES).store(u64::MAX, Ordering::Release);
        again.scribble(LANES_AT, &[0xff; 4096]);
        again.word(HEAD_LANES_USED).store(u64::MAX, Ordering::Release);
        again.position(0, LANE_WRITTEN).store(100, Ordering::Release);
        wait_for("it is seen", || status(&agent).counts.damaged > damaged);
        round += 1;
    }
    let lane = weir_agent::protocol::Ask::List;
    let weir_agent::protocol::Answer::List(list) = agent.ask(lane) else { panic!("a list") };
    let shop = list.classes.iter().find(|class| class.transaction == "buy").expect("the honest one's");
    assert!(shop.transactions > 40 * 50, "{shop:?}");
    let status = status(&agent);
    assert!(status.resident_bytes < 200 << 20, "{status:?}");
    assert!(!agent.has_ended());
}

#[test]
fn a_directory_in_which_every_user_may_remove_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path: &Path = folder.path();
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("ours");
    let refused = Agent::start(settings(path), None, None).err().expect("it is not safe");
    assert!(refused.to_string().contains("chmod 1777"), "{refused}");
}

/// Sends bytes to the agent with descriptors, as any process may with `sendmsg`.
fn send(directory: &Path, bytes: &[u8], descriptors: &[i32]) -> UnixStream {
    let stream = UnixStream::connect(directory.join(HANDOVER_NAME)).expect("the agent takes memories");
    let mut piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = [0u64; 16];
    // SAFETY: plain numbers and pointers, for which zeros are valid; all that the message points to is ours and lives
    // until the call is over, and the room is enough for the few descriptors.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        if !descriptors.is_empty() {
            let length = size_of_val(descriptors) as u32;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(length) as _;
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(length) as _;
            libc::CMSG_DATA(head).cast::<i32>().copy_from_nonoverlapping(descriptors.as_ptr(), descriptors.len());
        }
        assert!(libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) >= 0, "it is sent");
    }
    stream
}

#[test]
fn what_is_sent_in_the_place_of_a_memory_is_thrown_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = agent(folder.path());
    let plain = tempfile::tempfile().expect("a file");
    let unsealed = memory_file(libc::F_SEAL_SHRINK, MEMORY_BYTES as u64);
    let (file, number) = (plain.as_raw_fd(), |number: i32| number.to_ne_bytes());
    // Nothing, and for long; no descriptor; several; a number that is none; too little; an end at once.
    let silent: Vec<UnixStream> =
        (0..300).map(|_| UnixStream::connect(folder.path().join(HANDOVER_NAME)).expect("room")).collect();
    let wrong = [
        send(folder.path(), &number(7), &[]),
        send(folder.path(), &number(7), &[file, file, file]),
        send(folder.path(), &number(-1), &[file]),
        send(folder.path(), &[1], &[file]),
    ];
    drop(UnixStream::connect(folder.path().join(HANDOVER_NAME)).expect("room"));
    for mut stream in wrong {
        // The agent closes the connection after a wrong message.
        assert_eq!(std::io::Read::read(&mut stream, &mut [0]).unwrap_or(0), 0);
    }
    let _sent =
        [send(folder.path(), &number(4001), &[file]), send(folder.path(), &number(4002), &[unsealed.as_raw_fd()])];
    wait_for("both reasons", || status(&agent).refused.len() == 2);
    let refused = status(&agent).refused;
    assert!(refused.iter().any(|line| line.reason.contains("with seals 0x2")), "{refused:?}");
    let mut client = Writer::new(folder.path());
    let transaction = client.define_shop("work");
    wait_for("the client", || status(&agent).processes == 1);
    works(&agent, &client, transaction, 100);
    // The agent drops a silent sender after a while.
    let is_closed =
        |mut stream: &UnixStream| std::io::Read::read(&mut stream, &mut [0]).is_ok_and(|length| length == 0);
    silent.iter().for_each(|stream| stream.set_nonblocking(true).expect("our own"));
    wait_for("the silent ones' end", || silent.iter().all(is_closed));
}

/// The journal's disk is full: transactions are counted on, and what a kill would cost is told until there is room.
#[test]
fn a_full_disk_costs_the_journal_and_nothing_else() {
    let Some(disk) = SmallDisk::mount(1) else { return };
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let [folder, kept] = folders.each_ref().map(tempfile::TempDir::path);
    let settings = Settings { state: Some(disk.path().join("journal")), ..settings(folder) };
    let agent = Agent::start(settings, Some(Box::new(Notes(kept.to_owned()))), None).expect("it starts");
    let mut client = Writer::new(folder);
    let transaction = client.define_shop("work");
    wait_for("the client", || status(&agent).processes == 1);
    works(&agent, &client, transaction, 100);
    let ballast = disk.path().join("ballast");
    // Until nothing more goes in.
    let _ = fs::write(&ballast, vec![1u8; 2 << 20]);
    let warned = || status(&agent).warnings.iter().any(|warning| warning.contains("a killed agent would lose figures"));
    wait_for("a warning", || {
        works(&agent, &client, transaction, 100);
        warned()
    });
    fs::remove_file(&ballast).expect("there is room again");
    wait_for("no warning", || {
        works(&agent, &client, transaction, 100);
        !warned()
    });
    let finished = status(&agent).counts.finished;
    drop(agent);
    let all: u64 = notes::kept(kept).iter().flat_map(|batch| &batch.folds).map(|fold| fold.outcomes.all()).sum();
    assert_eq!(all, finished, "the keeper has all of it");
}
