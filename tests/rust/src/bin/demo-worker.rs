//! A worker of the demo, as tests/demo/README.md says:
//! `demo-worker NODES LEDGER LOG SECONDS on|off`.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::time::Duration;

use quorlock::{Client, blocking};
use quorlock_tests::{monotonic, nap};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [nodes, ledger, log, seconds, lock] = &words[..] else {
        eprintln!("usage: demo-worker NODES LEDGER LOG SECONDS on|off");
        return ExitCode::from(2);
    };
    match work(nodes, ledger, log, seconds, lock == "on") {
        Ok(0) => ExitCode::SUCCESS,
        Ok(lost) => {
            eprintln!("{lost} leases were lost");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn work(
    nodes: &str,
    ledger: &str,
    log: &str,
    seconds: &str,
    locked: bool,
) -> Result<u32, Box<dyn Error>> {
    let ledger = OpenOptions::new().read(true).write(true).open(ledger)?;
    let mut log = OpenOptions::new().create(true).append(true).open(log)?;
    let end = monotonic() + (seconds.parse::<f64>()? * 1e9) as u64;
    let client = Client::new(nodes.split(','))?;
    let lock = client.lock("demo:ledger");
    let mut lost = 0;
    while monotonic() < end {
        let asked = monotonic();
        let lease = if locked {
            Some(blocking::wait(lock.acquire())?)
        } else {
            None
        };
        let entered = monotonic();
        let fence = lease.as_ref().and_then(quorlock::Lease::fence);
        let fence = fence.map(|fence| format!(" {fence}"));
        let (wait, fence) = (entered - asked, fence.unwrap_or_default());
        log.write_all(format!("enter {entered} {wait}{fence}\n").as_bytes())?;
        add_one(&ledger)?;
        log.write_all(format!("exit {}\n", monotonic()).as_bytes())?;
        if let Some(lease) = lease
            && !blocking::wait(lease.release())?
        {
            lost += 1;
        }
        nap(Duration::from_micros(monotonic() % 4_000));
    }
    blocking::wait(client.close());
    Ok(lost)
}

/// Reads the balance, thinks for a moment, writes it back plus one.
fn add_one(ledger: &File) -> Result<(), Box<dyn Error>> {
    let mut text = [0; 20];
    ledger.read_exact_at(&mut text, 0)?;
    let balance: u64 = std::str::from_utf8(&text)?.trim().parse()?;
    nap(Duration::from_millis(1));
    ledger.write_all_at(format!("{:019}\n", balance + 1).as_bytes(), 0)?;
    Ok(())
}
