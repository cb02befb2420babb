//! The rules over the nodes of a cluster: their file, and what gossip tells them.

use super::members::MembersFile;
use crate::given_files::read_policy;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use weir_adapt::nodes::{AtomSeen, Heeded, NodeReading, NodeSeen, NodeStrain, Wish, Wished};
use weir_adapt::{Mistake, Policy};
use weir_cluster::placement::{Copies, Wishes};
use weir_cluster::{HeardMember, NodeName, NodeNumber, Reading};

/// The name of the file in a cluster's directory.
pub(crate) const FILE: &str = "cluster.policy";
const BITS: f64 = 8.0;

/// The file of the rules, which is read again when it changes.
pub(crate) struct RulesFile {
    path: PathBuf,
    members: BTreeSet<String>,
    /// When it changed, and its bytes; none: there was none.
    read: Option<(SystemTime, u64)>,
}

/// What has become of the file since the last look.
pub(crate) enum Look {
    Same,
    /// There is none any more.
    Gone,
    New(Box<Policy>),
    /// It cannot be used, in lines that say where and why.
    Wrong(String),
}

impl RulesFile {
    pub(crate) fn of(folder: &Path, members: &MembersFile) -> Self {
        let names = members.nodes.values().map(|(reached, _)| reached.member.name.to_string());
        Self { path: folder.join(FILE), members: names.collect(), read: None }
    }

    pub(crate) fn look(&mut self) -> Look {
        let stamp = fs::metadata(&self.path).ok().and_then(|is| Some((is.modified().ok()?, is.len())));
        if stamp == self.read {
            return Look::Same;
        }
        self.read = stamp;
        if stamp.is_none() {
            return Look::Gone;
        }
        let file = self.path.display().to_string();
        let text = match read_policy(&self.path) {
            Ok(text) => text,
            Err(error) => return Look::Wrong(format!("{file}: {error}")),
        };
        match read(&file, &text, &self.members) {
            Ok(policy) => Look::New(Box::new(policy)),
            Err(mistakes) => {
                let lines: Vec<String> = mistakes.iter().map(|mistake| format!("{file}:{mistake}")).collect();
                Look::Wrong(lines.join("\n"))
            }
        }
    }
}

/// Rules that a cluster of these nodes can do, or all that is wrong with them.
pub(crate) fn read(file: &str, text: &str, members: &BTreeSet<String>) -> Result<Policy, Vec<Mistake>> {
    let (policy, _) = Policy::read(file, text)?;
    let members: BTreeSet<&str> = members.iter().map(String::as_str).collect();
    let unfit = policy.unfit_for(&members);
    if unfit.is_empty() {
        return Ok(policy);
    }
    let mistake = |unfit: weir_adapt::nodes::Unfit| {
        let line = unfit.line.max(1);
        let begin = text.lines().nth(line - 1).and_then(|line| Some(&line[..line.find("rule")?])).unwrap_or_default();
        Mistake { line, column: begin.chars().count() + 1, what: unfit.what, remedy: unfit.remedy.to_owned() }
    };
    Err(unfit.into_iter().map(mistake).collect())
}

/// A node's reading, as rules are told it.
fn told(reading: &Reading) -> NodeReading {
    NodeReading {
        number: reading.number,
        cpu_percent: 100.0 * reading.cpu_share,
        requests_per_s: reading.requests_per_s,
        active: reading.sending as f64,
        sent_bps: BITS * reading.sent_bytes_per_s as f64,
        strain: reading.strain.map(|strain| NodeStrain {
            queue: strain.queue,
            wait_s: strain.wait_s,
            mem_bytes: strain.mem_bytes as f64,
            mem_percent: 100.0 * strain.mem_share,
            errors_per_s: strain.errors_per_s,
            error_percent: 100.0 * strain.error_share,
        }),
    }
}

/// How the nodes stand and what they are asked for, as rules are told it. A node that was not heard of is down.
pub(crate) fn seen<'h>(members: &'h MembersFile, heard: &'h [HeardMember]) -> (Vec<NodeSeen<'h>>, Vec<AtomSeen<'h>>) {
    let ms = |age: std::time::Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    let (mut nodes, mut atoms) = (Vec::new(), Vec::new());
    for (reached, _) in members.nodes.values() {
        let name = &reached.member.name;
        let heard = heard.iter().find(|heard| heard.name == *name);
        let reading = heard.and_then(|heard| heard.reading);
        let is_up = heard.is_some_and(|heard| heard.is_alive);
        nodes.push(NodeSeen {
            name: name.as_str(),
            is_up,
            is_drained: reading.is_some_and(|reading| reading.is_draining),
            reading: reading.as_ref().map(told),
            age_ms: heard.map_or(0, |heard| ms(heard.age)),
            heeded: heard.and_then(|heard| Heeded::parse(&heard.rules).ok()),
        });
        for heard in heard.into_iter().filter(|heard| heard.is_alive) {
            let asked = heard.popular.iter().map(|asked| AtomSeen {
                path: &asked.path,
                requests_per_s: asked.requests_per_s,
                age_ms: ms(heard.silence),
            });
            atoms.extend(asked);
        }
    }
    (nodes, atoms)
}

