//! Servers that a plan can name in a line: commands and fast configurations for what Debian packages.
//!
//! They are files (`studies/subjects/` in the sources), and part of the program. A placeholder is filled in when the
//! plan is read (`{port}`, `{cpus}`, `{workers}`, `{settings}`, `{weir}`, `{upstream}`) or when the server is started (`{own}`,
//! `{site}`, `{tls_certificate}`, `{tls_key}`); a line that begins with `{root}` is kept only for root, one with `{many}` only for
//! more than one CPU, one with `{tls}` only with TLS and one with `{plain}` only without.
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;

use serde::Deserialize;

use crate::certificate;
use crate::command_line::{CommandLine, CommandLineError};
use crate::plan::{Need, ServerSpec};

/// A ready-made server, by the name that plans use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyMade {
    /// What a plan writes after `from`.
    pub name: &'static str,
    text: &'static str,
}

/// What a ready-made server is filled in with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filling<'a> {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    /// The CPUs that it may use; at least 1.
    pub cpus: usize,
    /// The most connections that any case opens.
    pub connections: u32,
    /// Further lines of its configuration.
    pub settings: &'a str,
    /// The path of this program.
    pub weir: &'a str,
    /// Whether it is started by root.
    pub is_root: bool,
    /// Whether it speaks TLS, with a certificate that is made when the experiment begins.
    pub tls: bool,
    /// The server that it asks, if it asks one.
    pub upstream: Option<SocketAddr>,
}

macro_rules! subjects {
    ($($name:literal),*) => {
        [$(ReadyMade { name: $name, text: include_str!(concat!("../../../studies/subjects/", $name, ".toml")) }),*]
    };
}

macro_rules! shared {
    ($($name:literal),*) => {
        [$(($name, include_str!(concat!("../../../studies/subjects/", $name)))),*]
    };
}

static SUBJECTS: [ReadyMade; 23] = subjects!(
    "apache-event",
    "apache-prefork",
    "apache-cgi",
    "apache-mod-perl",
    "apache-mod-php",
    "apache-php-fpm",
    "nginx",
    "nginx-php-fpm",
    "lighttpd",
    "lighttpd-cgi",
    "caddy",
    "h2o",
    "weir",
    "nginx-proxy",
    "haproxy",
    "h2o-proxy",
    "caddy-proxy",
    "weir-proxy",
    "nginx-fastcgi",
    "weir-fastcgi",
    "weir-cgi",
    "weir-rte",
    "php-fpm"
);

/// Files that several of them have.
static SHARED: [(&str, &str); 6] =
    shared!("apache.conf", "apache-prefork.conf", "apache-event.conf", "nginx.conf", "php.ini", "php-fpm.conf");

/// All of them.
#[must_use]
pub fn ready_made() -> &'static [ReadyMade] {
    &SUBJECTS
}

/// What stands for the server that another one asks.
const UPSTREAM: &str = "{upstream}";
/// What a server with TLS finds in its folder.
const TLS_FILES: [(&str, &str); 2] = [("certificate.pem", "{tls_certificate}"), ("key.pem", "{tls_key}")];
/// Processes or threads beyond the most connections, so that none waits for the end of another's.
const SPARE: u32 = 8;
/// The fewest processes of those that have one for each connection.
const WORKERS_MIN: u32 = 32;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    summary: String,
    version: String,
    command: String,
    #[serde(default)]
    shared: Vec<String>,
    script: Option<String>,
    #[serde(default)]
    needs: BTreeMap<String, String>,
    #[serde(default)]
    tls_needs: BTreeMap<String, String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

/// Why a ready-made server cannot be a subject as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadyMadeError {
    /// It takes no settings.
    #[error("the subject {subject:?} is from {from:?}, which takes no settings")]
    NoSettings {
        /// The name of the subject.
        subject: String,
        /// The name of the ready-made server.
        from: &'static str,
    },
    /// It asks another server.
    #[error(
        "the subject {subject:?} is from {from:?}, which asks another server: say which in a plan, such as upstream = \"127.0.0.1:18170\""
    )]
    NoUpstream {
        /// The name of the subject.
        subject: String,
        /// The name of the ready-made server.
        from: &'static str,
    },
    /// It asks no other server.
    #[error("the subject {subject:?} is from {from:?}, which asks no other server: leave upstream away")]
    NeedlessUpstream {
        /// The name of the subject.
        subject: String,
        /// The name of the ready-made server.
        from: &'static str,
    },
    /// With what is filled in its command is none.
    #[error("{subject}: {source}")]
    Command {
        /// The name of the subject.
        subject: String,
        /// Why it is none.
        source: CommandLineError,
    },
}

