//! Figures, switches, what is kept, and the socket.

use crate::notes::{Notes, kept};
use crate::writer::Writer;
use crate::{agent, list, settings, status, top, wait_for};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use weir_agent::protocol::{Answer, Ask, By, Filter, SOCKET_NAME, Switch};
use weir_agent::{Agent, StartError};
use weir_wire::arm::{Field, LANE_SKIPPED, SWITCH_OFF, SWITCH_ON};

#[test]
fn top_and_list_count_by_class_and_by_user_and_samples_stand_for_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = agent(folder.path());
    let mut client = Writer::new(folder.path());
    let (buy, look) = (client.define_shop("buy"), client.define_shop("look"));
    for at in 0..40u64 {
        let handle = client.start(0, if at % 4 == 0 { buy } else { look }, 0, None).expect("room");
        client.tell(0, handle, Field::User, 0, if at % 2 == 0 { b"even" } else { b"odds" });
        client.stop(0, handle, if at % 8 == 0 { 2 } else { 0 });
    }
    let running = client.start(0, look, 0, None).expect("room");
    wait_for("all", || status(&agent).counts.finished == 40);
    let rows = top(&agent);
    let row = |name: &str| rows.rows.iter().find(|row| row.transaction == name).expect("a row");
    assert_eq!((row("look").transactions, row("look").failed, row("look").running), (30, 0, 1));
    assert_eq!((row("buy").transactions, row("buy").failed), (10, 5));
    assert!(row("buy").p50_ns <= row("buy").p99_ns && row("buy").max_ns > 0 && rows.processes == 1);
    let by_user = agent.ask(Ask::Top { seconds: 60, by: By::User });
    let Answer::Top(by_user) = by_user else { panic!("{by_user:?}") };
    let users: Vec<_> = by_user.rows.iter().map(|row| (row.user.as_deref(), row.transactions)).collect();
    assert_eq!(users.iter().map(|user| user.1).sum::<u64>(), 40);
    assert!(users.contains(&(Some("odds"), 20)), "{users:?}");
    let known = list(&agent);
    assert_eq!((known.classes.len(), known.classes[0].processes), (2, 1));
    assert_eq!((known.processes[0].running, known.processes[0].definitions), (1, 4));
    assert_eq!(known.processes[0].applications, ["shop"]);
    client.stop(0, running, 0);
}

#[test]
fn switches_reach_all_memories_at_once_and_new_definitions_and_the_next_agent() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = tempfile::tempdir().expect("a folder");
    let with_state = || {
        let settings = weir_agent::Settings { state: Some(state.path().to_owned()), ..settings(folder.path()) };
        Agent::start(settings, None, None).expect("it starts")
    };
    let first = with_state();
    let mut client = Writer::new(folder.path());
    let (buy, look) = (client.define_shop("buy"), client.define_shop("look"));
    wait_for("definitions", || list(&first).classes.len() == 2);
    let set = |agent: &Agent, transaction: Option<&str>, to| {
        let transaction = transaction.map(str::to_owned);
        agent.ask(Ask::Switch { application: "shop".to_owned(), transaction, to })
    };
    let answer = set(&first, None, Some(Switch::Off));
    let Answer::Switched { processes: 1, definitions: 2, warning: None, .. } = answer else { panic!("{answer:?}") };
    assert_eq!((client.switch(buy), client.switch(look)), (SWITCH_OFF, SWITCH_OFF));
    set(&first, Some("buy"), Some(Switch::OneIn(10)));
    assert_eq!((client.switch(buy), client.switch(look)), (10, SWITCH_OFF));
    // A definition that comes later, and what the switch left out.
    let pay = client.define_shop("pay");
    wait_for("the new switch", || client.switch(pay) == SWITCH_OFF);
    client.start(0, buy, 0, None).expect("room");
    client.position(0, LANE_SKIPPED).store(9, std::sync::atomic::Ordering::Relaxed);
    wait_for("the count", || status(&first).counts.skipped == 9);
    let up = first.stop();
    assert!(!client.is_listened_to(), "it ended in order");
    assert_eq!(up.counts.skipped, 9);

    let second = with_state();
    let mut other = Writer::new(folder.path());
    let look = other.define_shop("look");
    wait_for("the kept switch", || other.switch(look) == SWITCH_OFF);
    wait_for("the skipped ones once", || list(&second).processes.len() == 2);
    assert_eq!(status(&second).counts.skipped, 0, "a former agent has counted them");
    set(&second, None, None);
    assert_eq!((client.switch(buy), other.switch(look)), (SWITCH_ON, SWITCH_ON));
    assert!(matches!(set(&second, None, Some(Switch::OneIn(0))), Answer::Error { .. }));
}