/// The copies that a word wishes, by the pattern or path of the atoms; pools are those of this member's policy. Of an atom
/// that is spread over a second pool, each node of that is to have a copy beside those of the first.
pub(crate) fn copies(policy: &Policy, members: &MembersFile, word: &Wished) -> Wishes {
    let nodes = |pool: &str| -> Vec<NodeNumber> {
        let names = policy.pool_members(pool).filter_map(|name| name.parse::<NodeName>().ok());
        names.filter_map(|name| members.number(&name).ok()).collect()
    };
    let copies = |(of, wish): (&String, &Wish)| {
        let (mut count, mut pool) = wish.copies.as_ref().map_or((0, Vec::new()), |(count, pool)| (*count, nodes(pool)));
        for node in wish.spread.iter().flat_map(|pool| nodes(pool)) {
            if !pool.contains(&node) {
                pool.push(node);
            }
            count += 1;
        }
        let count = count.min(u32::try_from(pool.len()).unwrap_or(u32::MAX));
        (of.clone(), Copies { count, pool })
    };
    Wishes(word.atoms.iter().map(copies).filter(|(_, copies)| !copies.pool.is_empty()).collect())
}

/// The newest word of the directors, of an epoch that is `counted`, and how many milliseconds ago it was heard.
pub(crate) fn newest_word(
    members: &MembersFile,
    heard: &[HeardMember],
    counts: impl Fn(u64) -> bool,
) -> Option<(Wished, u64)> {
    // No other member may say the word of an epoch than the director that has begun it.
    let is_director = |name: &NodeName, epoch: u64| members.active(epoch).member.name == *name;
    let words = heard.iter().filter_map(|heard| {
        let wished = Wished::parse(&heard.rules).ok()?;
        let age_ms = u64::try_from(heard.age.as_millis()).unwrap_or(u64::MAX);
        (is_director(&heard.name, wished.epoch) && counts(wished.epoch)).then_some((wished, age_ms))
    });
    words.max_by_key(|(wished, _)| (wished.epoch, wished.number))
}

#[cfg(test)]
mod tests {
    use super::super::members::EXAMPLE;
    use super::*;

    #[test]
    fn a_word_becomes_copies_on_nodes() {
        let folder = tempfile::tempdir().expect("a folder");
        let more = "[[node]]\nname = \"n2\"\nnumber = 2\naddress = \"10.0.0.12:7700\"\nmac = \"02:00:00:00:00:12\"\n";
        fs::write(folder.path().join("members.toml"), format!("{EXAMPLE}\n{more}")).expect("writes");
        let members = MembersFile::read(folder.path()).expect("is right");
        let text = "pool main = { n1 }; pool more = { n2 };\n\
                    atom \"/a/*\" { rule a: every 1s if rate@atom > 5rps then replicate to 1 on main, spread over more hold 5s; }";
        let names = ["n1", "n2"].map(str::to_owned).into();
        let policy = read("x.policy", text, &names).expect("fits");
        let mut word = Wished::default();
        let wish = |copies: Option<u32>, spread: Option<&str>| Wish {
            copies: copies.map(|copies| (copies, "main".to_owned())),
            spread: spread.map(str::to_owned),
        };
        word.atoms = [
            ("/a/1".to_owned(), wish(Some(1), Some("more"))),
            ("/a/2".to_owned(), wish(Some(3), None)),
            ("/a/3".to_owned(), wish(None, Some("gone"))),
        ]
        .into();
        let found = copies(&policy, &members, &word);
        let expected = [
            ("/a/1".to_owned(), Copies { count: 2, pool: vec![1, 2] }),
            ("/a/2".to_owned(), Copies { count: 1, pool: vec![1] }),
        ];
        assert_eq!(found, Wishes(expected.into()));
    }

    #[test]
    fn the_file_is_read_when_it_changes_and_a_mistake_is_told_with_its_place() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("members.toml"), EXAMPLE).expect("writes");
        let members = MembersFile::read(folder.path()).expect("is right");
        let mut file = RulesFile::of(folder.path(), &members);
        assert!(matches!(file.look(), Look::Same));
        let put = |text: &str| fs::write(folder.path().join(FILE), text).expect("writes");
        put("pool main = { n1 };\natom \"/**\" { rule a: every 1s if cpu@main > 9% then alert \"full\" hold 5s; }");
        assert!(matches!(file.look(), Look::New(policy) if policy.rules() == 1));
        assert!(matches!(file.look(), Look::Same));
        put("pool main = { n1 };\natom \"/**\" { rule a: every 1s if cpu@main > 9% then shed 5% hold 5s; }");
        let Look::Wrong(why) = file.look() else { panic!("it is refused") };
        assert!(why.contains("cluster.policy:2:14: rule `a` has `shed`"), "{why}");
        fs::remove_file(folder.path().join(FILE)).expect("is there");
        assert!(matches!(file.look(), Look::Gone));
    }
}
