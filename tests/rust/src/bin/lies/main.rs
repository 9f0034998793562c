//! Servers that lie, and all calls of the library beside them: `lies [--seconds N] [--seed S]
//! [--rounds N]` measures paces and then draws rounds for that long, `lies judges` shows that each
//! judge can fail, and `lies serve [--seed S] [--before ADDRESS]` is one such server for other programs: it prints
//! `port N`, and obeys lines with a mood (`honest`, `lies`, `floods` …; see the module `liar`)
//! until its input ends.
//!
//! Each call has to end within its time; an error names a node where nodes are at fault, and
//! shows what they said as text; nothing panics; memory and processor stay bounded; with one liar
//! of three the healthy nodes go on at no less than 0.8 of their pace; and of a lease that is told
//! as held a healthy node has the token.

mod judges;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use judges::{judge_held, judge_idle, judge_memory, judge_pace, judge_panics, judges, listen};
use quorlock::{Client, Error, ErrorKind, RestartGuard, blocking};
use quorlock_tests::liar::{Draw, Liar, Mood, Word};
use quorlock_tests::{Stage, monotonic, nap, resident_kib};

/// What each call may take beyond what it is told to wait.
const PATIENCE: Duration = Duration::from_secs(6);
/// The same of those that read whole servers.
const READING: Duration = Duration::from_secs(40);
/// The namespace of a set that healthy nodes have founded.
const FOUNDED: &str = "founded:";
const WAIT: Duration = Duration::from_millis(300);
/// How many rounds are drawn at the least, for a round of silent nodes takes seconds.
const FEWEST: usize = 4;
/// How often the one and the other is measured, and how often at most: a busy machine hides what they can.
const TURNS: usize = 5;
const MOST_TURNS: usize = 25;
/// How much of their pace the healthy nodes keep.
const PACE: f64 = 0.8;
/// How much memory all rounds may take, in KiB.
const MEMORY: u64 = 300 * 1024;
/// How much of a processor a client that is flooded may take while it does nothing.
const IDLE: f64 = 0.5;

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// What has failed, with how often.
#[derive(Default)]
struct Judge {
    failed: BTreeMap<String, usize>,
    calls: usize,
    ends: BTreeMap<String, usize>,
}

impl Judge {
    fn fail(&mut self, what: impl Into<String>) {
        *self.failed.entry(what.into()).or_default() += 1;
    }

    /// Whether a text is shown as text.
    fn text(&mut self, what: &str, said: &str) {
        let odd = said
            .chars()
            .find(|c| c.is_control() || "\u{202e}\u{2028}\u{feff}".contains(*c));
        if let Some(odd) = odd {
            self.fail(format!("{what}: a text with {odd:?}"));
        }
        if said.chars().count() > 2_500 {
            self.fail(format!(
                "{what}: a text of {} characters",
                said.chars().count()
            ));
        }
    }

    fn error(&mut self, what: &str, error: &Error) {
        self.text(what, error.message());
        for node in error.nodes() {
            self.text(what, node.message());
        }
        let names = matches!(
            error.kind(),
            ErrorKind::QuorumUnavailable | ErrorKind::Misconfigured
        );
        if names && error.nodes().is_empty() && !error.message().contains("127.0.0.1:") {
            self.fail(format!("{what}: it names no node: {error}"));
        }
        if error.kind() == ErrorKind::Internal {
            self.fail(format!("{what}: {error}"));
        }
    }

    /// Runs a call, which has to end within that time.
    fn call<T: Send + 'static>(
        &mut self,
        what: &str,
        most: Duration,
        call: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Option<T> {
        self.calls += 1;
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            let _ = done.send(call());
        });
        let kind = match ended.recv_timeout(most) {
            Ok(Ok(value)) => {
                *self.ends.entry(format!("{what} ok")).or_default() += 1;
                return Some(value);
            }
            Ok(Err(error)) => {
                self.error(what, &error);
                error.kind().name()
            }
            Err(_) => {
                self.fail(format!("{what}: it does not end within {most:?}"));
                "hangs"
            }
        };
        *self.ends.entry(format!("{what} {kind}")).or_default() += 1;
        None
    }

    fn tell(&self, seed: u64) -> ExitCode {
        for (what, times) in &self.failed {
            println!("FAIL {what} ({times} times)");
        }
        let failed = self.failed.len();
        println!("seed {seed}: {} calls", self.calls);
        println!(
            "{} passed, {failed} failed",
            self.calls.saturating_sub(failed)
        );
        ExitCode::from(u8::from(failed > 0))
    }
}

