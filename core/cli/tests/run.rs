//! `quorlock run` against real servers: one row for each exit code, then what the rows cannot
//! say.

mod program;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use program::{AWAITS_USR1, ENDLESS, Running, done, quorlock};
use quorlock::{Client, Verdict, blocking};
use quorlock_tests::Stage;

/// Which nodes a row has.
#[derive(Clone, Copy, Debug)]
enum Nodes {
    Usual,
    Dead,
    WrongPassword,
    NoUrl,
}

/// What happens to a row while its command runs.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    Nothing,
    /// An operator takes its lock away by force.
    Force,
    /// The program gets a signal.
    Signal(i32),
}

struct Row {
    code: i32,
    nodes: Nodes,
    /// The words after `run`.
    words: &'static [&'static str],
    meanwhile: Meanwhile,
    /// What must stand on the standard error; nothing at all with an empty text.
    says: &'static str,
}

const fn row(code: i32, words: &'static [&'static str], says: &'static str) -> Row {
    Row {
        code,
        nodes: Nodes::Usual,
        words,
        meanwhile: Meanwhile::Nothing,
        says,
    }
}

const ROWS: &[Row] = &[
    row(0, &["a", "--", "true"], ""),
    row(7, &["a", "--", "sh", "-c", "exit 7"], ""),
    row(143, &["a", "--", "sh", "-c", "kill -TERM $$"], ""),
    row(64, &["a"], "<CMD>"),
    row(64, &["a", "--ttl", "soon", "--", "true"], "is no time"),
    row(64, &["a", "--ttl", "90s", "--", "true"], "above --max-ttl"),
    row(64, &["a", "--label", "x\ny", "--", "true"], "label is"),
    row(64, &["a{", "--", "true"], "braces"),
    row(64, &["-n", "-w", "1", "a", "--", "true"], "cannot be used"),
    row(64, &["-E", "256", "a", "--", "true"], "256"),
    row(75, &["-n", "held", "--", "true"], "; it is held by "),
    row(75, &["-w", "300ms", "held", "--", "true"], "held by"),
    row(75, &["-n", "-q", "held", "--", "true"], ""),
    row(75, &["-n", "--keep", "1s", "held", "--", "true"], "held by"),
    row(9, &["-n", "-E", "9", "held", "--", "true"], "held by"),
    row(0, &["-n", "-E", "0", "held", "--", "false"], ""),
    row(126, &["a", "--", "/dev/null"], "cannot run /dev/null"),
    row(127, &["a", "--", "/nowhere/at/all"], "cannot run /nowhere"),
    Row {
        nodes: Nodes::Dead,
        ..row(69, &["-w", "300ms", "a", "--", "true"], "quorum")
    },
    Row {
        nodes: Nodes::Dead,
        ..row(69, &["-n", "-E", "0", "a", "--", "true"], "quorum")
    },
    Row {
        nodes: Nodes::WrongPassword,
        ..row(78, &["a", "--", "true"], "")
    },
    Row {
        nodes: Nodes::NoUrl,
        ..row(78, &["a", "--", "true"], "QUORLOCK_NODES")
    },
    Row {
        nodes: Nodes::NoUrl,
        ..row(
            78,
            &["--nodes-file", "/nowhere/at/all", "a", "--", "true"],
            "nodes file",
        )
    },
    Row {
        meanwhile: Meanwhile::Force,
        ..row(
            76,
            &["--ttl", "1s", "forced", "--", "sh", "-c", ENDLESS],
            "forced",
        )
    },
    Row {
        meanwhile: Meanwhile::Signal(libc::SIGTERM),
        ..row(143, &["a", "--", "sh", "-c", ENDLESS], "")
    },
    Row {
        meanwhile: Meanwhile::Signal(libc::SIGUSR1),
        ..row(5, &["a", "--", "python3", "-c", AWAITS_USR1], "")
    },
];

fn client(stage: &Stage) -> Client {
    Client::new(&stage.nodes).expect("the nodes of a stage")
}

