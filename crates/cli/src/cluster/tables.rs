//! The flow tables of a director, one for each address of the service.

use super::members::MembersFile;
use anyhow::Context;
use std::net::SocketAddr;
use std::time::Duration;
use weir_cluster::{CONFIGURED_DEFAULT, NodeNumber, TableFault};
use weir_keeper::{Flow, FlowCounts, FlowTable, IdleTimes, NodePlace};

/// After which connections leave the table. One that was steered stays longer than TCP keeps trying: without its entry
/// its packets would come to another node.
const IDLE: IdleTimes = IdleTimes {
    finished: Duration::from_secs(60),
    idle: Duration::from_secs(3600),
    steered: Duration::from_secs(86_400),
};

/// The flow tables, one for each address of the service.
pub(super) struct Tables(Vec<(SocketAddr, FlowTable)>);

impl Tables {
    /// Those of a front, which sees no packets.
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    pub(super) fn attach(interface: &str, members: &MembersFile) -> anyhow::Result<Self> {
        let weight = |number| members.weights.get(number).copied().unwrap_or(CONFIGURED_DEFAULT);
        let places: Vec<(NodePlace, u16)> =
            members.nodes.iter().map(|(number, (_, place))| (*place, weight(number))).collect();
        let tables = members.services.iter().map(|service| {
            let table = FlowTable::attach_weighted(interface, *service, &places);
            Ok((*service, table.with_context(|| format!("the flow table of {service}"))?))
        });
        Ok(Self(tables.collect::<anyhow::Result<_>>()?))
    }

    pub(super) fn of(&self, flow: &Flow) -> Result<&FlowTable, TableFault> {
        let found = self.0.iter().find(|(service, _)| *service == flow.service);
        found
            .map(|(_, table)| table)
            .ok_or_else(|| TableFault(format!("{} is no address of the service", flow.service)))
    }

    pub(super) fn sweep(&self) {
        for (service, table) in &self.0 {
            if let Err(error) = table.sweep(&IDLE) {
                tracing::warn!(%service, %error, "the flow table was not swept");
            }
        }
    }

    /// Connections that are not where their hash says, or were steered.
    pub(super) fn differing(&self) -> Vec<(Flow, NodeNumber)> {
        let of_one = |(service, table): &(SocketAddr, FlowTable)| {
            table.differing().unwrap_or_else(|error| {
                tracing::warn!(%service, %error, "the flow table was not read");
                Vec::new()
            })
        };
        self.0.iter().flat_map(of_one).collect()
    }

    /// What each has counted, but for those that cannot be read.
    pub(super) fn counts(&self) -> Vec<(SocketAddr, FlowCounts)> {
        self.0.iter().filter_map(|(service, table)| Some((*service, table.counts().ok()?))).collect()
    }

    /// Packets sent on to a node, of all addresses.
    pub(super) fn packets_to(&self, node: NodeNumber) -> u64 {
        self.0.iter().map(|(_, table)| table.packets_to(node).unwrap_or(0)).sum()
    }

    /// Notes whether a node is down.
    pub(super) fn set_down(&self, node: &NodePlace, is_down: bool) {
        for (service, table) in &self.0 {
            if let Err(error) = table.set_down(node, is_down) {
                eprintln!("weir cluster director: SYNs for {service} that are sent again go where they went: {error}");
            }
        }
    }

    /// Spreads new connections over these nodes, by their weights.
    pub(super) fn set_weighted(&self, places: &[(NodePlace, u16)]) {
        for (service, table) in &self.0 {
            if let Err(error) = table.set_weighted(places) {
                eprintln!("weir cluster director: the nodes of {service} stay as they were: {error}");
            }
        }
    }
}
