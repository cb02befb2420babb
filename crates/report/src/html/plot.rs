//! Lines over a linear or logarithmic axis, in markup that stretches with the page.

use super::escape::{escaped, extent};

/// An axis with its named places.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    from: f64,
    to: f64,
    logarithmic: bool,
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 to a little above a value, with round ticks.
    pub(super) fn linear(most: f64, named: impl Fn(f64) -> String) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let decade = 10f64.powf(most.log10().floor());
        let steps = [0.2, 0.5, 1.0, 2.0].map(|factor| factor * decade);
        let step = steps.into_iter().find(|step| most / step <= 5.0).unwrap_or(2.0 * decade);
        let ticks = (0..=(most / step).floor() as u32).map(|index| f64::from(index) * step);
        Self { from: 0.0, to: most * 1.03, logarithmic: false, ticks: ticks.map(|at| (at, named(at))).collect() }
    }

    /// Whole decades around two values above 0; values below are at its lower end.
    pub(super) fn decades(least: f64, most: f64, named: impl Fn(f64) -> String) -> Self {
        let from = least.max(f64::MIN_POSITIVE).log10().floor() as i32;
        let to = (most.max(least).max(f64::MIN_POSITIVE).log10().ceil() as i32).max(from + 1);
        let each = 1 + ((to - from) / 7) as usize;
        let ticks = (from..=to).step_by(each).map(|power| 10f64.powi(power)).map(|at| (at, named(at))).collect();
        Self { from: f64::from(from), to: f64::from(to), logarithmic: true, ticks }
    }

    /// One over the share that is beyond, from all of it on: each further nine of 90 %, 99 %, 99.9 % has the same room.
    pub(super) fn nines(most: f64) -> Self {
        let to = most.max(10.0).log10();
        // 10 is 90 %, 100 is 99 %, and so on.
        let name = |power: usize| match power {
            0 => "0 %".to_owned(),
            power => format!("{:.*} %", power.saturating_sub(2), 100.0 - 100.0 * 0.1_f64.powi(power as i32)),
        };
        let ticks = (0..=to.min(12.0) as usize).map(|power| (10f64.powi(power as i32), name(power))).collect();
        Self { from: 0.0, to: to * 1.03, logarithmic: true, ticks }
    }

    /// A logarithmic axis where values differ by far, a linear one from 0 where they do not.
    pub(super) fn fitting(values: impl Iterator<Item = f64> + Clone, named: impl Fn(f64) -> String) -> Self {
        let values = values.filter(|value| *value > 0.0);
        let most = values.clone().fold(0.0, f64::max);
        let least = values.fold(f64::INFINITY, f64::min);
        if most > 20.0 * least { Self::decades(least, most, named) } else { Self::linear(most, named) }
    }

    /// A logarithmic axis around 1 for ratios, with round percentages, or factors where these are far apart; values
    /// beyond it are at its ends.
    pub(super) fn ratios(least: f64, most: f64) -> Self {
        let sound = |value: f64, without: f64| if value.is_finite() && value > 0.0 { value } else { without };
        let (least, most) = (sound(least, 1.0).clamp(1e-6, 0.999), sound(most, 1.0).clamp(1.001, 1e6));
        let (from, to) = (least.log10(), most.log10());
        let room = 0.04 * (to - from);
        let (from, to) = (from - room, to + room);
        let within = |at: &f64| (from..=to).contains(&at.log10());
        let ticks: Vec<(f64, String)> = if most / least > 4.0 {
            let factors: Vec<f64> = (-6..=6)
                .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)))
                .filter(within)
                .collect();
            let each = factors.len().div_ceil(8);
            let name = |at: f64| match at {
                1.0 => "equal".to_owned(),
                at if at < 1.0 => format!("1/{:.0}", 1.0 / at),
                at => format!("{at:.0} times"),
            };
            // Counted from the one that is 1, so that it is among them.
            let same = factors.iter().position(|at| *at == 1.0).unwrap_or(0);
            let kept = factors.into_iter().enumerate().filter(|(index, _)| index % each == same % each);
            kept.map(|(_, at)| (at, name(at))).collect()
        } else {
            let steps = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
            let wide = (most - least) * 100.0;
            let step = steps.into_iter().find(|step| wide / step <= 6.0).unwrap_or(100.0);
            let decimals = if step < 0.1 { 2 } else { usize::from(step < 1.0) };
            let name = |at: f64| match (at - 1.0) * 100.0 {
                change if change.abs() < step / 2.0 => "0 %".to_owned(),
                change => format!("{change:+.decimals$} %"),
            };
            let ticks = (-40..=40).map(|index| 1.0 + f64::from(index) * step / 100.0);
            ticks.filter(|at| *at > 0.0).filter(within).map(|at| (at, name(at))).collect()
        };
        Self { from, to, logarithmic: true, ticks }
    }

    /// Whole numbers from 1 on: blocks, results.
    pub(super) fn numbers(most: usize) -> Self {
        let step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].into_iter().find(|step| most / step <= 8);
        let step = step.unwrap_or(most / 8);
        let ticks = (1..=most / step).map(|index| index * step).map(|at| (at as f64, at.to_string()));
        Self { from: 0.5, to: most.max(1) as f64 + 0.5, logarithmic: false, ticks: ticks.collect() }
    }

    /// Values with their names.
    pub(super) fn ticks(&self) -> &[(f64, String)] {
        &self.ticks
    }

    /// A value's place, 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let place = (value - self.from) / (self.to - self.from);
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// A line of a plot; it is interrupted where a value is `None`.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// Not escaped.
    pub(super) name: String,
    /// Its look: a class of the style sheet such as `l0` to `l5`.
    pub(super) look: &'static str,
    pub(super) points: Vec<(f64, Option<f64>)>,
    /// Whether each point is marked, as where there are few.
    pub(super) dots: bool,
}

