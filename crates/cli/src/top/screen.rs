// SPDX-License-Identifier: MIT OR Apache-2.0
//! The screen of `qlinux top`: what keys do, and what is drawn. Plain characters
//! only, and only what changes is sent: it is usable over a serial line.

use super::table::{self, Unit, COLUMNS};
use super::tree::{self, Hiding, Shown};
use crate::args::Sort;
use qlinux::view::{Part, Row, View};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};
use ratatui::Frame;
use std::time::Duration;

/// Narrower, the name of a class is cut.
const NAME_LEAST: usize = 12;
/// Room for a bar only beyond this.
const BAR_FROM: usize = 92;
const BAR_MOST: usize = 32;
const FOOTER: &str = "q quit  arrows move, fold  s sort  / filter  u unit  i idle  + - interval";

/// What a key asks for besides a new drawing.
#[derive(PartialEq, Eq)]
pub enum Then {
    GoOn,
    Quit,
}

/// Everything the screen is drawn from.
pub struct Screen {
    view: View,
    /// Why there is no newer view.
    trouble: Option<String>,
    sort: Sort,
    unit: Unit,
    hiding: Hiding,
    /// The filter while it is typed.
    typing: Option<String>,
    selected: usize,
    /// First row on the screen, and rows that it holds.
    top: usize,
    page: usize,
    /// Between two refreshes.
    pub interval: Duration,
    colour: bool,
}

impl Screen {
    pub fn new(view: View, sort: Sort, interval: Duration, colour: bool) -> Screen {
        Screen {
            view,
            trouble: None,
            sort,
            unit: Unit::Percent,
            hiding: Hiding::default(),
            typing: None,
            selected: 0,
            top: 0,
            page: 1,
            interval,
            colour,
        }
    }

    /// A new view, or the sentence that tells why there is none. The selection
    /// stays with its class.
    pub fn refresh(&mut self, view: Result<View, String>) {
        match view {
            Ok(view) => {
                let key = self.selected_row().map(|row| (row.path.clone(), row.part));
                self.view = view;
                self.trouble = None;
                self.select(key);
            }
            Err(sentence) => self.trouble = Some(sentence),
        }
    }

