//! Copies of a stack of servers: configurations with other ports, sockets and files of their own.

use super::change::apply;
use super::ports;
use crate::configuration::{Configuration, Directive, Entry};
use crate::finding::{Finding, Setting};
use crate::servers::{Address, Kind, Server, Servers, addresses, listens};
use anyhow::Context;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::fs;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Copies of a stack; their files go when it is dropped.
pub(super) struct Copies {
    folder: tempfile::TempDir,
    sides: Vec<(Vec<String>, u16)>,
    /// Logs beside the originals, for a trial of logging on the same device.
    logs: Vec<PathBuf>,
}

impl Copies {
    /// Writes both sides: the originals, and those with a finding's settings.
    pub(super) fn make(servers: &Servers, front: usize, port: u16, finding: &Finding) -> anyhow::Result<Self> {
        Self::with(servers, front, port, &[&[], &finding.settings], finding.rule == "log_unbuffered")
    }

    /// Writes one side for each of these settings; logs may stay on the device of the originals.
    pub(super) fn with(
        servers: &Servers,
        front: usize,
        port: u16,
        settings: &[&[Setting]],
        logs_stay: bool,
    ) -> anyhow::Result<Self> {
        let folder =
            tempfile::Builder::new().prefix("weir-trial-").tempdir().context("making a directory for the copies")?;
        // Workers that have given up root's rights reach their sockets in it; the files are closed one by one.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let (mut taken, mut logs, mut sides) = (Vec::new(), Vec::new(), Vec::new());
        for (name, settings) in ('a'..='z').zip(settings) {
            let own = folder.path().join(name.to_string());
            fs::create_dir(&own)?;
            fs::set_permissions(&own, fs::Permissions::from_mode(0o755))?;
            let log_suffix = logs_stay.then(|| format!(".weir-trial-{}-{name}", std::process::id()));
            let mut copy =
                Side { folder: own, ports: BTreeMap::new(), sockets: BTreeMap::new(), log_suffix, logs: Vec::new() };
            let command = copy.write(servers, front, settings, &mut taken)?;
            let port = copy.ports.get(&port).copied().context("the copy does not listen on the port that is loaded")?;
            logs.append(&mut copy.logs);
            sides.push((command, port));
        }
        Ok(Self { folder, sides, logs })
    }

    /// Where they are.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The command and the port of each side.
    pub(super) fn sides(&self) -> &[(Vec<String>, u16)] {
        &self.sides
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        for log in &self.logs {
            // One that was never written is not there.
            let _ = fs::remove_file(log);
        }
    }
}

/// One side while it is written.
pub(super) struct Side {
    /// Its folder.
    pub(super) folder: PathBuf,
    /// Ports of the originals and those of the copies.
    pub(super) ports: BTreeMap<u16, u16>,
    /// Sockets of the originals and those of the copies.
    pub(super) sockets: BTreeMap<PathBuf, PathBuf>,
    /// What is put behind the names of logs that stay where they are.
    pub(super) log_suffix: Option<String>,
    /// Logs that were put beside the originals.
    pub(super) logs: Vec<PathBuf>,
}

impl Side {
    fn write(
        &mut self,
        servers: &Servers,
        front: usize,
        settings: &[Setting],
        taken: &mut Vec<u16>,
    ) -> anyhow::Result<Vec<String>> {
        let stack = stack(servers, front);
        for &number in &stack {
            self.move_addresses(&servers.list[number], taken)?;
        }
        let mut script = vec!["#!/bin/sh".to_owned()];
        let mut last = String::new();
        for &number in &stack {
            let server = &servers.list[number];
            let mut configuration = server.configuration.clone();
            let settings = settings.iter().filter(|setting| setting.server == number);
            settings.for_each(|setting| apply(&mut configuration, setting));
            let file = self.folder.join(format!("{number}.conf"));
            self.own(server, &mut configuration, number);
            write_closed(&file, &configuration.text(), 0o600)?;
            let line = command(server, &file);
            if number == front {
                last = format!("exec {line}");
                script.extend(environment(server));
            } else {
                script.push(format!("{line} &"));
            }
        }
        for socket in self.sockets.values() {
            script.push(format!(
                "i=0; while [ ! -S {0} ] && [ $i -lt 250 ]; do sleep 0.02; i=$((i+1)); done",
                quoted(&socket.display().to_string())
            ));
        }
        script.push(last);
        let file = self.folder.join("start");
        write_closed(&file, &format!("{}\n", script.join("\n")), 0o700)?;
        Ok(vec!["/bin/sh".to_owned(), file.display().to_string()])
    }

    /// Chooses new ports and sockets for what a server listens on.
    fn move_addresses(&mut self, server: &Server, taken: &mut Vec<u16>) -> anyhow::Result<()> {
        let listens: Vec<Address> = match server.kind {
            Kind::PhpFpm => listens(&server.configuration).into_iter().map(|(_, address)| address).collect(),
            _ => {
                let all = server.configuration.all(if server.kind == Kind::Apache { "Listen" } else { "listen" });
                all.iter()
                    .filter_map(|found| ports::of_listen(found.word()))
                    .map(|port| Address::Tcp(String::new(), port))
                    .collect()
            }
        };
        for address in listens {
            match address {
                Address::Tcp(_, port) => {
                    if let Slot::Vacant(slot) = self.ports.entry(port) {
                        slot.insert(ports::free(taken)?);
                    }
                }
                Address::Unix(path) => {
                    let new = self.folder.join(format!("{}.sock", self.sockets.len()));
                    self.sockets.insert(path, new);
                }
            }
        }
        Ok(())
    }

