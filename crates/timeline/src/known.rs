//! What is known of a server: its tasks, sockets, conversations and phases.

use crate::conversations::Conversations;
use crate::phases::Phases;
use crate::sockets::Sockets;
use crate::tasks::Tasks;

/// What a walk is over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) tasks: &'a Tasks,
    pub(crate) sockets: &'a Sockets,
    pub(crate) conversations: &'a Conversations,
    pub(crate) phases: &'a Phases,
}
