//! Real servers for the tests in Rust: a stage (tests/stage), driven by its
//! command.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub mod boundaries;
pub mod liar;
pub mod muted;
pub mod part;
pub mod queue;
pub mod relay;

/// The repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `CLOCK_MONOTONIC` in nanoseconds: one clock for all processes.
pub fn monotonic() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a valid timespec to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Lets the work that a test models take its time.
pub fn nap(long: Duration) {
    #[allow(clippy::disallowed_methods)]
    std::thread::sleep(long);
}

/// Does it with each of these at the same time: for tests that mostly wait.
///
/// # Panics
///
/// If it does with any.
pub fn at_once<T: Send>(each: impl IntoIterator<Item = T>, done: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for one in each {
            scope.spawn(|| done(one));
        }
    });
}

/// How much memory this process has, in KiB.
pub fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}

/// A running stage; its servers end with it.
pub struct Stage {
    child: Child,
    command: String,
    /// URLs of the nodes.
    pub nodes: Vec<String>,
    /// The files that say what the nodes' clocks show, of a stage with
    /// `clocks`.
    pub clocks: Vec<PathBuf>,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage").field("nodes", &self.nodes).finish()
    }
}

impl Stage {
    /// Starts `nodes` servers.
    pub fn new(nodes: usize) -> Stage {
        Stage::like(nodes, &[])
    }

    /// Starts `nodes` servers of the kind that these words of the stage ask
    /// for.
    pub fn like(nodes: usize, words: &[&str]) -> Stage {
        let mut child = Command::new("python3")
            .arg(root().join("tests/stage/stage.py"))
            .args(["serve", &nodes.to_string()])
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut stage = Stage {
            child,
            command: String::new(),
            nodes: Vec::new(),
            clocks: Vec::new(),
        };
        for line in lines {
            let line = line.expect("the stage speaks UTF-8");
            match line.split_once('=') {
                Some(("QUORLOCK_STAGE", command)) => stage.command = command.to_owned(),
                Some(("QUORLOCK_NODES", urls)) => {
                    stage.nodes = urls.split(',').map(str::to_owned).collect();
                }
                Some(("QUORLOCK_STAGE_CLOCKS", paths)) => {
                    stage.clocks = paths.split(',').map(PathBuf::from).collect();
                }
                _ if line == "ready" => return stage,
                _ => {}
            }
        }
        panic!("the stage did not start");
    }

    /// Sets the clock of a node, counted from 1, of a stage with `clocks`: this many
    /// seconds ahead of ours.
    ///
    /// # Panics
    ///
    /// If the stage has no such clock.
    pub fn set_clock(&self, node: usize, ahead: i64) {
        // What clock.c reads: version, offset, rate, since, still. In place, for the
        // server has the file mapped: cut short, it would take the server with it.
        let setting = [2, ahead * 1_000_000_000, 0, 0, 0i64];
        let bytes = setting.map(i64::to_le_bytes).concat();
        let file = OpenOptions::new().write(true).open(&self.clocks[node - 1]);
        let written = file.and_then(|mut file| file.write_all(&bytes));
        written.expect("the clock of a node of this stage");
    }

    /// Tells the stage something; returns what it printed.
    ///
    /// # Panics
    ///
    /// If what was said does not hold.
    pub fn tell(&self, words: &str) -> String {
        let output = Command::new("sh")
            .args(["-c", &format!("{} {words}", self.command)])
            .output()
            .expect("sh runs");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "stage {words}: {text}");
        text.trim().to_owned()
    }

    /// Gives the user of a stage with `auth` these permissions, as `ACL SETUSER`
    /// takes them, and no other on all nodes.
    pub fn permit<'a>(&self, words: impl IntoIterator<Item = &'a str>) {
        let words: Vec<String> = words.into_iter().map(escaped).collect();
        self.tell(&format!(
            "redis all ACL SETUSER quorlock resetkeys resetchannels {}",
            words.join(" ")
        ));
    }
}

/// Any text as one word for [`Stage::tell`].
pub fn escaped(text: &str) -> String {
    match text {
        "" => "''".into(),
        text => text.bytes().map(|b| format!("%{b:02X}")).collect(),
    }
}

/// The words of the line of docs/reference/protocol.md that says what a user needs.
pub fn documented_permissions() -> Vec<String> {
    let page =
        std::fs::read_to_string(root().join("docs/reference/protocol.md")).expect("the page");
    let line = page
        .lines()
        .find_map(|line| {
            line.trim()
                .strip_prefix("ACL SETUSER quorlock on >PASSWORD ")
        })
        .expect("the line");
    line.split(' ').map(str::to_owned).collect()
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The end of its input is the sign to stop.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
