//! `quorlock release --force`: takes a lock away from its holder.

use std::io::{self, IsTerminal};

use quorlock::{Lock, blocking};
use serde_json::json;

use crate::args::Release;
use crate::connect;
use crate::exit::{self, Failure};
use crate::inspect::{as_object, lock, show};
use crate::output::{line, object};

pub fn release(options: &Release) -> Result<i32, Failure> {
    let client = connect::client(&options.connection, None)?;
    let lock = lock(&client, &options.name, options.slots);
    if !options.yes && io::stdin().is_terminal() && !is_wanted(&lock)? {
        return Err(Failure::new(exit::USAGE, "nothing was changed"));
    }
    let forced = match options.slot {
        Some(slot) => blocking::wait(lock.force_release_slot(slot, options.fence))?,
        None => blocking::wait(lock.force_release(options.fence))?,
    };
    let freed = forced.freed();
    match options.json {
        true => object(&json!({"found": as_object(forced.found()), "freed": freed})),
        false if freed == 0 => line("nobody held it: nothing was changed"),
        false => {
            show(forced.found());
            line(&format!(
                "{freed} votes were taken away. The holder learns it at its next renewal, at most \
                 about a third of its ttl later; until then two may work, and fences tell them \
                 apart"
            ));
        }
    }
    Ok(if freed == 0 { exit::FREE } else { 0 })
}

/// Shows the lock and asks. What is asked and answered stays off the standard output of
/// `--json`, since it is asked only where a person sits.
fn is_wanted(lock: &Lock) -> Result<bool, Failure> {
    let found = blocking::wait(lock.inspect())?;
    for seen in [&found].into_iter().chain(found.slots()) {
        eprintln!("{}", crate::output::plain(&seen.to_string()));
    }
    eprint!("Take it away? [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    let failed = |e| Failure::new(exit::USAGE, format!("the answer cannot be read: {e}"));
    read.map_err(failed)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
