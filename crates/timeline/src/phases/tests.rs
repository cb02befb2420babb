use super::*;
use proptest::prelude::*;
use weir_wire::task::Switch;

impl Phases {
    /// A probe's hit.
    fn hit(&mut self, lane: u32, time_ns: u64, a: u64, told: &Arc<str>, tasks: &Tasks) {
        self.push_hit(&Record { lane, time_ns, a, ..Record::default() }, told, tasks);
    }

    /// What an application tells of a task.
    fn tell(&mut self, lane: u32, time_ns: u64, pid: u32, flags: u8, told: &Arc<str>) {
        let record = Record { lane, time_ns, a: u64::from(pid), flags: BY_APPLICATION | flags, ..Record::default() };
        self.push_hit(&record, told, &Tasks::default());
    }
}

/// One task, 7, that has CPU 0 from time 1 on.
fn running() -> Tasks {
    let mut tasks = Tasks::default();
    tasks.switch(1, 0, Switch { prev: 0, next: 7, prev_state: 0, syscall: 0x1ff, descriptor: 0 });
    tasks
}

fn told(server: &str, name: &str, roles: u16) -> Arc<str> {
    let point = ProbePoint { server: server.to_owned(), name: name.to_owned(), roles };
    Arc::from(point.write())
}

fn step(from_ns: u64, to_ns: u64, part: Part) -> Step {
    Step { from_ns, to_ns, part, pid: 7, waiter: 0, detail: Detail::None }
}

/// (name, from, to, first) of each stretch.
fn stretches(phases: &Phases, steps: &[Step], arrived_ns: u64) -> Vec<(String, u64, u64, bool)> {
    let mut out = Vec::new();
    phases.stretches(steps, 0, arrived_ns, &mut out);
    out.iter().map(|one| (phases.name(one.phase).name.clone(), one.from_ns, one.to_ns, one.is_first)).collect()
}

fn owned(expected: &[(&str, u64, u64, bool)]) -> Vec<(String, u64, u64, bool)> {
    expected.iter().map(|(name, from, to, first)| ((*name).to_owned(), *from, *to, *first)).collect()
}

#[test]
fn a_phase_lasts_until_the_next_mark() {
    let (tasks, mut phases) = (running(), Phases::default());
    for (at_ns, name, roles) in [(10, "read", PHASE), (30, "work", PHASE), (60, "end", END)] {
        phases.hit(0, at_ns, 0, &told("s", name, roles), &tasks);
    }
    let steps = [step(20, 40, Part::Run), step(40, 50, Part::WorkerQueue), step(50, 80, Part::WaitCpu)];
    let expected = [("read", 20, 30, true), ("work", 30, 40, true), ("work", 50, 60, false)];
    assert_eq!(stretches(&phases, &steps, 20), owned(&expected), "behind others it is in no phase");
    // Each passage that ended is told, with what the task did meanwhile.
    let ended = phases.take_ended();
    let run: Vec<u64> = ended.passages.iter().map(|passage| passage.parts_ns[Part::Run as usize]).collect();
    assert_eq!(run, [20, 30]);
    assert!(phases.take_ended().passages.is_empty());
}

#[test]
fn a_phase_that_spans_goes_on_while_others_work_for_its_task() {
    let (tasks, mut phases) = (running(), Phases::default());
    for (at_ns, server, name, roles) in [
        (10, "scripts", "activation", PHASE | SPANNING),
        (15, "other", "own", PHASE),
        (30, "scripts", "run", PHASE | SPANNING),
        (60, "scripts", "output", PHASE | SPANNING),
        (80, "scripts", "end", END | SPANNING),
    ] {
        phases.hit(0, at_ns, 0, &told(server, name, roles), &tasks);
    }
    // 5 asks 7, which has 8 run a script, which has 9 run a program.
    let of = |from_ns, to_ns, pid, waiter| Step { pid, waiter, ..step(from_ns, to_ns, Part::Run) };
    let steps =
        [of(5, 20, 7, 5), of(20, 40, 8, 7), of(40, 70, 9, 8), of(70, 75, 8, 7), of(75, 90, 7, 5), of(90, 95, 5, 0)];
    let expected = [
        ("activation", 10, 20, true),
        ("own", 15, 20, true),
        ("activation", 20, 30, false),
        ("run", 30, 40, true),
        ("run", 40, 60, false),
        ("output", 60, 70, true),
        ("output", 70, 75, false),
        ("output", 75, 80, false),
        ("own", 75, 90, false),
    ];
    assert_eq!(stretches(&phases, &steps, 5), owned(&expected));
    // A circle of tasks ends.
    let steps = [of(20, 25, 8, 9), of(25, 30, 9, 8)];
    assert_eq!(stretches(&phases, &steps, 5), owned(&[]));
}

