//! Servers that can be no node, or lack something: each row of docs/operations/servers.md that has an id
//! is made true, and tells its sentence at once and once.

use std::collections::BTreeSet;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use quorlock::{Client, ErrorKind, Level, RestartGuard, blocking, set_log_sink};
use quorlock_tests::part::Part;
use quorlock_tests::queue::until;
use quorlock_tests::{Stage, nap, root};

/// The rows of the page under this heading: id and sentence.
fn page(heading: &str) -> Vec<(String, String)> {
    let page = fs::read_to_string(root().join("docs/operations/servers.md")).expect("the page");
    let (_, section) = page.split_once(heading).expect("the heading");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| QD"));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    cells.map(|row| (row[1].into(), row[3].into())).collect()
}

fn info(fields: &'static [(&'static str, &'static str)]) -> Part {
    Part {
        info: fields,
        ..Part::default()
    }
}

fn refuses(commands: &'static [(&'static str, &'static str)]) -> Part {
    Part {
        refuses: commands,
        ..Part::default()
    }
}

const LUA_OFF: &str = "ERR This instance has Lua scripting support disabled";

/// All of those that are refused.
fn refused() -> Vec<(&'static str, Part)> {
    vec![
        ("QD04", info(&[("redis_version", "5.0.14")])),
        ("QD05", info(&[("cluster_enabled", "1")])),
        ("QD05", refuses(&[("GET", "MOVED 866 10.0.0.2:6379")])),
        (
            "QD05",
            refuses(&[(
                "EVAL",
                "CROSSSLOT Keys in request don't hash to the same slot",
            )]),
        ),
        (
            "QD06",
            info(&[
                ("role", "slave"),
                ("master_host", "10.0.0.2"),
                ("master_port", "6379"),
            ]),
        ),
        (
            "QD07",
            info(&[("maxmemory", "100"), ("maxmemory_policy", "allkeys-lru")]),
        ),
        (
            "QD17",
            Part {
                info: &[("redis_mode", "sentinel")],
                refuses: &[
                    (
                        "GET",
                        "ERR unknown command 'GET', with args beginning with: ",
                    ),
                    (
                        "TIME",
                        "ERR unknown command 'TIME', with args beginning with: ",
                    ),
                ],
            },
        ),
        // Its user may not ask what it is.
        (
            "QD17",
            refuses(&[
                (
                    "INFO",
                    "NOPERM User u has no permissions to run the 'info' command",
                ),
                (
                    "GET",
                    "ERR unknown command 'GET', with args beginning with: ",
                ),
            ]),
        ),
        (
            "QD18",
            info(&[
                ("kvrocks_version", "2.9.0"),
                ("redis_version", "4.0.0"),
                ("run_id", ""),
            ]),
        ),
        (
            "QD19",
            info(&[("role", "active-replica"), ("master_host", "10.0.0.2")]),
        ),
        (
            "QD20",
            refuses(&[
                ("INFO", "unsupported command 'INFO'"),
                ("TIME", "unsupported command 'TIME'"),
            ]),
        ),
        ("QD20", refuses(&[("INFO", "ERR unknown command 'INFO'")])),
        (
            "QD20",
            refuses(&[("PUBLISH", "ERR unknown command 'PUBLISH'")]),
        ),
        (
            "QD20",
            refuses(&[("SUBSCRIBE", "ERR unknown command 'SUBSCRIBE'")]),
        ),
        (
            "QD21",
            refuses(&[
                (
                    "SCRIPT",
                    "ERR unknown command `SCRIPT`, with args beginning with: `LOAD`, ",
                ),
                (
                    "EVAL",
                    "ERR unknown command `EVAL`, with args beginning with: ",
                ),
                (
                    "EVALSHA",
                    "ERR unknown command `EVALSHA`, with args beginning with: ",
                ),
            ]),
        ),
        (
            "QD21",
            refuses(&[("SCRIPT", LUA_OFF), ("EVAL", LUA_OFF), ("EVALSHA", LUA_OFF)]),
        ),
    ]
}

#[test]
fn each_that_is_refused_is_told_at_once_in_the_sentence_of_the_page() {
    let stage = Stage::new(1);
    let rows = page("## Refused");
    let parts = refused();
    let shown: BTreeSet<_> = rows.iter().map(|row| &*row.0).collect();
    let played: BTreeSet<_> = parts.iter().map(|part| part.0).collect();
    assert_eq!(shown, played);
    for (id, part) in parts {
        let (_, sentence) = rows.iter().find(|row| row.0 == id).expect("its row");
        let client = Client::new([part.before(&stage.nodes[0])]).unwrap();
        // Although it would wait forever.
        let error = blocking::wait(client.lock("a").wait(None).acquire()).unwrap_err();
        let said = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{id}: {said}");
        assert_eq!(
            said.matches(&**sentence).count(),
            1,
            "{id}: {said}\n{sentence}"
        );
        let probe = blocking::wait(client.probe()).unwrap();
        let node = &probe.nodes[0];
        let found: Vec<_> = node.findings.iter().map(|f| (f.id, &*f.what)).collect();
        assert_eq!(found, [(id, &**sentence)], "{part:?}");
        assert!(!node.votes && !node.findings[0].remedy.is_empty());
        blocking::wait(client.close());
    }
}

