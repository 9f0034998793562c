//! The line of docs/reference/protocol.md is what a user needs: with it the lock works,
//! and without any one part of it the error names that part.

use std::sync::Mutex;
use std::time::Duration;

use quorlock::{Client, Error, ErrorKind, blocking, set_log_sink};
use quorlock_tests::{Stage, documented_permissions};

/// These are for messages; where one lacks that is tried, there is a warning
/// (push.rs).
const FOR_PUSHES: [&str; 4] = ["&lock:*", "+publish", "+subscribe", "+pubsub|numsub"];
/// What works without, in whatever way.
const OPTIONAL: [&str; 3] = ["+info", "+client|info", "+client|setname"];

fn hold(url: &str) -> Result<(), Error> {
    let client = Client::builder()
        .nodes([url])
        .wait(Duration::from_secs(5))
        .build()?;
    let held = blocking::wait(async {
        let lease = client.lock("k").acquire().await?;
        lease.extend(None).await?;
        lease.release().await
    });
    blocking::wait(client.close());
    held.map(|held| assert!(held, "it was held"))
}

#[test]
fn without_one_part_of_the_line_the_error_names_it() {
    let stage = Stage::like(1, &["auth"]);
    let line = documented_permissions();
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    // Database 1, so that SELECT is needed too.
    let url = format!("{}/1", stage.nodes[0]);
    stage.permit(line.iter().copied());
    hold(&url).expect("with the whole line");
    let needed = |word: &&&str| word.starts_with(['+', '~']) && !FOR_PUSHES.contains(word);
    let mut tried = 0;
    for left_out in line.iter().filter(needed) {
        stage.permit(line.iter().copied().filter(|word| word != left_out));
        let held = hold(&url);
        if OPTIONAL.contains(left_out) {
            held.unwrap_or_else(|e| panic!("without {left_out}: {e}"));
            continue;
        }
        let error = held.expect_err(left_out);
        let said = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{left_out}: {said}");
        let named = said.contains("permission") && said.contains(&format!("`{left_out}`"));
        assert!(named, "{left_out}: {said}");
        tried += 1;
    }
    assert!(tried >= 18, "only {tried} parts");

    // Keys that are allowed in part, or to be read alone.
    for pattern in ["~lock:#*", "~lock:{*", "%R~lock:*", "%W~lock:*", "~other:*"] {
        let others = line.iter().copied().filter(|word| *word != "~lock:*");
        stage.permit(others.chain([pattern]));
        let error = hold(&url).expect_err(pattern);
        let said = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{pattern}: {said}");
        assert!(said.contains("`~lock:*`"), "{pattern}: {said}");
    }

    // What is not needed for locks themselves; SELECT is for other databases
    // than 0 alone.
    let least = line
        .iter()
        .copied()
        .filter(|word| !FOR_PUSHES.contains(word) && *word != "+select");
    stage.permit(least);
    hold(&stage.nodes[0]).expect("without pushes and SELECT");
}

#[test]
fn without_info_there_is_a_warning() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    set_log_sink(|_, line| SAID.lock().unwrap().push(line.to_string()));
    let stage = Stage::like(1, &["auth"]);
    let line = documented_permissions();
    stage.permit(line.iter().map(String::as_str).filter(|w| *w != "+info"));
    let client = Client::new(&stage.nodes).unwrap();
    let lease = blocking::wait(client.lock("k").acquire()).unwrap();
    blocking::wait(lease.release()).unwrap();
    blocking::wait(client.close());
    // Warnings come on a thread of their own.
    let warned = || {
        SAID.lock()
            .unwrap()
            .iter()
            .any(|line| line.contains("`+info`"))
    };
    let rounds = (0..500).take_while(|_| !warned());
    rounds.for_each(|_| quorlock_tests::nap(Duration::from_millis(10)));
    assert!(warned(), "{:?}", SAID.lock().unwrap());
}
