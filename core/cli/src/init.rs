//! `quorlock init`: declares the set.

use quorlock::{Level, blocking, set_log_sink};
use serde_json::json;

use crate::args::Init;
use crate::connect;
use crate::exit::Failure;
use crate::output::{line, object, seconds};
use crate::times;

pub fn init(options: &Init) -> Result<i32, Failure> {
    let client = connect::client(&options.connection, None)?;
    // It may have to wait until servers are old enough, and says so.
    set_log_sink(|level, text| {
        if level == Level::Warn {
            eprintln!("quorlock: {text}");
        }
    });
    let left = match options.force {
        true => blocking::wait(client.init_set_forced())?,
        false => blocking::wait(client.init_set())?,
    };
    if options.json {
        object(&json!({"declared": true, "forced": options.force, "quarantine": seconds(left)}));
    } else if left.is_zero() {
        line("the set is declared: all nodes vote");
    } else {
        let left = times::shown(left);
        line(&format!(
            "the set is declared: some nodes may have lost votes, and give none for another {left}"
        ));
    }
    Ok(0)
}
