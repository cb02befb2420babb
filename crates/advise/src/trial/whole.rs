//! Whether a run's servers can be copied, which of them takes the requests, and how its copy is asked.

use super::ports;
use crate::rules::Case;
use crate::servers::{Kind, Server};
use anyhow::{Context, bail};
use std::net::IpAddr;
use weir_load::Url;

/// What is loaded, as the user's server knows it.
pub(super) fn target(case: &Case<'_>, url: Option<&str>) -> anyhow::Result<Url> {
    let text = url.or(case.recorded.url.as_deref());
    let text = text.context("the run does not tell what was loaded; say it by --at URL")?;
    if text.contains("(redacted)") {
        bail!("the run keeps no queries, and the load had one ({text}); say the whole by --at URL");
    }
    if let Some(method) = case.recorded.method.as_deref().filter(|method| !["GET", "HEAD"].contains(method)) {
        bail!(
            "the load was made of {method} requests, which a trial would repeat on your data; try it by --at URL on a page that only reads"
        );
    }
    Ok(Url::parse(text)?)
}

/// The server that takes the requests.
pub(super) fn front<'s>(case: &'s Case<'_>, port: u16) -> anyhow::Result<usize> {
    let fronts: Vec<(usize, &'s Server)> = case.servers.of(Kind::Apache).chain(case.servers.of(Kind::Nginx)).collect();
    let listens = |server: &Server| {
        let name = if server.kind == Kind::Apache { "Listen" } else { "listen" };
        server.configuration.all(name).iter().any(|found| ports::of_listen(found.word()) == Some(port))
    };
    let found = fronts.iter().find(|(_, server)| listens(server)).map(|(number, _)| *number);
    found.with_context(|| {
        format!("no Apache or nginx that listens on port {port} was found; start yours, or name it by --port {port}")
    })
}

pub(super) fn refuse_what_cannot_be_copied(case: &Case<'_>, changed: usize, front: usize) -> anyhow::Result<()> {
    let changed = &case.servers.list[changed];
    if !matches!(changed.kind, Kind::Apache | Kind::Nginx | Kind::PhpFpm) {
        bail!("{} is not copied: it would work on its owner's data", changed.label());
    }
    for server in [changed, &case.servers.list[front]] {
        // Otherwise the user who wrote its configuration could have us run commands.
        if server.process.pid != 0 && !server.process.is_ours {
            bail!("{} belongs to another user; try it as that user", server.label());
        }
        if !server.process.is_near {
            bail!(
                "{} runs in a container (namespaces of its own), where a copy cannot be started from here",
                server.label()
            );
        }
        if let Some(problem) = server.configuration.problems.first() {
            bail!(
                "the configuration of {} was not read as a whole ({problem}), so a copy would differ from it",
                server.label()
            );
        }
    }
    Ok(())
}

/// What a load of a copy is told, as the copy has another address than the server that is meant.
pub(super) fn words_for_a_copy(url: &Url) -> Vec<String> {
    let mut words = Vec::new();
    if url.encrypted {
        // The certificate is of the server's name, and the copy is asked by its address.
        words.push("--insecure".to_owned());
    }
    if url.host.parse::<IpAddr>().is_err() {
        words.extend(["-H".to_owned(), format!("Host: {}", url.host)]);
    }
    words
}
