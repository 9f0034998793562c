//! The words of the command line, and the gate.

use std::io::BufRead;
use std::time::Duration;

use quorlock::{Client, ClientBuilder, RestartGuard};

pub(crate) const USAGE: &str =
    "usage: quorlock-bench [--gate] [--shared] [--hold] [--contend=FILE --stay=MS [--readers=N | --slots=N]] PEER WORKERS SECONDS
  PEER      raw, raw-native, raw-queue (contended only), rslock, quorlock (on the caller's runtime), quorlock-thread (the library's own)
  --gate    print `ready`, wait for a line, and at the end for another
  --shared  all workers on one lock, holders counted
  --hold    hold WORKERS locks for SECONDS instead of cycles
  --contend all workers at one lock; their holds, of MS each, are written to FILE
  --readers=N, --slots=N  contended: the first N workers share the lock; it is a semaphore of N slots";

/// With `cold`, how many names each worker goes round.
pub(crate) const COLD_NAMES: usize = 20;

/// With `cold`, the name of a worker's cycle of this number.
pub(crate) fn cold_name(worker: usize, number: usize) -> String {
    format!("bench-{worker}-{}", number % COLD_NAMES)
}

#[derive(Clone)]
pub(crate) struct Words {
    pub(crate) peer: String,
    /// After a plus: `plain`, `fence`, `guard`, `both`, `cold`, `fast`; empty for the defaults.
    pub(crate) settings: String,
    pub(crate) workers: usize,
    pub(crate) seconds: f64,
    pub(crate) gate: bool,
    pub(crate) shared: bool,
    pub(crate) hold: bool,
    pub(crate) contend: Option<Contend>,
    pub(crate) nodes: Vec<String>,
}

/// Of a contended run: where its history goes, how long a holder stays, how many of the
/// workers share the lock, and of a semaphore the slots.
#[derive(Clone)]
pub(crate) struct Contend {
    pub(crate) history: String,
    pub(crate) stay: Duration,
    pub(crate) readers: usize,
    pub(crate) slots: Option<u32>,
}

impl Words {
    pub(crate) fn parse(given: impl Iterator<Item = String>) -> Option<Words> {
        let (flags, words): (Vec<String>, Vec<String>) = given.partition(|w| w.starts_with("--"));
        let [peer, workers, seconds] = &words[..] else {
            return None;
        };
        let has = |flag: &str| flags.iter().any(|f| f == flag);
        let value = |flag: &str| {
            flags
                .iter()
                .find_map(|f| f.strip_prefix(flag))
                .map(str::to_owned)
        };
        let stay = value("--stay=").map_or(Some(0), |ms| ms.parse().ok())?;
        let stay = Duration::from_millis(stay);
        let readers = value("--readers=").map_or(Some(0), |n| n.parse().ok())?;
        let slots = value("--slots=").map_or(Some(None), |n| n.parse().ok().map(Some))?;
        let peer = peer.trim_start_matches("rust:");
        let (peer, settings) = peer.split_once('+').unwrap_or((peer, ""));
        Some(Words {
            peer: peer.to_owned(),
            settings: settings.to_owned(),
            workers: workers.parse().ok().filter(|n| *n > 0)?,
            seconds: seconds.parse().ok()?,
            gate: has("--gate"),
            shared: has("--shared"),
            hold: has("--hold"),
            contend: value("--contend=").map(|history| Contend {
                history,
                stay,
                readers,
                slots,
            }),
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

    /// A client's options, but for its ttl and runtime.
    pub(crate) fn client(&self) -> ClientBuilder {
        let builder = Client::builder().nodes(self.nodes.clone());
        let builder = match &*self.settings {
            "plain" | "guard" => builder.fencing(false),
            _ => builder,
        };
        match &*self.settings {
            "plain" | "fence" => builder.restart_guard(RestartGuard::Off),
            "guard" | "both" => builder.restart_guard(RestartGuard::On),
            _ => builder,
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
