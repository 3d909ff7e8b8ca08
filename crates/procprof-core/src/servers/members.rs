//! [`Members`]: which servers of an archive are alive, and which of them captures a node. Pure; the clock is given.
//!
//! A server is alive while its heartbeat changes: no two clocks are compared. Its lease runs only while the archive can
//! be listed, so that an archive that is away leaves everything as it is. Of the servers that are alive and have a node
//! configured, the one captures it for which the hash of both is highest (rendezvous hashing): when a server comes or
//! goes, only its own nodes move. One whose disk is full has gone in this sense, unless all are full.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use procprof_archive::Writer;

use super::heartbeat::{Heartbeat, NodeKey};

/// Leases after which the objects of a server that is not alive are removed.
const FORGOTTEN_AFTER: u32 = 100;

/// What is known of a server.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) heartbeat: Heartbeat,
    pub(super) nodes: Arc<BTreeSet<NodeKey>>,
    /// The digest of these.
    digest: String,
    /// When the heartbeat was last another one.
    changed: Duration,
    pub(super) is_alive: bool,
}

impl Member {
    fn lease(&self) -> Duration {
        Duration::from_secs(self.heartbeat.lease)
    }
}

/// The other servers of an archive.
#[derive(Debug, Default)]
pub(super) struct Members {
    others: BTreeMap<Writer, Member>,
    /// Time in which the archive could be listed.
    listened: Duration,
    has_listened: bool,
}

impl Members {
    /// Servers whose keys of nodes are others than those that were read, with the digests of these.
    pub(super) fn unread(&self, heartbeats: &[(Writer, Heartbeat)]) -> Vec<(Writer, String)> {
        let is_read = |server: &Writer, heartbeat: &Heartbeat| {
            self.others.get(server).is_some_and(|known| known.digest == heartbeat.nodes)
        };
        let unread = heartbeats.iter().filter(|(server, heartbeat)| !is_read(server, heartbeat));
        unread.map(|(server, heartbeat)| (*server, heartbeat.nodes.clone())).collect()
    }

    /// Takes a listing of the heartbeats of others, `since` the last attempt; `keys` gives those of a server's nodes that
    /// could be read.
    pub(super) fn listen(
        &mut self,
        heartbeats: Vec<(Writer, Heartbeat)>,
        since: Duration,
        mut keys: impl FnMut(Writer, &str) -> Option<BTreeSet<NodeKey>>,
    ) {
        self.listened = self.listened.saturating_add(since);
        self.has_listened = true;
        let now = self.listened;
        let present: BTreeSet<Writer> = heartbeats.iter().map(|(server, _)| *server).collect();
        // One that has stopped removes its own.
        self.others.retain(|server, _| present.contains(server));
        for (server, heartbeat) in heartbeats {
            let known = self.others.get(&server);
            let changed = known.filter(|known| known.heartbeat == heartbeat).map_or(now, |known| known.changed);
            let (mut nodes, mut digest) =
                known.map_or_else(Default::default, |known| (Arc::clone(&known.nodes), known.digest.clone()));
            // Those of before, until the new ones can be read.
            if digest != heartbeat.nodes
                && let Some(read) = keys(server, &heartbeat.nodes)
            {
                (nodes, digest) = (Arc::new(read), heartbeat.nodes.clone());
            }
            let mut member = Member { heartbeat, nodes, digest, changed, is_alive: true };
            member.is_alive = now.saturating_sub(changed) <= member.lease();
            self.others.insert(server, member);
        }
    }

    /// Whether the archive could be listed since the start.
    pub(super) fn has_listened(&self) -> bool {
        self.has_listened
    }

    /// The other servers.
    pub(super) fn others(&self) -> impl Iterator<Item = (Writer, &Member)> {
        self.others.iter().map(|(server, member)| (*server, member))
    }

    /// Whether another server is alive.
    pub(super) fn has_company(&self) -> bool {
        self.others.values().any(|member| member.is_alive)
    }

    /// Those that have not been alive for so long that nobody looks for them.
    pub(super) fn forgotten(&self) -> Vec<Writer> {
        let is_forgotten = |member: &Member| {
            self.listened.saturating_sub(member.changed) > member.lease().saturating_mul(FORGOTTEN_AFTER)
        };
        self.others().filter(|(_, member)| is_forgotten(member)).map(|(server, _)| server).collect()
    }

    /// The server that captures a node that `own` has configured, whose disk may be full.
    pub(super) fn owner(&self, own: Writer, is_own_full: bool, node: NodeKey) -> Writer {
        let alive = self.others().filter(|(_, member)| member.is_alive && member.nodes.contains(&node));
        let others = alive.map(|(server, member)| (server, member.heartbeat.full));
        let servers = others.chain(std::iter::once((own, is_own_full)));
        let best = servers.max_by_key(|(server, is_full)| (!is_full, weight(*server, node), *server));
        best.map_or(own, |(server, _)| server)
    }
}

