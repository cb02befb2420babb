//! A subject of a plan file: a server by its command, a ready-made one, or that of another subject.
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::command_line::CommandLine;
use crate::cpus::CpuSet;
use crate::plan::{Readiness, ServerSpec};
use crate::plan_mistake::PlanMistake;
use crate::ports::Ports;
use crate::quantity::CpuWord;
use crate::ready_made::{Filling, ReadyMade, ready_made};

/// What a subject's entry is read in.
pub(crate) struct Surroundings<'a> {
    /// The plan's.
    pub(crate) folder: &'a Path,
    pub(crate) server_cpus: &'a Option<CpuSet>,
    /// The most of any case.
    pub(crate) connections: u32,
    pub(crate) weir: &'a str,
}

/// Where a subject is reached.
pub(crate) struct Reached {
    pub(crate) url: String,
    /// The ending of its scripts' names.
    pub(crate) script: Option<String>,
    /// Whether it has the experiment's self-signed certificate.
    pub(crate) tls: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubjectEntry {
    #[serde(default)]
    name: String,
    pub(crate) url: Option<String>,
    command: Option<CommandLine>,
    pub(crate) server: Option<String>,
    from: Option<String>,
    port: Option<u16>,
    #[serde(default)]
    tls: bool,
    #[serde(default)]
    settings: String,
    upstream: Option<SocketAddr>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    stop: Option<CommandLine>,
    ready: Option<CommandLine>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    folder: Option<PathBuf>,
    cpus: Option<CpuWord>,
    pub(crate) load: Option<CommandLine>,
    pub(crate) beside: Option<CommandLine>,
}

impl SubjectEntry {
    /// Its name; that of a ready-made server is enough.
    pub(crate) fn take_name(&mut self) -> Result<String, PlanMistake> {
        let name = std::mem::take(&mut self.name);
        if name.is_empty() { self.from.clone() } else { Some(name) }.ok_or(PlanMistake::NoName)
    }

    /// That it says nothing of a server, since it uses another subject's.
    pub(crate) fn without_server(&self, name: &str) -> Result<(), PlanMistake> {
        let said = self.said();
        said.first().map_or(Ok(()), |key| Err(PlanMistake::OfAnother { subject: name.to_owned(), key }))
    }

    /// Its server, and where it is reached.
    pub(crate) fn into_server(
        self,
        name: &str,
        surroundings: &Surroundings<'_>,
        ports: &mut Ports,
    ) -> Result<(ServerSpec, Reached), PlanMistake> {
        match &self.from {
            Some(from) => {
                let known = || ready_made().iter().map(|known| known.name).collect::<Vec<_>>().join(", ");
                let from = ReadyMade::named(from).ok_or_else(|| PlanMistake::UnknownReadyMade {
                    subject: name.to_owned(),
                    from: from.clone(),
                    known: known(),
                })?;
                self.ready_made(name, from, surroundings, ports)
            }
            None => self.of_command(name, surroundings),
        }
    }

    fn ready_made(
        self,
        name: &str,
        from: &ReadyMade,
        surroundings: &Surroundings<'_>,
        ports: &mut Ports,
    ) -> Result<(ServerSpec, Reached), PlanMistake> {
        let allowed = ["from", "port", "tls", "settings", "upstream", "environment", "cpus"];
        if let Some(key) = self.said().into_iter().find(|key| !allowed.contains(key)) {
            return Err(PlanMistake::SaidByReadyMade { subject: name.to_owned(), from: from.name, key });
        }
        let port = ports.take(self.port)?;
        let cpus = self.cpus.and_then(|cpus| cpus.0);
        let usable = cpus.as_ref().or(surroundings.server_cpus.as_ref()).map(|set| set.numbers().len());
        let filling = Filling {
            port,
            cpus: usable.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
            connections: surroundings.connections,
            settings: &self.settings,
            weir: surroundings.weir,
            // SAFETY: has no preconditions.
            is_root: unsafe { libc::geteuid() } == 0,
            tls: self.tls,
            upstream: self.upstream,
        };
        let mut server = from.server(name, &filling)?;
        server.environment.extend(self.environment);
        server.cpus = cpus;
        Ok((server, Reached { url: filling.url(), script: from.script(), tls: self.tls }))
    }

    fn of_command(self, name: &str, surroundings: &Surroundings<'_>) -> Result<(ServerSpec, Reached), PlanMistake> {
        let only = [
            ("port", self.port.is_some()),
            ("tls", self.tls),
            ("settings", !self.settings.is_empty()),
            ("upstream", self.upstream.is_some()),
        ];
        if let Some((key, _)) = only.into_iter().find(|(_, said)| *said) {
            return Err(PlanMistake::ForReadyMade { subject: name.to_owned(), key });
        }
        let command = self.command.ok_or_else(|| PlanMistake::NoCommand { subject: name.to_owned() })?;
        let url = self.url.ok_or_else(|| PlanMistake::NoUrl { subject: name.to_owned() })?;
        let here = surroundings.folder.display().to_string();
        let in_plan = |command: CommandLine| command.filled(&[("plan", here.clone())]);
        let server = ServerSpec {
            stop: self.stop.map(in_plan),
            ready: self.ready.map_or(Readiness::Port, |command| Readiness::Command(in_plan(command))),
            environment: self.environment,
            folder: self.folder.map(|own| surroundings.folder.join(own)),
            cpus: self.cpus.and_then(|cpus| cpus.0),
            files: self.files,
            ..ServerSpec::new(name, in_plan(command))
        };
        Ok((server, Reached { url, script: None, tls: false }))
    }

    /// The keys that say something of a server.
    fn said(&self) -> Vec<&'static str> {
        let all = [
            ("command", self.command.is_some()),
            ("from", self.from.is_some()),
            ("url", self.url.is_some() && self.from.is_some()),
            ("port", self.port.is_some()),
            ("tls", self.tls),
            ("settings", !self.settings.is_empty()),
            ("upstream", self.upstream.is_some()),
            ("files", !self.files.is_empty()),
            ("stop", self.stop.is_some()),
            ("ready", self.ready.is_some()),
            ("environment", !self.environment.is_empty()),
            ("folder", self.folder.is_some()),
            ("cpus", self.cpus.is_some()),
        ];
        all.into_iter().filter(|(_, said)| *said).map(|(key, _)| key).collect()
    }
}