/// A sentinel as it is shipped, which watches that master and ends with this.
struct Sentinel(Child, PathBuf);

impl Sentinel {
    fn of(master: &str) -> (Sentinel, String) {
        Sentinel::naming(master, "127.0.0.1")
    }

    /// One that calls the host of that master so.
    fn naming(master: &str, host: &str) -> (Sentinel, String) {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
        let port = port.expect("a port").port();
        let folder = std::env::temp_dir().join(format!("qlsentinel{port}"));
        fs::create_dir(&folder).expect("a folder");
        let (_, at) = master[8..].split_once(':').expect("host and port");
        let settings = format!(
            "bind 127.0.0.1\nport {port}\ndir {0}\nlogfile {0}/log\nsentinel resolve-hostnames yes\n\
             sentinel announce-hostnames yes\nsentinel monitor m {host} {at} 1\n",
            folder.display()
        );
        fs::write(folder.join("conf"), settings).expect("written");
        let child = Command::new("redis-server")
            .arg(folder.join("conf"))
            .arg("--sentinel")
            .spawn();
        let sentinel = Sentinel(child.expect("redis-server runs"), folder);
        until("it listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        (sentinel, format!("127.0.0.1:{port}"))
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = fs::remove_dir_all(&self.1);
    }
}

/// With a password, which it refuses, and a database, which it has none of, and without.
#[test]
fn a_real_sentinel_is_told_from_a_server_that_is_down() {
    let stage = Stage::new(1);
    let (_sentinel, host) = Sentinel::of(&stage.nodes[0]);
    let rows = page("## Refused");
    let (id, sentence) = rows.iter().find(|row| row.0 == "QD17").expect("its row");
    for url in [
        format!("redis://{host}"),
        format!("redis://:hunter2@{host}/1"),
        format!("redis://u:hunter2@{host}"),
    ] {
        let client = Client::new([url]).unwrap();
        let error = blocking::wait(client.lock("a").wait(None).acquire()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        let said = error.to_string();
        assert!(
            said.contains(&**sentence) && !said.contains("hunter2"),
            "{said}"
        );
        let probe = blocking::wait(client.probe()).unwrap();
        let ids: Vec<_> = probe.nodes[0].findings.iter().map(|f| f.id).collect();
        assert_eq!(ids, [&**id], "{probe:?}");
        blocking::wait(client.close());
    }
    // What the sentence says to do.
    let client = Client::builder().nodes([format!("redis+sentinel://{host}/m")]);
    let client = client.restart_guard(RestartGuard::Off).build().unwrap();
    drop(blocking::wait(client.lock("a").acquire()).unwrap());
    blocking::wait(client.close());
}

/// Both call their master by one name, as the settings that come with them do.
#[test]
fn sentinels_of_two_deployments_are_told() {
    let stage = Stage::new(2);
    let both: Vec<_> = stage.nodes.iter().map(|node| Sentinel::of(node)).collect();
    let hosts = [0, 1].map(|n| both[n].1.as_str());
    let url = |hosts: &[&str]| format!("redis+sentinel://{}/m", hosts.join(";"));
    let found = |url: String| {
        let client = Client::new([url]).unwrap();
        let probe = blocking::wait(client.probe()).unwrap();
        blocking::wait(client.close());
        let findings = probe.nodes[0].findings.iter();
        let found = findings.filter(|finding| finding.id == "QD26");
        found.map(|finding| finding.what.clone()).next()
    };
    let said = found(url(&hosts)).expect("it is told");
    assert!(hosts.iter().all(|host| said.contains(host)), "{said}");
    for host in hosts {
        assert_eq!(found(url(&[host])), None);
    }
    // One of one deployment may name the host where others name the address.
    let (_named, host) = Sentinel::naming(&stage.nodes[0], "localhost");
    assert_eq!(found(url(&[hosts[0], &host])), None);
    let said = found(url(&[hosts[1], &host])).expect("it is told");
    assert!(said.contains("localhost"), "{said}");
}

/// A probe runs no script there, for that would make it a used one.
#[test]
fn a_new_server_without_scripts_is_told_before_it_has_a_record() {
    let stage = Stage::like(1, &["new"]);
    let rows = page("## Refused");
    for (id, part) in refused().into_iter().filter(|(id, _)| *id == "QD21") {
        let (_, sentence) = rows.iter().find(|row| row.0 == id).expect("its row");
        let client = Client::new([part.before(&stage.nodes[0])]).unwrap();
        let probe = blocking::wait(client.probe()).unwrap();
        let ids: Vec<_> = probe.nodes[0].findings.iter().map(|f| f.id).collect();
        assert!(ids.contains(&id) && !probe.nodes[0].votes, "{probe:?}");
        let error = blocking::wait(client.lock("a").wait(None).acquire()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains(&**sentence), "{error}");
        stage.tell("expect all 0 EXISTS lock:#node");
        blocking::wait(client.close());
    }
}

/// It may as well be a server that is on its way down, so it is asked again.
#[test]
fn a_proxy_that_closes_the_connection_is_named_as_one_case() {
    let stage = Stage::new(1);
    let client = Client::new([refuses(&[("INFO", "")]).before(&stage.nodes[0])]).unwrap();
    let error = blocking::wait(client.lock("a").wait(Duration::ZERO).acquire()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QuorumUnavailable, "{error}");
    let said = error.to_string();
    let sentence = "the node closed the connection before it answered INFO, as a TLS port does to redis:// (write rediss://), and a proxy that does not know INFO (twemproxy)";
    assert!(said.contains(sentence), "{said}");
    let page = fs::read_to_string(root().join("docs/operations/servers.md")).expect("the page");
    assert!(page.contains(sentence));
}

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The warnings that name this node.
fn warnings(url: &str) -> Vec<String> {
    let said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let host = url.strip_prefix("redis://").expect("TCP");
    said.iter()
        .filter(|line| line.contains(host))
        .cloned()
        .collect()
}

#[test]
fn what_a_server_lacks_is_warned_of_once_in_the_sentence_of_the_page() {
    set_log_sink(|level, line| {
        if level == Level::Warn {
            let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
            said.push(line.to_string());
        }
    });
    let rows = page("## Taken, with a warning");
    let parts = [
        ("QD14", refuses(&[("HELLO", "ERR unknown command 'HELLO'")])),
        ("QD22", info(&[("run_id", "")])),
        (
            "QD23",
            refuses(&[("CLIENT INFO", "ERR unknown subcommand 'INFO'")]),
        ),
    ];
    let named: Vec<_> = rows.iter().map(|row| &*row.0).collect();
    assert_eq!(named, parts.map(|part| part.0));
    for ((id, sentence), (_, part)) in rows.iter().zip(parts) {
        let stage = Stage::new(3);
        let mut nodes = stage.nodes.clone();
        nodes[0] = part.before(&nodes[0]);
        let client = Client::new(&nodes).unwrap();
        let cycle = || drop(blocking::wait(client.lock("a").acquire()).unwrap());
        let told = || {
            warnings(&nodes[0])
                .iter()
                .filter(|line| line.contains(&**sentence))
                .count()
        };
        cycle();
        until("it is told", || told() > 0);
        // Another connection tells it no more.
        let connects = client.stats().connects;
        for kind in ["normal", "pubsub"] {
            stage.tell(&format!("redis 1 CLIENT KILL TYPE {kind}"));
        }
        until("it is connected anew", || {
            cycle();
            client.stats().connects > connects
        });
        cycle();
        nap(Duration::from_millis(100));
        assert_eq!(told(), 1, "{id}: {:?}", warnings(&nodes[0]));
        let probe = blocking::wait(client.probe()).unwrap();
        let found: Vec<_> = probe.nodes[0].findings.iter().map(|f| f.id).collect();
        assert!(found.contains(&&**id), "{found:?}");
        blocking::wait(client.close());
    }
}

/// Nobody asks for a run, or for an address, where restarts are not guarded.
#[test]
fn without_a_guard_nobody_misses_what_only_guards_need() {
    let stage = Stage::new(3);
    let part = Part {
        info: &[("run_id", "")],
        refuses: &[("CLIENT INFO", "ERR unknown subcommand 'INFO'")],
    };
    let url = part.before(&stage.nodes[0]);
    let off = Client::builder()
        .nodes([&url])
        .restart_guard(RestartGuard::Off);
    stage.tell("redis 1 DEL lock:#node");
    let client = off.build().unwrap();
    drop(blocking::wait(client.lock("a").acquire()).unwrap());
    let probe = blocking::wait(client.probe()).unwrap();
    assert_eq!(probe.nodes[0].findings, [], "{probe:?}");
    blocking::wait(client.close());
}