#[test]
fn a_sampled_transaction_counts_for_those_that_it_stands_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = agent(folder.path());
    let mut client = Writer::new(folder.path());
    let buy = client.define_shop("buy");
    let record = weir_wire::Record {
        time_ns: crate::writer::now_ns(),
        kind: weir_wire::Kind::ArmStart as u16,
        b: u64::from(buy) | 25 << 32,
        ..weir_wire::Record::default()
    };
    let handle = client.write(0, record, &[]).expect("room");
    client.stop(0, handle, 0);
    wait_for("it", || top(&agent).rows.iter().any(|row| row.transactions == 25));
}

#[test]
fn batches_are_kept_with_exemplars_that_show_finds_in_a_later_agent() {
    let folder = tempfile::tempdir().expect("a folder");
    let notes = tempfile::tempdir().expect("a folder");
    let start = || Agent::start(settings(folder.path()), Some(Box::new(Notes(notes.path().to_owned()))), None);
    let first = start().expect("it starts");
    let mut client = Writer::new(folder.path());
    let buy = client.define_shop("buy");
    let mut failed = None;
    for at in 0..100 {
        let handle = client.start(0, buy, 0, None).expect("room");
        client.stop(0, handle, if at == 50 { 2 } else { 0 });
        failed = if at == 50 { Some(client.identity(handle)) } else { failed };
    }
    wait_for("all", || status(&first).counts.finished == 100);
    drop(first.stop());
    let batches = kept(notes.path());
    let all: u64 = batches.iter().flat_map(|batch| &batch.folds).map(|fold| fold.outcomes.all()).sum();
    let finished: u64 = batches.iter().map(|batch| batch.counts.finished).sum();
    assert_eq!((all, finished), (100, 100));
    let fold = &batches[0].folds[0];
    assert_eq!((fold.application.as_str(), fold.transaction.as_str(), &fold.user), ("shop", "buy", &None));
    let minute = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs() / 60;
    assert!(minute.abs_diff(fold.minute) <= 1);
    let second = start().expect("it starts");
    let id = format!("{:016x}", failed.expect("one failed").span);
    let answer = second.ask(Ask::Show { id });
    let Answer::Trace { transactions, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(transactions.len(), 1);
}

#[test]
fn over_the_socket_lines_are_answered_and_transactions_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = agent(folder.path());
    let connect = || UnixStream::connect(folder.path().join(SOCKET_NAME)).expect("the agent");
    let ask = |stream: &mut UnixStream, line: &str| {
        stream.write_all(format!("{line}\n").as_bytes()).expect("written");
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).expect("an answer");
        serde_json::from_str::<Answer>(&answer).expect("an answer")
    };
    let mut stream = connect();
    assert!(matches!(ask(&mut stream, r#"{"ask":"status"}"#), Answer::Status(_)));
    assert!(matches!(ask(&mut stream, "what?"), Answer::Error { .. }));
    assert!(matches!(ask(&mut stream, r#"{"ask":"list"}"#), Answer::List(_)));
    // Two are told apart by their filters.
    let mut follower = connect();
    follower.write_all(b"{\"ask\":\"tail\",\"failed\":true}\n").expect("written");
    wait_for("the follower", || status(&agent).subscribers == 1);
    let mut client = Writer::new(folder.path());
    let buy = client.define_shop("buy");
    for outcome in [0, 2] {
        let handle = client.start(0, buy, 0, None).expect("room");
        client.stop(0, handle, outcome);
    }
    let mut line = String::new();
    let mut lines = BufReader::new(follower);
    lines.read_line(&mut line).expect("a line");
    let Answer::Transaction(told) = serde_json::from_str(&line).expect("an answer") else { panic!("{line}") };
    assert!(told.status.is_failure());
    drop(lines);
    // A second agent does not take the first one's place, nor does the end leave a socket behind.
    assert!(matches!(Agent::start(settings(folder.path()), None, None), Err(StartError::Socket(_))));
    drop(agent.stop());
    assert!(!folder.path().join(SOCKET_NAME).exists());
}

#[test]
fn a_slow_subscriber_misses_transactions_and_does_not_hold_up_the_agent() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = agent(folder.path());
    let slow = agent.subscribe(Filter::default(), 10).expect("it runs");
    let mut client = Writer::new(folder.path());
    let buy = client.define_shop("buy");
    for _ in 0..100 {
        let handle = client.start(0, buy, 0, None).expect("room");
        client.stop(0, handle, 0);
    }
    wait_for("all", || status(&agent).counts.finished == 100);
    wait_for("the count", || status(&agent).counts.missed == 90);
    assert_eq!((slow.take(std::time::Duration::ZERO).len(), slow.missed()), (10, 90));
}
