//! `quorlock run` in its surroundings: nodes that give no votes, files of nodes, metrics, the first
//! process of a container.

#![cfg(target_os = "linux")]

mod program;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use program::{Running, done, quorlock};
use quorlock::{Client, blocking};
use quorlock_tests::Stage;

/// A folder of a test, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("quorlock-cli-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder for this test");
        Folder(path)
    }

    /// Writes a file into it, and the folders in between.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        let parent = path.parent().expect("below the folder");
        fs::create_dir_all(parent).expect("it can be made");
        fs::write(&path, text).expect("it can be written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Of a set with quarantines that a test can wait for.
const SHORT: [&str; 2] = ["--max-ttl", "4s"];

/// A set whose clients were gone when two of its nodes were started again, empty.
fn restarted() -> Stage {
    let stage = Stage::like(3, &["new"]);
    let client = Client::builder().nodes(&stage.nodes);
    let client = client.max_ttl(Duration::from_secs(4)).build();
    let client = client.expect("the nodes of a stage");
    // New servers hold no lock.
    blocking::wait(client.init_set_forced()).expect("nodes answer");
    blocking::wait(client.close());
    stage.tell("kill 2,3");
    stage.tell("start 2,3");
    stage
}

#[test]
fn a_job_waits_for_the_votes_of_nodes_that_have_restarted_and_runs_once() {
    let stage = restarted();
    let words = [
        &["run", "-n", "-E", "0", "--json", "-", "--keep", "3s"][..],
        &SHORT,
        &["nightly", "--", "echo", "done"],
    ]
    .concat();
    let start = |_| quorlock(&stage.nodes, &words).spawn().expect("it starts");
    let hosts: Vec<_> = (0..5).map(start).collect();
    let ends = hosts
        .into_iter()
        .map(|child| child.wait_with_output().expect("it ends"));
    let ends: Vec<_> = ends.collect();
    let said = |end: &std::process::Output| String::from_utf8_lossy(&end.stdout).into_owned();
    let worked = ends.iter().filter(|end| said(end).contains("done\n"));
    assert_eq!(worked.count(), 1, "{ends:?}");
    let mut waited = 0;
    for end in &ends {
        assert_eq!(end.status.code(), Some(0), "{ends:?}");
        // A try that meets another try at the node that votes says that it waits for that holder, and
        // is then refused or wins; a late try is refused. Each other try says which nodes it waits for.
        let said = said(end);
        let Some(line) = said.lines().find(|line| line.contains("in quarantine for")) else {
            let met = said.contains(r#""event":"held""#) || said.contains(r#""votes":null"#);
            assert!(met, "{ends:?}");
            continue;
        };
        assert_eq!(line.matches("in quarantine for").count(), 2, "{line}");
        let told = String::from_utf8_lossy(&end.stderr);
        assert!(told.contains(" of 3 votes; 127.0.0.1:"), "{told}");
        waited += 1;
    }
    assert_ne!(waited, 0, "{ends:?}");
}

#[test]
fn votes_are_waited_for_no_longer_than_was_said_and_not_of_dead_nodes() {
    let stage = restarted();
    for votes in ["0", "500ms"] {
        let words = [
            &["run", "-n", "-E", "0", "--votes", votes][..],
            &SHORT,
            &["nightly", "--", "true"],
        ];
        let done = done(&stage.nodes, &words.concat());
        assert_eq!(done.code, 69, "{votes}: {}", done.stderr);
        assert!(
            done.stderr.contains("a quorum may vote in"),
            "{}",
            done.stderr
        );
    }
    // A dead node, and a node in quarantine.
    stage.tell("kill 1,3");
    let words = [
        &["run", "-n", "-E", "0", "--json", "-"][..],
        &SHORT,
        &["nightly", "--", "true"],
    ];
    let done = done(&stage.nodes, &words.concat());
    assert_eq!(done.code, 69, "{}", done.stderr);
    assert!(!done.stdout.contains(r#""waiting""#), "{}", done.stdout);
}

#[test]
fn a_signal_ends_the_wait_for_votes() {
    let stage = restarted();
    let words = [
        &["run", "-n", "--json", "-"][..],
        &SHORT,
        &["nightly", "--", "true"],
    ];
    let mut run = Running::new(&stage.nodes, &words.concat());
    run.until(r#"{"event":"waiting""#);
    run.signal(libc::SIGTERM);
    assert_eq!(run.end().0.code(), Some(143));
}

#[test]
fn what_is_waited_for_is_told_by_node() {
    let stage = Stage::new(3);
    stage.tell("kill 2");
    // It votes for nothing, though it answers.
    stage.tell("redis 3 CONFIG SET min-replicas-to-write 1");
    let port = |i: usize| stage.nodes[i].trim_start_matches("redis://").to_owned();
    // With a short time for each node, in which a healthy node may fail to answer on a busy
    // machine.
    let words = ["run", "--node-timeout", "250ms", "-w", "2s"];
    let words = [&words[..], &["a", "--", "true"]].concat();
    let tell = |_| {
        let done = done(&stage.nodes, &words);
        assert_eq!(done.code, 69, "{}", done.stderr);
        done.stderr
    };
    let is_it = |told: &String| {
        let line = told
            .lines()
            .find(|line| line.contains("waiting for a: 1 of 3 votes; "));
        line.is_some_and(|line| {
            line.contains(&format!("; {} Connection refused", port(1)))
                && line.contains(&format!("; {} NOREPLICAS", port(2)))
                && !line.contains(&port(0))
        })
    };
    let told: Vec<_> = (0..5).map(tell).take_while(|told| !is_it(told)).collect();
    stage.tell("redis 3 CONFIG SET min-replicas-to-write 0");
    assert!(told.len() < 5, "{told:?}");
}

/// The program in these folders, without nodes in the environment.
fn of_files(home: &Folder, words: &[&str]) -> Command {
    let mut command = quorlock(&[], words);
    command.env("HOME", &home.0).env_remove("XDG_CONFIG_HOME");
    command
}

fn output(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

#[test]
fn nodes_are_those_of_the_users_file_where_nothing_else_names_any() {
    let home = Folder::new("home");
    let users = home.write(".config/quorlock/nodes", "# ours\nmemory://of-home\n");
    home.write("xdg/quorlock/nodes", "memory://of-config\n");
    let named = home.write("named", "memory://of-option\n");
    let inspect = ["inspect", "--json", "a"];
    let said = |command: &mut Command, node: &str| {
        let (code, said) = output(command);
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains(&format!("of-{node}")), "{node}: {said}");
    };
    said(&mut of_files(&home, &inspect), "home");
    said(
        of_files(&home, &inspect).env("QUORLOCK_NODES", " , "),
        "home",
    );
    let xdg = home.0.join("xdg");
    said(
        of_files(&home, &inspect).env("XDG_CONFIG_HOME", &xdg),
        "config",
    );
    // A path that is not absolute does not count.
    said(
        of_files(&home, &inspect).env("XDG_CONFIG_HOME", "xdg"),
        "home",
    );
    let variable = "memory://of-environment";
    said(
        of_files(&home, &inspect).env("QUORLOCK_NODES", variable),
        "environment",
    );
    let option = named.to_str().expect("plain");
    let words = ["inspect", "--json", "--nodes-file", option, "a"];
    said(
        of_files(&home, &words).env("QUORLOCK_NODES", variable),
        "option",
    );
    // What is wrong is said with the file, and nothing is asked in its place.
    let run = ["run", "-n", "a", "--", "true"];
    for (text, wrong) in [
        ("# none\n", "names no node"),
        ("http://s3cret@h\n", "the nodes are those of"),
        ("redis://127.0.0.1:1\n", "the nodes are those of"),
    ] {
        fs::write(&users, text).expect("it can be written");
        let (code, said) = output(&mut of_files(&home, &run));
        assert!(matches!(code, Some(69 | 78)), "{text}: {said}");
        let path = users.to_str().expect("plain");
        assert!(
            said.contains(wrong) && said.contains(path),
            "{text}: {said}"
        );
        assert!(!said.contains("s3cret"), "{said}");
    }
    fs::remove_file(&users).expect("it is there");
    fs::create_dir(&users).expect("it is not there");
    let (code, said) = output(&mut of_files(&home, &run));
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains("cannot be read"), "{said}");
}

/// A command of this user in namespaces of its own: `words` are those of `unshare`.
fn apart(words: &[&str], program: &Command) -> Command {
    let mut command = Command::new("unshare");
    // SAFETY: a plain system call.
    if unsafe { libc::geteuid() } != 0 {
        command.arg("--map-root-user");
    }
    command.args(words).arg("--").arg(program.get_program());
    command.args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn nodes_are_those_of_the_systems_file_where_its_user_has_none() {
    let home = Folder::new("systems");
    let program = of_files(&home, &["inspect", "--json", "a"]);
    // The folder of this machine is left alone.
    let script = "mount -t tmpfs none /etc && mkdir /etc/quorlock && \
                  echo memory://of-system > /etc/quorlock/nodes && exec \"$@\"";
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script, "sh"])
        .arg(program.get_program())
        .args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let (code, said) = output(&mut apart(&["--mount"], &shell));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("of-system"), "{said}");
    // The user's comes first.
    home.write(".config/quorlock/nodes", "memory://of-home");
    let (_, said) = output(&mut apart(&["--mount"], &shell));
    assert!(said.contains("of-home"), "{said}");
}

/// Leaves an orphan that has ended, and ends with 0 once the number of that is free.
const ORPHANS: &str = "
import os, sys, time
reader, writer = os.pipe()
if not (child := os.fork()):
    if not os.fork():
        os.write(writer, str(os.getpid()).encode())
    os._exit(0)
os.waitpid(child, 0)
os.close(writer)
orphan = b''
while part := os.read(reader, 64):
    orphan += part
for _ in range(1000):
    try:
        os.kill(int(orphan), 0)
    except ProcessLookupError:
        print('reaped')
        sys.exit(0)
    time.sleep(0.01)
sys.exit('it is there yet')";

#[test]
fn what_is_left_to_it_is_reaped_while_the_command_runs() {
    let nodes = ["memory://reaps".to_owned()];
    let words = ["run", "a", "--", "python3", "-c", ORPHANS];
    let program = quorlock(&nodes, &words);
    let (code, said) = output(&mut apart(&["--pid", "--fork", "--mount-proc"], &program));
    assert_eq!((code, &*said), (Some(0), "reaped\n"));
    // Also where it is not the first process.
    let done = done(&nodes, &words);
    assert_eq!(
        (done.code, &*done.stdout),
        (0, "reaped\n"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_stopped_command_obeys_what_is_to_end_it() {
    let nodes = ["memory://stands".to_owned()];
    for number in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        let script = "kill -STOP $$; exec tail -f /dev/null";
        let mut run = Running::new(&nodes, &["run", "a", "--", "sh", "-c", script]);
        run.until_error("the command is stopped");
        run.signal(number);
        assert_eq!(run.end_soon().code(), Some(128 + number));
    }
}

#[test]
fn a_lock_that_was_held_for_its_longest_time_ends_by_that() {
    let nodes = ["memory://longest".to_owned()];
    let words = [
        "run",
        "--json",
        "-",
        "--ttl",
        "3s",
        "--max-hold",
        "4s",
        "a",
        "--",
        "tail",
        "-f",
        "/dev/null",
    ];
    let done = done(&nodes, &words);
    assert_eq!(done.code, 76, "{}", done.stderr);
    let ending = r#"{"event":"ending","reason":"max_hold","stopped":true,"nodes":[]}"#;
    assert!(done.stdout.contains(ending), "{}", done.stdout);
    let lost = r#"{"event":"lost","reason":"max_hold","in_time":true,"child":143,"exit":76,"#;
    assert!(done.stdout.contains(lost), "{}", done.stdout);
    assert!(
        done.stderr.contains("as long as --max-hold allows"),
        "{}",
        done.stderr
    );
    assert!(!done.stderr.contains("expired"), "{}", done.stderr);
}

/// The values of a file, by what stands before them.
fn values(text: &str) -> Vec<(String, f64)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let value = |line: &str| {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        (series.to_owned(), value.parse().expect("a number"))
    };
    lines.map(value).collect()
}

#[test]
fn metrics_tell_how_the_runs_of_a_job_went() {
    let folder = Folder::new("metrics");
    let nodes = ["memory://metrics".to_owned()];
    let file = folder.0.join("job.prom");
    let path = file.to_str().expect("plain");
    let read = || fs::read_to_string(&file).expect("it is there");
    let of = |name: &str| {
        let series = format!("quorlock_run_{name}");
        let found = values(&read())
            .into_iter()
            .find(|(before, _)| *before == series);
        found.unwrap_or_else(|| panic!("no {series}")).1
    };
    // What the command finds, while it runs.
    let script = r#"grep -c '^quorlock' "$0"; date +%s; exit 3"#;
    let words = [
        "run",
        "--metrics",
        path,
        "job",
        "--",
        "sh",
        "-c",
        script,
        path,
    ];
    let run = done(&nodes, &words);
    assert_eq!(run.code, 3, "{}", run.stderr);
    let mut lines = run.stdout.lines();
    assert_eq!(lines.next(), Some("12"), "{}", run.stdout);
    let clock = lines.next().and_then(|line| line.parse::<f64>().ok());
    let clock = clock.expect("the time of day");
    assert_eq!(of(r#"total{lock="job",outcome="ended"}"#), 1.0);
    assert_eq!(of(r#"exit_code{lock="job"}"#), 3.0);
    assert_eq!(of(r#"last_success_timestamp_seconds{lock="job"}"#), 0.0);
    let done_at = |name: &str| of(&format!("{name}_timestamp_seconds{{lock=\"job\"}}"));
    let around = |at: f64| (at - clock).abs() < 300.0;
    let (start, end) = (done_at("start"), done_at("end"));
    assert!(around(start) && around(end) && start < clock + 1.0 && end >= clock);
    // A command that goes well, and a command that comes to nothing behind it.
    assert_eq!(
        done(&nodes, &["run", "--metrics", path, "job", "--", "true"]).code,
        0
    );
    let success = done_at("last_success");
    assert!(around(success) && success >= end);
    let dead = ["redis://127.0.0.1:1".to_owned()];
    let words = ["run", "-n", "--metrics", path, "job", "--", "true"];
    assert_eq!(done(&dead, &words).code, 69);
    assert_eq!(of(r#"total{lock="job",outcome="ended"}"#), 2.0);
    assert_eq!(of(r#"total{lock="job",outcome="no_quorum"}"#), 1.0);
    assert_eq!(of(r#"exit_code{lock="job"}"#), 69.0);
    assert_eq!(done_at("last_success"), success);
    // Nothing is left beside it, and what cannot be written is reported before the lock is won.
    let left = fs::read_dir(&folder.0).expect("a folder").count();
    assert_eq!(left, 1);
    for wrong in ["/nowhere/at/all", "/dev/zero", "/tmp"] {
        let words = ["run", "--metrics", wrong, "job", "--", "echo", "ran"];
        let refused = done(&nodes, &words);
        assert_eq!((refused.code, &*refused.stdout), (64, ""), "{wrong}");
        assert!(refused.stderr.contains("--metrics"), "{}", refused.stderr);
    }
}
