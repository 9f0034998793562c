//! The words of the command line, and the gate.

use std::io::BufRead;

pub(crate) const USAGE: &str =
    "usage: quorlock-bench [--gate] [--shared] [--hold] PEER WORKERS SECONDS
  PEER      raw, rslock, quorlock (on the caller's runtime), quorlock-thread (the library's own)
  --gate    print `ready`, wait for a line, and at the end for another
  --shared  all workers on one lock, holders counted
  --hold    hold WORKERS locks for SECONDS instead of cycles";

#[derive(Clone)]
pub(crate) struct Words {
    pub(crate) peer: String,
    pub(crate) workers: usize,
    pub(crate) seconds: f64,
    pub(crate) gate: bool,
    pub(crate) shared: bool,
    pub(crate) hold: bool,
    pub(crate) nodes: Vec<String>,
}

impl Words {
    pub(crate) fn parse(given: impl Iterator<Item = String>) -> Option<Words> {
        let (flags, words): (Vec<String>, Vec<String>) = given.partition(|w| w.starts_with("--"));
        let [peer, workers, seconds] = &words[..] else {
            return None;
        };
        let has = |flag: &str| flags.iter().any(|f| f == flag);
        Some(Words {
            peer: peer.trim_start_matches("rust:").to_owned(),
            workers: workers.parse().ok().filter(|n| *n > 0)?,
            seconds: seconds.parse().ok()?,
            gate: has("--gate"),
            shared: has("--shared"),
            hold: has("--hold"),
            nodes: std::env::var("QUORLOCK_NODES")
                .ok()?
                .split(',')
                .map(str::to_owned)
                .collect(),
        })
    }

    pub(crate) fn lock_name(&self, worker: usize) -> String {
        if self.shared {
            "bench".to_owned()
        } else {
            format!("bench-{worker}")
        }
    }

    /// Says that what comes next is measured, and waits for a line.
    pub(crate) fn ready(&self) {
        if self.gate {
            println!("ready");
            wait_line();
        }
    }

    /// Waits for a line: until then what is still under way may end.
    pub(crate) fn end(&self) {
        if self.gate {
            wait_line();
        }
    }

    /// The same two without stopping the runtime.
    pub(crate) async fn ready_async(&self) {
        let words = self.clone();
        let _ = tokio::task::spawn_blocking(move || words.ready()).await;
    }

    pub(crate) async fn end_async(&self) {
        let words = self.clone();
        let _ = tokio::task::spawn_blocking(move || words.end()).await;
    }
}

fn wait_line() {
    let mut line = String::new();
    let _ = std::io::stdin().lock().read_line(&mut line);
}
