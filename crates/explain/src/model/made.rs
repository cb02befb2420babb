//! The trace, put together.

use super::cpus::{Cpus, Task};
use super::disks::Queued;
use super::load::Load;
use super::locks::{held, with_locks};
use super::pools::Pools;
use super::ways::{Stretch, Way, Ways, is_late, is_servers};
use std::collections::BTreeSet;
use weir_measure::part::Part;
use weir_predict::{Request, Trace, Visit, Work};

/// How soon behind a response its client's next request comes where clients ask one after the other, nanoseconds.
const AT_ONCE_NS: u64 = 1_000_000;
/// Requests of a connection that tell whether clients ask one after the other.
const NEARLY_ALL: f64 = 0.9;
/// Requests that found the server alike, whose wake-ups of the client are looked at together: at least so many, in at
/// most so many groups.
const OF_A_WAKEUP_GROUP: usize = 100;
const WAKEUP_GROUPS: usize = 20;

/// Puts it together.
pub(super) fn trace(
    mut ways: Ways,
    cpus: &Cpus,
    queued: &Queued,
    load: Load,
    host_cpus: u32,
    left_out: u64,
    is_server_side: bool,
) -> Trace {
    ways.all.sort_by_key(|way| way.at_ns);
    let pools = Pools::of(&ways, cpus);
    let (locks, held) = held(&ways);
    let others = others(&ways, cpus);
    let (pools_of, disks) = (pools.all.clone(), queued.all.clone());
    let mut trace = Trace { cpus: host_cpus, pools: pools_of, locks, disks, left_out, ..Trace::default() };
    trace.untold_disk_requests = queued.untold;
    let known = Known { ways: &ways, pools: &pools, others: &others, queued };
    let _ = (trace.stack(&[]), trace.label(""));
    for (number, way) in ways.all.iter().enumerate() {
        let stretches = with_locks(&way.stretches, held.get(&number));
        let request = request(&known, &mut trace, way, stretches);
        trace.requests.push(request);
    }
    for (pool, visits) in trace.visits_of_pools().into_iter().enumerate() {
        let pool = &mut trace.pools[pool];
        pool.after_ns /= visits.max(1.0);
        pool.held_ns = (pool.held_ns - pool.after_ns).max(0.0);
    }
    clients(&mut trace, &ways, cpus, &others, load, is_server_side);
    trace
}

/// What is known of all requests.
struct Known<'a> {
    ways: &'a Ways,
    pools: &'a Pools,
    /// Tasks that are neither the server's nor the client's.
    others: &'a BTreeSet<u32>,
    queued: &'a Queued,
}

fn request(known: &Known<'_>, trace: &mut Trace, way: &Way, stretches: Vec<(Stretch, Option<u16>)>) -> Request {
    let Known { ways, pools, .. } = *known;
    let class = trace.class(&ways.class(way.class));
    let response_ns = way.done_ns.saturating_sub(way.at_ns) as f64;
    let mut request = Request { at_ns: way.at_ns, response_ns, class, visits: Vec::new() };
    let mut inside: Vec<u32> = Vec::new();
    for (stretch, lock) in stretches {
        if is_servers(stretch.part) && stretch.pid != 0 {
            enter(&mut inside, &stretch);
        } else if matches!(stretch.part, Part::ResponseTransit | Part::ClientWakeup) {
            inside.clear();
        }
        let Some((work, ns)) = work(&stretch, trace, known) else { continue };
        let stack: Vec<u16> = inside.iter().filter_map(|pid| pools.pool(*pid)).collect();
        let stack = trace.stack(&stack);
        let label = trace.label(&label(&stretch, ways));
        match request.visits.last_mut() {
            Some(last) if (last.stack, last.work, last.lock, last.label) == (stack, work, lock, label) => last.ns += ns,
            _ => request.visits.push(Visit { stack, work, lock, ns, label }),
        }
    }
    request
}

