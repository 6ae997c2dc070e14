// SPDX-License-Identifier: MIT OR Apache-2.0
//! QLinux, figure 6(b): two web servers in classes of different weight.

use super::{Experiment, Lab, Outcome};
use crate::figure::{Figure, Series, Shape};
use crate::machine::Session;
use crate::manifest::Target;
use crate::scene::{Process, Scene, WARM_UP};
use crate::sys;
use crate::table::Table;
use anyhow::{bail, Context, Result};
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    name: "qlinux-6b",
    source: "QLinux, figure 6(b)",
    title: "Two web servers in classes of different weight",
    says: "Two web servers in two classes, each asked for more than it can serve, receive \
           processor bandwidth in proportion to the weights of their classes.",
    cpus: 1,
    seconds: 90,
    run,
};

const WEIGHTS: [u32; 3] = [1, 2, 4];
const PORTS: [u16; 2] = [8081, 8082];
const CLASSES: [&str; 2] = ["/domain-1", "/domain-2"];
/// Connections of each load generator: more than a server can keep up with.
const CONNECTIONS: &str = "16";
const PAGE_LINES: u32 = 1500;

/// A server as hosts run it, but for one process, so that ending it ends all; pages are
/// compressed for each request, which makes the server and not its clients busy.
fn configuration(dir: &Path, port: u16) -> String {
    let dir = dir.display();
    format!(
        "daemon off; master_process off; pid {dir}/{port}.pid; error_log stderr crit;\n\
         events {{ worker_connections 256; }}\n\
         http {{\n\
         access_log off; default_type text/html; gzip on; gzip_comp_level 6; keepalive_requests 1000000;\n\
         client_body_temp_path {dir}/b{port}; proxy_temp_path {dir}/p{port}; fastcgi_temp_path {dir}/f{port};\n\
         uwsgi_temp_path {dir}/u{port}; scgi_temp_path {dir}/s{port};\n\
         server {{ listen 127.0.0.1:{port}; root {dir}/www; }}\n\
         }}\n"
    )
}

/// A page of plausible text that compresses as text does.
pub(super) fn page() -> String {
    let mut random = fastrand::Rng::with_seed(6);
    let words = [
        "share", "weight", "class", "quantum", "server", "request", "page", "domain",
    ];
    let line = |number| {
        let some: Vec<&str> = (0..6).map(|_| words[random.usize(..words.len())]).collect();
        format!("<p>{number} {}</p>\n", some.join(" "))
    };
    (0..PAGE_LINES).map(line).collect()
}

pub(super) fn start_server(scene: &Scene, class: &str, port: u16) -> Result<Process> {
    let file = scene.dir().join(format!("{port}.conf"));
    fs::write(&file, configuration(scene.dir(), port))?;
    let file = file
        .to_str()
        .context("the temporary folder has no plain name")?;
    let server = scene.tool(class, &["nginx", "-c", file])?;
    let limit = sys::now_ns() + 30_000_000_000;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        if sys::now_ns() > limit {
            bail!(
                "nginx of class {class} did not begin to serve within 30 s: see its message above"
            );
        }
        sys::sleep(Duration::from_millis(10));
    }
    Ok(server)
}

/// Requests per second, of wrk's report.
fn rate(report: &str) -> Result<f64> {
    let line = report
        .lines()
        .find_map(|line| line.trim().strip_prefix("Requests/sec:"));
    let number = line.and_then(|number| number.trim().parse().ok());
    number.with_context(|| format!("wrk reported no rate: {report}"))
}

/// What both domains had and did.
struct Pair {
    cpu_s: [f64; 2],
    requests: [f64; 2],
}

