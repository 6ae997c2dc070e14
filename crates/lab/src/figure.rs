// SPDX-License-Identifier: MIT OR Apache-2.0
//! Figures as SVG: lines or bars, the paper's claim as caption.
//!
//! The ground is white and opaque, so that a figure reads the same on a light
//! and on a dark page. Colours can be told apart by the colour-blind
//! (Okabe and Ito), and by grey and dash in print.

use anyhow::{anyhow, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const SIZE: (u32, u32) = (720, 480);
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(90, 90, 90),
    RGBColor(230, 159, 0),
];
const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(225, 225, 225);
const FONT: &str = "sans-serif";
/// Letters of a caption line at its size.
const CAPTION_WIDTH: usize = 115;
/// Width of a letter of the legend, at most.
const LETTER: i32 = 7;

/// One line of a figure, or one colour of bars.
#[derive(Clone, Debug)]
pub struct Series {
    /// In the legend.
    pub name: String,
    /// Index of the colour: the same thing has the same colour on both sides.
    pub colour: usize,
    /// Dashed: the stock kernel.
    pub dashed: bool,
    /// Points of a line. Bars use y only, one per group.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A series.
    pub fn new(name: &str, colour: usize, dashed: bool, points: Vec<(f64, f64)>) -> Series {
        Series {
            name: name.to_owned(),
            colour,
            dashed,
            points,
        }
    }

    fn colour(&self) -> RGBColor {
        COLOURS[self.colour % COLOURS.len()]
    }

    fn stroke(&self) -> ShapeStyle {
        self.colour().stroke_width(2)
    }

    fn fill(&self) -> ShapeStyle {
        self.colour()
            .mix(if self.dashed { 0.35 } else { 1.0 })
            .filled()
    }
}

/// What the x axis counts.
#[derive(Clone, Debug)]
pub enum Shape {
    /// A line through the points of each series, marked or not.
    Lines {
        /// Draw a dot at each point.
        marks: bool,
    },
    /// Side-by-side bars, one group per name.
    Bars(Vec<String>),
}

/// A figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Above.
    pub title: String,
    /// Below: the claim it stands beside.
    pub caption: String,
    /// Label of the x axis with its unit.
    pub x: String,
    /// Label of the y axis with its unit.
    pub y: String,
    /// Lines or bars.
    pub shape: Shape,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// Breaks text into lines of at most `width` letters.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > width {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// The end of an axis that begins at zero: 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6 or 8 times a power of ten.