/// Whose task a request is with: within those that wait for it.
fn enter(inside: &mut Vec<u32>, stretch: &Stretch) {
    if let Some(depth) = inside.iter().position(|pid| *pid == stretch.pid) {
        inside.truncate(depth + 1);
        return;
    }
    // A wait to be taken is not yet a task's time, nor is that of a free task for a CPU: another may be there first.
    if matches!(stretch.part, Part::AcceptQueue | Part::WorkerQueue | Part::WaitCpu) {
        return;
    }
    let depth = inside.iter().position(|pid| *pid == stretch.waiter).map_or(0, |depth| depth + 1);
    inside.truncate(depth);
    if depth == 0 && stretch.waiter != 0 {
        inside.push(stretch.waiter);
    }
    inside.push(stretch.pid);
}

/// What a stretch is to the model, and for how long, nanoseconds; `None` for a wait that the model makes anew.
fn work(stretch: &Stretch, trace: &Trace, known: &Known<'_>) -> Option<(Work, f64)> {
    let (from_ns, to_ns) = (stretch.from_ns, stretch.to_ns);
    let is_others = known.others.contains(&stretch.holder);
    let lock = &known.ways.texts[stretch.text as usize];
    let work = match stretch.part {
        Part::Run => Work::Cpu,
        Part::WaitCpu if is_others => Work::Others,
        _ if is_others && is_late(stretch) => Work::Others,
        Part::Generator | Part::AcceptQueue | Part::WorkerQueue | Part::WaitCpu | Part::ClientWakeup => return None,
        Part::WaitLock if stretch.holder != 0 && trace.locks.contains(lock) => return None,
        Part::WaitDisk => match known.queued.work(stretch.pid, from_ns, to_ns) {
            Some((disk, worked_ns)) => return Some((Work::Disk(disk), worked_ns)),
            None => Work::Delay,
        },
        _ => Work::Delay,
    };
    Some((work, (to_ns - from_ns) as f64))
}

/// `postgres:run`, with what it was spent on and its phase behind it.
fn label(stretch: &Stretch, ways: &Ways) -> String {
    let name =
        if is_servers(stretch.part) { ways.names.get(&stretch.pid).map_or("", String::as_str) } else { "client" };
    let mut text = format!("{name}:{}", stretch.part.name());
    for more in [stretch.phase, stretch.text].into_iter().filter(|more| *more != 0) {
        text.push('|');
        text.push_str(&ways.texts[more as usize]);
    }
    text
}

/// The client's tasks.
fn clients_of(ways: &Ways) -> BTreeSet<u32> {
    let transit = |stretch: &&Stretch| matches!(stretch.part, Part::ResponseTransit | Part::ClientWakeup);
    let stretches = ways.all.iter().flat_map(|way| &way.stretches).filter(transit);
    stretches.map(|stretch| stretch.pid).filter(|pid| *pid != 0).collect()
}

/// Tasks that are neither the server's nor the client's, but had a CPU that a request waited for. What they used
/// besides tells nothing: a program of a low priority uses all that is left, and leaves when a request comes.
fn others(ways: &Ways, cpus: &Cpus) -> BTreeSet<u32> {
    let clients = clients_of(ways);
    let of_clients: BTreeSet<u32> =
        clients.iter().filter_map(|pid| cpus.task(*pid)).map(|task| task.tgid).filter(|tgid| *tgid != 0).collect();
    let is_other = |pid: &u32| {
        // The recorder is weir's too, and would not be there.
        let is_known =
            |task: &Task| task.is_servers || of_clients.contains(&task.tgid) || task.name.starts_with("weir");
        *pid != 0 && !clients.contains(pid) && !cpus.task(*pid).is_some_and(is_known)
    };
    let is_wait = |stretch: &&Stretch| stretch.part == Part::WaitCpu || is_late(stretch);
    let waits = ways.all.iter().flat_map(|way| &way.stretches).filter(is_wait);
    waits.map(|stretch| stretch.holder).filter(is_other).collect()
}

