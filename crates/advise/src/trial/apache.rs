//! Apache's configuration for a copy.

use super::change::NOWHERE;
use super::copy::{Side, is_one_of};
use super::ports;
use crate::configuration::{Configuration, Directive, Entry};
use crate::servers::Server;

impl Side {
    /// Gives it ports, sockets and files of its own.
    pub(super) fn own_apache(&mut self, server: &Server, configuration: &mut Configuration, number: usize) {
        let folder = self.folder.display().to_string();
        configuration.entries.retain(|entry| {
            !is_one_of(
                entry,
                &[
                    "pidfile",
                    "defaultruntimedir",
                    "scoreboardfile",
                    "namevirtualhost",
                    "serverroot",
                    "gracefulshutdowntimeout",
                ],
            )
        });
        let mut seen = Vec::new();
        let mut logs = 0;
        let mut entries = std::mem::take(&mut configuration.entries);
        entries.retain_mut(|entry| {
            let (Entry::Set(directive) | Entry::Open(directive)) = entry else { return true };
            match directive.name.to_ascii_lowercase().as_str() {
                "listen" => {
                    let words = configuration.syntax.words(&directive.raw);
                    let Some(port) =
                        words.first().and_then(|word| ports::of_listen(word)).and_then(|port| self.ports.get(&port))
                    else {
                        return true;
                    };
                    let protocol = words.get(1).map_or_else(String::new, |protocol| format!(" {protocol}"));
                    directive.raw = format!("127.0.0.1:{port}{protocol}");
                    // An address for each family becomes one.
                    let first = !seen.contains(port);
                    seen.push(*port);
                    return first;
                }
                "virtualhost" => directive.raw = self.virtual_host(&directive.raw),
                "errorlog" | "customlog" | "transferlog" | "globallog" | "forensiclog" => {
                    logs += 1;
                    self.own_log(directive, &format!("{number}-{logs}.log"), configuration);
                }
                "mutex" if directive.raw.contains(":/") => {
                    let (mechanism, rest) = directive.raw.split_once(':').unwrap_or((&directive.raw, ""));
                    let which = rest.split_once(' ').map_or("", |(_, which)| which);
                    directive.raw = format!("{mechanism}:{folder} {which}").trim().to_owned();
                }
                "sslsessioncache" | "sslstaplingcache" if directive.raw.contains(":/") => {
                    let name =
                        if directive.name.eq_ignore_ascii_case("sslsessioncache") { "sessions" } else { "stapling" };
                    let mechanism = directive.raw.split(':').next().unwrap_or("shmcb").to_owned();
                    directive.raw = format!("{mechanism}:{folder}/{name}(512000)");
                }
                _ => directive.raw = self.moved(&directive.raw),
            }
            true
        });
        configuration.entries = entries;
        // In the order in which they then stand: the root comes first, since modules are named relative to it.
        for (name, value) in [
            ("PidFile", format!("\"{folder}/{number}.pid\"")),
            ("DefaultRuntimeDir", format!("\"{folder}\"")),
            ("ServerRoot", format!("\"{}\"", server.root.display())),
        ] {
            let directive = Directive { name: name.to_owned(), raw: value, place: NOWHERE };
            configuration.entries.insert(0, Entry::Set(directive));
        }
    }

    /// `*:80 [::]:80` with the copies' ports.
    fn virtual_host(&self, raw: &str) -> String {
        let moved = raw.split_whitespace().map(|address| match address.rsplit_once(':') {
            Some((host, port)) => match port.parse::<u16>().ok().and_then(|port| self.ports.get(&port)) {
                // The copy listens on the loopback only; any name for it will do.
                Some(new) => format!("*:{new}"),
                None => format!("{host}:{port}"),
            },
            None => address.to_owned(),
        });
        let mut unique: Vec<String> = Vec::new();
        for address in moved {
            if !unique.contains(&address) {
                unique.push(address);
            }
        }
        unique.join(" ")
    }
}