/// The kernel takes connections of a listener that accepts none, and nothing ever answers.
#[test]
fn nodes_that_hang_are_waited_for_no_longer_than_the_lock() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let node = [format!("redis://{}", listener.local_addr().expect("bound"))];
    let words = [
        "run",
        "-w",
        "300ms",
        "--connect-timeout",
        "60s",
        "a",
        "--",
        "true",
    ];
    // A bound that is far from both: the wait, and the time for the first connection.
    #[allow(clippy::disallowed_methods)]
    let begun = Instant::now();
    let (status, said) = Running::new(&node, &words).end();
    assert_eq!(status.code(), Some(69), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{said}");
}

#[test]
fn each_exit_code() {
    let (stage, dead) = (Stage::new(3), Stage::new(3));
    dead.tell("kill all");
    let locked = Stage::like(1, &["auth"]);
    let secret: Vec<String> = locked
        .nodes
        .iter()
        .map(|url| match url.rsplit_once('@') {
            Some((_, host)) => format!("redis://quorlock:s3cret@{host}"),
            None => panic!("a stage with users: {url}"),
        })
        .collect();
    let wrong = ["http://:s3cret@h".to_owned()];
    let other = client(&stage);
    let _held = blocking::wait(other.lock("held").acquire()).expect("nobody has it");
    for row in ROWS {
        let nodes = match row.nodes {
            Nodes::Usual => &stage.nodes[..],
            Nodes::Dead => &dead.nodes,
            Nodes::WrongPassword => &secret,
            Nodes::NoUrl => &wrong,
        };
        let words = [&["run"], row.words].concat();
        let mut run = Running::new(nodes, &words);
        match row.meanwhile {
            Meanwhile::Nothing => {}
            Meanwhile::Force => {
                run.until("ready");
                let forced = blocking::wait(other.force_release("forced", None));
                assert!(forced.expect("nodes answer").freed() >= 2);
            }
            Meanwhile::Signal(number) => {
                run.until("ready");
                run.signal(number);
            }
        }
        let (status, _) = run.end();
        let said = run.stderr();
        assert_eq!(status.code(), Some(row.code), "{words:?}: {said}");
        assert!(said.contains(row.says), "{words:?}: {said}");
        let silent = row.says.is_empty() && !matches!(row.nodes, Nodes::WrongPassword);
        assert!(!silent || said.is_empty(), "{words:?}: {said}");
        assert!(!said.contains("s3cret"), "{words:?}: {said}");
        if matches!(row.nodes, Nodes::Usual) {
            stage.tell("expect-votes lock:{a} 0 0");
        }
    }
}

#[test]
fn the_command_knows_its_lock_and_fences_grow() {
    let stage = Stage::new(3);
    let words = [
        "run",
        "a b",
        "--",
        "sh",
        "-c",
        "echo $QUORLOCK_LOCK:$QUORLOCK_FENCE",
    ];
    let mut last = 0;
    for _ in 0..2 {
        let done = done(&stage.nodes, &words);
        let (name, fence) = done.stdout.trim().split_once(':').expect("both are set");
        assert_eq!((done.code, name), (0, "a b"), "{}", done.stderr);
        let fence: u64 = fence.parse().expect("a number");
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    }
}

#[test]
fn the_nodes_are_kept_from_the_command() {
    let nodes = ["memory://kept".to_owned()];
    let script =
        "echo ${QUORLOCK_NODES-none} ${QUORLOCK_KEY-none} ${QUORLOCK_CERT-none} $QUORLOCK_LOCK";
    let ends = ["a", "--", "sh", "-c", script];
    for (option, seen) in [
        (&["run", "--no-nodes-env"][..], "none none none a"),
        (&["run"], "memory://kept none none a"),
    ] {
        let done = done(&nodes, &[option, &ends].concat());
        assert_eq!(
            (done.code, done.stdout.trim()),
            (0, seen),
            "{}",
            done.stderr
        );
    }
}