fn axis_end(max: f64) -> f64 {
    if max.is_nan() || max <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(max.log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let enough = steps.iter().find(|&&step| step * power >= max * 1.02);
    enough.unwrap_or(&12.0) * power
}

fn label(value: f64) -> String {
    match value {
        v if v.abs() >= 1e6 => format!("{} M", crate::manifest::show(v / 1e6, "")),
        v if v.abs() >= 1e4 => format!("{} k", crate::manifest::show(v / 1e3, "")),
        v => crate::manifest::show(v, ""),
    }
}

impl Figure {
    fn ends(&self) -> (f64, f64) {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let max = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let x = match &self.shape {
            Shape::Lines { .. } => max(&mut points().map(|p| p.0)),
            Shape::Bars(groups) => groups.len() as f64,
        };
        (x.max(1e-9), axis_end(max(&mut points().map(|p| p.1))))
    }

    /// The picture.
    pub fn svg(&self) -> Result<String> {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            self.draw(&area)
                .map_err(|error| anyhow!("the figure cannot be drawn: {error}"))?;
        }
        Ok(text)
    }

    fn draw(&self, area: &Area) -> Drawn {
        area.fill(&WHITE)?;
        let lines = wrap(&self.caption, CAPTION_WIDTH);
        let below = 12 + 16 * lines.len() as i32;
        let centre = Pos::new(HPos::Center, VPos::Top);
        let title = (FONT, 18).into_font().color(&INK).pos(centre);
        area.draw_text(&self.title, &title, (SIZE.0 as i32 / 2, 10))?;
        let caption = (FONT, 13).into_font().color(&INK);
        for (index, line) in lines.iter().enumerate() {
            let y = SIZE.1 as i32 - below + 6 + 16 * index as i32;
            area.draw_text(line, &caption, (14, y))?;
        }
        let top = self.draw_legend(area)?;
        let plot = area.margin(top, below, 8, 20);
        let (x_end, y_end) = self.ends();
        let mut chart = ChartBuilder::on(&plot)
            .x_label_area_size(42)
            .y_label_area_size(66)
            .build_cartesian_2d(0.0..x_end, 0.0..y_end)?;
        let name = |x: &f64| self.group_name(*x);
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style((FONT, 13).into_font().color(&INK))
            .axis_desc_style((FONT, 14).into_font().color(&INK))
            .x_desc(&self.x)
            .y_desc(&self.y)
            .y_label_formatter(&|y| label(*y))
            .x_label_formatter(&name);
        if let Shape::Bars(groups) = &self.shape {
            // Labels stand in the middle of each group, and the grid is horizontal.
            mesh.disable_x_mesh().x_labels(2 * groups.len() + 1);
        }
        mesh.draw()?;
        for (index, series) in self.series.iter().enumerate() {
            self.draw_series(&mut chart, index, series)?;
        }
        area.present()
    }

    fn group_name(&self, x: f64) -> String {
        match &self.shape {
            Shape::Lines { .. } => label(x),
            Shape::Bars(groups) if (x.fract() - 0.5).abs() < 0.01 => {
                groups.get(x as usize).cloned().unwrap_or_default()
            }
            Shape::Bars(_) => String::new(),
        }
    }

    fn draw_series<'a, 'b: 'a>(
        &self,
        chart: &mut Chart<'a, 'b>,
        index: usize,
        series: &Series,
    ) -> Drawn {
        match &self.shape {
            Shape::Bars(groups) => {
                let bars = self.bars(index, series, groups.len());
                let fill = series.fill();
                chart.draw_series(bars.map(|corners| Rectangle::new(corners, fill)))?;
            }
            Shape::Lines { marks } => {
                let stroke = series.stroke();
                let points = series.points.iter().copied();
                if series.dashed {
                    chart.draw_series(DashedLineSeries::new(points.clone(), 6, 4, stroke))?;
                } else {
                    chart.draw_series(LineSeries::new(points.clone(), stroke))?;
                }
                if *marks {
                    let dot = |point| Circle::new(point, 3, series.colour().filled());
                    chart.draw_series(points.map(dot))?;
                }
            }
        }
        Ok(())
    }

    /// A row of samples and names below the title, or more than one; returns where it ends.
    fn draw_legend(&self, area: &Area) -> Result<i32, Failure> {
        let (mut x, mut y) = (80, 42);
        let text = (FONT, 13).into_font().color(&INK);
        for series in &self.series {
            let width = 50 + LETTER * series.name.chars().count() as i32;
            if x + width > SIZE.0 as i32 && x > 80 {
                (x, y) = (80, y + 18);
            }
            if let Shape::Bars(_) = self.shape {
                area.draw(&Rectangle::new(
                    [(x, y - 6), (x + 22, y + 5)],
                    series.fill(),
                ))?;
            } else {
                let gap = if series.dashed { 5 } else { 0 };
                for (from, to) in [(0, 11 - gap), (11, 22 - gap)] {
                    let line = vec![(x + from, y), (x + to, y)];
                    area.draw(&PathElement::new(line, series.stroke()))?;
                }
            }
            area.draw_text(&series.name, &text, (x + 30, y - 8))?;
            x += width;
        }
        Ok(y + 14)
    }

    /// Corners of the bars of one series: each group fills four fifths of its unit.
    fn bars<'a>(
        &self,
        index: usize,
        series: &'a Series,
        groups: usize,
    ) -> impl Iterator<Item = [(f64, f64); 2]> + 'a {
        let width = 0.8 / self.series.len() as f64;
        let heights = series.points.iter().take(groups).enumerate();
        heights.map(move |(group, point)| {
            let left = group as f64 + 0.1 + width * index as f64;
            [(left, 0.0), (left + width * 0.92, point.1)]
        })
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Failure = DrawingAreaErrorKind<std::io::Error>;
type Drawn = Result<(), Failure>;
type Plane =
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Plane>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapping() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("", 7), [""]);
    }

    /// Well-formed: every tag is closed, in order, and no text contains markup.
    fn assert_xml(text: &str) {
        let mut open = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find('<') {
            let end = start + rest[start..].find('>').expect("a tag ends");
            let tag = &rest[start + 1..end];
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name.trim()), "{text}");
            } else if !tag.ends_with('/') && !tag.starts_with(['?', '!']) {
                open.push(tag.split_whitespace().next().unwrap());
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "{open:?}");
    }

    fn figure(shape: Shape) -> Figure {
        let points = vec![(0.0, 1.0), (1.0, 3.0), (2.0, 2.0)];
        Figure {
            title: "A & B <C>".into(),
            caption: "Both progress at their own rate.".into(),
            x: "time (s)".into(),
            y: "loops".into(),
            shape,
            series: vec![
                Series::new("QLinux", 0, false, points.clone()),
                Series::new("stock Linux", 1, true, points),
            ],
        }
    }

    #[test]
    fn figures_are_xml_with_all_that_was_asked_for() {
        let groups = ["1:1", "1:2", "1:4"].map(str::to_owned).to_vec();
        for shape in [Shape::Lines { marks: true }, Shape::Bars(groups)] {
            let svg = figure(shape).svg().unwrap();
            assert!(svg.starts_with("<svg"), "{svg}");
            assert_xml(&svg);
            for text in [
                "A &amp; B &lt;C&gt;",
                "Both progress",
                "time (s)",
                "stock Linux",
            ] {
                assert!(svg.contains(text), "{text}: {svg}");
            }
        }
        let bars = figure(Shape::Bars(vec!["1:1".into()])).svg().unwrap();
        assert!(bars.contains("1:1"), "{bars}");
    }

    #[test]
    fn nothing_to_draw() {
        let mut empty = figure(Shape::Lines { marks: false });
        empty.series.clear();
        assert_xml(&empty.svg().unwrap());
    }

    #[test]
    fn axes_end_on_round_numbers() {
        assert_eq!(axis_end(25.0), 30.0);
        assert_eq!(axis_end(0.0), 1.0);
        assert_eq!(axis_end(9.9), 12.0);
    }
}