/// A liar in a process of its own, so that what it takes is its own.
struct Server {
    child: Child,
    input: ChildStdin,
    address: String,
}

impl Server {
    fn new(seed: u64, before: Option<&str>) -> Server {
        let mut command = Command::new(std::env::current_exe().expect("it has a name"));
        command.args(["serve", "--seed", &seed.to_string()]);
        command.args(before.iter().flat_map(|before| ["--before", before]));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        output.read_line(&mut line).expect("it tells its port");
        let port = line
            .trim()
            .strip_prefix("port ")
            .expect("its port")
            .to_owned();
        Server {
            input: child.stdin.take().expect("piped"),
            child,
            address: format!("127.0.0.1:{port}"),
        }
    }

    fn is(&mut self, mood: &str) {
        let _ = writeln!(self.input, "{mood}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn client(nodes: Vec<String>, namespace: &str, guard: RestartGuard) -> Result<Client, Error> {
    Client::builder()
        .nodes(nodes)
        .restart_guard(guard)
        .namespace(namespace)
        .set_name("lies")
        .ttl(Duration::from_secs(2))
        .max_ttl(Duration::from_secs(3))
        .node_timeout(Duration::from_millis(100))
        .build()
}

/// What a real server answers to one command.
fn ask(address: &str, words: &[&[u8]]) -> Option<Word> {
    let mut stream = TcpStream::connect(address).ok()?;
    let command = words.iter().map(|word| Word::Bulk(word.to_vec()));
    let mut bytes = Vec::new();
    Word::Row(b'*', command.collect()).write(&mut bytes);
    stream.write_all(&bytes).ok()?;
    Word::read(&mut BufReader::new(&mut stream)).ok()
}

/// Whether a healthy node has the lock's token, which is told as held.
fn is_had(honest: &[String], key: &[u8], token: &str) -> bool {
    honest
        .iter()
        .any(|address| match ask(address, &[b"GET", key]) {
            Some(Word::Bulk(value)) => String::from_utf8_lossy(&value).contains(token),
            _ => false,
        })
}

/// All calls, beside a liar; `honest` are the healthy nodes of the set.
fn calls(judge: &mut Judge, draw: &mut Draw, client: &Client, namespace: &str, honest: &[String]) {
    let name = format!("l{}", draw.below(4));
    let lock = client.lock(name.as_str()).wait(WAIT);
    let most = WAIT + PATIENCE;
    match draw.below(13) {
        0..=3 => {
            let asked = lock.clone();
            let acquired = judge.call("acquire", most, move || blocking::wait(asked.acquire()));
            let Some(lease) = acquired else { return };
            if honest.len() > 1 && lease.is_held() {
                let key = format!("{namespace}{{{name}}}");
                judge_held(judge, honest, key.as_bytes(), lease.token(), || {
                    lease.is_held()
                });
            }
            let lease = std::sync::Arc::new(lease);
            for what in ["extend", "ensure", "release"] {
                let lease = lease.clone();
                judge.call(what, most, move || {
                    blocking::wait(async {
                        match what {
                            "extend" => lease.extend(None).await,
                            "ensure" => lease.ensure(Duration::from_millis(500)).await,
                            _ => lease.release().await.map(drop),
                        }
                    })
                });
            }
        }
        4 => {
            let share = lock.shared(true);
            if let Some(lease) = judge.call("share", most, move || blocking::wait(share.acquire()))
            {
                judge.call("release", most, move || blocking::wait(lease.release()));
            }
        }
        5 => {
            let slots = client.semaphore(format!("s{name}"), 3).wait(WAIT);
            if let Some(lease) = judge.call("slot", most, move || blocking::wait(slots.acquire())) {
                judge.call("release", most, move || blocking::wait(lease.release()));
            }
        }
        6 => {
            let found = judge.call("inspect", most, move || blocking::wait(lock.inspect()));
            if let Some(found) = found {
                judge.text("inspect", &found.to_string());
                for node in found.nodes() {
                    judge.text("inspect", node.label().unwrap_or_default());
                    judge.text("inspect", node.error().unwrap_or_default());
                }
            }
        }
        7 => {
            let client = client.clone();
            let probe = judge.call("probe", most, move || blocking::wait(client.probe()));
            for (node, finding) in probe.iter().flat_map(|probe| probe.all()) {
                judge.text("probe", &finding.to_string());
                let version = node.and_then(|node| node.version.as_deref());
                judge.text("probe", version.unwrap_or_default());
            }
        }
        8 => {
            let client = client.clone();
            let listing = judge.call("list", READING, move || {
                blocking::wait(client.list(None, 100))
            });
            for node in listing.iter().flat_map(|listing| &listing.unread) {
                judge.text("list", node.message());
            }
        }
        9 => {
            let client = client.clone();
            judge.call("force", READING, move || {
                blocking::wait(client.force_release(name, None))
            });
        }
        10 => {
            let (from, to) = (client.clone(), client.clone());
            let text = judge.call("export", most, move || {
                blocking::wait(async {
                    let lease = from.lock("e").wait(WAIT).acquire().await?;
                    lease.export().await
                })
            });
            if let Some(text) = text {
                judge.call("adopt", most, move || {
                    blocking::wait(to.adopt(&text)).map(drop)
                });
            }
        }
        11 => {
            let client = client.clone();
            judge.call("several", most, move || {
                let locks = client.lock_all(["a", "b"]);
                blocking::wait(locks.wait(WAIT).acquire()).map(drop)
            });
        }
        _ if namespace == FOUNDED => {}
        _ => {
            let client = client.clone();
            judge.call("init", most, move || {
                blocking::wait(client.init_set()).map(drop)
            });
        }
    }
}

/// One set, one liar, and calls for a while.
fn round(judge: &mut Judge, seed: u64, stage: &Stage, number: usize) {
    let mut draw = Draw::new(seed);
    let honest: Vec<String> = stage
        .nodes
        .iter()
        .map(|node| node.replace("redis://", ""))
        .collect();
    let moods = [
        "lies", "lies", "lies", "always", "twice", "late", "endless", "silent", "floods",
    ];
    let mood = *draw.one(&moods);
    let alone = draw.below(4) == 0;
    let mut server = if alone {
        Server::new(draw.any(), None)
    } else {
        Server::new(draw.any(), Some(&honest[2]))
    };
    let address = server.address.clone();
    let (nodes, kept) = match (alone, draw.below(4)) {
        (true, 0) => (vec![format!("redis+cluster://{address}")], &[][..]),
        (true, 1) => (vec![format!("redis+sentinel://{address}/m")], &[][..]),
        (true, 2) => (vec![format!("redis://{address}")], &[][..]),
        _ => {
            let mut nodes: Vec<_> = honest[..2]
                .iter()
                .map(|node| format!("redis://{node}"))
                .collect();
            nodes.insert(draw.below(3), format!("redis://{address}"));
            (nodes, &honest[..2])
        }
    };
    // Before or behind the first words.
    let later = draw.below(2) == 0;
    if !later {
        server.is(mood);
    }
    // With records a set that is founded already, for a new one begins with a quarantine.
    let (namespace, guard) = match draw.below(3) {
        0 => (format!("r{number}:"), RestartGuard::Auto),
        1 => (FOUNDED.to_owned(), RestartGuard::Auto),
        _ => (format!("r{number}:"), RestartGuard::Off),
    };
    let client = match client(nodes, &namespace, guard) {
        Ok(client) => client,
        Err(error) => return judge.error("build", &error),
    };
    for turn in 0..8 {
        if later && turn == 2 {
            server.is(mood);
        }
        calls(judge, &mut draw, &client, &namespace, kept);
    }
    let close = client.clone();
    judge.call("close", PATIENCE, move || {
        blocking::wait(close.close());
        Ok(())
    });
}

/// The pace of the healthy nodes beside a liar in that mood, as a part of that beside an honest one;
/// `slow` makes it worse.
fn pace(stage: &Stage, seed: u64, mood: &str, slow: Duration) -> Result<f64, Error> {
    let honest: Vec<String> = stage
        .nodes
        .iter()
        .map(|node| node.replace("redis://", ""))
        .collect();
    let mut server = Server::new(seed, Some(&honest[2]));
    let mut nodes = stage.nodes[..2].to_vec();
    nodes.push(format!("redis://{}", server.address));
    let client = client(nodes, "pace:", RestartGuard::Off)?;
    let cycles = |long: Duration, slow: Duration| -> Result<f64, Error> {
        let (begun, mut count) = (monotonic(), 0);
        while monotonic() - begun < long.as_nanos() as u64 {
            let lease = blocking::wait(client.lock("p").acquire())?;
            blocking::wait(lease.release())?;
            nap(slow);
            count += 1;
        }
        Ok(f64::from(count) / ((monotonic() - begun) as f64))
    };
    // That a node has gone silent is found out by its first request. What else runs on the machine
    // takes from the one and the other, so each is compared with the one right before.
    let (warm, long) = (Duration::from_millis(150), Duration::from_millis(200));
    let (mut ratios, mut middle) = (Vec::new(), 0.0);
    while ratios.len() < MOST_TURNS && (ratios.len() < TURNS || middle < PACE) {
        server.is("honest");
        cycles(warm, Duration::ZERO)?;
        let without = cycles(long, Duration::ZERO)?;
        server.is(mood);
        cycles(warm, Duration::ZERO)?;
        ratios.push(cycles(long, slow)? / without);
        ratios.sort_by(f64::total_cmp);
        middle = ratios[ratios.len() / 2];
    }
    Ok(middle)
}

/// How much of a processor a client takes that does nothing, while a node floods it.
fn idle(stage: &Stage, seed: u64) -> Result<f64, Error> {
    let honest = stage.nodes[2].replace("redis://", "");
    let mut server = Server::new(seed, Some(&honest));
    let mut nodes = stage.nodes[..2].to_vec();
    nodes.push(format!("redis://{}", server.address));
    let client = client(nodes, "idle:", RestartGuard::Off)?;
    let _lease = blocking::wait(client.lock("i").acquire())?;
    server.is("floods");
    nap(Duration::from_millis(100));
    let (begun, before) = (monotonic(), used());
    nap(Duration::from_secs(1));
    Ok((used() - before) as f64 / (monotonic() - begun) as f64)
}

/// The processor time of this process, in ns.
fn used() -> u64 {
    // SAFETY: all zeros is a valid value, which is written to.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

fn paces(judge: &mut Judge, stage: &Stage, seed: u64) {
    for mood in ["floods", "lies", "always", "twice", "late", "silent"] {
        match pace(stage, seed, mood, Duration::ZERO) {
            Ok(ratio) => {
                println!("pace beside one that {mood}: {ratio:.2}");
                judge.calls += 1;
                judge_pace(judge, mood, ratio);
            }
            Err(error) => judge.fail(format!("pace beside one that {mood}: {error}")),
        }
    }
    match idle(stage, seed) {
        Ok(part) => {
            println!("of a processor, flooded and idle: {part:.2}");
            judge_idle(judge, part);
        }
        Err(error) => judge.fail(format!("idle: {error}")),
    }
}

fn serve(seed: u64, before: Option<&str>) -> ExitCode {
    let liar = Liar::new(seed, before);
    println!("port {}", liar.port);
    for line in std::io::stdin().lines().map_while(Result::ok) {
        match Mood::ALL.iter().find(|(word, _)| *word == line.trim()) {
            Some((_, mood)) => liar.is(*mood),
            None => eprintln!("no such mood: {line}"),
        }
    }
    ExitCode::SUCCESS
}

fn main() -> ExitCode {
    static ODD: AtomicUsize = AtomicUsize::new(0);
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1).cloned()
    };
    let number = |name: &str| value(name).and_then(|value| value.parse::<u64>().ok());
    let seed = number("--seed").unwrap_or_else(|| monotonic() % 1_000_000);
    if words.first().is_some_and(|word| word == "serve") {
        return serve(seed, value("--before").as_deref());
    }
    listen(&ODD);
    let stage = Stage::new(3);
    if words.first().is_some_and(|word| word == "judges") {
        return judges(&stage);
    }
    println!("seed {seed}");
    let mut judge = Judge::default();
    let seconds = number("--seconds").unwrap_or(60);
    let rounds = number("--rounds").map_or(usize::MAX, |rounds| rounds as usize);
    paces(&mut judge, &stage, seed);
    let founder = client(stage.nodes.clone(), FOUNDED, RestartGuard::Auto);
    let founded = founder.and_then(|client| {
        let lock = client.lock("a").wait(Duration::from_secs(20));
        blocking::wait(lock.acquire()).map(drop)
    });
    if let Err(error) = founded {
        judge.fail(format!("the set of healthy nodes: {error}"));
    }
    let before = resident_kib();
    let end = monotonic() + seconds * 1_000_000_000;
    let mut number = 0;
    while number < rounds && (number < FEWEST || monotonic() < end) {
        let failed = judge.failed.len();
        round(&mut judge, seed + number as u64, &stage, number);
        if judge.failed.len() > failed {
            println!(
                "round of seed {}: {} rounds before it",
                seed + number as u64,
                number
            );
        }
        number += 1;
    }
    judge_panics(&mut judge);
    judge_memory(&mut judge, before, resident_kib());
    let odd = ODD.load(Ordering::Relaxed);
    if odd > 0 {
        judge.fail(format!("{odd} lines of the log with what is no text"));
    }
    for (what, times) in &judge.ends {
        println!("{times:>6} {what}");
    }
    println!("{number} rounds; {} KiB, {before} before", resident_kib());
    judge.tell(seed)
}