impl ReadyMade {
    /// The one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        SUBJECTS.iter().find(|subject| subject.name == name)
    }

    /// What it is, in a line.
    #[must_use]
    pub fn summary(&self) -> String {
        self.entry().summary
    }

    /// The ending of the scripts that it runs, such as `php`.
    #[must_use]
    pub fn script(&self) -> Option<String> {
        self.entry().script
    }

    /// Whether it asks another server, which a plan names.
    #[must_use]
    pub fn asks_upstream(&self) -> bool {
        let entry = self.entry();
        entry.command.contains(UPSTREAM) || entry.files.values().any(|text| text.contains(UPSTREAM))
    }

    /// Whether HTTP is spoken with it.
    #[must_use]
    pub fn speaks_http(&self) -> bool {
        self.name != "php-fpm"
    }

    /// What must be installed.
    #[must_use]
    pub fn needs(&self) -> Vec<Need> {
        needs(self.entry().needs)
    }

    /// The version that is installed, as it says itself; `None` where it is not, or says nothing.
    #[must_use]
    pub fn version(&self, weir: &str) -> Option<String> {
        let command: CommandLine = self.entry().version.parse().ok()?;
        let command = command.filled(&[("weir", weir.to_owned())]);
        let output = Command::new(command.program()).args(command.arguments()).output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        let line = String::from_utf8_lossy(&text).lines().next().map(str::trim).map(str::to_owned);
        line.filter(|line| !line.is_empty())
    }

    /// All of its configuration with the reasons, for a reader.
    #[must_use]
    pub fn shown(&self) -> String {
        let mut text = self.text.to_owned();
        for name in self.entry().shared {
            text.push_str(&format!("\n# The file {name}, beside its own:\n\n{}", shared(&name)));
        }
        text
    }

    /// The server as a plan has it; `{own}` and `{site}` are filled in when it is started.
    ///
    /// # Errors
    /// [`ReadyMadeError`].
    pub fn server(&self, name: &str, filling: &Filling<'_>) -> Result<ServerSpec, ReadyMadeError> {
        let entry = self.entry();
        let takes_settings = entry.files.values().any(|text| text.contains("{settings}"));
        if !filling.settings.is_empty() && !takes_settings {
            return Err(ReadyMadeError::NoSettings { subject: name.to_owned(), from: self.name });
        }
        let (subject, from) = (|| name.to_owned(), self.name);
        match (self.asks_upstream(), filling.upstream) {
            (true, None) => return Err(ReadyMadeError::NoUpstream { subject: subject(), from }),
            (false, Some(_)) => return Err(ReadyMadeError::NeedlessUpstream { subject: subject(), from }),
            (true, Some(_)) | (false, None) => {}
        }
        let mut files: BTreeMap<String, String> =
            entry.texts().map(|(name, text)| (name.to_owned(), filling.filled(text))).collect();
        let mut all_needs = needs(entry.needs);
        if filling.tls {
            files.extend(TLS_FILES.map(|(name, text)| (name.to_owned(), text.to_owned())));
            all_needs.extend(needs(entry.tls_needs));
            all_needs.push(Need { file: certificate::OPENSSL.into(), package: "openssl".to_owned() });
        }
        let command: CommandLine = filling
            .filled(&entry.command)
            .parse()
            .map_err(|source| ReadyMadeError::Command { subject: name.to_owned(), source })?;
        let environment = entry.environment.into_iter().map(|(name, value)| (name, filling.filled(&value))).collect();
        Ok(ServerSpec { files, environment, needs: all_needs, ..ServerSpec::new(name, command) })
    }

    fn entry(&self) -> Entry {
        // A test reads every one of them.
        toml::from_str(self.text).unwrap_or_else(|error| panic!("the subject {}: {error}", self.name))
    }
}

impl Entry {
    /// Its files and those that it shares with others, by their names.
    fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self.files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        own.chain(self.shared.iter().map(|name| (name.as_str(), shared(name))))
    }
}

fn needs(named: BTreeMap<String, String>) -> Vec<Need> {
    named.into_iter().map(|(file, package)| Need { file: file.into(), package }).collect()
}

