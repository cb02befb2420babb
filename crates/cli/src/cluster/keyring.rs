//! The keys of a member while it runs: it asks the others for newer ones, and has its certificate renewed in time.

use super::members::{MembersFile, Reached};
use anyhow::Context;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use weir_cluster::{
    Answering, Gossip, Heartbeats, Identity, Keyring, KeyringAnswers, KeysWord, LinkClient, LinkCounts, LinkSettings,
    Member, Members, Message, NodeName, Role, Shared, TicketKey, Trust, Validity, authority_validity, renew,
    show_newest,
};
use weir_terminal::units;

/// Between two looks; with each one other member is asked.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a member has for an answer.
const PATIENCE: Duration = Duration::from_millis(500);
/// Between two tries to have the certificate renewed.
const RENEW_PAUSE: Duration = Duration::from_secs(60);
/// And so soon after the first failure; twice as late after each that follows.
const RENEW_PAUSE_MIN: Duration = Duration::from_secs(1);
/// Doubled so often, it is above the longest pause.
const DOUBLED_MOST: u32 = 6;
/// A failed renewal is told so often, in tries.
const TOLD_EVERY: u32 = 60;
/// When the end of a certificate is near enough to be told.
pub(super) const NEAR: Duration = Duration::from_secs(30 * 86_400);

/// A member's keys, and the links by which it hears of newer ones.
pub(crate) struct Keys {
    keyring: Arc<Keyring>,
    own: Member,
    trust: Trust,
    removed: Arc<Members>,
    others: Vec<(Reached, LinkClient)>,
}

/// What is done with keys of tickets that are new.
pub(crate) type OnTickets = Box<dyn Fn(&[TicketKey]) + Send>;

impl Keys {
    /// Those of a cluster's directory.
    pub(crate) fn open(
        folder: &Path,
        members: &MembersFile,
        own: &Member,
        (trust, removed): (&Trust, &Arc<Members>),
    ) -> anyhow::Result<Self> {
        let counts = Arc::<LinkCounts>::default();
        let all = members.nodes.values().map(|(reached, _)| reached).chain([&members.director]).chain(&members.standby);
        let link = |to: &Reached| {
            let settings = LinkSettings { connect_ms: 300, ..LinkSettings::default() };
            LinkClient::new(to.member.clone(), to.address, trust.clone(), settings, Arc::clone(&counts))
        };
        let others = all.filter(|other| other.member.name != own.name).map(|other| (other.clone(), link(other)));
        Ok(Self {
            keyring: Arc::new(Keyring::open(folder)?),
            own: own.clone(),
            trust: trust.clone(),
            removed: Arc::clone(removed),
            others: others.collect(),
        })
    }

    /// The same, for a command that ends soon.
    pub(super) fn of_command(folder: &Path) -> anyhow::Result<Self> {
        let (identity, removed) = (Identity::load(folder)?, Arc::<Members>::default());
        let members = MembersFile::read(folder)?;
        let trust = Trust::new(&identity, Arc::clone(&removed))?;
        Self::open(folder, &members, &identity.member, (&trust, &removed))
    }

    /// Answers about keys, beside what answers everything else.
    pub(crate) fn answers(&self, inner: Arc<dyn Answering>) -> Arc<dyn Answering> {
        Arc::new(KeyringAnswers::new(inner, Arc::clone(&self.keyring), Arc::clone(&self.removed)))
    }

    /// Has the certificate signed again; says whether etcd on this machine has a new one too.
    pub(super) fn renew(&self) -> anyhow::Result<bool> {
        let nodes = self.there().filter(|(other, _)| other.member.role == Role::Node).map(|(_, link)| link);
        Ok(renew(&self.keyring, &self.own, &nodes.collect::<Vec<_>>(), SystemTime::now())?)
    }