    fn shown(&self) -> Vec<Shown<'_>> {
        tree::shown(&self.view, self.sort, &self.hiding)
    }

    fn selected_row(&self) -> Option<&Row> {
        self.shown().get(self.selected).map(|shown| shown.row)
    }

    fn select(&mut self, key: Option<(String, Part)>) {
        let Some((path, part)) = key else { return };
        let found = self
            .shown()
            .iter()
            .position(|shown| shown.row.path == path && shown.row.part == part);
        self.selected = found.unwrap_or(self.selected);
    }

    pub fn key(&mut self, key: KeyEvent) -> Then {
        if key.kind == KeyEventKind::Release {
            return Then::GoOn;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Then::Quit;
        }
        if let Some(typed) = self.typing.take() {
            self.filter_key(typed, key.code);
            return Then::GoOn;
        }
        let selected = self.selected_row().map(|row| (row.path.clone(), row.part));
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Then::Quit,
            KeyCode::Down | KeyCode::Char('j') => self.selected += 1,
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::PageDown => self.selected += self.page,
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(self.page),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = usize::MAX,
            KeyCode::Char(' ') | KeyCode::Enter => self.fold(None),
            KeyCode::Left => self.fold(Some(true)),
            KeyCode::Right => self.fold(Some(false)),
            KeyCode::Char('/') => self.typing = Some(self.hiding.prefix.clone()),
            KeyCode::Char('s') => {
                self.sort = next(self.sort);
                self.select(selected);
            }
            KeyCode::Char('i') => {
                self.hiding.idle = !self.hiding.idle;
                self.select(selected);
            }
            KeyCode::Char('u') => {
                self.unit = match self.unit {
                    Unit::Percent => Unit::Cpus,
                    Unit::Cpus => Unit::Percent,
                }
            }
            KeyCode::Char('+') => self.interval = (self.interval * 2).min(Duration::from_secs(64)),
            KeyCode::Char('-') => {
                self.interval = (self.interval / 2).max(Duration::from_millis(250))
            }
            _ => {}
        }
        Then::GoOn
    }

    fn filter_key(&mut self, mut typed: String, code: KeyCode) {
        match code {
            KeyCode::Enter => return,
            KeyCode::Esc => typed.clear(),
            KeyCode::Backspace => {
                typed.pop();
            }
            KeyCode::Char(c) => typed.push(c),
            _ => {}
        }
        self.hiding.prefix = typed.clone();
        self.selected = 0;
        if code != KeyCode::Esc {
            self.typing = Some(typed);
        }
    }

    /// Folds the selected class, unfolds it, or turns it round.
    fn fold(&mut self, fold: Option<bool>) {
        let shown = self.shown();
        let Some(selected) = shown.get(self.selected.min(shown.len().saturating_sub(1))) else {
            return;
        };
        let Some(folded) = selected.folded else {
            return;
        };
        let path = selected.row.path.clone();
        if fold.unwrap_or(!folded) {
            self.hiding.folded.insert(path);
        } else {
            self.hiding.folded.remove(&path);
        }
    }

    pub fn draw(&mut self, frame: &mut Frame) {
        let trouble = self.trouble.clone().unwrap_or_default();
        let width = usize::from(frame.area().width.max(1));
        let trouble_lines = trouble.chars().count().div_ceil(width).min(4) as u16;
        let [head, table, trouble_at, foot] = Layout::vertical([
            Constraint::Length(2),
            Constraint::Min(1),
            Constraint::Length(trouble_lines + u16::from(trouble_lines > 0)),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        self.draw_head(frame, head);
        self.draw_table(frame, table);
        let paragraph = Paragraph::new(trouble)
            .wrap(Wrap { trim: true })
            .style(self.style(Color::Red).add_modifier(Modifier::BOLD));
        frame.render_widget(paragraph, trouble_at);
        let footer = match &self.typing {
            Some(typed) => format!("path begins with: {typed}_   enter keeps, escape clears"),
            None => FOOTER.to_owned(),
        };
        let dim = Style::new().add_modifier(Modifier::DIM);
        frame.render_widget(Line::styled(footer, dim), foot);
    }

    fn style(&self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    fn draw_head(&self, frame: &mut Frame, area: Rect) {
        let (machine, rates) = table::summary(&self.view);
        let mut first = format!(
            "qlinux top  {machine}, every {} s",
            self.interval.as_secs_f64()
        );
        if self.trouble.is_some() {
            first += "  STOPPED";
        }
        if self.hiding.idle {
            first += "  idle hidden";
        }
        if !self.hiding.prefix.is_empty() && self.typing.is_none() {
            first = format!("{first}  only {}", self.hiding.prefix);
        }
        frame.render_widget(
            Paragraph::new(vec![Line::raw(first), Line::raw(rates)]),
            area,
        );
    }

    fn draw_table(&mut self, frame: &mut Frame, area: Rect) {
        let fixed: usize = COLUMNS.iter().map(|(_, width)| width + 1).sum();
        let width = usize::from(area.width);
        let bar = if width >= BAR_FROM {
            (width - BAR_FROM + 10).min(BAR_MOST)
        } else {
            0
        };
        let taken = fixed + if bar > 0 { bar + 1 } else { 0 };
        let name = width.saturating_sub(taken).max(NAME_LEAST);

        self.page = usize::from(area.height.saturating_sub(1)).max(1);
        let count = self.shown().len();
        self.selected = self.selected.min(count.saturating_sub(1));
        self.top = self
            .top
            .min(self.selected)
            .max((self.selected + 1).saturating_sub(self.page))
            .min(count.saturating_sub(self.page));

        let mut lines = vec![self.heading(name, bar)];
        let shown = self.shown();
        for (at, shown) in shown.iter().enumerate().skip(self.top).take(self.page) {
            let line = self.line(shown, name, bar);
            lines.push(if at == self.selected {
                line.style(Style::new().add_modifier(Modifier::REVERSED))
            } else {
                line
            });
        }
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn heading(&self, name: usize, bar: usize) -> Line<'static> {
        let mut text = format!("{:<name$}", "CLASS");
        for (at, (heading, width)) in COLUMNS.iter().enumerate() {
            // A mark in front of the column that the order goes by.
            let sorted = table::column_of(self.sort) == Some(at);
            text += if sorted { ">" } else { " " };
            text += &aligned(at, heading, *width);
        }
        if bar > 0 {
            text += " received, | entitled";
        }
        Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
    }

    fn line(&self, shown: &Shown, name: usize, bar: usize) -> Line<'static> {
        let row = shown.row;
        let cut: String = table::name(shown).chars().take(name).collect();
        let mut spans = vec![Span::raw(format!("{cut:<name$}"))];
        for (at, cell) in table::cells(row, self.unit).iter().enumerate() {
            let text = format!(" {}", aligned(at, cell, COLUMNS[at].1));
            let short = row.runnable > 0 && row.received_cpus < Some(0.9 * row.entitled_cpus);
            let style = match at {
                8 if row.misses > Some(0) => self.style(Color::Red),
                4 if short && row.received_cpus.is_some() => self.style(Color::Yellow),
                _ => Style::new(),
            };
            spans.push(Span::styled(text, style));
        }
        if bar > 0 {
            spans.push(Span::raw(format!(" {}", drawn_bar(row, bar))));
        }
        Line::from(spans)
    }
}

/// Names of leaf schedulers to the left, figures to the right.
fn aligned(at: usize, cell: &str, width: usize) -> String {
    if at == 1 {
        format!("{cell:<width$}")
    } else {
        format!("{cell:>width$}")
    }
}

fn drawn_bar(row: &Row, width: usize) -> String {
    let place = |percent: f64| (percent / 100.0 * width as f64).round() as usize;
    let filled = place(row.received_percent.unwrap_or(0.0));
    let mark = place(row.entitled_percent).clamp(1, width) - 1;
    (0..width)
        .map(|at| match at {
            at if at == mark && row.runnable > 0 => '|',
            at if at < filled => '#',
            _ => ' ',
        })
        .collect()
}

fn next(sort: Sort) -> Sort {
    match sort {
        Sort::Name => Sort::Entitled,
        Sort::Entitled => Sort::Received,
        Sort::Received => Sort::Runnable,
        Sort::Runnable => Sort::Latency,
        Sort::Latency => Sort::Name,
    }
}

#[cfg(test)]
mod tests;
