//! Begins and ends become transactions, with their parents and what was told of them.

use crate::writer::{Writer, now_ns};
use crate::{agent, next, status, wait_for};
use std::collections::BTreeSet;
use weir_agent::protocol::{Answer, Ask, Filter};
use weir_agent::transaction::{MetricSort, MetricValue, Named, Status, Transaction};
use weir_wire::arm::{BOUND, CORRELATED, Field, Sort};
use weir_wire::{Kind, Record};

#[test]
fn a_transaction_is_told_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = agent(folder.path());
    let all = agent.subscribe(Filter::default(), 100).expect("it runs");
    let mut client = Writer::new(folder.path());
    let properties: &[(Field, u8, &[u8])] = &[
        (Field::Name, 0, b"shop"),
        (Field::PropertyName, 0, b"region"),
        (Field::PropertyValue, 0, b"north"),
        (Field::ContextName, 1, b"tier"),
    ];
    let application = client.define(Sort::Application, 0, properties);
    let format = (Field::MetricFormat, 0, &[2u8, 1][..]);
    let metric =
        client.define(Sort::Metric, application, &[(Field::Name, 0, b"rows"), format, (Field::MetricUnit, 0, b"rows")]);
    let binding = metric.to_ne_bytes();
    let transaction: &[(Field, u8, &[u8])] =
        &[(Field::Name, 0, b"buy"), (Field::ContextName, 2, b"basket"), (Field::MetricBinding, 3, &binding)];
    let buy = client.define(Sort::Transaction, application, transaction);
    let instance: &[(Field, u8, &[u8])] =
        &[(Field::Group, 0, b"web"), (Field::Instance, 0, b"web-1"), (Field::ContextValue, 1, b"front")];
    let instance = client.define(Sort::Instance, application, instance);

    let count = |number: i64| [&[2, 0, 1, 0, 0, 0, 0, 0][..], &number.to_ne_bytes()].concat();
    let start = Record {
        time_ns: now_ns(),
        kind: Kind::ArmStart as u16,
        flags: BOUND,
        b: u64::from(buy) | u64::from(instance) << 16,
        ..Record::default()
    };
    let handle = client.write(0, start, &[]).expect("room");
    client.tell(0, handle, Field::User, 0, b"customer");
    client.tell(0, handle, Field::Address, 0, &[1, 0, 10, 0, 0, 7]);
    client.tell(0, handle, Field::ContextValue, 2, b"full");
    client.tell(0, handle, Field::MetricValue, 3, &count(40));
    client.of(0, Kind::ArmBlock, handle, 1);
    std::thread::sleep(std::time::Duration::from_millis(20));
    client.of(0, Kind::ArmUnblock, handle, 1);
    client.of(0, Kind::ArmUpdate, handle, 0);
    client.tell(0, handle, Field::MetricValue, 3, &count(100));
    client.tell(0, handle, Field::Diagnosis, 0, b"no more books");
    client.stop(0, handle, 2);

    let told = &next(&all, 1)[0];
    let pid = std::process::id();
    assert_eq!((told.application.as_str(), told.name.as_str(), told.status), ("shop", "buy", Status::Failed));
    assert_eq!((told.group.as_deref(), told.instance.as_deref()), (Some("web"), Some("web-1")));
    assert_eq!((told.process.pid, told.host.as_str(), told.thread), (pid, "here", pid));
    assert_eq!((told.user.as_deref(), told.details.address.as_deref()), (Some("customer"), Some("10.0.0.7")));
    let named = |name: &str, value: &str| Named { name: name.to_owned(), value: value.to_owned() };
    assert_eq!(told.properties, [named("region", "north")]);
    assert_eq!(told.details.context, [named("tier", "front"), named("basket", "full")]);
    let metric = &told.details.metrics[0];
    assert_eq!((metric.name.as_str(), metric.unit.as_str(), metric.slot, metric.usage), ("rows", "rows", 3, 1));
    assert_eq!((metric.sort, &metric.value), (MetricSort::Counter, &MetricValue::Integer(60)));
    assert_eq!(told.details.diagnosis.as_deref(), Some("no more books"));
    assert!(told.blocked_ns >= 20_000_000 && told.blocked_ns <= told.duration_ns, "{told:?}");
    assert_eq!((told.details.blocked.len(), told.details.bound.len(), told.updates), (1, 1, 1));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    assert!(now.abs_diff(told.end_unix_ns()) < 5_000_000_000, "it ended just now");
    assert_eq!(told.id, client.identity(handle).into());
}

