// SPDX-License-Identifier: MIT OR Apache-2.0
//! QLinux, figure 12: web servers beside load on CPU and link, classes on both.

use super::{quantile, Experiment, Lab, Layouts, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::{Session, Side};
use crate::manifest::{Claim, Target};
use crate::net::clarknet::{self, Site};
use crate::net::{self, NetScene, Pick, Plan, Span, Tree};
use crate::scene::{Process, WARM_UP};
use crate::sys;
use crate::table::Table;
use crate::work::web;
use anyhow::{bail, Result};
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "qlinux-12",
    source: "QLinux, figure 12",
    title: "Two web servers beside load on processor and link",
    says: "With classes of the CPU and of packets the throughput of a web server degrades far less under load in \
           the best-effort class than under plain Linux.",
    cpus: 1,
    seconds: 140,
    run,
};

const RATE: u64 = 20;
/// Weights on CPU and link, and what each site is asked for on average, in bits a second: half of its share.
const SITES: [(&str, u16, u32, f64); 2] =
    [("/site-1", 8081, 100, 2.5e6), ("/site-2", 8082, 200, 5.0e6)];
const OTHERS: &str = "/best-effort";
/// Where nobody divided the machine.
const ALL: &str = "/all";
/// Senders and busy programs of the last point, of each so many.
const MOST: usize = 10;
/// Requests that may be under way at once.
const CLIENTS: &str = "128";
/// From when a trace is given to when it begins.
const AHEAD: Duration = Duration::from_secs(1);
/// After the last request.
const DRAIN: Duration = Duration::from_secs(3);

/// How the machine is divided.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    /// Not at all.
    Plain,
    /// The same cgroups, and HTB.
    Htb,
    /// Classes of QLinux on both.
    Qlinux,
}

impl Layout {
    const EVERY: [Layout; 3] = [Layout::Plain, Layout::Htb, Layout::Qlinux];

    fn label(self) -> &'static str {
        match self {
            Layout::Plain => "stock Linux",
            Layout::Htb => "stock Linux, cgroups and HTB",
            Layout::Qlinux => "QLinux",
        }
    }

    /// Of the link.
    fn side(self) -> Side {
        match self {
            Layout::Plain => Side::Fifo,
            Layout::Htb => Side::Htb,
            Layout::Qlinux => Side::Qlinux,
        }
    }

    fn session(self) -> Result<Session> {
        match self {
            Layout::Qlinux => Session::enter(Side::Qlinux),
            _ => Session::enter(Side::Stock),
        }
    }

    fn wanted(self, lab: &Lab) -> bool {
        match lab.side {
            Some(Side::Stock) => self == Layout::Plain,
            Some(one) => self.side() == one,
            None => true,
        }
    }

    fn tree(self) -> Tree {
        if self == Layout::Plain {
            return Tree::new([(ALL, 100)]);
        }
        let sites = SITES.map(|(path, _, weight, _)| (path, weight));
        let mut tree = Tree::new(sites.into_iter().chain([(OTHERS, 100)]));
        for (path, port, ..) in SITES {
            tree = tree.with(path, |class| class.pick = Pick::From(port));
        }
        tree
    }

    /// Where what belongs in class `path` is put.
    fn place(self, path: &'static str) -> &'static str {
        if self == Layout::Plain {
            ALL
        } else {
            path
        }
    }
}

/// A server as hosts run it, but for one process, so that ending it ends all.
fn configuration(dir: &Path, port: u16) -> String {
    let dir = dir.display();
    format!(
        "daemon off; master_process off; pid {dir}/{port}.pid; error_log stderr crit;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
         access_log off; default_type application/octet-stream;\n\
         client_body_temp_path {dir}/b{port}; proxy_temp_path {dir}/p{port}; fastcgi_temp_path {dir}/f{port};\n\
         uwsgi_temp_path {dir}/u{port}; scgi_temp_path {dir}/s{port};\n\
         server {{ listen {near}:{port} backlog=1024; root {dir}/www; }}\n\
         }}\n",
        near = net::NEAR_ADDRESS
    )
}