    /// Makes a new secret that a removed member does not get, and gives it to all others; says which of them do not
    /// answer. Where the authority is here, the certificates of all that were removed are revoked.
    pub(super) fn leave_out(&self, name: &NodeName, removed: BTreeSet<NodeName>) -> anyhow::Result<Vec<String>> {
        self.removed.set_removed(removed.into_iter().chain([name.clone()]));
        if self.keyring.has_authority() {
            self.keyring.revoke(&self.removed.removed(), SystemTime::now())?;
        }
        // One that another member has made before is not made a second time under the same number.
        for (_, link) in self.there() {
            if let Some(told) = shared_of(link.ask(&Message::keys(KeysWord::Ask), PATIENCE).ok()) {
                self.keyring.take(&told, SystemTime::now())?;
            }
        }
        let known = self.keyring.shared();
        let next = Shared { secret: known.secret.next(name)?, ..known };
        self.keyring.take(&next, SystemTime::now())?;
        let without = |(other, link): &(Reached, LinkClient)| {
            let told = link.ask(&Message::keys(KeysWord::Shared(next.clone())), PATIENCE);
            if matches!(told, Ok(Message::Noted)) { None } else { Some(other.member.name.to_string()) }
        };
        Ok(self.there().filter_map(without).collect())
    }

    fn there(&self) -> impl Iterator<Item = &(Reached, LinkClient)> {
        self.others.iter().filter(|(other, _)| !self.removed.is_removed(&other.member.name))
    }

    /// Follows newer keys from now on, by a thread.
    pub(crate) fn follow(
        self,
        (heartbeats, gossip): (&Arc<Heartbeats>, &Arc<Gossip>),
        tell: impl Fn(&str) + Send + 'static,
        tickets: Option<OnTickets>,
    ) -> anyhow::Result<()> {
        let validity = Identity::load(self.keyring.directory())?.validity();
        let known = self.keyring.shared();
        // Another process may have written it since the identity was read.
        heartbeats.turn(&known.secret);
        gossip.turn(&known.secret);
        let rank = self.others.iter().filter(|(other, _)| other.member.name < self.own.name).count() as u32;
        let mut following = Following {
            known,
            keys: self,
            heartbeats: Arc::clone(heartbeats),
            gossip: Arc::clone(gossip),
            tell: Box::new(tell),
            tickets,
            rank,
            validity,
            renewal: Renewal { next: Instant::now(), failed: 0 },
            told: None,
        };
        let body = move || {
            for turn in 0_usize.. {
                match following.look(turn) {
                    Ok(()) => following.told = None,
                    Err(error) => following.say_once(&format!("keys are not kept up to date: {error:#}")),
                }
                std::thread::sleep(PAUSE);
            }
        };
        std::thread::Builder::new().name("weir-keys".to_owned()).spawn(body).map(drop).context("a thread for keys")
    }
}

fn shared_of(answer: Option<Message>) -> Option<Shared> {
    let Message::Keys(word) = answer? else { return None };
    if let KeysWord::Shared(shared) = &*word { Some(shared.clone()) } else { None }
}

/// When the next renewal is tried, and how many failed.
struct Renewal {
    next: Instant,
    failed: u32,
}

struct Following {
    keys: Keys,
    /// What was used last: other threads may have taken what is newer.
    known: Shared,
    heartbeats: Arc<Heartbeats>,
    gossip: Arc<Gossip>,
    tell: Box<dyn Fn(&str) + Send>,
    /// None where this member shares no keys of tickets.
    tickets: Option<OnTickets>,
    /// How many members stand before this one, by their names.
    rank: u32,
    validity: Option<Validity>,
    renewal: Renewal,
    /// The fault that was told last.
    told: Option<String>,
}

impl Following {
    fn look(&mut self, turn: usize) -> anyhow::Result<()> {
        let (now, keyring) = (SystemTime::now(), Arc::clone(&self.keys.keyring));
        keyring.look()?;
        let there: Vec<&LinkClient> = self.keys.there().map(|(_, link)| link).collect();
        let asked = there.get(turn % there.len().max(1)).map(|link| link.ask(&Message::keys(KeysWord::Ask), PATIENCE));
        if let Some(told) = shared_of(asked.and_then(Result::ok)) {
            told.secret.without().into_iter().for_each(|name| self.keys.removed.remove(name.clone()));
            keyring.take(&told, now)?;
        }
        // Not before all others were asked once: each start of a node would bring a key of its own.
        if self.tickets.is_some() && turn > there.len() {
            keyring.turn_tickets(self.rank, now)?;
        }
        self.use_newest(keyring.shared());
        self.follow_certificate(now)?;
        let removed = self.keys.removed.removed();
        if !removed.is_empty() && keyring.has_authority() && keyring.revoke(&removed, now)? {
            (self.tell)("the certificates of members that were removed are revoked; etcd is told");
        }
        Ok(())
    }

