//! The keeper process of this node, as a move asks it.

use super::parts::{Keeper, KeeperFault};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use weir_keeper::protocol::Refusal;
use weir_keeper::{Flow, Frozen, KeeperClient, KeeperError, TcpState};

impl From<KeeperError> for KeeperFault {
    fn from(error: KeeperError) -> Self {
        match error {
            KeeperError::Connect { source, .. } => Self::Gone(source),
            KeeperError::Lost(ref source) => Self::Gone(io::Error::new(source.kind(), error.to_string())),
            KeeperError::Refused(Refusal::HoldIsOver(_)) => Self::HoldIsOver(error.to_string()),
            refused => Self::Refused(refused.to_string()),
        }
    }
}

impl Keeper for KeeperClient {
    fn freeze(&self, socket: BorrowedFd<'_>, epoch: u64) -> Result<Frozen, KeeperFault> {
        Ok(self.freeze(socket, epoch)?)
    }

    fn send_queue(&self, socket: BorrowedFd<'_>, bytes: u32) -> Result<Vec<u8>, KeeperFault> {
        Ok(self.send_queue(socket, bytes)?)
    }

    fn thaw(&self, socket: BorrowedFd<'_>) -> Result<(), KeeperFault> {
        Ok(self.thaw(socket)?)
    }

    fn discard(&self, socket: BorrowedFd<'_>) -> Result<(), KeeperFault> {
        Ok(self.discard(socket)?)
    }

    fn hold(&self, flow: &Flow, epoch: u64) -> Result<(), KeeperFault> {
        Ok(self.hold(flow, epoch)?)
    }

    fn renew(&self, flow: &Flow) -> Result<(), KeeperFault> {
        Ok(self.renew(flow)?)
    }

    fn release(&self, flow: &Flow) -> Result<(), KeeperFault> {
        Ok(self.release(flow)?)
    }

    fn restore(&self, tcp: &TcpState, unread: &[u8], sent: &[u8], epoch: u64) -> Result<OwnedFd, KeeperFault> {
        Ok(self.restore(tcp, unread, sent, epoch)?)
    }

    fn activate(&self, socket: BorrowedFd<'_>) -> Result<(), KeeperFault> {
        Ok(self.activate(socket)?)
    }
}
