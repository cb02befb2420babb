//! A transaction over two hosts: agents in network namespaces with a line between them, each with a directory and a
//! name of its own; what goes on at the bank is shown where the order began.

use super::{Place, Running, alone, built, wait_for};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use weir_testkit::require;

/// Two namespaces, which go with it.
struct Namespaces([String; 2]);

fn ip(words: &str) -> bool {
    Command::new("ip").args(words.split(' ')).output().is_ok_and(|output| output.status.success())
}

impl Namespaces {
    fn new() -> Option<Self> {
        let hosts = Self(["shop", "bank"].map(|side| format!("weir-{side}-{}", std::process::id())));
        let [shop, bank] = &hosts.0;
        let made = ip(&format!("netns add {shop}"))
            && ip(&format!("netns add {bank}"))
            && ip(&format!("-n {shop} link add line type veth peer name line netns {bank}"))
            && [(shop, 1), (bank, 2)].iter().all(|(host, number)| {
                ip(&format!("-n {host} addr add 10.78.0.{number}/24 dev line"))
                    && ip(&format!("-n {host} link set line up"))
            });
        require::or_skip(made, "needs root and ip, to make network namespaces")?;
        Some(hosts)
    }

    /// Starts an agent on one of them, under its name.
    fn agent(&self, side: usize, name: &str, place: &Place, options: &[&str]) -> Running {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0[side], "unshare", "--uts", "sh", "-c"]);
        command.args(["hostname \"$0\" && exec \"$@\"", name, env!("CARGO_BIN_EXE_weir"), "agent", "--no-state"]);
        command.args(options).env("WEIR_ARM_DIR", place.directory()).stderr(Stdio::piped());
        let agent = Running(command.spawn().expect("it starts"));
        wait_for(|| place.run(&["arm", "list"]).status.success().then_some(()));
        agent
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            ip(&format!("netns del {name}"));
        }
    }
}

#[test]
fn what_goes_on_at_another_host_is_shown_where_it_began() {
    let Some(hosts) = Namespaces::new() else { return };
    let _turn = alone();
    let [shop, bank] = [Place::new(), Place::new()];
    let key = shop.folder.path().join("key");
    fs::write(&key, "a key of the shop and the bank\n").expect("written");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("set");
    let key = key.to_str().expect("a readable path");
    let at_shop = hosts.agent(0, "shop.example", &shop, &["--accept", "10.78.0.1:4747", "--peer-key", key]);
    let at_bank = hosts.agent(1, "bank.example", &bank, &["--forward", "10.78.0.1:4747", "--peer-key", key]);
    let mut client = Command::new(built().join("arm_client"));
    client.args(["0", "2000", "5"]).env("WEIR_ARM_DIR", shop.directory()).env("BANK_ARM_DIR", bank.directory());
    let client = Running(client.stdout(Stdio::piped()).spawn().expect("it starts"));
    let order = shop.json(&["arm", "tail", "--application", "shop", "-n", "1", "--json"]);
    assert_eq!((&order["name"], &order["host"]), (&"order".into(), &"shop.example".into()));
    let id = order["id"].as_str().expect("an id");
    let tree = wait_for(|| {
        let output = shop.run(&["arm", "show", id]);
        let text = String::from_utf8(output.stdout).expect("text");
        text.contains("bank/payment").then_some(text)
    });
    assert!(tree.contains(": 2 transactions, 2 processes, 2 hosts\n"), "{tree}");
    assert!(tree.contains("  `- bank/payment") && tree.contains("bank.example"), "{tree}");
    assert!(client.made() > 0);
    // Nothing was lost on the way, or the agent would say so.
    assert!(!at_bank.end().contains("did not come"));
    assert!(at_shop.end().contains("taking transactions of other hosts at 10.78.0.1:4747"));
}