#[test]
fn a_file_of_nodes_without_an_end_is_refused() {
    let done = done(
        &[],
        &["run", "--nodes-file", "/dev/zero", "a", "--", "true"],
    );
    assert_eq!(done.code, 78, "{}", done.stderr);
    assert!(
        done.stderr.contains("longer than any list"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_secret_is_in_no_label_and_no_error_of_a_command_that_is_none() {
    let nodes = ["memory://none".to_owned()];
    for program in ["redis://u:s3cret@h/x", "u:s3cret@h"] {
        let done = done(&nodes, &["run", "--json", "-", "a", "--", program]);
        assert_eq!(done.code, 127, "{}", done.stderr);
        let said = done.stderr + &done.stdout;
        assert!(
            said.contains("cannot run text of") && !said.contains("s3cret"),
            "{said}"
        );
    }
}

#[test]
fn a_command_is_stopped_before_its_lock_ends() {
    let stage = Stage::new(3);
    // It ignores TERM, so that KILL has to come in time, too.
    let script = "trap 'echo term' TERM; echo ready; while :; do tail -f /dev/null; done";
    let words = [
        "run", "--ttl", "3s", "--json", "-", "a", "--", "sh", "-c", script,
    ];
    let mut run = Running::new(&stage.nodes, &words);
    run.until("ready");
    stage.tell("stop all");
    let (status, rest) = run.end();
    stage.tell("cont all");
    assert_eq!(status.code(), Some(76), "{}", run.stderr());
    let node = |stage: &Stage, i: usize| {
        let url = &stage.nodes[i];
        url.trim_start_matches("redis://").to_owned()
    };
    let ending = rest.find(r#"{"event":"ending","reason":"expired","stopped":true,"nodes":["#);
    assert!(ending.is_some(), "{rest}");
    let lost =
        r#"{"event":"lost","reason":"expired","in_time":true,"child":137,"exit":76,"nodes":["#;
    let said = run.stderr();
    assert!(rest.contains(lost), "{rest} {said}");
    // Which nodes, and what ails them; for people and for programs.
    for i in 0..3 {
        let object = format!(r#"{{"node":"{}","said":"no answer"#, node(&stage, i));
        assert!(rest.matches(&object).count() >= 2, "{object}: {rest}");
        let line = format!("{}: no answer", node(&stage, i));
        assert!(said.matches(&line).count() >= 2, "{line}: {said}");
    }
}

#[test]
fn with_no_kill_a_command_ends_by_itself() {
    let stage = Stage::new(3);
    let script = "echo ready; read x < $0; exit 3";
    let fifo = std::env::temp_dir().join(format!("quorlock-cli-{}", std::process::id()));
    let path = fifo.to_str().expect("plain");
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo runs").success());
    let words = [
        "run",
        "--no-kill",
        "--ttl",
        "1s",
        "--json",
        "-",
        "a",
        "--",
        "sh",
        "-c",
        script,
        path,
    ];
    let mut run = Running::new(&stage.nodes, &words);
    run.until("ready");
    let forced = blocking::wait(client(&stage).force_release("a", None));
    assert!(forced.expect("nodes answer").freed() >= 2);
    let told = run.until(r#"{"event":"ending","reason":"forced","stopped":false,"nodes":["#);
    assert!(told.contains(r#""said":"taken away by force""#), "{told}");
    std::fs::write(&fifo, "go\n").expect("the command reads it");
    let (status, rest) = run.end();
    let _ = std::fs::remove_file(&fifo);
    assert_eq!(status.code(), Some(76));
    let lost = r#"{"event":"lost","reason":"forced","in_time":false,"child":3,"exit":76,"#;
    assert!(rest.contains(lost), "{rest} {}", run.stderr());
}

#[test]
fn the_lock_is_free_when_the_whole_group_has_ended() {
    let stage = Stage::new(1);
    // The leader ends at once; what it has left holds the standard output.
    let script = "(trap '' TERM; echo ready; exec tail -f /dev/null) & exit 4";
    let words = [
        "run", "--json", "-", "--ttl", "1s", "--grace", "60s", "a", "--", "sh", "-c", script,
    ];
    let mut run = Running::new(&stage.nodes, &words);
    // Two processes write this, in either order.
    run.until(r#"{"event":"exited","child":4}"#);
    if !run.seen.iter().any(|line| line == "ready\n") {
        run.until("ready");
    }
    let found = blocking::wait(client(&stage).inspect("a")).expect("a name");
    assert_eq!(found.verdict(), Verdict::Held);
    // USR2 ends what ignores TERM.
    run.signal(libc::SIGUSR2);
    let (status, _) = run.end();
    assert_eq!(status.code(), Some(4), "{}", run.stderr());
    stage.tell("expect-votes lock:{a} 0 0");
}

#[test]
fn a_signal_ends_the_wait_and_leaves_nothing() {
    let stage = Stage::new(3);
    let other = client(&stage);
    let held = blocking::wait(other.lock("a").acquire()).expect("nobody has it");
    let mut run = Running::new(&stage.nodes, &["run", "--json", "-", "a", "--", "true"]);
    // It tells that it waits, so it does.
    run.until(r#"{"event":"waiting","lock":"a""#);
    run.signal(libc::SIGTERM);
    let (status, rest) = run.end();
    assert_eq!(status.code(), Some(143), "{rest}");
    blocking::wait(held.release()).expect("nodes answer");
    let next = other.lock("a").wait(Duration::ZERO);
    let _next = blocking::wait(next.acquire()).expect("no place and no key is left");
}

#[test]
fn one_who_waits_gets_the_lock() {
    let stage = Stage::new(3);
    let other = client(&stage);
    let held = blocking::wait(other.lock("a").acquire()).expect("nobody has it");
    let mut run = Running::new(&stage.nodes, &["run", "--json", "-", "a", "--", "true"]);
    run.until(r#"{"event":"waiting","lock":"a""#);
    blocking::wait(held.release()).expect("nodes answer");
    let (status, rest) = run.end();
    assert_eq!(status.code(), Some(0), "{rest}");
    assert!(
        rest.contains(r#"{"event":"ended","child":0,"exit":0}"#),
        "{rest}"
    );
}

#[test]
fn many_run_at_once_who_share_the_lock_and_nobody_beside_them() {
    let stage = Stage::new(3);
    let nodes = &stage.nodes;
    let run = ["run", "--shared", "prices", "--", "sh", "-c", ENDLESS];
    let mut readers = [Running::new(nodes, &run), Running::new(nodes, &run)];
    for reader in &mut readers {
        reader.until("ready");
    }
    assert_eq!(done(nodes, &["run", "-n", "prices", "--", "true"]).code, 75);
    let beside = ["run", "-n", "-s", "prices", "--", "true"];
    assert_eq!(done(nodes, &beside).code, 0);
    for mut reader in readers {
        reader.signal(libc::SIGTERM);
        reader.end();
    }
    assert_eq!(done(nodes, &["run", "-n", "prices", "--", "true"]).code, 0);
}

#[test]
fn as_many_run_at_once_as_there_are_slots() {
    let stage = Stage::new(3);
    let nodes = &stage.nodes;
    let run = ["run", "--slots", "2", "api", "--", "sh", "-c", ENDLESS];
    let mut both = [Running::new(nodes, &run), Running::new(nodes, &run)];
    for one in &mut both {
        one.until("ready");
    }
    let third = ["run", "-n", "--slots", "2", "api", "--", "true"];
    assert_eq!(done(nodes, &third).code, 75);
    for mut one in both {
        one.signal(libc::SIGTERM);
        one.end();
    }
    let tells = "echo $QUORLOCK_SLOT";
    let told = done(
        nodes,
        &["run", "--slots", "1", "api", "--", "sh", "-c", tells],
    );
    assert_eq!((told.code, told.stdout.trim()), (0, "0"));
    for wrong in [&["--slots", "0"][..], &["--slots", "2", "--shared"]] {
        let words = [&["run"], wrong, &["api", "--", "true"]].concat();
        assert_eq!(done(nodes, &words).code, 64);
    }
}

#[test]
fn a_lock_is_kept_and_of_many_hosts_one_does_the_work() {
    let stage = Stage::new(3);
    let words = [
        "run", "-n", "-E", "0", "--keep", "30s", "nightly", "--", "echo", "done",
    ];
    let start = |_| quorlock(&stage.nodes, &words).spawn().expect("it starts");
    let all: Vec<_> = (0..5).map(start).collect();
    let ends = all
        .into_iter()
        .map(|child| child.wait_with_output().expect("it ends"));
    let ends: Vec<_> = ends.collect();
    let worked = ends.iter().filter(|end| end.stdout == b"done\n").count();
    assert_eq!(worked, 1, "{ends:?}");
    assert!(
        ends.iter().all(|end| end.status.code() == Some(0)),
        "{ends:?}"
    );
    assert!(ends.iter().all(|end| end.stderr.is_empty()), "{ends:?}");
}