impl Filling<'_> {
    /// Where the server is reached, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", if self.tls { "https" } else { "http" }, self.port)
    }

    fn filled(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let conditions =
                [("{root}", self.is_root), ("{many}", self.cpus > 1), ("{tls}", self.tls), ("{plain}", !self.tls)];
            let line = match conditions.iter().find_map(|(word, is_so)| Some((line.strip_prefix(word)?, *is_so))) {
                Some((_, false)) => continue,
                Some((rest, true)) => rest,
                None => line,
            };
            filled.push_str(&self.line(line));
        }
        filled
    }

    /// A line with every `{a*b}` of known names and numbers, and `{settings}` and `{weir}`, replaced; other braces stay.
    fn line(&self, line: &str) -> String {
        let mut filled = String::with_capacity(line.len());
        let mut rest = line;
        while let Some((before, after)) = rest.split_once('{') {
            filled.push_str(before);
            let known = after.split_once('}').and_then(|(name, after)| Some((self.value(name)?, after)));
            rest = match known {
                Some((value, after)) => {
                    filled.push_str(&value);
                    after
                }
                None => {
                    filled.push('{');
                    after
                }
            };
        }
        filled + rest
    }

    fn value(&self, name: &str) -> Option<String> {
        let number = |word: &str| match word {
            "cpus" => Some(self.cpus as u64),
            "port" => Some(u64::from(self.port)),
            "workers" => Some(u64::from(self.connections.saturating_add(SPARE).max(WORKERS_MIN))),
            digits => digits.parse().ok(),
        };
        match name {
            "settings" => Some(self.settings.trim_end().to_owned()),
            "weir" => Some(self.weir.to_owned()),
            "upstream" => Some(self.upstream.map(|upstream| upstream.to_string()).unwrap_or_default()),
            product => product
                .split('*')
                .try_fold(1_u64, |product, word| Some(product.saturating_mul(number(word)?)))
                .map(|value| value.to_string()),
        }
    }
}

fn shared(name: &str) -> &'static str {
    let found = SHARED.iter().find(|(known, _)| *known == name);
    // A test asks for every one that is named.
    found.map_or_else(|| panic!("there is no shared file {name}"), |(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Not as _;

    fn filling(is_root: bool, cpus: usize) -> Filling<'static> {
        Filling { port: 8081, cpus, connections: 100, settings: "", weir: "weir", is_root, tls: false, upstream: None }
    }

    #[test]
    fn all_can_be_read_and_nothing_is_left_to_be_filled_in() {
        for subject in ready_made() {
            let plain = [filling(true, 2), filling(false, 1)];
            let with_tls = Filling { tls: true, ..filling(true, 2) };
            for filling in plain.into_iter().chain([with_tls]) {
                let upstream = subject.asks_upstream().then(|| ([127, 0, 0, 1], 8090).into());
                let filling = Filling { upstream, ..filling };
                let server = subject.server("it", &filling).expect(subject.name);
                let texts = server.files.values().chain(server.environment.values()).cloned();
                for text in texts.chain([server.command.to_string()]) {
                    for name in
                        ["root", "many", "tls}", "plain", "port", "cpus", "workers", "settings", "weir", "upstream"]
                    {
                        assert!(!text.contains(&format!("{{{name}")), "{}: {{{name}}} in {text}", subject.name);
                    }
                }
                let names_the_user = server.files.values().any(|text| {
                    text.lines().any(|line| {
                        [
                            "User #65534",
                            "user = 65534",
                            "user nobody",
                            "user nobody nogroup;",
                            "server.username = \"nobody\"",
                            "user: nobody",
                        ]
                        .contains(&line.trim_start())
                    })
                });
                let drops = !subject.name.starts_with("caddy") && !subject.name.starts_with("weir");
                assert_eq!(names_the_user, filling.is_root && drops, "{}", subject.name);
                let has_key = server.files.get("key.pem").is_some_and(|text| text == "{tls_key}");
                assert_eq!(has_key, filling.tls, "{}", subject.name);
            }
            assert!(!subject.summary().is_empty() && subject.shown().contains("command ="));
            // Of weir's own ones only those need a package that run scripts of Perl.
            let is_alone = subject.name.starts_with("weir") && !["weir-cgi", "weir-rte"].contains(&subject.name);
            assert_eq!(subject.needs().is_empty(), is_alone, "{}", subject.name);
            let wrong = Filling {
                upstream: subject.asks_upstream().not().then(|| ([127, 0, 0, 1], 1).into()),
                ..filling(true, 1)
            };
            assert!(subject.server("it", &wrong).is_err_and(|why| why.to_string().contains("upstream")));
        }
    }

    #[test]
    fn numbers_are_multiplied_and_other_braces_stay() {
        let filling = Filling { settings: "a\n", ..filling(false, 2) };
        let text = "x { {cpus} {64*cpus} {workers*cpus} {own}\n{root}gone\n{many}kept {port}\n{tls}gone\n{plain}kept\n{settings}\n}";
        assert_eq!(filling.filled(text), "x { 2 128 216 {own}\nkept 8081\nkept\na\n}");
    }
}