#[test]
fn an_event_loops_marks_are_for_the_request_that_it_is_at() {
    let (mut tasks, mut phases) = (running(), Phases::default());
    let mark = told("loop", "handle", PHASE | INTERLEAVED);
    for (at_ns, socket) in [(10, 100), (20, 200)] {
        tasks.touch(0, at_ns, socket, crate::tasks::Verb::Receive, true);
        phases.hit(0, at_ns + 1, 0, &mark, &tasks);
    }
    let mut out = Vec::new();
    phases.stretches(&[step(5, 50, Part::Run)], 100, 5, &mut out);
    assert_eq!(out.iter().map(|one| (one.from_ns, one.to_ns)).collect::<Vec<_>>(), [(11, 50)]);
    phases.stretches(&[step(15, 50, Part::Run)], 200, 15, &mut out);
    assert_eq!(out.iter().map(|one| (one.from_ns, one.to_ns)).collect::<Vec<_>>(), [(21, 50)]);
    // What was marked before this request arrived was for the one before it on the connection.
    phases.stretches(&[step(15, 50, Part::Run)], 100, 15, &mut out);
    assert!(out.is_empty());
    assert!(phases.take_ended().passages.is_empty(), "whose a passage would be cannot be told");
}

#[test]
fn a_wait_for_a_servers_own_lock_lasts_until_it_is_had() {
    let (tasks, mut phases, mut texts) = (running(), Phases::default(), Texts::default());
    let pid = tasks.current(0).expect("a task");
    let (begin, end) = (told("db", "lock", LOCK), told("db", "lock", LOCK | END));
    phases.hit(0, 5, 0, &told("db", "work", PHASE), &tasks);
    phases.hit(0, 8, 1, &told("db", "statement", QUERY), &tasks);
    phases.text(0, 8, "update", &mut texts);
    phases.hit(0, 10, 0, &begin, &tasks);
    let within = |phases: &Phases, at_ns| phases.lock_window(pid, at_ns).map(|window| (window.from_ns, window.to_ns));
    assert_eq!(within(&phases, 15), Some((10, u64::MAX)), "it waits still");
    phases.hit(0, 30, 0, &end, &tasks);
    phases.hit(0, 40, 0, &begin, &tasks);
    // The end of this one was not told.
    phases.hit(0, 60, 0, &begin, &tasks);
    assert_eq!([9, 10, 29, 30, 50].map(|at_ns| within(&phases, at_ns).is_some()), [false, true, true, false, true]);
    assert_eq!((within(&phases, 50), within(&phases, 61)), (Some((40, 60)), Some((60, u64::MAX))));
    assert_eq!(phases.statement(pid, 20).map(|number| texts.text(number)), Some("update"));
    assert_eq!(phases.statement(pid, 7), None);
    // It is in its phase meanwhile.
    assert_eq!(stretches(&phases, &[step(10, 30, Part::WaitLock)], 1), owned(&[("work", 10, 30, true)]));
    phases.trim(45);
    assert_eq!((within(&phases, 20), within(&phases, 50)), (None, Some((40, 60))));
}