/// A stretch of y that stands out.
#[derive(Debug, Clone)]
pub(super) struct Level {
    /// Not escaped.
    pub(super) name: String,
    /// A class of the style sheet.
    pub(super) look: &'static str,
    pub(super) from: f64,
    pub(super) to: f64,
}

/// A plot of lines, with `hints` (a place of x, and what is there in words) for pointers and keys.
#[derive(Debug)]
pub(super) struct Plot<'a> {
    pub(super) id: &'a str,
    pub(super) label: &'a str,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) x_name: &'a str,
    pub(super) lines: Vec<Line>,
    /// A stretch of x that stands out, and a height.
    pub(super) band: Option<(f64, f64)>,
    /// Stretches of y, each with a look and a name, not escaped.
    pub(super) levels: Vec<Level>,
    pub(super) limit: Option<f64>,
    pub(super) hints: Vec<(f64, String)>,
}

impl Plot<'_> {
    pub(super) fn markup(&self) -> String {
        let grid_x = self.x.ticks.iter().map(|(at, _)| {
            let x = 1000.0 * self.x.place(*at);
            format!("<path class=\"grid\" d=\"M{x:.1} 0V1000\"/>")
        });
        let grid_y = self.y.ticks.iter().map(|(at, _)| {
            let y = 1000.0 - 1000.0 * self.y.place(*at);
            format!("<path class=\"grid\" d=\"M0 {y:.1}H1000\"/>")
        });
        let grid: String = grid_x.chain(grid_y).collect();
        let names_x = self.x.ticks.iter().map(|(at, name)| {
            format!("<i class=\"x\" style=\"left:{}\">{}</i>", extent(self.x.place(*at)), escaped(name))
        });
        let names_y = self.y.ticks.iter().map(|(at, name)| {
            format!("<i class=\"y\" style=\"bottom:{}\">{}</i>", extent(self.y.place(*at)), escaped(name))
        });
        let names: String = names_x.chain(names_y).collect();
        let band = self.band.map_or(String::new(), |(from, to)| {
            let (from, to) = (1000.0 * self.x.place(from), 1000.0 * self.x.place(to));
            format!("<rect class=\"band\" x=\"{from:.1}\" width=\"{:.1}\" height=\"1000\"/>", (to - from).max(2.0))
        });
        let levels: String = self.levels.iter().map(|level| self.level(level)).collect();
        let limit = self.limit.map_or(String::new(), |at| {
            format!("<path class=\"limit\" d=\"M0 {:.1}H1000\"/>", 1000.0 - 1000.0 * self.y.place(at))
        });
        let lines: String = self.lines.iter().map(|line| self.line(line)).collect();
        let dots: String = self.lines.iter().filter(|line| line.dots).map(|line| self.dots(line)).collect();
        let legend: String = self
            .lines
            .iter()
            .map(|line| {
                format!(
                    "<li><svg aria-hidden=\"true\" width=\"28\" height=\"12\"><path class=\"line {}\" d=\"M0 6H28\"/></svg>{}</li>",
                    line.look,
                    escaped(&line.name)
                )
            })
            .chain(self.levels.iter().map(|level| {
                format!(
                    "<li><svg aria-hidden=\"true\" width=\"28\" height=\"12\"><rect class=\"level {}\" width=\"28\" height=\"12\"/></svg>{}</li>",
                    level.look,
                    escaped(&level.name)
                )
            }))
            .collect();
        let legend = if self.lines.len() + self.levels.len() > 1 {
            format!("<ul class=\"keys\">{legend}</ul>")
        } else {
            String::new()
        };
        let hints: Vec<String> =
            self.hints.iter().map(|(at, text)| format!("{:.5}\t{}", self.x.place(*at), escaped(text))).collect();
        format!(
            "{legend}<div class=\"lines\" id=\"{}\" tabindex=\"0\" role=\"group\" aria-label=\"{}; the arrow keys tell its values\" data-hints=\"{}\">\
             <svg aria-hidden=\"true\" viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\">{band}{levels}{grid}{limit}{lines}</svg>{dots}{names}</div>\
             <p class=\"x-name\">{}</p><output class=\"told\" aria-live=\"polite\"></output>\n",
            self.id,
            escaped(self.label),
            hints.join("\n"),
            escaped(self.x_name),
        )
    }

    fn line(&self, line: &Line) -> String {
        let (mut path, mut drawing) = (String::new(), false);
        for (index, (x, y)) in line.points.iter().enumerate() {
            let Some(y) = y else {
                drawing = false;
                continue;
            };
            let alone = !drawing && line.points.get(index + 1).is_none_or(|(_, next)| next.is_none());
            let (x, y) = (1000.0 * self.x.place(*x), 1000.0 - 1000.0 * self.y.place(*y));
            path.push_str(&format!("{}{x:.1} {y:.1}", if drawing { 'L' } else { 'M' }));
            if alone {
                // A stretch of no length is drawn as a point.
                path.push_str("h.1");
            }
            drawing = true;
        }
        format!("<path class=\"line {}\" d=\"{path}\"/>", line.look)
    }

    fn level(&self, level: &Level) -> String {
        let (top, bottom) = (1000.0 - 1000.0 * self.y.place(level.to), 1000.0 - 1000.0 * self.y.place(level.from));
        let (top, height) = (top.min(bottom), (bottom - top).abs().max(6.0));
        format!("<rect class=\"level {}\" y=\"{top:.1}\" width=\"1000\" height=\"{height:.1}\"/>", level.look)
    }

    fn dots(&self, line: &Line) -> String {
        let places = line.points.iter().filter_map(|(x, y)| Some((self.x.place(*x), self.y.place((*y)?))));
        places
            .map(|(x, y)| format!("<b class=\"{}\" style=\"left:{};bottom:{}\"></b>", line.look, extent(x), extent(y)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_their_values() {
        for most in [0.3, 1.0, 7.0, 99.0, 12_345.0] {
            let axis = Axis::linear(most, |at| at.to_string());
            assert!((2..=7).contains(&axis.ticks.len()), "{axis:?}");
            assert!(axis.place(0.0) == 0.0 && axis.place(most) <= 1.0 && axis.place(most) > 0.9);
        }
        let axis = Axis::decades(150.0, 2e9, |at| at.to_string());
        assert_eq!((axis.place(100.0), axis.place(1e10), axis.place(0.0)), (0.0, 1.0, 0.0));
        assert!(axis.ticks.len() <= 8);
        assert!(Axis::fitting([5.0, 6.0].into_iter(), |at| at.to_string()).place(0.0) == 0.0);
    }

    #[test]
    fn axes_of_ratios_name_the_same_and_few_others() {
        for (least, most) in
            [(0.99, 1.01), (0.9, 1.4), (1.0, 1.0), (0.1, 30.0), (1.2, 1.3), (0.5, 1.0), (0.0, f64::NAN), (1e-9, 1e9)]
        {
            let axis = Axis::ratios(least, most);
            assert!((2..=9).contains(&axis.ticks.len()), "{axis:?}");
            let same = axis.ticks.iter().find(|(at, _)| (at - 1.0).abs() < 1e-9).map(|(_, name)| name.as_str());
            assert!(same == Some("0 %") || same == Some("equal"), "{axis:?}");
            assert!((0.0..=1.0).contains(&axis.place(1.0)) && axis.place(least.max(0.5)) <= axis.place(2.0));
        }
        let names: Vec<String> = Axis::nines(150_000.0).ticks.into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["0 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"]);
        for most in [0, 1, 3, 20, 777, 10_000] {
            assert!(Axis::numbers(most).ticks.len() <= 9, "{most}");
        }
    }

    #[test]
    fn a_line_is_interrupted_where_nothing_is_known() {
        let axis = || Axis::linear(10.0, |at| at.to_string());
        let points = vec![(0.0, Some(1.0)), (1.0, None), (2.0, Some(2.0)), (3.0, Some(3.0))];
        let line = Line { name: "p<50".to_owned(), look: "l0", points, dots: true };
        let plot = Plot {
            id: "a",
            label: "<b>",
            x: axis(),
            y: axis(),
            x_name: "s",
            lines: vec![line],
            band: None,
            levels: vec![Level { name: "&".to_owned(), look: "noise", from: 2.0, to: 4.0 }],
            limit: None,
            hints: vec![(1.0, "a\"b".to_owned())],
        };
        let markup = plot.markup();
        // The first one is the key's.
        let path = markup.split("line l0\" d=\"").nth(2).and_then(|rest| rest.split('"').next()).expect("a path");
        assert_eq!((path.matches('M').count(), path.matches('L').count(), path.matches("h.1").count()), (2, 1, 1));
        assert_eq!(markup.matches("<b class").count(), 3);
        assert!(markup.contains("<li><svg") && markup.contains("&amp;</li>") && markup.contains("p&lt;50"), "{markup}");
        let (top, height) = (1000.0 - 1000.0 * axis().place(4.0), 1000.0 * (axis().place(4.0) - axis().place(2.0)));
        assert!(markup.contains(&format!("y=\"{top:.1}\" width=\"1000\" height=\"{height:.1}\"")), "{markup}");
        assert!(!markup.contains("a\"b") && markup.contains("&lt;b&gt;"));
    }
}
