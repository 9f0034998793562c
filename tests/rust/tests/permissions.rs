//! The line of docs/PROTOCOL.md is what a user needs: with it the lock works,
//! and without any one part of it the error names that part.

use std::sync::Mutex;
use std::time::Duration;

use quorlock::{Client, Error, ErrorKind, blocking, set_log_sink};
use quorlock_tests::{Stage, root};

/// Parts for what is yet to come (docs/PROTOCOL.md says so).
const FOR_PUSHES: [&str; 3] = ["&lock:*", "+publish", "+subscribe"];
/// What works without, in whatever way.
const OPTIONAL: [&str; 1] = ["+info"];

/// The words of the documented line.
fn documented() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/PROTOCOL.md")).expect("the page");
    let line = page
        .lines()
        .find_map(|line| {
            line.trim()
                .strip_prefix("ACL SETUSER quorlock on >PASSWORD ")
        })
        .expect("the line");
    line.split(' ').map(str::to_owned).collect()
}

/// Gives the stage's user these permissions and no other.
fn permit<'a>(stage: &Stage, words: impl IntoIterator<Item = &'a str>) {
    let escaped = |word: &str| {
        word.bytes()
            .map(|b| format!("%{b:02X}"))
            .collect::<String>()
    };
    let words: Vec<String> = words.into_iter().map(escaped).collect();
    stage.tell(&format!(
        "redis 1 ACL SETUSER quorlock resetkeys resetchannels {}",
        words.join(" ")
    ));
}

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
    let line = documented();
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    // Database 1, so that SELECT is needed too.
    let url = format!("{}/1", stage.nodes[0]);
    permit(&stage, line.iter().copied());
    hold(&url).expect("with the whole line");
    let needed = |word: &&&str| word.starts_with(['+', '~']) && !FOR_PUSHES.contains(word);
    let mut tried = 0;
    for left_out in line.iter().filter(needed) {
        permit(&stage, line.iter().copied().filter(|word| word != left_out));
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
    assert!(tried >= 12, "only {tried} parts");

    // Keys that are allowed in part, or to be read alone.
    for pattern in ["~lock:#*", "~lock:{*", "%R~lock:*", "%W~lock:*", "~other:*"] {
        let others = line.iter().copied().filter(|word| *word != "~lock:*");
        permit(&stage, others.chain([pattern]));
        let error = hold(&url).expect_err(pattern);
        let said = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{pattern}: {said}");
        assert!(said.contains("`~lock:*`"), "{pattern}: {said}");
    }

    // What the line leaves out: pushes are yet to come, SELECT is for other
    // databases than 0 alone.
    let least = line
        .iter()
        .copied()
        .filter(|word| !FOR_PUSHES.contains(word) && *word != "+select");
    permit(&stage, least);
    hold(&stage.nodes[0]).expect("without pushes and SELECT");
}

#[test]
fn without_info_there_is_a_warning() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    set_log_sink(|_, line| SAID.lock().unwrap().push(line.to_owned()));
    let stage = Stage::like(1, &["auth"]);
    let line = documented();
    permit(
        &stage,
        line.iter().map(String::as_str).filter(|w| *w != "+info"),
    );
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