fn pair(session: &Session, weight: u32, length: Duration) -> Result<Pair> {
    let mut scene = Scene::new(session)?;
    fs::create_dir(scene.dir().join("www"))?;
    fs::write(scene.dir().join("www/index.html"), page())?;
    scene.class(CLASSES[0], 100)?;
    scene.class(CLASSES[1], 100 * weight)?;
    // The clients stand for other machines: they get what they need.
    scene.class("/clients", 2000)?;
    let mut servers = Vec::new();
    for (class, port) in CLASSES.into_iter().zip(PORTS) {
        servers.push(start_server(&scene, class, port)?);
    }
    let seconds = (length + 2 * WARM_UP).as_secs().to_string();
    let client = |port| {
        let url = format!("http://127.0.0.1:{port}/index.html");
        let line = [
            "wrk",
            "-t",
            "1",
            "-c",
            CONNECTIONS,
            "-d",
            &seconds,
            "-H",
            "Accept-Encoding: gzip",
            &url,
        ];
        scene.tool("/clients", &line)
    };
    let clients = [client(PORTS[0])?, client(PORTS[1])?];
    sys::sleep(WARM_UP);
    let (before, after) = scene.measure(length)?;
    let [one, two] = clients.map(|client| rate(&client.output()?));
    Ok(Pair {
        cpu_s: CLASSES.map(|class| after.used(&before, class)),
        requests: [one?, two?],
    })
}

fn run(lab: &Lab) -> Result<Outcome> {
    let length = lab.seconds(5, 60);
    let sides = lab.every_side(|session| {
        let one = |&weight| {
            lab.say(&format!("{}: weights 1:{weight}", session.side()));
            pair(session, weight, length)
        };
        WEIGHTS.iter().map(one).collect::<Result<Vec<_>>>()
    })?;
    let mut table = Table::new(&[
        "side",
        "weight_1",
        "weight_2",
        "cpu_1_s",
        "cpu_2_s",
        "requests_1_per_s",
        "requests_2_per_s",
    ]);
    let mut series = Vec::new();
    for (side, pairs) in sides.iter() {
        for (weight, pair) in WEIGHTS.iter().zip(pairs) {
            table.push(vec![
                side.to_string().into(),
                100u32.into(),
                (100 * weight).into(),
                pair.cpu_s[0].into(),
                pair.cpu_s[1].into(),
                pair.requests[0].into(),
                pair.requests[1].into(),
            ]);
        }
        for (index, name) in ["weight 1", "weight 1, 2, 4"].into_iter().enumerate() {
            let bars = pairs.iter().map(|pair| (0.0, pair.requests[index]));
            let name = format!("{name}, {}", side.label());
            let colour = side.colour() + 3 * index;
            series.push(Series::new(&name, colour, side.dashed(), bars.collect()));
        }
    }
    let mut claims = Vec::new();
    for (index, &weight) in WEIGHTS.iter().enumerate() {
        let w = f64::from(weight);
        let around = |part: f64| Target::Within(w * (1.0 - part), w * (1.0 + part));
        let text = |what| format!("ratio of {what} at weights 1:{weight}");
        claims.push(sides.claim(&text("CPU time"), "", around(0.02), |pairs| {
            pairs[index].cpu_s[1] / pairs[index].cpu_s[0]
        }));
        // Switching and the network cost both the same for each request, not for each second.
        claims.push(sides.claim(&text("requests"), "", around(0.05), |pairs| {
            pairs[index].requests[1] / pairs[index].requests[0]
        }));
    }
    Ok(Outcome {
        table,
        figure: Figure {
            title: EXPERIMENT.title.into(),
            caption: format!("{}: {}", EXPERIMENT.source, EXPERIMENT.says),
            x: "weights".into(),
            y: "requests per second".into(),
            shape: Shape::Bars(WEIGHTS.iter().map(|w| format!("1:{w}")).collect()),
            series,
        },
        claims,
        scale: format!(
            "CPU time over {} s of virtual time after a warm-up, requests as wrk reports them. Two nginx compress a page \
             for each request of {CONNECTIONS} connections; wrk is in a class of its own. The paper's weights are lost.",
            length.as_secs()
        ),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn reports_of_wrk() {
        let report =
            "Running 5s test\n  2 threads\nRequests/sec:    318.07\nTransfer/sec:  1.0MB\n";
        assert_eq!(super::rate(report).unwrap(), 318.07);
        assert!(super::rate("unable to connect").is_err());
    }
}
