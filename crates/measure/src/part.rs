//! The parts of a response, by the names that every view uses.

/// A part of a response time. Every nanosecond of a response belongs to exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Part {
    /// From the time that the schedule intended to the time that the generator sent.
    Generator,
    /// The connection being established.
    Connect,
    /// From the generator's send to the arrival of the first byte at the server's socket, and later bytes of the
    /// request that the server waited for.
    RequestTransit,
    /// Arrived on a connection that no task had accepted, behind other work of the workers.
    AcceptQueue,
    /// Behind other requests of the same worker.
    WorkerQueue,
    /// The server's task had the CPU.
    Run,
    /// The server's task could run, but another had the CPU.
    WaitCpu,
    /// The task waited for a disk, or for a page that had to be read.
    WaitDisk,
    /// The task waited for a lock: futex, flock, fcntl, semaphore.
    WaitLock,
    /// The task waited for another process of this host that is not captured.
    WaitProcess,
    /// The task waited for another host, or for a client that takes its response slowly.
    WaitNetwork,
    /// The task slept.
    WaitTimer,
    /// The task was held from outside: by a signal, by a debugger, or by a freezer.
    Stopped,
    /// From the server's last send to the arrival of the last byte at the client.
    ResponseTransit,
    /// The response had arrived, but the client's task was not yet there to take it.
    ClientWakeup,
    /// What the recording cannot attribute.
    Unattributed,
}

/// Whose a part of a response is: of the three that a load goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The load generator's.
    Generator,
    /// Of the way between the generator and the server, the connection's making among it.
    Network,
    /// The server's, with all that it waited for: from the arrival of the request to the last send of the response.
    Server,
    /// Not known.
    Unknown,
}

impl Part {
    /// Whose it is.
    #[must_use]
    pub fn side(self) -> Side {
        match self {
            Self::Generator | Self::ClientWakeup => Side::Generator,
            Self::Connect | Self::RequestTransit | Self::ResponseTransit => Side::Network,
            Self::AcceptQueue
            | Self::WorkerQueue
            | Self::Run
            | Self::WaitCpu
            | Self::WaitDisk
            | Self::WaitLock
            | Self::WaitProcess
            | Self::WaitNetwork
            | Self::WaitTimer
            | Self::Stopped => Side::Server,
            Self::Unattributed => Side::Unknown,
        }
    }

    /// How many there are.
    pub const COUNT: usize = 16;

    /// All of them, in the order in which a response passes them.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Generator,
        Self::Connect,
        Self::RequestTransit,
        Self::AcceptQueue,
        Self::WorkerQueue,
        Self::Run,
        Self::WaitCpu,
        Self::WaitDisk,
        Self::WaitLock,
        Self::WaitProcess,
        Self::WaitNetwork,
        Self::WaitTimer,
        Self::Stopped,
        Self::ResponseTransit,
        Self::ClientWakeup,
        Self::Unattributed,
    ];

    /// Its name in JSON, reports and documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        [
            "generator",
            "connect",
            "request_transit",
            "accept_queue",
            "worker_queue",
            "run",
            "wait_cpu",
            "wait_disk",
            "wait_lock",
            "wait_process",
            "wait_network",
            "wait_timer",
            "stopped",
            "response_transit",
            "client_wakeup",
            "unattributed",
        ][self as usize]
    }

    /// What a person would say of it.
    #[must_use]
    pub fn words(self) -> &'static str {
        [
            "waiting in the load generator",
            "making the connection",
            "the request on its way to the server",
            "waiting to be accepted",
            "waiting behind other requests of the same worker",
            "the server running",
            "waiting for a CPU",
            "waiting for a disk",
            "waiting for a lock",
            "waiting for another process",
            "waiting for the network",
            "sleeping",
            "stopped from outside",
            "the response on its way to the client",
            "waiting for the client to take the response",
            "not attributed",
        ][self as usize]
    }

    /// Parts of the design that scheduler and sockets alone do not tell apart.
    pub const NOT_OBSERVED: [&'static str; 4] = ["run_user", "run_kernel", "run_interrupt", "steal"];
}

/// Nanoseconds of each part.
pub type PartTimes = [u64; Part::COUNT];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_the_order_of_the_numbers() {
        for (index, part) in Part::ALL.iter().enumerate() {
            assert_eq!(*part as usize, index);
        }
    }
}
