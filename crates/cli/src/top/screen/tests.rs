// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the screen shows of a view recorded on two processors, and what keys do.

use super::*;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyEvent;
use ratatui::Terminal;

fn recorded() -> View {
    serde_json::from_str(include_str!("../recorded.json")).unwrap()
}

fn screen() -> Screen {
    Screen::new(recorded(), Sort::Name, Duration::from_secs(2), true)
}

fn drawn(screen: &mut Screen, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    terminal
}

/// The lines as text.
fn text(screen: &mut Screen, width: u16, height: u16) -> String {
    drawn(screen, width, height).backend().to_string()
}

fn press(screen: &mut Screen, keys: &[KeyCode]) {
    for &key in keys {
        assert!(screen.key(KeyEvent::new(key, KeyModifiers::NONE)) == Then::GoOn);
    }
}

fn typed(screen: &mut Screen, keys: &str) {
    let keys: Vec<KeyCode> = keys.chars().map(KeyCode::Char).collect();
    press(screen, &keys);
}

#[test]
fn eighty_columns() {
    insta::assert_snapshot!(text(&mut screen(), 80, 16));
}

#[test]
fn wide() {
    let mut view = recorded();
    view.classes[0].misses = Some(12);
    view.classes[5].misses = Some(12);
    let mut screen = screen();
    screen.refresh(Ok(view));
    insta::assert_snapshot!(text(&mut screen, 120, 14));
}

#[test]
fn folded_sorted_and_in_processors() {
    let mut screen = screen();
    press(&mut screen, &[KeyCode::Down; 3]);
    typed(&mut screen, " ssu");
    insta::assert_snapshot!(text(&mut screen, 80, 16));
}

#[test]
fn ended_by_the_kernel() {
    let mut screen = screen();
    screen.refresh(Err(
        "H-SFQ was ended by the kernel (runnable task stall); start it again with `qlinux up cpu`"
            .into(),
    ));
    insta::assert_snapshot!(text(&mut screen, 80, 16));
    screen.refresh(Ok(recorded()));
    assert!(!text(&mut screen, 80, 16).contains("ended"));
}

#[test]
fn a_filter_keeps_what_begins_so_and_what_is_above() {
    let mut screen = screen();
    typed(&mut screen, "//best-effort/user2");
    let while_typed = text(&mut screen, 80, 16);
    assert!(
        while_typed.contains("begins with: /best-effort/user2_"),
        "{while_typed}"
    );
    press(&mut screen, &[KeyCode::Enter]);
    let shown: Vec<&str> = screen
        .shown()
        .iter()
        .map(|shown| shown.row.path.as_str())
        .collect();
    assert!(shown.contains(&"/best-effort/user2") && shown.contains(&"/best-effort"));
    assert!(!shown.contains(&"/film") && !shown.contains(&"/best-effort/user1"));
    typed(&mut screen, "/");
    press(&mut screen, &[KeyCode::Esc]);
    assert_eq!(screen.shown().len(), recorded().classes.len());
}

#[test]
fn idle_classes_are_hidden_and_the_selection_stays_with_its_class() {
    let mut screen = screen();
    press(&mut screen, &[KeyCode::End]);
    drawn(&mut screen, 80, 16);
    assert_eq!(screen.selected_row().unwrap().path, "/idle");
    press(&mut screen, &[KeyCode::Up]);
    let selected = screen.selected_row().unwrap().path.clone();
    typed(&mut screen, "is");
    assert_eq!(screen.selected_row().unwrap().path, selected);
    assert!(screen.shown().iter().all(|shown| shown.row.path != "/idle"));
    screen.refresh(Ok(recorded()));
    assert_eq!(screen.selected_row().unwrap().path, selected);
}

/// Fewer lines than classes: the selected one is always among them.
#[test]
fn a_small_screen_scrolls() {
    let mut screen = screen();
    for _ in 0..recorded().classes.len() {
        let name = table::name(&screen.shown()[screen.selected]);
        let text = text(&mut screen, 80, 8);
        assert!(text.contains(name.trim()), "{name}: {text}");
        press(&mut screen, &[KeyCode::Down]);
    }
    for (width, height) in [(1, 1), (10, 3), (20, 50), (300, 2)] {
        drawn(&mut screen, width, height);
    }
}

#[test]
fn without_colour_there_is_none() {
    let coloured = |colour: bool| {
        let mut view = recorded();
        for row in &mut view.classes {
            row.received_cpus = Some(0.0);
        }
        let mut screen = Screen::new(view, Sort::Name, Duration::from_secs(2), colour);
        screen.trouble = Some("trouble".into());
        let terminal = drawn(&mut screen, 80, 16);
        let cells = terminal.backend().buffer().content();
        cells
            .iter()
            .any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(coloured(true) && !coloured(false));
}

#[test]
fn keys_end_it_and_change_the_interval() {
    let mut screen = screen();
    typed(&mut screen, "+");
    assert_eq!(screen.interval, Duration::from_secs(4));
    typed(&mut screen, "------------");
    assert_eq!(screen.interval, Duration::from_millis(250));
    for (code, modifiers) in [
        (KeyCode::Char('q'), KeyModifiers::NONE),
        (KeyCode::Char('c'), KeyModifiers::CONTROL),
    ] {
        assert!(screen.key(KeyEvent::new(code, modifiers)) == Then::Quit);
    }
    // A q of a path does not end it.
    typed(&mut screen, "/q");
}

/// Nothing changed: nothing is sent.
#[test]
fn a_refresh_sends_what_differs() {
    let mut screen = screen();
    let mut terminal = drawn(&mut screen, 80, 16);
    let before = terminal.backend().buffer().clone();
    let mut view = recorded();
    view.classes[3].threads += 1;
    screen.refresh(Ok(view));
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let changed = before.diff(terminal.backend().buffer()).len();
    assert!((1..=7).contains(&changed), "{changed} cells");
}