fn start_server(scene: &NetScene, class: &str, port: u16, site: &Site) -> Result<Process> {
    let dir = scene.scene.dir();
    let pages = dir.join("www").join(port.to_string());
    fs::create_dir_all(&pages)?;
    for (index, &bytes) in site.files.iter().enumerate() {
        fs::write(pages.join(index.to_string()), vec![b'x'; bytes as usize])?;
    }
    let file = dir.join(format!("{port}.conf"));
    fs::write(&file, configuration(dir, port))?;
    let file = file.display().to_string();
    let server = scene.tool(class, &["nginx", "-c", &file])?;
    let limit = sys::now_ns() + 30_000_000_000;
    while TcpStream::connect((net::NEAR_ADDRESS, port)).is_err() {
        if sys::now_ns() > limit {
            bail!(
                "nginx of class {class} did not begin to serve within 30 s: see its message above"
            );
        }
        sys::sleep(Duration::from_millis(10));
    }
    Ok(server)
}

/// What one site did.
#[derive(Default)]
struct Served {
    /// Mbit/s on the wire.
    mbit: f64,
    /// Answered, of those due.
    answered: f64,
    /// Milliseconds of those answered, in ascending order.
    times: Vec<f64>,
}

struct Point {
    load: usize,
    sites: [Served; 2],
}

impl Point {
    /// Of both sites.
    fn mbit(&self) -> f64 {
        self.sites.iter().map(|site| site.mbit).sum()
    }
}

/// What the client noted of requests to `port` that were due in `span`.
fn served(log: &[u64], port: u16, span: Span) -> Served {
    let of_site = log.chunks_exact(web::WORDS);
    let of_site = of_site.filter(|words| (words[2] >> 48) as u16 == port);
    let due = of_site.filter(|words| (span.begin_ns..span.end_ns).contains(&words[0]));
    let (mut times, mut count) = (Vec::new(), 0);
    for words in due {
        count += 1;
        if words[1] > 0 {
            times.push((words[1] - words[0]) as f64 / 1e6);
        }
    }
    times.sort_unstable_by(f64::total_cmp);
    Served {
        mbit: 0.0,
        answered: times.len() as f64 / f64::from(count),
        times,
    }
}

fn point(lab: &Lab, layout: Layout, load: usize, length: Duration) -> Result<Point> {
    let session = layout.session()?;
    let plan = Plan::mbit(RATE, layout.tree());
    let mut scene = NetScene::new(&session, layout.side(), &plan)?;
    let seeds = [lab.seed, lab.seed + 1000];
    let whole = length + WARM_UP;
    let sites: Vec<Site> = SITES
        .iter()
        .zip(seeds)
        .map(|((.., bits), seed)| Site::new(seed, *bits, whole))
        .collect();
    let mut servers = Vec::new();
    for ((class, port, ..), site) in SITES.iter().zip(&sites) {
        servers.push(start_server(&scene, layout.place(class), *port, site)?);
    }
    let others = layout.place(OTHERS);
    for _ in 0..load {
        scene.start(others, "net-inf", &["--size", "1500"])?;
        scene.scene.start(others, "dhry", &[])?;
    }
    let trace = scene.scene.file("trace");
    let ports = SITES.map(|(_, port, ..)| port);
    fs::write(
        &trace,
        clarknet::trace(&[(ports[0], &sites[0]), (ports[1], &sites[1])]),
    )?;
    scene.scene.begun()?;
    let begin_ns = sys::now_ns() + AHEAD.as_nanos() as u64;
    let begin = begin_ns.to_string();
    let client = [
        "--server",
        net::NEAR_ADDRESS,
        "--trace",
        &trace,
        "--begin",
        &begin,
    ];
    let index = scene.scene.workers.len();
    scene.start_far(
        "web-client",
        &[&client[..], &["--threads", CLIENTS]].concat(),
    )?;
    scene.scene.begun()?;
    let span = Span::from(
        begin_ns + WARM_UP.as_nanos() as u64,
        length.as_nanos() as u64,
    );
    sys::sleep_until(span.end_ns + DRAIN.as_nanos() as u64);
    let log = scene.scene.workers[index].counter()?.log_from(0);
    let capture = scene.captured_since(span.begin_ns)?;
    session.check()?;
    let site = |port| Served {
        mbit: 8.0 * capture.bytes(port, span) / span.seconds() / 1e6,
        ..served(&log, port, span)
    };
    Ok(Point {
        load,
        sites: ports.map(site),
    })
}

type Curves = Vec<(Layout, Vec<Point>)>;

