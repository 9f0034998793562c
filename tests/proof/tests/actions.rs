//! The specification has the actions of docs/proof/actions.toml, each of which is an event or a message of the protocol's page; and
//! every script of that page is an action's, or is left out with a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use quorlock_proof::spec::{ACTIONS, Action};

fn text(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).expect(path)
}

/// The tables of that name: of each its words by their keys.
fn tables(toml: &str, name: &str) -> Vec<BTreeMap<String, String>> {
    let mut tables = Vec::new();
    for part in toml.split("\n[[").skip(1) {
        let Some((head, rest)) = part.split_once("]]") else {
            continue;
        };
        if head != name {
            continue;
        }
        let words = rest.lines().filter_map(|line| {
            let (key, word) = line.split_once(" = ")?;
            Some((key.to_owned(), word.trim_matches('"').to_owned()))
        });
        tables.push(words.collect());
    }
    tables
}

fn headings(page: &str) -> BTreeSet<String> {
    let lines = page.lines().filter(|line| line.starts_with('#'));
    lines
        .map(|line| line.trim_start_matches('#').trim().to_owned())
        .collect()
}

/// What is wrong with the list of actions.
fn wrong(toml: &str, protocol: &str, promises: &str) -> Vec<String> {
    let (actions, left_out) = (tables(toml, "action"), tables(toml, "left_out"));
    let mut wrong = Vec::new();
    let listed: BTreeSet<&str> = actions.iter().map(|a| a["name"].as_str()).collect();
    // A look changes nothing, and so is none.
    let ours = ACTIONS.iter().filter(|action| **action != Action::Look);
    let ours: BTreeSet<String> = ours.map(|action| format!("{action:?}")).collect();
    let ours: BTreeSet<&str> = ours.iter().map(String::as_str).collect();
    for name in listed.symmetric_difference(&ours) {
        wrong.push(format!("{name} is not on both lists"));
    }
    let pages = [headings(protocol), headings(promises)];
    for action in &actions {
        let page = usize::from(action.get("page").is_some_and(|page| page == "promises"));
        if !pages[page].contains(&action["section"]) {
            wrong.push(format!("{}: no section of that name", action["name"]));
        }
    }
    let words = |text: &str| -> BTreeSet<String> {
        let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        text.split(word).map(str::to_owned).collect()
    };
    let said = actions.iter().map(|a| words(&a["message"]));
    let said: BTreeSet<String> = said
        .chain(left_out.iter().map(|left| words(&left["section"])))
        .flatten()
        .collect();
    let scripts = protocol
        .split('`')
        .filter_map(|word| word.strip_suffix(".lua"));
    // Those that stand within others are no messages.
    let scripts = scripts.take_while(|name| *name != "line" && *name != "guard");
    let scripts: BTreeSet<&str> = scripts.collect();
    if scripts.len() < 15 {
        wrong.push(format!("too few scripts: {scripts:?}"));
    }
    for script in scripts {
        if !said.contains(script) {
            wrong.push(format!("the script {script} is no action's"));
        }
    }
    for word in ["SET", "ZADD", "MGET", "TIME", "DELIFEQ", "DELEX"] {
        if !said.contains(word) || !protocol.contains(word) {
            wrong.push(format!("the command {word} is no action's"));
        }
    }
    wrong
}

#[test]
fn every_action_is_a_message_of_the_protocol_and_the_reverse() {
    let (toml, protocol) = (
        text("docs/proof/actions.toml"),
        text("docs/reference/protocol.md"),
    );
    let promises = text("docs/reference/promises.md");
    assert_eq!(wrong(&toml, &protocol, &promises), Vec::<String>::new());
    // And each of these is missed.
    let without = |from: &str, to: &str| wrong(&toml.replace(from, to), &protocol, &promises);
    for (from, to) in [
        ("\"NodeTrailer\"", "\"NodeTail\""),
        ("\"Native acquire\"", "\"Native\""),
        ("\"inspect\"", "\"looks\""),
        ("DELEX", ""),
    ] {
        assert!(!without(from, to).is_empty(), "{from}");
    }
}
