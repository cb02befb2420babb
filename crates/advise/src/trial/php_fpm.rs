//! php-fpm's configuration for a copy.

use super::change::add;
use super::copy::{Side, is_one_of};
use crate::configuration::{Configuration, Entry};
use crate::servers::Address;

impl Side {
    /// Gives it ports, sockets and files of its own.
    pub(super) fn own_php_fpm(&mut self, configuration: &mut Configuration, number: usize) {
        let folder = self.folder.display().to_string();
        configuration.entries.retain(|entry| {
            !is_one_of(
                entry,
                &["pid", "error_log", "daemonize", "slowlog", "access.log", "syslog.facility", "syslog.ident"],
            )
        });
        for entry in &mut configuration.entries {
            if let Entry::Set(directive) = entry
                && directive.name == "listen"
            {
                directive.raw = match Address::parse(&configuration.syntax.words(&directive.raw).concat()) {
                    Some(Address::Unix(path)) => {
                        self.sockets.get(&path).map_or(directive.raw.clone(), |new| new.display().to_string())
                    }
                    Some(Address::Tcp(_, port)) => {
                        self.ports.get(&port).map_or(directive.raw.clone(), |new| format!("127.0.0.1:{new}"))
                    }
                    None => directive.raw.clone(),
                };
            }
        }
        let global = ["global".to_owned()];
        add(configuration, &global, "pid", &format!("{folder}/{number}.pid"));
        add(configuration, &global, "error_log", &format!("{folder}/{number}.log"));
        add(configuration, &global, "daemonize", "no");
        let slow: Vec<String> =
            configuration.all("request_slowlog_timeout").iter().filter_map(|found| found.scope().pop()).collect();
        for pool in slow {
            add(configuration, &[pool], "slowlog", &format!("{folder}/{number}-slow.log"));
        }
    }
}
