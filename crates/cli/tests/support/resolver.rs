//! A name server that takes its time.

use super::planted::{Beside, wait_for};
use weir_testkit::Site;

/// Answers each question after 30 ms with an address of the loopback interface.
const RESOLVER: &str = "#!/usr/bin/python3
import socket, sys, time
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 53))
print('ready', file=open(sys.argv[2], 'w'), flush=True)
for _ in range(10000):
    question, asker = server.recvfrom(512)
    time.sleep(0.030)
    end = question.index(0, 12) + 5
    wants_a = question[end - 4:end - 2] == bytes([0, 1])
    head = question[:2] + bytes([0x81, 0x80, 0, 1, 0, int(wants_a), 0, 0, 0, 0])
    record = bytes([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1]) if wants_a else b''
    server.sendto(head + question[12:end] + record, asker)
";

/// An address of the loopback interface on which no other program listens.
pub(crate) const ADDRESS: &str = "127.83.9.1";

/// Starts it under the name `slow-resolver`, from a directory in which it may write.
pub(crate) fn slow_resolver(dir: &Site) -> Beside {
    dir.write_program("slow-resolver", RESOLVER.as_bytes()).expect("the resolver");
    let ready = dir.path().join("ready");
    let arguments = [ADDRESS, ready.to_str().expect("a readable path")];
    let resolver = Beside::start(&dir.path().join("slow-resolver"), &arguments);
    wait_for(|| std::fs::read_to_string(&ready).ok()?.contains("ready").then_some(()));
    resolver
}