#[test]
fn children_are_of_their_parents_trace_within_and_across_processes_and_show_finds_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = agent(folder.path());
    let all = agent.subscribe(Filter::default(), 100).expect("it runs");
    let (mut front, mut back) = (Writer::new(folder.path()), Writer::new(folder.path()));
    let (page, query) = (front.define_shop("page"), back.define_shop("query"));
    let root = front.start(0, page, CORRELATED, None).expect("room");
    let identity = front.identity(root);
    // One child in another thread of the same process, one in another process, and one of that one.
    let near = front.start(1, page, 0, Some(identity)).expect("room");
    let far = back.start(0, query, CORRELATED, Some(identity)).expect("room");
    let of_far = weir_wire::arm::Identity { trace: identity.trace, ..back.identity(far) };
    let farther = back.start(0, query, 0, Some(of_far)).expect("room");
    back.stop(0, farther, 0);
    back.stop(0, far, 0);
    front.stop(1, near, 0);
    // Its parent is unknown to the agent.
    let stranger = weir_wire::arm::Identity { trace: [7, 7], span: 9, flags: 1, format: 3 };
    let lost = back.start(0, query, 0, Some(stranger)).expect("room");
    back.stop(0, lost, 0);
    let children = next(&all, 4);
    front.stop(0, root, 0);
    let parent = next(&all, 1).remove(0);
    assert_eq!((parent.children, parent.parent, parent.id), (2, None, identity.into()));
    let of = |span: u64| children.iter().find(|child| child.id.span == span).expect("a child");
    let spans = [front.identity(near).span, back.identity(far).span, back.identity(farther).span];
    for (span, parent) in [(spans[0], identity), (spans[1], identity), (spans[2], of_far)] {
        let child = of(span);
        assert_eq!((child.parent, child.id.trace), (Some(parent.into()), identity.trace));
        assert!(child.parent_here && !child.parent_foreign);
    }
    let orphan = of(back.identity(lost).span);
    assert_eq!((orphan.parent_here, orphan.parent_foreign, orphan.id.trace), (false, true, [7, 7]));

    // By the id of any of them, all of the trace is shown.
    for id in [parent.id.to_string(), format!("{:016x}", spans[2]), identity.traceparent()] {
        let Answer::Trace { transactions, missing } = agent.ask(Ask::Show { id: id.clone() }) else { panic!("{id}") };
        let found: BTreeSet<u64> = transactions.iter().map(|transaction| transaction.id.span).collect();
        assert_eq!((found, missing), (spans.into_iter().chain([identity.span]).collect(), 0), "{id}");
        assert_eq!(transactions[0].id, parent.id, "the first to begin comes first");
    }
    assert!(matches!(agent.ask(Ask::Show { id: "nothing".to_owned() }), Answer::Error { .. }));
}

#[test]
fn threads_may_end_update_and_tell_of_what_others_began() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = agent(folder.path());
    let all = agent.subscribe(Filter::default(), 100_000).expect("it runs");
    let mut client = Writer::new(folder.path());
    let buy = client.define_shop("buy");
    wait_for("the agent", || client.is_listened_to());
    // Begun in one lane, updated in a second, ended in a third, each by a thread of its own, as fast as they can.
    let client = &client;
    let (to_second, second) = std::sync::mpsc::sync_channel(1);
    let (to_third, third) = std::sync::mpsc::sync_channel(1);
    let count = 5000;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..count {
                let handle = loop {
                    if let Some(handle) = client.start(0, buy, 0, None) {
                        break handle;
                    }
                    std::thread::yield_now();
                };
                to_second.send(handle).expect("the second thread");
            }
        });
        scope.spawn(move || {
            for handle in second {
                while !client.of(1, Kind::ArmUpdate, handle, 0) {
                    std::thread::yield_now();
                }
                to_third.send(handle).expect("the third thread");
            }
        });
        scope.spawn(move || {
            for handle in third {
                while !client.stop(2, handle, 0) {
                    std::thread::yield_now();
                }
            }
        });
    });
    let told: Vec<Transaction> = next(&all, count);
    assert!(told.iter().all(|transaction| transaction.updates == 1), "an update was lost");
    let counts = status(&agent).counts;
    assert_eq!((counts.started, counts.finished, counts.unmatched), (count as u64, count as u64, 0));
}

#[test]
fn reported_discarded_and_unknown_ones_are_told_as_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = agent(folder.path());
    let all = agent.subscribe(Filter::default(), 100).expect("it runs");
    let mut client = Writer::new(folder.path());
    let buy = client.define_shop("buy");
    let own = weir_wire::arm::Identity { trace: [1, 2], span: 3, flags: 1, format: weir_wire::arm::Identity::FORMAT };
    let report = Record {
        time_ns: now_ns(),
        kind: Kind::ArmReport as u16,
        flags: weir_wire::arm::HAS_OWN,
        b: u64::from(buy),
        ..Record::default()
    };
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let stopped_ms = unix.as_millis() as u64 - 2000;
    client.write(0, report, &[[5_000_000, stopped_ms, 1, 0], own.slot()]).expect("room");
    let discarded = client.start(0, buy, 0, None).expect("room");
    client.of(0, Kind::ArmDiscard, discarded, 0);
    let unknown = client.start(0, 4000, 0, None).expect("room");
    client.stop(0, unknown, 9);
    let told = next(&all, 2);
    assert_eq!((told[0].id, told[0].reported, told[0].status), (own.into(), true, Status::Aborted));
    assert!(told[0].end_unix_ns().abs_diff(stopped_ms * 1_000_000) < 50_000_000, "but for what the clocks drift");
    assert_eq!((told[0].duration_ns, told[1].status), (5_000_000, Status::Unknown));
    assert_eq!((told[1].name.as_str(), told[1].application.as_str()), ("(not registered)", ""));
    assert_eq!(status(&agent).counts.discarded, 1);
}