/// 8 waits for 9, and 7 behind it: what 8 holds is no use to 7 as long as 9 holds 8.
#[test]
fn a_servers_own_lock_is_followed_to_who_holds_up_all() {
    let (mut tasks, mut phases) = (running(), Phases::default());
    let (begin, end) = (told("db", "lock", LOCK), told("db", "lock", LOCK | END));
    let switch = |prev, next, prev_state| Switch { prev, next, prev_state, syscall: 0x1ff, descriptor: 0 };
    tasks.switch(1, 1, switch(0, 8, 0));
    for (at_ns, lane, pid) in [(10, 1, 8), (20, 0, 7)] {
        phases.hit(lane, at_ns, 0, &begin, &tasks);
        tasks.switch(at_ns + 1, lane, switch(pid, 0, 1));
    }
    for (at_ns, lane, pid, waker) in [(50, 1, 8, 9), (60, 0, 7, 8)] {
        tasks.waking(at_ns, waker, pid, crate::tasks::WokenIn::Task);
        tasks.switch(at_ns + 1, lane, switch(0, pid, 0));
        phases.hit(lane, at_ns + 2, 0, &end, &tasks);
    }
    let window = phases.lock_window(7, 30).expect("it waits");
    let turns = crate::own_locks::turns(&tasks, &phases, 7, window);
    let told: Vec<_> = turns.iter().map(|turn| (turn.from_ns, turn.to_ns, turn.holder)).collect();
    assert_eq!(told, [(20, 52, Some(9)), (52, u64::MAX, Some(8))]);
}

#[test]
fn a_busy_loops_marks_are_bounded_in_all_and_what_is_forgotten_is_counted() {
    let (mut tasks, mut phases) = (running(), Phases::default());
    tasks.switch(1, 1, Switch { prev: 0, next: 8, prev_state: 0, syscall: 0x1ff, descriptor: 0 });
    let (mark, rounds) = (told("loop", "handle", PHASE), 4 * MOST_HELD as u64);
    phases.hit(1, 5, 0, &mark, &tasks);
    for at_ns in 10..10 + rounds {
        phases.hit(0, at_ns, 0, &mark, &tasks);
        // No request has asked yet, so all that there is room for is kept.
        assert!(
            phases.held_by_tasks() <= MOST_HELD && (at_ns < MOST_HELD as u64 || phases.held_by_tasks() > MOST_HELD / 3)
        );
    }
    let forgotten = phases.take_ended().forgotten;
    assert_eq!(forgotten + phases.held_by_tasks() as u64, 1 + rounds);
    let last = 9 + rounds;
    assert_eq!(stretches(&phases, &[step(last - 1, last, Part::Run)], 1).len(), 1);
    let other = Step { pid: 8, ..step(5, 6, Part::Run) };
    assert_eq!(stretches(&phases, &[other], 1).len(), 1, "another task's only mark outlives a busy one's flood");
}

#[test]
fn a_query_is_named_from_its_begin_to_its_end() {
    let (tasks, mut phases, mut texts) = (running(), Phases::default(), Texts::default());
    let status = told("db", "statement", QUERY);
    let query = |phases: &mut Phases, texts: &mut Texts, at_ns, text: &str| {
        phases.hit(0, at_ns, 1, &status, &tasks);
        phases.text(0, at_ns, text, texts);
    };
    query(&mut phases, &mut texts, 10, "select ?");
    // Parse, bind and execute each tell the statement: it is one.
    query(&mut phases, &mut texts, 12, "select ?");
    query(&mut phases, &mut texts, 30, "commit");
    phases.hit(0, 40, 0, &status, &tasks);
    let ended = phases.take_ended();
    let runs: Vec<(&str, u64)> = ended.queries.iter().map(|run| (texts.text(run.text), run.ns)).collect();
    assert_eq!(runs, [("select ?", 20), ("commit", 10)]);
    let mut steps = vec![step(5, 20, Part::Run), step(20, 25, Part::WaitCpu), step(25, 50, Part::WaitTimer)];
    phases.name_queries(&mut steps);
    let named: Vec<(u64, u64, Option<&str>)> = steps
        .iter()
        .map(|step| {
            let text = match step.detail {
                Detail::Named(number) | Detail::Lock(number, _) => Some(texts.text(number)),
                _ => None,
            };
            (step.from_ns, step.to_ns, text)
        })
        .collect();
    assert_eq!(
        named,
        [
            (5, 10, None),
            (10, 20, Some("select ?")),
            (20, 25, None),
            (25, 30, Some("select ?")),
            (30, 40, Some("commit")),
            (40, 50, None)
        ],
        "of a wait for a CPU the one that had it matters more"
    );
}