/// The hash of a server and a node: splitmix64 of both.
fn weight(server: Writer, node: NodeKey) -> u64 {
    let mixed = server.0 ^ node.0.rotate_left(32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);
    const BEAT: Duration = Duration::from_secs(10);

    fn heartbeat(beat: u64) -> Heartbeat {
        Heartbeat {
            url: "http://a:1".to_owned(),
            version: "1".to_owned(),
            started: 7,
            beat,
            lease: LEASE.as_secs(),
            nodes: "digest".to_owned(),
            full: false,
        }
    }

    fn keys(count: u64) -> BTreeSet<NodeKey> {
        (0..count).map(|node| NodeKey(node.wrapping_mul(0x1234_5678_9abc_def1))).collect()
    }

    fn listen(members: &mut Members, beats: &[(u64, u64)], since: Duration) {
        let beats = beats.iter().map(|(server, beat)| (Writer(*server), heartbeat(*beat))).collect();
        members.listen(beats, since, |_, _| Some(keys(1000)));
    }

    /// The nodes of each server, as one of them sees it.
    fn shares(members: &Members, own: u64) -> BTreeMap<u64, usize> {
        let mut shares = BTreeMap::new();
        for node in keys(1000) {
            *shares.entry(members.owner(Writer(own), false, node).0).or_default() += 1;
        }
        shares
    }

    #[test]
    fn every_server_sees_the_same_owner_and_shares_are_even() {
        let servers = [11, 0x0193_7fff_0000_1234, 0x8000_0000_0000_0001];
        let owners = |own: u64| -> Vec<u64> {
            let mut members = Members::default();
            let others: Vec<_> =
                servers.into_iter().filter(|server| *server != own).map(|server| (server, 1)).collect();
            listen(&mut members, &others, BEAT);
            for share in shares(&members, own).into_values() {
                assert!((250..420).contains(&share), "{share} of 1,000 nodes");
            }
            keys(1000).into_iter().map(|node| members.owner(Writer(own), false, node).0).collect()
        };
        let seen: Vec<Vec<u64>> = servers.into_iter().map(owners).collect();
        assert!(seen.iter().all(|owners| *owners == seen[0]));
    }

    #[test]
    fn a_server_that_is_silent_for_its_lease_loses_its_nodes_to_all_others() {
        let mut members = Members::default();
        let mut round = |beats: &[(u64, u64)]| {
            listen(&mut members, beats, BEAT);
            shares(&members, 1)
        };
        let before = round(&[(2, 1), (3, 1)]);
        assert_eq!(before.len(), 3);
        for beat in 2..5 {
            assert_eq!(round(&[(2, 1), (3, beat)]), before);
        }
        let after = round(&[(2, 1), (3, 5)]);
        assert_eq!(after.keys().copied().collect::<Vec<_>>(), [1, 3]);
        assert!(after[&1] > before[&1] && after[&3] > before[&3]);
        assert_eq!(round(&[(2, 2), (3, 6)]), before, "it was only slow");
        assert_eq!(round(&[(3, 7)]), after, "it has said farewell");
    }

    #[test]
    fn a_server_with_a_full_disk_gives_its_nodes_to_those_that_have_room() {
        let mut members = Members::default();
        let mut round = |beat: u64, full: [bool; 3]| {
            let beats = [(Writer(2), full[1]), (Writer(3), full[2])];
            let beats = beats.map(|(server, full)| (server, Heartbeat { full, ..heartbeat(beat) }));
            members.listen(beats.into(), BEAT, |_, _| Some(keys(1000)));
            keys(1000).into_iter().map(|node| members.owner(Writer(1), full[0], node).0).collect::<Vec<u64>>()
        };
        let before = round(1, [false; 3]);
        for (own, full) in [(1, [true, false, false]), (2, [false, true, false])] {
            let moved = round(own + 1, full);
            assert!(before.iter().zip(&moved).all(|(old, new)| *new != own && (*old == own || old == new)));
        }
        assert_eq!(round(4, [true; 3]), before, "where all are full, each keeps its own");
    }

    #[test]
    fn leases_stand_still_while_the_archive_is_away() {
        let mut members = Members::default();
        listen(&mut members, &[(2, 1)], BEAT);
        // An hour later, the first listing that succeeds counts as one attempt.
        listen(&mut members, &[(2, 1)], BEAT);
        assert!(members.has_company());
        (0..3).for_each(|_| listen(&mut members, &[(2, 1)], BEAT));
        assert!(!members.has_company());
        assert!(members.forgotten().is_empty());
        listen(&mut members, &[(2, 1)], LEASE * 100);
        assert_eq!(members.forgotten(), [Writer(2)]);
    }

    #[test]
    fn a_node_is_captured_by_a_server_that_has_it() {
        let mut members = Members::default();
        members.listen(vec![(Writer(2), heartbeat(1))], BEAT, |_, _| None);
        assert_eq!(shares(&members, 1).len(), 1, "keys that cannot be read are nobody's");
        members.listen(vec![(Writer(2), heartbeat(2))], BEAT, |_, _| Some(keys(1000)));
        assert_eq!(shares(&members, 1).len(), 2);
        members.listen(vec![(Writer(2), heartbeat(3))], BEAT, |_, _| panic!("nothing has changed"));
        let mut changed = heartbeat(4);
        changed.nodes = "other".to_owned();
        members.listen(vec![(Writer(2), changed)], BEAT, |_, digest| {
            assert_eq!(digest, "other");
            Some(keys(10))
        });
        let shares = shares(&members, 1);
        assert!(shares[&2] <= 10 && shares[&2] > 0, "{shares:?}");
    }
}
