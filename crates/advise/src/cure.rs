//! What a finding changes, in the terms of a queueing model.

use super::finding::Finding;
use weir_measure::queueing::Saving;

/// What a finding changes.
#[derive(Debug, Clone, PartialEq)]
pub enum Cure {
    /// The workers of a pool.
    Workers {
        /// The beginning of its name.
        pool: &'static str,
        /// How many; `None`: one for each CPU.
        workers: Option<u32>,
    },
    /// Less time is spent on something.
    Less {
        /// Names of it that a model of the run may know, as `weir what-if` takes them: a process and a part of its
        /// time, or a part of any process.
        what: Vec<String>,
        /// Nanoseconds of a mean response.
        saved_ns: Saving,
    },
    /// Other programs take less of the CPUs.
    Others {
        /// The share that they keep of it: at worst, likely and at best, 0 to 1.
        kept: [f64; 3],
    },
    /// Nothing that a model has.
    Unknown {
        /// Why not.
        why: &'static str,
    },
}

/// Each rule, and what its change is.
const KINDS: [(&str, Kind); 15] = [
    ("php_pool_too_small", Kind::Workers),
    ("too_few_workers", Kind::Workers),
    ("opcache_off", Kind::Less("php-fpm")),
    ("sendfile_off", Kind::Less("")),
    ("accept_mutex", Kind::Less("")),
    ("log_unbuffered", Kind::Less("")),
    ("synchronous_commit", Kind::Less("postgres")),
    ("missing_index", Kind::Less("postgres")),
    ("slow_query", Kind::Less("postgres")),
    ("keep_alive_off", Kind::Less("")),
    ("tls_without_resumption", Kind::Less("")),
    ("tcp_nodelay", Kind::Less("")),
    ("dns_look_up", Kind::Less("")),
    ("noisy_neighbour", Kind::Others),
    (
        "slow_client",
        Kind::Unknown(
            "a client's own time stays, and the run does not tell for how long it holds a worker beyond the response",
        ),
    ),
];
/// Rules whose change has no place in the model.
const QUOTA: (&str, &str) = (
    "cpu_quota",
    "a quota stops tasks while CPUs are free, and the model has CPUs that are taken or free: --try cannot either, so \
     measure before and after",
);
/// Parts of a response that the model makes anew, so that no time of theirs can be shortened.
const MADE_ANEW: [&str; 3] = ["accept_queue", "worker_queue", "wait_cpu"];

#[derive(Debug, Clone, Copy)]
enum Kind {
    Workers,
    /// Less time of the part that speaks for it; in this process where it is known to be that one's.
    Less(&'static str),
    Others,
    Unknown(&'static str),
}

impl Finding {
    /// What it changes in a queueing model.
    #[must_use]
    pub fn cure(&self) -> Cure {
        if self.rule == QUOTA.0 {
            return Cure::Unknown { why: QUOTA.1 };
        }
        let kind = KINDS.iter().find(|(rule, _)| *rule == self.rule).map(|(_, kind)| *kind);
        match kind {
            Some(Kind::Workers) => self.workers(),
            Some(Kind::Less(whose)) => self.less(whose),
            Some(Kind::Others) => {
                let whole_ns = self.evidence.first().map_or(0.0, |evidence| evidence.mean_ns).max(1.0);
                let saving = self.effect.saved_ns;
                let kept = [saving.low_ns, saving.likely_ns, saving.high_ns].map(|ns| (1.0 - ns / whole_ns).max(0.0));
                Cure::Others { kept }
            }
            Some(Kind::Unknown(why)) => Cure::Unknown { why },
            None => Cure::Unknown { why: "no model knows what this rule changes" },
        }
    }

    /// The pool whose workers it changes, by the beginning of its processes' name, and how many it proposes.
    fn workers(&self) -> Cure {
        let main = self.settings.first().map(|main| (main.name.as_str(), main.proposed.trim()));
        let pool = match main {
            Some(("MaxRequestWorkers" | "MaxClients", _)) => "apache2",
            Some(("pm.max_children", _)) => "php-fpm",
            Some(("worker_processes", _)) => "nginx",
            _ => return Cure::Unknown { why: "the setting is not that of a pool's size" },
        };
        match main.map(|(_, proposed)| (proposed, proposed.parse())) {
            Some((_, Ok(workers))) => Cure::Workers { pool, workers: Some(workers) },
            Some(("auto", _)) => Cure::Workers { pool, workers: None },
            _ => Cure::Unknown { why: "the proposed size of the pool is no number" },
        }
    }

    fn less(&self, whose: &str) -> Cure {
        let parts: Vec<&str> = self.evidence.iter().map(|evidence| evidence.part).collect();
        if parts.iter().all(|part| MADE_ANEW.contains(part)) {
            return Cure::Unknown {
                why: "requests only queue for it, and what their workers do meanwhile was not told apart",
            };
        }
        let mut what = Vec::new();
        for evidence in self.evidence.iter().filter(|evidence| !MADE_ANEW.contains(&evidence.part)) {
            let part = evidence.part;
            let names = evidence.who.iter().map(|(who, _)| who.split(" (").next().unwrap_or(who));
            // A query is its server's: MariaDB's where it says so.
            let server = names.clone().find(|name| name.starts_with("mariadb") || name.starts_with("mysql"));
            match (server.unwrap_or(whose), part) {
                ("", _) => what.push(part.to_owned()),
                // Where the server behind was not recorded, it is a wait of the one in front.
                (whose, "wait_process" | "wait_network") => what.extend([format!("{whose}:run"), part.to_owned()]),
                (whose, part) => what.extend([format!("{whose}:{part}"), part.to_owned()]),
            }
        }
        Cure::Less { what, saved_ns: self.effect.saved_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule that is added has to say what its change is to the model.
    #[test]
    fn each_rule_says_what_it_changes() {
        let sources = [
            include_str!("rules/accept_mutex.rs"),
            include_str!("rules/connections.rs"),
            include_str!("rules/content.rs"),
            include_str!("rules/cpu.rs"),
            include_str!("rules/database.rs"),
            include_str!("rules/logs.rs"),
            include_str!("rules/names.rs"),
            include_str!("rules/php.rs"),
            include_str!("rules/workers.rs"),
        ];
        let mut drafts = 0;
        for text in sources.iter().flat_map(|source| source.split("Draft::new(").skip(1)) {
            drafts += 1;
            let head = text.split_once(',').expect("its first argument").0;
            let rules: Vec<&str> = head.split('"').skip(1).step_by(2).collect();
            assert!(!rules.is_empty(), "{head}");
            for rule in rules {
                assert!(rule == QUOTA.0 || KINDS.iter().any(|(known, _)| *known == rule), "{rule} has no cure");
            }
        }
        assert!(drafts >= 15, "{drafts} rules");
    }
}