#[test]
fn a_query_that_took_no_time_hides_none() {
    let (tasks, mut phases, mut texts) = (running(), Phases::default(), Texts::default());
    let status = told("db", "statement", QUERY);
    for (at_ns, text) in [(10, "select ?"), (10, "commit"), (20, "")] {
        phases.hit(0, at_ns, u64::from(!text.is_empty()), &status, &tasks);
        if !text.is_empty() {
            phases.text(0, at_ns, text, &mut texts);
        }
    }
    let mut steps = vec![step(5, 30, Part::Run)];
    phases.name_queries(&mut steps);
    let named = |step: &Step| matches!(step.detail, Detail::Named(number) if texts.text(number) == "commit");
    let told: Vec<_> = steps.iter().map(|step| (step.from_ns, step.to_ns, named(step))).collect();
    assert_eq!(told, [(5, 10, false), (10, 20, true), (20, 30, false)]);
}

#[test]
fn what_is_told_is_of_the_task_and_the_time() {
    let (tasks, mut phases, mut texts) = (running(), Phases::default(), Texts::default());
    phases.hit(0, 10, 1, &told("s", "request", REQUEST), &tasks);
    phases.text(0, 11, "GET /late", &mut texts);
    phases.hit(0, 20, 1, &told("s", "request", REQUEST), &tasks);
    phases.text(0, 20, "GET /a", &mut texts);
    assert_eq!(phases.request(7, 0, 30).map(|text| texts.text(text)), Some("GET /a"));
    assert_eq!((phases.request(7, 21, 30), phases.request(8, 0, 30)), (None, None));
    phases.hit(5, 30, 0, &told("s", "no known task runs there", PHASE), &tasks);
    phases.hit(0, 30, 0, &Arc::from("no point at all"), &tasks);
    phases.born(7);
    assert!(phases.is_empty());
}

#[test]
fn what_an_application_tells_is_of_the_task_that_it_names() {
    let (mut phases, mut texts) = (Phases::default(), Texts::default());
    let (outer, inner) = (told("shop", "buy", PHASE | REQUEST), told("shop", "ask the bank", PHASE));
    // Wherever the task runs: none is known to.
    phases.tell(9, 10, 7, 0, &outer);
    phases.text(9, 10, "shop/buy", &mut texts);
    phases.tell(9, 20, 7, 0, &inner);
    phases.tell(9, 30, 7, GOES_ON, &told("shop", "buy", PHASE));
    phases.tell(9, 50, 7, 0, &told("shop", "buy", END));
    let steps = [step(5, 60, Part::Run)];
    let expected = [("buy", 10, 20, true), ("ask the bank", 20, 30, true), ("buy", 30, 50, false)];
    assert_eq!(stretches(&phases, &steps, 5), owned(&expected), "what goes on is no second passage");
    let name = |steps: &[Step], from_ns, to_ns| phases.transaction(steps, from_ns, to_ns).map(|text| texts.text(text));
    assert_eq!((name(&steps, 5, 60), name(&steps, 11, 60), name(&steps, 5, 9)), (Some("shop/buy"), None, None));
    // What others do for it is no name for it, nor is what its task does for others.
    let [behind, asked] = [Step { part: Part::WorkerQueue, ..steps[0] }, Step { waiter: 3, ..steps[0] }];
    assert_eq!((name(&[behind], 5, 60), name(&[asked], 5, 60)), (None, None));
    assert_eq!(phases.request(7, 5, 60), None, "no probe has told");
    phases.tell(9, 70, 0, 0, &outer);
    assert_eq!(phases.tasks.len(), 1, "task 0 is none");
}

