//! The Rust side of the benchmarks: `quorlock-bench PEER WORKERS SECONDS`, nodes
//! from `QUORLOCK_NODES`. One line of JSON. See tests/bench/README.md.

mod contend;
mod hold;
mod measure;
mod peers;
mod raw;
mod raw_queue;
mod words;

use words::{USAGE, Words};

fn main() {
    let Some(words) = Words::parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        std::process::exit(2);
    };
    if let Some(contend) = &words.contend {
        match words.peer.as_str() {
            "quorlock" => on_current_thread(contend::quorlock(&words, contend)),
            "rslock" => on_current_thread(contend::rslock(&words, contend)),
            "raw-queue" => raw_queue::run(&words, contend),
            other => nobody(other),
        }
        return;
    }
    match (words.peer.as_str(), words.hold) {
        ("quorlock", true) => on_current_thread(hold::quorlock(&words, true)),
        ("quorlock-thread", true) => on_current_thread(hold::quorlock(&words, false)),
        ("rslock", true) => on_current_thread(hold::rslock(&words)),
        ("raw" | "raw-native", false) => raw::run(&words),
        ("rslock", false) => on_current_thread(peers::rslock(&words)),
        ("quorlock", false) => on_current_thread(peers::quorlock(&words, true)),
        ("quorlock-thread", false) if words.workers == 1 => peers::quorlock_blocking(&words),
        ("quorlock-thread", false) => on_current_thread(peers::quorlock(&words, false)),
        (other, _) => nobody(other),
    }
}

fn nobody(peer: &str) -> ! {
    eprintln!("no peer {peer} for this\n{USAGE}");
    std::process::exit(2);
}

fn on_current_thread(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, future);
    // A peer's tasks under way are not waited for.
    runtime.shutdown_background();
}
