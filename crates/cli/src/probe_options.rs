//! The options for probes in the server's own programs.

use weir_capture::packs::PackChoice;
use weir_capture::user_probes::{ProbeRequest, Wanted};
use weir_record::{ProbesOfPrograms, TlsProbes};

/// Probes in the server's own programs.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ProbeArgs {
    /// Mark a function of the server (BINARY:FUNCTION, BINARY:FUNCTION:ret) or a static probe of it
    /// (usdt:BINARY:PROVIDER:NAME); BINARY is a path, or the name of a file that the server maps; may be repeated
    #[arg(long, value_name = "PROBE")]
    probe: Vec<ProbeRequest>,

    /// Phases and queries of known servers: auto for those that the server's processes run, none, or names of apache,
    /// nginx, php-fpm, postgresql, mariadb, weir, separated by commas. Each mark costs the server 0.6 to 1.0 us
    #[arg(long, value_name = "LIST", default_value = "none")]
    packs: PackChoice,

    /// Set probes even where the kernel must single-step an instruction: 17 to 24 us a hit
    #[arg(long)]
    allow_slow_probes: bool,

    /// Keep queries and names of requests whole; without it, literals are replaced by ? and queries of URLs are cut off
    /// before anything is written
    #[arg(long)]
    keep_queries: bool,

    /// Set no probes at the edge of the server's TLS: they cost 1.1 to 1.6 us for each record, tell streams of
    /// HTTP/2 apart, and name requests
    #[arg(long)]
    no_tls_probes: bool,
}

impl ProbeArgs {
    fn wanted(&self) -> Wanted {
        Wanted {
            probes: self.probe.clone(),
            packs: self.packs.clone(),
            allow_slow: self.allow_slow_probes,
            watched: Vec::new(),
        }
    }

    /// An option that asks for probes, if one was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        if self.wanted().is_empty() {
            return None;
        }
        Some(if self.probe.is_empty() { "--packs" } else { "--probe" })
    }

    /// What they come to.
    pub(crate) fn probes(&self) -> ProbesOfPrograms {
        let tls = if self.no_tls_probes { TlsProbes::Left } else { TlsProbes::Set };
        ProbesOfPrograms { wanted: self.wanted(), keep_queries: self.keep_queries, tls }
    }
}
