//! Waits for a lock as a process of its own: `waiter NAME`, nodes from
//! `QUORLOCK_NODES`. Says `holds` once it holds the lock, and releases it.

use quorlock::{Error, blocking};
use quorlock_tests::queue::{PATIENCE, patient};

fn main() -> Result<(), Error> {
    let name = std::env::args().nth(1).expect("the name of a lock");
    let nodes = std::env::var("QUORLOCK_NODES").expect("nodes");
    let nodes: Vec<String> = nodes.split(',').map(str::to_owned).collect();
    let client = patient(&nodes);
    blocking::wait(async {
        let lock = client.lock(name).wait(PATIENCE);
        let lease = lock.acquire().await?;
        println!("holds");
        lease.release().await?;
        client.close().await;
        Ok(())
    })
}
