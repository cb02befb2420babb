//! What the director wishes of the nodes, and what a node does of it.

use std::collections::BTreeMap;

/// What the director in duty wishes: of an epoch one director's, and of its numbers the highest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wished {
    /// The director's epoch.
    pub epoch: u64,
    /// Grows with each change within an epoch, from 1.
    pub number: u64,
    /// Reserve nodes, and whether each is to be awake.
    pub awake: BTreeMap<String, bool>,
    /// What is wished of atoms, by the pattern or path that the rules have for them.
    pub atoms: BTreeMap<String, Wish>,
    /// Rules over pools, and how many milliseconds before this was said each fired or was released last.
    pub fired_ms_ago: BTreeMap<String, u64>,
    /// Firings that the limits of rules count: by the rule, and the path of the atom for which it was evaluated, which is
    /// empty where that is all of them together. The oldest first.
    pub limited: BTreeMap<(String, String), Vec<Firings>>,
}

/// Firings of a rule, at one time or counted as if they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Firings {
    /// How many milliseconds before this was said.
    pub ago_ms: u64,
    /// How many.
    pub count: u32,
}

impl Wished {
    /// Whether this replaces another one: a later epoch, or a later word of the same.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        (self.epoch, self.number) > (other.epoch, other.number)
    }
}

/// What is wished of an atom, or of all atoms of a pattern.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wish {
    /// How many copies, the first one counted, and the pool that they are on.
    pub copies: Option<(u32, String)>,
    /// The pool whose nodes serve it as well.
    pub spread: Option<String>,
}

impl Wish {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The bytes of its pools.
    pub(super) fn bytes(&self) -> usize {
        let pools = self.copies.iter().map(|(_, pool)| pool).chain(&self.spread);
        pools.map(String::len).sum()
    }
}

/// What a node does of what the director wishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// It serves.
    Awake,
    /// It gives its sessions away.
    Draining,
    /// It has none left, or could not give those away.
    Asleep,
}

/// How far a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heeded {
    /// The epoch of the word that it follows.
    pub epoch: u64,
    /// The number of that word.
    pub number: u64,
    /// What it does.
    pub state: NodeState,
}

/// Bytes of a text of what is wished, at most.
pub const WISHED_BYTES_MAX: usize = 32 << 10;
/// Names in it are short: those of nodes, pools and rules.
const NAME_BYTES_MAX: usize = 255;
const VERSION: &str = "1";

/// A text that is none of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what a member says of the rules over nodes cannot be read; run the same version of weir on all members")]
pub struct WordError;

impl Wished {
    /// The text, in one form: a head and a line for each thing that is wished.
    pub fn to_text(&self) -> String {
        let mut text = format!("{VERSION} {} {}\n", self.epoch, self.number);
        for (word, is_awake) in [("awake", true), ("asleep", false)] {
            let names = self.awake.iter().filter(|(_, awake)| **awake == is_awake).map(|(name, _)| name.as_str());
            let names: Vec<&str> = names.collect();
            if !names.is_empty() {
                text += &format!("{word} {}\n", names.join(" "));
            }
        }
        for (rule, ago_ms) in &self.fired_ms_ago {
            text += &format!("fired {ago_ms} {rule}\n");
        }
        for ((rule, of), firings) in &self.limited {
            let each = firings.iter().map(|Firings { ago_ms, count }| format!("{ago_ms}x{count}"));
            let each = each.collect::<Vec<_>>().join(",");
            let of = if of.is_empty() { String::new() } else { format!(" {of}") };
            text += &format!("limited {each} {rule}{of}\n");
        }
        for (of, Wish { copies, spread }) in &self.atoms {
            if let Some((copies, pool)) = copies {
                text += &format!("replicate {copies} {pool} {of}\n");
            }
            if let Some(pool) = spread {
                text += &format!("spread {pool} {of}\n");
            }
        }
        text
    }

    /// Reads a text.
    ///
    /// # Errors
    /// [`WordError`], if it is none, or is written in another form.
    pub fn parse(text: &str) -> Result<Self, WordError> {
        let read = || {
            let mut lines = text.lines();
            let mut head = lines.next()?.split(' ');
            let (version, epoch, number) = (head.next()?, head.next()?.parse().ok()?, head.next()?.parse().ok()?);
            let mut wished = Self { epoch, number, ..Self::default() };
            lines.try_for_each(|line| wished.line(line))?;
            // Each has one form, so that two members which say the same say it alike.
            (version == VERSION && wished.to_text() == text).then_some(wished)
        };
        (text.len() <= WISHED_BYTES_MAX).then(read).flatten().ok_or(WordError)
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "awake" | "asleep" => rest.split(' ').try_for_each(|name| {
                self.awake.insert(named(name)?, word == "awake");
                Some(())
            }),
            "fired" => {
                let (ago_ms, rule) = rest.split_once(' ')?;
                self.fired_ms_ago.insert(named(rule)?, ago_ms.parse().ok()?);
                Some(())
            }
            "limited" => {
                let (each, rest) = rest.split_once(' ')?;
                let (rule, of) = rest.split_once(' ').unwrap_or((rest, ""));
                let firings = each.split(',').map(|one| {
                    let (ago_ms, count) = one.split_once('x')?;
                    Some(Firings { ago_ms: ago_ms.parse().ok()?, count: count.parse().ok()? })
                });
                self.limited.insert((named(rule)?, of.to_owned()), firings.collect::<Option<_>>()?);
                Some(())
            }
            "replicate" => {
                let (copies, rest) = rest.split_once(' ')?;
                let (pool, of) = rest.split_once(' ')?;
                self.atoms.entry(of.to_owned()).or_default().copies = Some((copies.parse().ok()?, named(pool)?));
                Some(())
            }
            "spread" => {
                let (pool, of) = rest.split_once(' ')?;
                self.atoms.entry(of.to_owned()).or_default().spread = Some(named(pool)?);
                Some(())
            }
            _ => None,
        }
    }
}

