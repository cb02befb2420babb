//! What a world consists of, drawn from a seed.

use weir_testkit::seeded::Choice;

/// How the server is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// A process for each connection, as Apache prefork.
    Processes,
    /// A listener that hands ready connections to threads, as Apache event.
    Threads,
    /// One task that never waits for a connection alone, as nginx.
    Events,
}

/// A world to be simulated.
#[derive(Debug)]
pub struct Plan {
    pub model: Model,
    pub cpus: u32,
    pub workers: usize,
    pub connections: usize,
    pub requests: usize,
    pub keep_alive: bool,
    pub pipeline: u64,
    /// A task that wants the server's first CPU all the time.
    pub hog: bool,
    pub locks: bool,
    pub sleeps: bool,
    pub downstream: bool,
    /// The downstream's address is not one of this host.
    pub far: bool,
    /// Requests come in two segments at times.
    pub split: bool,
    /// The client shares a CPU with the server.
    pub client_shares: bool,
    /// CPU time after the last send, in which a task is still at the request it has answered; the definitions cannot
    /// see that.
    pub tail_ns: u64,
    /// Threads hand requests to each other half way.
    pub offload: bool,
    /// The schedule intends requests before the client sends them.
    pub open_loop: bool,
    pub choice: Choice,
}

impl Plan {
    /// A world of any sort.
    pub fn any(seed: u64) -> Self {
        let mut choice = Choice::from_seed(seed);
        let model = *choice.pick(&[Model::Processes, Model::Threads, Model::Events]);
        let mut flag = |chance: u64| choice.below(100) < chance;
        let (keep_alive, hog, locks, sleeps) = (flag(70), flag(30), flag(40), flag(30));
        let (downstream, far, split, client_shares, open_loop) = (flag(40), flag(30), flag(30), flag(30), flag(40));
        let offload = model == Model::Threads && flag(50);
        let pipeline = if keep_alive && flag(40) { 1 + choice.below(4) } else { 1 };
        Self {
            model,
            cpus: 1 + choice.below(3) as u32,
            workers: 1 + choice.below(5) as usize,
            connections: 1 + choice.below(8) as usize,
            requests: 60,
            keep_alive,
            pipeline,
            hog,
            locks: locks && model != Model::Events,
            sleeps,
            downstream,
            far,
            split,
            client_shares,
            tail_ns: 0,
            offload,
            open_loop,
            choice,
        }
    }

    /// A number within bounds.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.choice.below(to - from + 1)
    }

    /// True with so many percent.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.choice.below(100) < percent
    }
}
