//! The service's address goes from one director's interface to another's, and neighbours follow at once.

use std::net::{IpAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};
use weir_keeper::ServiceAddress;
use weir_testkit::namespace::{Namespace, ip};
use weir_testkit::require;

const PATIENCE: Duration = Duration::from_secs(20);

/// Three hosts at a switch, each with an interface e0 whose Ethernet address ends with its number.
fn hosts() -> (Namespace, Vec<Namespace>) {
    let switch = Namespace::new("address-switch");
    ip(&["-n", switch.name(), "link", "add", "br0", "type", "bridge", "forward_delay", "0"]);
    ip(&["-n", switch.name(), "link", "set", "br0", "up"]);
    let host = |number: usize| {
        let host = Namespace::new(&format!("address-{number}"));
        let (mac, plug) = (format!("02:7a:00:00:00:0{number}"), format!("p{number}"));
        let link = [
            "link",
            "add",
            "e0",
            "netns",
            host.name(),
            "address",
            &mac,
            "type",
            "veth",
            "peer",
            "name",
            &plug,
            "netns",
        ];
        ip(&[&link[..], &[switch.name()]].concat());
        ip(&["-n", switch.name(), "link", "set", &plug, "master", "br0", "up"]);
        ip(&["-n", host.name(), "addr", "add", &format!("10.80.0.{number}/24"), "dev", "e0"]);
        ip(&["-n", host.name(), "addr", "add", &format!("fd80::{number}/64"), "dev", "e0", "nodad"]);
        ip(&["-n", host.name(), "link", "set", "e0", "up"]);
        host
    };
    let hosts = (1..=3).map(host).collect();
    (switch, hosts)
}

/// Waits until a host has noted this Ethernet address for an address; with packets that have it ask, or without.
fn wait_noted(host: &Namespace, address: IpAddr, wanted: &str, asks: bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if asks {
            host.within(|| {
                let own = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                // A way that is not there yet is tried again.
                let _ = UdpSocket::bind(own).expect("a socket").send_to(b"?", (address, 9));
            });
        }
        let shown = ["-n", host.name(), "neigh", "show", &address.to_string()];
        let output = Command::new("ip").args(shown).output().expect("iproute2 is there");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.contains(wanted) {
            return;
        }
        assert!(Instant::now() < deadline, "{address}: {text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn neighbours_follow_an_address_that_goes_to_another_host() {
    if require::root_and_bpf().is_none() {
        return;
    }
    let (_switch, hosts) = hosts();
    let [one, two, client] = &hosts[..] else { panic!("three hosts") };
    for text in ["10.80.0.80", "fd80::80"] {
        let address: IpAddr = text.parse().expect("an address");
        let at = |host: &Namespace| host.within(|| ServiceAddress::at("e0", address).expect("the interface"));
        let (first, second) = (at(one), at(two));
        assert_eq!(one.within(|| (first.remove().expect("asks"), first.add().expect("adds"))), (false, true));
        assert!(!one.within(|| first.add().expect("asks")), "it is there already");
        wait_noted(client, address, "02:7a:00:00:00:01", true);
        assert!(one.within(|| first.remove().expect("removes")));
        two.within(|| {
            assert!(second.add().expect("adds"));
            second.announce().expect("announces");
        });
        wait_noted(client, address, "02:7a:00:00:00:02", false);
    }
    let missing = one.within(|| ServiceAddress::at("e9", "10.80.0.80".parse().expect("an address")));
    assert!(missing.expect_err("is not there").to_string().contains("no network interface \"e9\""));
}