fn table(curves: &Curves) -> Table {
    let mut table = Table::new(&[
        "layout",
        "senders_and_busy_programs",
        "site",
        "weight",
        "mbit_per_s",
        "answered",
        "response_median_ms",
        "response_p95_ms",
    ]);
    for (layout, points) in curves {
        for point in points {
            for ((path, _, weight, _), site) in SITES.iter().zip(&point.sites) {
                table.push(vec![
                    layout.label().into(),
                    point.load.into(),
                    (*path).into(),
                    (*weight).into(),
                    site.mbit.into(),
                    site.answered.into(),
                    quantile(&site.times, 0.5).into(),
                    quantile(&site.times, 0.95).into(),
                ]);
            }
        }
    }
    table
}

fn claims(curves: &Curves) -> Vec<Claim> {
    let layouts = Layouts {
        found: curves,
        own: Layout::Qlinux,
        stock: Layout::Plain,
        peer: (Layout::Htb, "cgroups and HTB"),
    };
    let mut claims = Vec::new();
    for (index, (path, ..)) in SITES.iter().enumerate() {
        let text = |what: &str| format!("{path}: {what} with {MOST} senders and busy programs");
        let held = Target::AtLeast(95.0);
        claims.push(
            layouts.claim(&text("throughput, of alone,"), "%", held, |points| {
                let [first, last] = [points.first()?, points.last()?].map(|p| p.sites[index].mbit);
                Some(100.0 * last / first)
            }),
        );
        let all = Target::AtLeast(100.0);
        claims.push(layouts.claim(&text("answered"), "%", all, |points| {
            Some(100.0 * points.last()?.sites[index].answered)
        }));
        // What the stock kernel does to them is the paper's comparison.
        let median = |points: &Vec<Point>| Some(quantile(&points.last()?.sites[index].times, 0.5));
        let stock = layouts.of(Layout::Plain).and_then(median).unwrap_or(100.0);
        let text = text("median response");
        claims.push(layouts.claim(&text, "ms", Target::AtMost(stock), median));
    }
    claims
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(8, 60);
    let mut loads: Vec<usize> = match lab.full {
        true => vec![0, 2, 4, 6, 8, MOST],
        false => vec![0, 4, MOST],
    };
    loads.retain(|&load| load == 0 || lab.wants(&load.to_string()));
    let mut curves: Curves = Vec::new();
    for layout in Layout::EVERY
        .into_iter()
        .filter(|layout| layout.wanted(lab))
    {
        let mut points = Vec::new();
        for &load in &loads {
            let found = point(lab, layout, load, length)?;
            let medians = found
                .sites
                .each_ref()
                .map(|site| quantile(&site.times, 0.5));
            lab.say(&format!(
                "{}, load {load}: {:.2} Mbit/s, median responses {medians:.1?} ms",
                layout.label(),
                found.mbit()
            ));
            points.push(found);
        }
        curves.push((layout, points));
    }
    let series = curves.iter().map(|(layout, points)| {
        let line = points.iter().map(|p| (p.load as f64, p.mbit())).collect();
        let side = layout.side();
        Series::new(layout.label(), side.colour(), side.dashed(), line)
    });
    Ok(Outcome {
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{}: {}", EXPERIMENT.source, EXPERIMENT.says),
            x: "senders, and as many busy programs, in the best-effort class".into(),
            y: "throughput of both web servers (Mbit/s)".into(),
            shape: Shape::Lines { marks: true },
            series: series.collect(),
        },
        claims: claims(&curves),
        table: table(&curves),
        scale: format!(
            "{} s of virtual time for each point after a warm-up on a link of {RATE} Mbit/s. Two nginx with weights 1:2 beside a best-effort \
             class of weight 1, on CPU and link, asked for 2.5 and 5 Mbit/s by requests with the shape of ClarkNet's logs: \
             Zipf's popularity, lognormal and Pareto sizes (SURGE), a day's curve compressed to the run. The paper \
             replays the logs themselves, from one simulated server.",
            length.as_secs()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_noted() {
        let word = |port: u64| port << 48 | 500;
        let log = [
            [10, 3_000_010, word(8081)],
            [20, 0, word(8081)],
            [30, 1_000_030, word(8082)],
            [900, 2_000_900, word(8081)],
        ];
        let served = served(&log.concat(), 8081, Span::from(0, 100));
        assert_eq!((served.times.clone(), served.answered), (vec![3.0], 0.5));
        assert_eq!(quantile(&served.times, 0.5), 3.0);
    }
}