fn named(name: &str) -> Option<String> {
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
    is_name.then(|| name.to_owned())
}

impl NodeState {
    const WORDS: [(Self, &'static str); 3] =
        [(Self::Awake, "awake"), (Self::Draining, "draining"), (Self::Asleep, "asleep")];

    /// Its word.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(state, _)| *state == self).map_or("", |(_, word)| word)
    }
}

impl Heeded {
    /// The text.
    pub fn to_text(&self) -> String {
        format!("{VERSION} {} {} {}", self.epoch, self.number, self.state.word())
    }

    /// Reads a text.
    ///
    /// # Errors
    /// [`WordError`], if it is none, or is written in another form.
    pub fn parse(text: &str) -> Result<Self, WordError> {
        let read = || {
            let mut words = text.split(' ');
            let (version, epoch, number, word) = (words.next()?, words.next()?, words.next()?, words.next()?);
            let (state, _) = NodeState::WORDS.into_iter().find(|(_, known)| *known == word)?;
            let heeded = Self { epoch: epoch.parse().ok()?, number: number.parse().ok()?, state };
            (version == VERSION && heeded.to_text() == text).then_some(heeded)
        };
        read().ok_or(WordError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_wished_has_one_text() {
        let mut wished = Wished { epoch: 4, number: 7, ..Wished::default() };
        wished.awake = [("n3".to_owned(), true), ("n2".to_owned(), false), ("n4".to_owned(), true)].into();
        wished.fired_ms_ago = [("more:3".to_owned(), 1_500)].into();
        let firings = [Firings { ago_ms: 9_000, count: 2 }, Firings { ago_ms: 1_500, count: 1 }];
        wished.limited = [
            (("more:3".to_owned(), String::new()), firings.to_vec()),
            (("flash:5".to_owned(), "/a b".to_owned()), firings[1..].to_vec()),
        ]
        .into();
        let wish = Wish { copies: Some((4, "main".to_owned())), spread: Some("reserve".to_owned()) };
        wished.atoms = [("/news/*".to_owned(), wish)].into();
        let text = "1 4 7\nawake n3 n4\nasleep n2\nfired 1500 more:3\nlimited 1500x1 flash:5 /a b\n\
             limited 9000x2,1500x1 more:3\nreplicate 4 main /news/*\nspread reserve /news/*\n";
        assert_eq!(wished.to_text(), text);
        assert_eq!(Wished::parse(text), Ok(wished));
        for wrong in [
            "",
            "1 4",
            "2 4 7\n",
            "1 4 7\nawake\n",
            "1 4 7\nawake n4 n3\n",
            "1 04 7\n",
            "1 4 7",
            "1 4 7\nking n1\n",
            "1 4 7\nlimited 1x2\n",
            "1 4 7\nlimited 1 a:1\n",
        ] {
            assert_eq!(Wished::parse(wrong), Err(WordError), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn words_are_read_again(
            epoch: u64, number: u64, state in 0..3_usize,
            awake in proptest::collection::btree_map("[a-z0-9-]{1,8}", any::<bool>(), 0..6),
            limited in proptest::collection::btree_map(("[a-z]{1,4}:[1-9]", "(/[a-z /*]{0,9}[a-z*])?"),
                proptest::collection::vec((any::<u64>(), any::<u32>()), 1..4), 0..4),
            atoms in proptest::collection::btree_map("/[a-z /*]{0,9}[a-z*]", ("[a-z]{1,4}", any::<u32>(), 0..3_u8), 0..6),
        ) {
            let atoms = atoms.into_iter().map(|(of, (pool, copies, which))| {
                let copies = (which != 1).then(|| (copies, pool.clone()));
                (of, Wish { copies, spread: (which > 0).then_some(pool) })
            });
            let firings = |firings: Vec<(u64, u32)>| {
                firings.into_iter().map(|(ago_ms, count)| Firings { ago_ms, count }).collect()
            };
            let limited = limited.into_iter().map(|(of, all)| (of, firings(all))).collect();
            let wished =
                Wished { epoch, number, awake, atoms: atoms.collect(), fired_ms_ago: BTreeMap::new(), limited };
            prop_assert_eq!(Wished::parse(&wished.to_text()), Ok(wished));
            let heeded = Heeded { epoch, number, state: NodeState::WORDS[state].0 };
            prop_assert_eq!(Heeded::parse(&heeded.to_text()), Ok(heeded));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(1 [0-9]{1,3} [0-9]{1,3}\n)?.{0,60}") {
            if let Ok(wished) = Wished::parse(&text) {
                prop_assert_eq!(wished.to_text(), text.clone());
            }
            if let Ok(heeded) = Heeded::parse(&text) {
                prop_assert_eq!(heeded.to_text(), text);
            }
        }
    }
}
