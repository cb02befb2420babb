//! How a node gives content up: what others keep, the least asked for first, when the budget is exceeded. The last
//! copies of a content never go.

use super::sites::{Followings, Sites};
use anyhow::Context;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use weir_cluster::Keeping as Stand;
use weir_directory::Digest;
use weir_directory::atoms::{CURRENT, Elsewhere, File, mend, retire_versions};

/// Contents that are given up at a time.
const AT_A_TIME: usize = 4_096;
/// How long the tree of the version before stays, for requests that began before.
const TREE_STAYS: Duration = Duration::from_secs(10);

impl Sites {
    /// Gives content up until what is left fits into the budget, as far as others keep it.
    pub(super) fn keep_within_budget(&self, followings: &mut Followings) -> anyhow::Result<()> {
        let Some(budget) = self.keeping.budget() else { return Ok(()) };
        self.retire_trees(followings)?;
        let contents = self.published.store.contents()?;
        let used: u64 = contents.iter().map(|(_, bytes)| bytes).sum();
        let mut excess = used.saturating_sub(budget);
        if excess == 0 {
            return Ok(());
        }
        excess -= self.remove_garbage(&contents, excess, followings)?.min(excess);
        let mut may_go: Vec<(Digest, u64)> = contents
            .into_iter()
            .filter(|(digest, _)| !self.keeping.is_garbage(digest) && !self.keeping.wants(digest))
            .collect();
        let rates: HashMap<Digest, f64> =
            may_go.iter().map(|(digest, _)| (*digest, self.keeping.rate(digest))).collect();
        may_go.sort_by(|one, other| {
            let by_rate = rates[&one.0].total_cmp(&rates[&other.0]);
            by_rate.then(other.1.cmp(&one.1)).then(one.0.cmp(&other.0))
        });
        let mut chosen = Vec::new();
        for (digest, bytes) in may_go {
            if excess == 0 || chosen.len() == AT_A_TIME {
                break;
            }
            excess = excess.saturating_sub(bytes);
            chosen.push(digest);
        }
        if chosen.is_empty() {
            return Ok(());
        }
        let leaving = self.keeping.begin_to_leave(chosen);
        let given_up = self.give_up(leaving, followings);
        self.keeping.end_leaving();
        given_up
    }

    /// Gives up what enough other nodes say that they keep.
    fn give_up(&self, leaving: Vec<Digest>, followings: &mut Followings) -> anyhow::Result<()> {
        let needed = self.keeping.copies_min().min(self.keeping.others()).max(1);
        let mut kept: HashMap<Digest, usize> = HashMap::new();
        for peer in self.peers.iter().filter(|peer| self.keeping.is_living(peer.number)) {
            let Some(stands) = peer.inquire(&leaving) else { continue };
            for (digest, _) in leaving.iter().zip(&stands).filter(|(_, stand)| matches!(stand, Stand::Keeps { .. })) {
                *kept.entry(*digest).or_default() += 1;
            }
        }
        let store = &self.published.store;
        let gone: Vec<Digest> = leaving.into_iter().filter(|it| kept.get(it).is_some_and(|it| *it >= needed)).collect();
        let links: Elsewhere =
            gone.iter().filter_map(|digest| Some((*digest, store.mark(digest)?.modified_unix_s()))).collect();
        // First the links stand in its place, so that the server never finds nothing.
        for (site, manifest) in &followings.manifests {
            let folder = self.published.site(site);
            let files: Vec<File> =
                manifest.entries().iter().filter(|file| links.contains_key(&file.digest)).cloned().collect();
            mend((&files, &links), store, &folder, &folder.join(CURRENT)).context("the tree of files")?;
        }
        let mut bytes = 0;
        for digest in links.keys() {
            bytes += store.evict(digest)?;
        }
        self.seen.evicted(links.len() as u64, bytes);
        followings.elsewhere.extend(links);
        Ok(())
    }

    /// Removes what no kept version has, until so many bytes are free; how many were. What a publisher takes in now is not
    /// named by a version yet, so that nothing is removed while one is at work.
    fn remove_garbage(&self, contents: &[(Digest, u64)], wanted: u64, followings: &Followings) -> anyhow::Result<u64> {
        let garbage: Vec<Digest> =
            contents.iter().map(|(digest, _)| *digest).filter(|digest| self.keeping.is_garbage(digest)).collect();
        if garbage.is_empty() {
            return Ok(0);
        }
        let Some(_lock) = self.published.try_lock()? else { return Ok(0) };
        let sites = self.published.directory.sites()?.into_value();
        let versions = self.versions(&sites, followings.kept())?;
        if !self.keeping.knows(&versions) {
            return Ok(0);
        }
        let (mut bytes, mut count) = (0, 0);
        for digest in garbage {
            if bytes >= wanted {
                break;
            }
            bytes += self.published.store.evict(&digest)?;
            count += 1;
        }
        self.seen.evicted(count, bytes);
        Ok(bytes)
    }

    /// Removes the trees of other versions, which would hold what is given up, once no request uses them.
    fn retire_trees(&self, followings: &mut Followings) -> anyhow::Result<()> {
        let now = Instant::now();
        let old: Vec<String> = followings
            .switched
            .iter()
            .filter(|(_, at)| now.saturating_duration_since(**at) >= TREE_STAYS)
            .map(|(site, _)| site.clone())
            .collect();
        for site in old {
            retire_versions(&self.published.site(&site)).context("the trees of files")?;
            followings.switched.remove(&site);
        }
        Ok(())
    }
}