    fn use_newest(&mut self, newest: Shared) {
        if newest.secret != self.known.secret {
            self.heartbeats.turn(&newest.secret);
            self.gossip.turn(&newest.secret);
            let turn = newest.secret.turn();
            (self.tell)(&format!("heartbeats and gossip have a new secret, number {turn} after the first"));
        }
        if let Some(tickets) = self.tickets.as_ref().filter(|_| newest.tickets != self.known.tickets) {
            tickets(&newest.tickets);
        }
        self.known = newest;
    }

    /// Shows what another process has had renewed, and renews it in time.
    fn follow_certificate(&mut self, now: SystemTime) -> anyhow::Result<()> {
        if show_newest(&self.keys.keyring, &self.keys.trust)? {
            self.validity = Identity::load(self.keys.keyring.directory())?.validity();
            let left = self.validity.map_or(Duration::ZERO, |it| it.left(now));
            (self.tell)(&format!("the certificate of this member was renewed; it ends in {}", rough(left)));
        }
        let is_due = self.validity.is_none_or(|it| it.is_due(now)) && Instant::now() >= self.renewal.next;
        if !is_due {
            return Ok(());
        }
        // The node with the authority may begin a moment after this one.
        let pause = RENEW_PAUSE_MIN * 2_u32.pow(self.renewal.failed.min(DOUBLED_MOST));
        self.renewal.next = Instant::now() + pause.min(RENEW_PAUSE);
        match self.keys.renew() {
            // It is told, and shown, with the next look.
            Ok(_) => self.renewal.failed = 0,
            Err(error) => {
                if self.renewal.failed.is_multiple_of(TOLD_EVERY) {
                    (self.tell)(&format!("the certificate of this member is not renewed: {error:#}"));
                }
                self.renewal.failed += 1;
            }
        }
        Ok(())
    }

    /// A fault that lasts is told once.
    fn say_once(&mut self, fault: &str) {
        if self.told.as_deref() != Some(fault) {
            (self.tell)(fault);
            self.told = Some(fault.to_owned());
        }
    }
}

/// What is to be said of the certificates of a member's directory: those that have ended, or do so soon.
pub(super) fn warnings(folder: &Path, now: SystemTime) -> Vec<String> {
    let own = Identity::load(folder).ok().and_then(|identity| identity.validity());
    let shown = folder.display();
    let line = |validity: Option<Validity>, what: &str, remedy: &str| {
        let left = validity?.left(now);
        let end = if left.is_zero() { "has ended".to_owned() } else { format!("ends in {}", rough(left)) };
        (left <= NEAR).then(|| format!("{what} {end}: {remedy}"))
    };
    let is_over = own.is_some_and(|it| it.left(now).is_zero());
    let remedy = if is_over {
        format!("on the node of weir cluster init run weir cluster renew {shown}; others join again under another name")
    } else {
        format!("the node of weir cluster init has to run for a renewal, which weir cluster renew {shown} tries now")
    };
    let of_authority = format!(
        "on the node of weir cluster init run weir cluster renew {shown} --authority, and copy authority.crt to the others"
    );
    let lines = [
        line(own, "the certificate of this member", &remedy),
        line(authority_validity(folder), "the certificate of the cluster's authority", &of_authority),
    ];
    lines.into_iter().flatten().collect()
}

/// A time in days, or else in hours or seconds.
pub(super) fn rough(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..7_200 => units::counted(seconds, "second"),
        seconds @ 7_200..172_800 => units::counted(seconds / 3_600, "hour"),
        seconds => units::counted(seconds / 86_400, "day"),
    }
}
