//! Agents of two hosts: network namespaces with a line between them, and nothing else in common.

use crate::{transaction, until};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Duration;
use weir_agent::export::{Exports, Options};
use weir_agent::transaction::{Transaction, TransactionId};
use weir_testkit::require;

/// Two namespaces, which go with it.
struct Hosts {
    names: [String; 2],
}

fn ip(words: &str) -> bool {
    Command::new("ip").args(words.split(' ')).output().is_ok_and(|output| output.status.success())
}

impl Hosts {
    fn new() -> Option<Self> {
        let hosts = Self { names: ["a", "b"].map(|side| format!("weir-{}-{side}", std::process::id())) };
        let [a, b] = &hosts.names;
        let made = ip(&format!("netns add {a}"))
            && ip(&format!("netns add {b}"))
            && ip(&format!("-n {a} link add line type veth peer name line netns {b}"))
            && [(a, 1), (b, 2)].iter().all(|(host, number)| {
                ip(&format!("-n {host} addr add 10.77.0.{number}/24 dev line"))
                    && ip(&format!("-n {host} link set line up"))
            });
        require::or_skip(made, "needs root and ip, to make network namespaces")?;
        Some(hosts)
    }

    /// Does something on one of them: threads that it starts stay there.
    fn on<T: Send>(&self, side: usize, work: impl FnOnce() -> T + Send) -> T {
        let namespace = std::fs::File::open(format!("/run/netns/{}", self.names[side])).expect("the namespace");
        let enter = || {
            // SAFETY: the call takes a descriptor that is open, and changes this thread's namespace alone.
            let entered = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
            assert_eq!(entered, 0, "the thread enters the namespace");
            work()
        };
        std::thread::scope(|scope| scope.spawn(enter).join().expect("it is done"))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns del {name}"));
        }
    }
}

fn start(options: Options) -> Exports {
    let key = Some(b"one key for both of them".to_vec());
    Exports::start(Options { key, ..options }, "host").expect("it starts")
}

#[test]
fn a_trace_that_began_on_another_host_is_told_there() {
    let Some(hosts) = Hosts::new() else { return };
    let accept = Some("10.77.0.1:4711".parse().expect("an address"));
    let shop = hosts.on(0, || start(Options { accept, ..Options::default() }));
    let bank = hosts.on(1, || start(Options { forward: vec!["10.77.0.1:4711".to_owned()], ..Options::default() }));
    assert!(TcpListener::bind("10.77.0.1:0").is_err(), "this test itself is on neither");
    // The bank's own process has another token: what began there stays there.
    bank.knows(0x99);
    let root = transaction(0, None);
    let asked = transaction(2, Some(&root));
    let deeper = transaction(3, Some(&asked));
    let own = Transaction { id: TransactionId { trace: [0x99, 5], span: 5 }, ..transaction(4, None) };
    let child = Transaction { id: TransactionId { trace: [0x99, 5], span: 6 }, parent: Some(own.id), ..own.clone() };
    for one in [&asked, &deeper, &own, &child] {
        bank.push(one);
    }
    let mut heard = Vec::new();
    until("both are told", Duration::from_secs(20), || {
        heard.extend(shop.received());
        heard.len() == 2
    });
    assert_eq!(heard, [asked.clone(), deeper], "with everything that they have");
    until("it is acknowledged", Duration::from_secs(10), || bank.report().forward[0].sent == 2);

    // The line is cut, and comes back: what was pushed meanwhile comes then.
    hosts.on(1, || assert!(ip(&format!("-n {} link set line down", hosts.names[1]))));
    drop(shop);
    bank.push(&asked);
    hosts.on(1, || assert!(ip(&format!("-n {} link set line up", hosts.names[1]))));
    let shop = hosts.on(0, || start(Options { accept, ..Options::default() }));
    // What was under way when the line was cut may be lost, and is counted then.
    until("it is there or counted", Duration::from_secs(40), || {
        bank.push(&asked);
        shop.received().is_some()
    });
    assert_eq!(bank.report().forward[0].dropped, 0);
    let report = bank.finish();
    assert!(report.forward[0].lost <= 2 + report.forward[0].sent, "{report:?}");
}