/// How requests came, and what the client had of the CPUs.
fn clients(trace: &mut Trace, ways: &Ways, cpus: &Cpus, others: &BTreeSet<u32>, load: Load, is_server_side: bool) {
    let clients = clients_of(ways);
    let opened = ways.all.iter().filter(|way| way.opened_connection).count();
    trace.kept_alive = !is_server_side && opened * 2 < ways.all.len();
    if trace.kept_alive {
        // Their connections keep the tasks in front, not their responses.
        let fronts: BTreeSet<u16> = trace.stacks.iter().filter_map(|stack| stack.first().copied()).collect();
        fronts.into_iter().for_each(|pool| trace.pools[usize::from(pool)].held_ns = 0.0);
    }
    let connections: BTreeSet<u64> = ways.all.iter().map(|way| way.connection).collect();
    if !is_server_side {
        let used = u32::try_from(connections.len()).unwrap_or(u32::MAX);
        let connections = load.connections.unwrap_or(used).max(1);
        if load.is_open || !asks_one_after_the_other(ways) {
            trace.connections = Some(connections);
        } else {
            trace.clients = Some(connections);
            trace.connections = Some(connections);
        }
    }
    let all = (ways.all.len() as u64 + ways.beyond).max(1) as f64;
    let used = cpus.tasks().filter(|(pid, _)| clients.contains(pid) && !is_server_side);
    let client_ns: u64 = used.map(|(_, task)| task.used_ns).sum();
    trace.client_ns = client_ns as f64 / all;
    trace.client_threads = u32::try_from(clients.len()).unwrap_or(1).max(1);
    add_wakeups(trace, ways, others);
}

/// Adds what it takes the client to wake up for its schedule and for a response: of requests that found the server
/// alike a quarter took less, so that it is no wait for what others had. Behind a pause it takes longer, as CPUs sleep.
fn add_wakeups(trace: &mut Trace, ways: &Ways, others: &BTreeSet<u32>) {
    let is_wakeup = |stretch: &&Stretch| is_late(stretch) && !others.contains(&stretch.holder);
    let of = |way: &Way| -> u64 {
        way.stretches.iter().filter(is_wakeup).map(|stretch| stretch.to_ns - stretch.from_ns).sum()
    };
    let found = weir_predict::found(&trace.requests, trace.cpus);
    let mut order: Vec<usize> = (0..ways.all.len()).collect();
    order.sort_by(|one, other| found[*one].total_cmp(&found[*other]));
    let of_a_group = (order.len() / WAKEUP_GROUPS).max(OF_A_WAKEUP_GROUP);
    let (stack, label) = (trace.stack(&[]), trace.label("client:client_wakeup"));
    for group in order.chunks(of_a_group) {
        let mut times: Vec<u64> = group.iter().map(|number| of(&ways.all[*number])).collect();
        let quarter = times.len() / 4;
        let (_, time_ns, _) = times.select_nth_unstable(quarter);
        // What the client runs before it sends is in the model already.
        let ns = *time_ns as f64 - trace.client_ns / 2.0;
        if ns > 0.0 {
            for number in group {
                trace.requests[*number].visits.insert(0, Visit { stack, work: Work::Delay, lock: None, ns, label });
            }
        }
    }
}

/// Whether nearly each request comes at once behind the response before it on its connection.
fn asks_one_after_the_other(ways: &Ways) -> bool {
    let mut by_connection: Vec<(u64, u64, u64)> =
        ways.all.iter().map(|way| (way.connection, way.at_ns, way.done_ns)).collect();
    by_connection.sort_unstable();
    let pairs = by_connection.windows(2).filter(|two| two[0].0 == two[1].0);
    let (mut all, mut soon) = (0u64, 0u64);
    for two in pairs {
        all += 1;
        soon += u64::from(two[1].1 >= two[0].2 && two[1].1 - two[0].2 < AT_ONCE_NS);
    }
    // Connections for one request each show nothing: without a rate in its command line a load has clients.
    all == 0 || soon as f64 >= NEARLY_ALL * all as f64
}