    /// Gives a configuration files, ports and sockets of its own.
    fn own(&mut self, server: &Server, configuration: &mut Configuration, number: usize) {
        match server.kind {
            Kind::Apache => self.own_apache(server, configuration, number),
            Kind::Nginx => self.own_nginx(server, configuration, number),
            _ => self.own_php_fpm(configuration, number),
        }
    }

    /// Gives a log a file of its own; pipes, syslog and what is off stay.
    pub(super) fn own_log(&mut self, directive: &mut Directive, name: &str, configuration: &Configuration) {
        let words = configuration.syntax.words(&directive.raw);
        let Some(first) = words.first().filter(|first| {
            !["off", "stderr", "/dev/null"].contains(&first.as_str())
                && !first.starts_with(['|', '$'])
                && !first.starts_with("syslog")
        }) else {
            return;
        };
        let own = match &self.log_suffix {
            // On the device of the original: that is what the trial is about.
            Some(suffix) if first.starts_with('/') && !directive.name.to_ascii_lowercase().starts_with("error") => {
                let path = PathBuf::from(format!("{first}{suffix}"));
                self.logs.push(path.clone());
                path
            }
            _ => self.folder.join(name),
        };
        directive.raw = directive.raw.replacen(first, &own.display().to_string(), 1);
    }

    /// A directive's arguments with the addresses of copied servers behind it.
    pub(super) fn moved(&self, raw: &str) -> String {
        let mut text = raw.to_owned();
        for (old, new) in &self.sockets {
            text = text.replace(&format!("unix:{}", old.display()), &format!("unix:{}", new.display()));
        }
        for (old, new) in &self.ports {
            for host in ["127.0.0.1", "localhost", "[::1]"] {
                text = replaced_port(&text, &format!("{host}:{old}"), &format!("127.0.0.1:{new}"));
            }
        }
        text
    }
}

/// Replaces an address where no further digit makes it another one.
fn replaced_port(text: &str, old: &str, new: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(old) {
        result.push_str(before);
        result.push_str(if after.starts_with(|next: char| next.is_ascii_digit()) { old } else { new });
        rest = after;
    }
    result + rest
}

/// The servers that are copied, those behind first: the front and every front or pool that its configuration leads to.
fn stack(servers: &Servers, front: usize) -> Vec<usize> {
    let mut stack = vec![front];
    let mut at = 0;
    // Each server is added once, so this ends.
    while at < stack.len() {
        let server = &servers.list[stack[at]];
        let passes = if server.kind == Kind::PhpFpm { Vec::new() } else { addresses(&server.configuration) };
        for (number, other) in servers.list.iter().enumerate() {
            let their: Vec<Address> = match other.kind {
                Kind::PhpFpm => listens(&other.configuration).into_iter().map(|(_, address)| address).collect(),
                Kind::Apache | Kind::Nginx => {
                    let all = other.configuration.all("listen");
                    all.iter()
                        .filter_map(|found| Some(Address::Tcp(String::new(), ports::of_listen(found.word())?)))
                        .collect()
                }
                Kind::Postgres | Kind::Mariadb => continue,
            };
            if !stack.contains(&number) && passes.iter().any(|address| their.iter().any(|own| own.is(address))) {
                stack.push(number);
            }
        }
        at += 1;
    }
    stack.reverse();
    stack
}

/// Whether an entry is a directive of one of these names.
pub(super) fn is_one_of(entry: &Entry, names: &[&str]) -> bool {
    matches!(entry, Entry::Set(directive) if names.iter().any(|name| directive.name.eq_ignore_ascii_case(name)))
}

/// How a copy is started, in the foreground.
fn command(server: &Server, file: &Path) -> String {
    let program = quoted(&server.process.program.display().to_string());
    let file = quoted(&file.display().to_string());
    match server.kind {
        Kind::Apache => format!("{program} -DFOREGROUND -f {file}"),
        Kind::Nginx => format!("{program} -e stderr -p {} -c {file}", quoted(&server.root.display().to_string())),
        _ => {
            let as_root = server.children.iter().any(|pid| is_roots(*pid));
            let root = if as_root { " --allow-to-run-as-root" } else { "" };
            let ini = server.ini.file.as_ref().map(|ini| format!(" -c {}", quoted(&ini.display().to_string())));
            let scan = if server.ini.has_additions { "" } else { "PHP_INI_SCAN_DIR= " };
            // It leaves the process group (decision 0043): it ends with the server in front, however that ends.
            format!(
                "{scan}setpriv --pdeathsig TERM {program} --nodaemonize --fpm-config {file}{root}{}",
                ini.unwrap_or_default()
            )
        }
    }
}

fn is_roots(pid: u32) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(format!("/proc/{pid}")).is_ok_and(|metadata| metadata.uid() == 0)
}

/// The environment of a running server, for its copy.
fn environment(server: &Server) -> Vec<String> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    let kept = server.process.environment.iter().filter(|(name, _)| server.process.pid != 0 && is_name(name));
    kept.map(|(name, value)| format!("export {name}={}", quoted(value))).collect()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Configurations hold passwords at times: they are for their owner only.
fn write_closed(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    use std::io::Write;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .with_context(|| format!("writing {}", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("writing {}", path.display()))
}
