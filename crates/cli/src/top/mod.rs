// SPDX-License-Identifier: MIT OR Apache-2.0
//! `qlinux top`

mod screen;
mod table;
mod tree;

use crate::args::Top;
use crate::{Failure, Outcome};
use nix::sys::signal::{self, SigHandler, Signal};
use qlinux::view::{Observer, View};
use ratatui::crossterm::event::{self, Event};
use ratatui::DefaultTerminal;
use screen::{Screen, Then};
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A signal asks it to end.
static STOP: AtomicBool = AtomicBool::new(false);
/// It is looked at so often.
const ATTENTION: Duration = Duration::from_millis(250);

extern "C" fn stop(_: i32) {
    STOP.store(true, Ordering::Relaxed);
}

pub fn top(options: &Top, json: bool) -> Outcome {
    let mut observer = Observer::new()?;
    let first = observer.look(&options.path)?;
    if json {
        return stream(options, &mut observer, |view| {
            serde_json::to_string(view).map(|line| line + "\n")
        });
    }
    let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    if options.batch || dumb || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let mut printed = false;
        return stream(options, &mut observer, |view| {
            let gap = if printed { "\n" } else { "" };
            printed = true;
            Ok(gap.to_owned() + &table::text(view, options.sort))
        });
    }
    interactive(options, &mut observer, first)
}

/// One text after another, until enough were written or the reader has gone.
fn stream(
    options: &Top,
    observer: &mut Observer,
    mut text: impl FnMut(&View) -> serde_json::Result<String>,
) -> Outcome {
    let mut out = io::stdout();
    let mut due = Instant::now();
    for _ in 0..options.iterations.unwrap_or(u64::MAX) {
        due += options.interval;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let text = text(&observer.look(&options.path)?)
            .map_err(|e| Failure::refused(format!("JSON output failed: {e}")))?;
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => break,
            Err(e) => {
                return Err(Failure::refused(format!(
                    "writing to standard output failed: {e}; see where it leads"
                )))
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn interactive(options: &Top, observer: &mut Observer, first: View) -> Outcome {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler only stores to an atomic.
        let _ = unsafe { signal::signal(signal, SigHandler::Handler(stop)) };
    }
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut screen = Screen::new(first, options.sort, options.interval, colour);
    let failed = |e: io::Error| {
        Failure::refused(format!(
            "the terminal failed: {e}; `qlinux top --batch` does without"
        ))
    };
    // A panic restores the terminal, too.
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let result = watch(options, observer, &mut screen, &mut terminal);
    let restored = ratatui::try_restore();
    // A terminal that went away has nobody to tell.
    if !STOP.load(Ordering::Relaxed) {
        result.and(restored).map_err(failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn watch(
    options: &Top,
    observer: &mut Observer,
    screen: &mut Screen,
    terminal: &mut DefaultTerminal,
) -> io::Result<()> {
    let mut left = options.iterations;
    let mut looked = Instant::now();
    loop {
        terminal.draw(|frame| screen.draw(frame))?;
        // Until something is to be drawn.
        loop {
            if STOP.load(Ordering::Relaxed) {
                return Ok(());
            }
            let due = looked + screen.interval;
            let wait = due.saturating_duration_since(Instant::now());
            if event::poll(wait.min(ATTENTION))? {
                match event::read()? {
                    Event::Key(key) if screen.key(key) == Then::Quit => return Ok(()),
                    Event::Key(_) | Event::Resize(..) => break,
                    _ => continue,
                }
            }
            if Instant::now() < due {
                continue;
            }
            looked = Instant::now();
            // One that was ended may be started again.
            screen.refresh(observer.look(&options.path).map_err(|e| e.to_string()));
            left = left.map(|left| left - 1);
            if left == Some(0) {
                terminal.draw(|frame| screen.draw(frame))?;
                return Ok(());
            }
            break;
        }
    }
}
