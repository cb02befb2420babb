//! The table on a terminal, drawn anew in its place.

use super::keyboard::Keyboard;
use super::order::{Order, Sort, Wish};
use super::rhythm::Rhythm;
use super::screen;
use anyhow::Context;
use std::sync::mpsc::{SyncSender, TryRecvError, sync_channel};
use std::time::Duration;
use weir_record::live::{Live, LiveError, LiveWindow};
use weir_terminal::pane::{Pane, size};
use weir_terminal::stop::Stop;

/// How soon a key is noticed.
const TICK: Duration = Duration::from_millis(50);
/// Windows that wait to be shown; the recording waits for the terminal then.
const WAITING_MAX: usize = 1;

/// Shows windows until the user ends it; the last one, and how it was seen.
pub(super) fn show(
    live: Live,
    interval: Duration,
    sort: Sort,
    stop: &Stop,
) -> anyhow::Result<Option<(LiveWindow, Order)>> {
    let mut keyboard = Keyboard::open().context("cannot read single keys from the terminal; --once needs none")?;
    let (to, windows) = sync_channel(WAITING_MAX);
    let ends = stop.clone();
    let thread = std::thread::Builder::new()
        .name("weir-top".to_owned())
        .spawn(move || record(live, interval, &ends, &to))
        .context("cannot start the thread that records")?;
    let mut pane = Pane::new(std::io::stdout());
    let mut order = Order { sort, ..Order::default() };
    let (mut last, mut fresh): (Option<LiveWindow>, bool) = (None, true);
    loop {
        match windows.try_recv() {
            // What the wish for an end has cut short says less than the window before.
            Ok(window) if stop.asked() && last.as_ref().is_some_and(|last| window.watched < last.watched / 2) => {}
            Ok(window) => (last, fresh) = (Some(window), true),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => break,
        }
        while let Some(key) = keyboard.next() {
            let none = LiveWindow::default();
            match order.press(key, last.as_ref().unwrap_or(&none)) {
                Wish::End => stop.ask(),
                Wish::Show => fresh = true,
            }
        }
        if std::mem::take(&mut fresh) {
            draw(&mut pane, last.as_ref(), &order);
        }
        std::thread::sleep(TICK);
    }
    drop((pane, keyboard));
    match thread.join() {
        Ok(ended) => ended?,
        // Its message is on standard error already.
        Err(panic) => std::panic::resume_unwind(panic),
    }
    Ok(last.map(|window| (window, order)))
}

fn draw(pane: &mut Pane<std::io::Stdout>, window: Option<&LiveWindow>, order: &Order) {
    let (columns, rows) = size(libc::STDOUT_FILENO);
    let width = columns.saturating_sub(1);
    let mut lines = match window {
        Some(window) => screen::lines(window, order, width),
        None => vec!["recording the first interval; q ends it".to_owned()],
    };
    // The last line says what it costs: it stays where there is no room for all.
    let most = rows.saturating_sub(1).max(1);
    if lines.len() > most {
        let cost = lines.pop();
        lines.truncate(most - 1);
        lines.extend(cost);
    }
    pane.draw(&lines, columns);
}

/// Records window after window; the last one is given after the wish for an end.
fn record(mut live: Live, interval: Duration, stop: &Stop, to: &SyncSender<LiveWindow>) -> Result<(), LiveError> {
    let mut rhythm = Rhythm::new(interval);
    while !stop.asked() {
        let window = rhythm.window(&mut live, stop);
        if live.has_failed() {
            break;
        }
        let window = window?;
        if to.send(window).is_err() {
            break;
        }
    }
    live.finish()
}
