//! A worker on rslock: `quorlock-others rslock`. `../README.md` says what it does, and what its environment has.

// It waits as a program of rslock's users does, by the clock of this machine.
#![allow(clippy::disallowed_methods)]

use std::env::var;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use rslock::LockManager;

const KEY: &str = "ledger";

struct Ledger {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Ledger {
    fn new() -> Result<Self, Box<dyn Error>> {
        let stream = TcpStream::connect(format!("127.0.0.1:{}", var("LEDGER")?))?;
        stream.set_nodelay(true)?;
        let lines = BufReader::new(stream.try_clone()?);
        Ok(Self { stream, lines })
    }

    fn ask(&mut self, words: &str) -> Result<Vec<String>, Box<dyn Error>> {
        self.stream.write_all(format!("{words}\n").as_bytes())?;
        let mut said = String::new();
        self.lines.read_line(&mut said)?;
        Ok(said.split_whitespace().map(str::to_owned).collect())
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let ttl = Duration::from_millis(var("TTL")?.parse()?);
    let manager = LockManager::new(var("NODES")?.split(',').map(str::to_owned).collect());
    let mut ledger = Ledger::new()?;
    ledger.ask(&format!("hello {}", var("NAME")?))?;
    while ledger.ask("next")?.first().is_some_and(|word| word == "go") {
        // It tries until it has the lock, and tells no loss.
        let guard = manager.acquire(KEY, ttl).await?;
        let [number, think] = &ledger.ask(&format!("read {KEY} 0"))?[..] else {
            break;
        };
        tokio::time::sleep(Duration::from_millis(think.parse()?)).await;
        let next = number.parse::<u64>()? + 1;
        ledger.ask(&format!("write {KEY} 0 {next}"))?;
        guard.release().await;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    run().await
}
