//! What a packet costs the director's filter, beside a filter that only redirects: the kernel runs both programs over one
//! frame again and again (`BPF_PROG_TEST_RUN`), by turns.
//!
//! `director-packets [ROUNDS [RUNS]]`, as root; it makes a network namespace and removes it. Without a word 31 rounds of a
//! million runs. What a network card, its driver and queues cost is not in it.

use anyhow::{Context, Result, ensure};
use std::net::SocketAddr;
use std::time::Duration;
use weir_keeper::{FlowTable, NodePlace, PlainRedirect};
use weir_testkit::namespace::{Namespace, ip};

const SERVICE: &str = "10.78.0.80:80";

/// A frame of IPv4 to the service, as it comes to the loopback interface, by which the kernel's test runs come: its
/// address is zero.
fn frame(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((20 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 1, 0x40, 0, 64, protocol, 0, 0, 10, 78, 0, 2, 10, 78, 0, 80]);
    frame.extend(payload);
    frame
}

/// An acknowledgement with timestamps.
fn ack() -> Vec<u8> {
    let mut tcp = vec![0x9c, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x80, 0x10, 1, 0, 0, 0, 0, 0];
    tcp.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1]);
    frame(6, &tcp)
}

/// A datagram of QUIC with the id of node 1 in a short header.
fn datagram() -> Vec<u8> {
    let mut udp = vec![0x9c, 0x40, 0, 80, 0, 40, 0, 0, 0x40, 0xaa, 0xbb, 0, 0x40, 0, 1, 2, 3];
    udp.extend([9; 23]);
    frame(17, &udp)
}

/// The middle one.
fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e9
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u32>().context("a number"));
    let rounds = words.next().transpose()?.unwrap_or(31).max(1);
    let runs = words.next().transpose()?.unwrap_or(1_000_000).max(1);
    let space = Namespace::new("director-packets");
    ip(&["-n", space.name(), "link", "add", "e0", "type", "veth", "peer", "name", "e1"]);
    let service: SocketAddr = SERVICE.parse()?;
    let nodes = [NodePlace { number: 1, mac: [2, 0, 0, 0, 0, 1] }, NodePlace { number: 2, mac: [2, 0, 0, 0, 0, 2] }];
    let table = space.within(|| FlowTable::attach("e0", service, &nodes))?;
    let plain = PlainRedirect::load()?;
    let frames = [("TCP, a connection that is known", ack()), ("QUIC, by its id", datagram())];
    for (what, frame) in &frames {
        let (mut of_plain, mut of_table) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            // By turns, and each first every other time.
            for is_table in [round % 2 == 0, round % 2 == 1] {
                let cost = if is_table { table.cost(frame, runs) } else { plain.cost(frame, runs) };
                let cost = cost?.with_context(|| format!("{what}: the frame is not sent on"))?;
                if is_table { of_table.push(cost) } else { of_plain.push(cost) }
            }
        }
        let (own, plain_ns) = (median(&mut of_table), median(&mut of_plain));
        ensure!(own > 0.0, "{what}: the kernel measures nothing");
        println!(
            "{what}: {own:.0} ns, {:.1} million packets/s a core; a plain redirect {plain_ns:.0} ns (medians of {rounds} \
             rounds of {runs} runs)",
            1e3 / own
        );
    }
    Ok(())
}