#[test]
fn memory_is_bounded_for_any_events() {
    let (mut tasks, mut phases, mut texts) = (Tasks::default(), Phases::default(), Texts::default());
    let point = told("s", "p", PHASE | QUERY | REQUEST);
    let mut before = 0;
    for pid in 1..=(MOST_TASKS as u32 + 100) {
        tasks.switch(u64::from(pid), 0, Switch { prev: before, next: pid, prev_state: 1, syscall: 0, descriptor: 0 });
        phases.hit(0, u64::from(pid), 1, &point, &tasks);
        before = pid;
    }
    assert!(phases.tasks.len() <= MOST_TASKS);
    for at_ns in 0..2 * MOST_HELD as u64 {
        phases.hit(0, 1_000_000 + at_ns, 1, &point, &tasks);
        phases.text(0, 1_000_000 + at_ns, if at_ns % 2 == 0 { "a" } else { "b" }, &mut texts);
    }
    let marks = &phases.tasks[&before];
    assert!(phases.held_by_tasks() <= MOST_HELD && phases.ended.forgotten > MOST_HELD as u64);
    assert!(marks.marks.len().min(marks.queries.len()).min(marks.requests.len()) > MOST_HELD / 10);
    phases.trim(u64::MAX - 1);
    let marks = &phases.tasks[&before];
    assert!(marks.marks.len() <= KEPT && marks.queries.len() == 1, "what is in force stays");
}

proptest! {
    /// Stretches lie within their steps, those of one server do not overlap, and naming queries moves no border.
    #[test]
    fn stretches_are_within_steps_and_disjoint(
        marks in proptest::collection::vec((1u64..60, 0u8..3, 0u8..4, any::<bool>()), 0..40),
        lengths in proptest::collection::vec((1u64..200, any::<bool>()), 1..12),
        arrived_ns in 0u64..500,
    ) {
        let (tasks, mut phases, mut texts) = (running(), Phases::default(), Texts::default());
        let mut at_ns = 2;
        for (later, server, name, over) in marks {
            at_ns += later;
            let roles = if over { END | QUERY_END } else { PHASE | QUERY } | if server == 2 { BY_HAND } else { 0 };
            phases.hit(0, at_ns, 1, &told(&server.to_string(), &name.to_string(), roles), &tasks);
            phases.text(0, at_ns, &name.to_string(), &mut texts);
        }
        let mut begin_ns = arrived_ns;
        let mut steps = Vec::new();
        for (length, queue) in lengths {
            steps.push(step(begin_ns, begin_ns + length, if queue { Part::WorkerQueue } else { Part::Run }));
            begin_ns += length;
        }
        let mut out = Vec::new();
        phases.stretches(&steps, 0, arrived_ns, &mut out);
        for stretch in &out {
            prop_assert!(stretch.from_ns < stretch.to_ns);
            prop_assert!(steps.iter().any(|step| step.part == stretch.part && step.from_ns <= stretch.from_ns && stretch.to_ns <= step.to_ns));
        }
        for server in 0..3 {
            let of_server = out.iter().filter(|one| phases.name(one.phase).server == server.to_string());
            let ends: Vec<(u64, u64)> = of_server.map(|one| (one.from_ns, one.to_ns)).collect();
            prop_assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{ends:?}");
        }
        let before = steps.clone();
        phases.name_queries(&mut steps);
        prop_assert!(steps.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
        prop_assert_eq!((steps[0].from_ns, steps.last().map(|step| step.to_ns)), (before[0].from_ns, before.last().map(|step| step.to_ns)));
        let run = |steps: &[Step]| steps.iter().filter(|step| step.part == Part::Run).map(|step| step.to_ns - step.from_ns).sum::<u64>();
        prop_assert_eq!(run(&steps), run(&before));
    }
}
