//! Wrong arguments that are drawn, with a marker where a secret stands: in URLs, keys, texts cut in
//! pieces, in place of any option, name and text, against nodes that answer, that refuse, and that
//! repeat what they were sent. No error, no `Debug`, no line of the log, no report and no metric has
//! the marker or six characters of it.
//!
//! `secrets [--draws N] [--from SEED] [--broken]` ends with `N passed, M failed`. A draw is played
//! again by its seed. With `--broken` each draw also shows its marker: all have to fail.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorlock::{Client, ClientBuilder, Error, LossReason, Owner, metrics_text, testing};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// So many characters of a secret are a piece of it.
const PIECE: usize = 6;

/// Splitmix64.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn of<T: Clone>(&mut self, these: &[T]) -> T {
        these[self.below(these.len())].clone()
    }
}

/// The secret of a draw.
fn marker(chance: &mut Chance) -> String {
    let letters: Vec<char> = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
        .chars()
        .collect();
    (0..16).map(|_| chance.of(&letters)).collect()
}

/// What holds a secret whoever sees it.
const URLS: [&str; 18] = [
    "redis://u:%@127.0.0.1:1",
    "redis://:%@127.0.0.1:1/2",
    "rediss://u:%@127.0.0.1:1",
    "valkey://%@127.0.0.1:1",
    "redis://u:%/x@h",
    "redis://u:x#%@h:1",
    "redis://u:x?%@h",
    "redis://u:%@h:99999",
    "redis://u:%@",
    "REDIS://U:%@[::1]:1",
    "redis:/u:%@h",
    "redis+unix:///nowhere/s?password=%",
    "redis+unix:///nowhere/s?user=u&pass=%&more=1",
    "redis+sentinel://u:%@127.0.0.1:1/m",
    "redis+sentinel://127.0.0.1:1/m?sentinel_password=%",
    "redis+cluster://u:%@127.0.0.1:1;[::1]:1",
    "http://u:%@h",
    "amqp://u:x%@h/y",
];
const KEYS: [&str; 5] = [
    "-----BEGIN PRIVATE KEY-----\n%\n-----END PRIVATE KEY-----\n",
    "-----BEGIN EC PRIVATE KEY-----%-----END EC PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\\n%==\\n",
    "-----BEGIN CERTIFICATE-----\n%",
    "\u{feff}-----BEGIN RSA PRIVATE KEY-----\n%!\n-----END RSA PRIVATE KEY-----",
];
/// What is a secret in its place alone.
const BARE: [&str; 14] = [
    "%",
    "%==",
    "/%/%",
    "/tmp/%",
    "./%",
    "~/.redis/%",
    "/etc/%/key.pem",
    "u:%@h:6379",
    "%://h",
    "redis://h/%",
    "redis://h?%",
    "redis://h:%",
    "redis+sentinel://h;k:%/m",
    "{\"password\": \"%\", \"host\": \"h\"}",
];

fn filled(form: &str, marker: &str, chance: &mut Chance) -> String {
    let text = form.replace('%', marker);
    match chance.below(8) {
        0 => format!(" {text}\n"),
        1 => format!("{text},{text}"),
        2 => text.repeat(30),
        _ => text,
    }
}

/// A text that is a secret wherever it stands.
fn secret(marker: &str, chance: &mut Chance) -> String {
    let form = match chance.below(3) {
        0 => chance.of(&KEYS),
        _ => chance.of(&URLS),
    };
    filled(form, marker, chance)
}

/// A text that is one where secrets are given.
fn given(marker: &str, chance: &mut Chance) -> String {
    match chance.below(2) {
        0 => {
            let form = chance.of(&BARE);
            filled(form, marker, chance)
        }
        _ => secret(marker, chance),
    }
}

/// A text for what others see: one that is a secret, or one that is refused.
fn shared(marker: &str, refused: &str, chance: &mut Chance) -> String {
    match chance.below(3) {
        0 => format!("{refused}{}", marker.repeat(20)),
        1 => format!("{}{refused}", marker.repeat(70)),
        _ => secret(marker, chance),
    }
}

type Told = Arc<Mutex<String>>;

/// What was told of it all.
struct Texts(Told);

impl Texts {
    fn add(&self, text: &str) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.push_str(text);
        told.push('\n');
    }

    fn debug(&self, what: &impl Debug) {
        self.add(&format!("{what:?} {what:#?}"));
    }

    fn result<T: Debug>(&self, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(value) => {
                self.debug(&value);
                Some(value)
            }
            Err(error) => {
                self.error(&error);
                None
            }
        }
    }

    fn error(&self, error: &Error) {
        let mut text = format!("{error} {error:?} {error:#?} {}", error.message());
        for node in error.nodes() {
            let _ = write!(text, " {node} {node:?} {}", node.message());
        }
        let mut source = std::error::Error::source(error);
        while let Some(inner) = source {
            let _ = write!(text, " {inner} {inner:?}");
            source = inner.source();
        }
        let name = error.name().map(String::from_utf8_lossy);
        self.add(&format!("{text} {name:?} {:?}", error.holder()));
    }
}

/// The first piece of the marker in a text; also where it was written with other cases or escapes.
fn leaked<'a>(marker: &'a str, text: &str) -> Option<&'a str> {
    let text = text.to_ascii_lowercase();
    (0..=marker.len() - PIECE)
        .map(|at| &marker[at..at + PIECE])
        .find(|piece| text.contains(&piece.to_ascii_lowercase()))
}

/// A server that knows no command, or no password, and repeats what it was sent.
async fn parrot() -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let at = listener.local_addr()?.to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = vec![0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut bytes).await {
                    let said = String::from_utf8_lossy(&bytes[..length]).into_owned();
                    let words: Vec<_> = said.split("\r\n").filter(|w| !w.is_empty()).collect();
                    let commands = words.iter().filter(|w| w.starts_with('*')).count();
                    let line = words.join(" ");
                    let line: String = line.chars().take(600).collect();
                    let replies = [
                        format!(
                            "-ERR unknown command 'AUTH', with args beginning with: '{line}'\r\n"
                        ),
                        format!("-WRONGPASS of {line}\r\n"),
                        format!("-NOPERM {line}\r\n"),
                    ];
                    let reply = &replies[line.len() % replies.len()];
                    if stream
                        .write_all(reply.repeat(commands).as_bytes())
                        .await
                        .is_err()
                    {
                        break;
                    }
                }
            });
        }
    });
    Ok(at)
}

/// An option of a client with a text in a wrong place.
fn drawn(to: ClientBuilder, marker: &str, chance: &mut Chance, texts: &Texts) -> ClientBuilder {
    match chance.below(14) {
        0 | 1 => to.nodes([given(marker, chance)]),
        2 => to.nodes(["redis://127.0.0.1:1".into(), given(marker, chance)]),
        3 => to.environment([("QUORLOCK_NODES".into(), given(marker, chance))]),
        4 => to.ca(secret(marker, chance)),
        5 => to.ca("x").cert(given(marker, chance)).key("y"),
        6 => to.cert("x").key(given(marker, chance)),
        7 => to.key(given(marker, chance)),
        8 => to.namespace(shared(marker, "{", chance)),
        9 => to.set_name(shared(marker, " ", chance)),
        10 => to.label(shared(marker, "\n", chance)),
        11 => to.group(shared(marker, "\n", chance)),
        12 => match given(marker, chance).parse() {
            Ok(guard) => to.restart_guard(guard),
            Err(error) => {
                texts.error(&error);
                to
            }
        },
        _ => match given(marker, chance).parse() {
            Ok(layout) => to.layout(layout),
            Err(error) => {
                texts.error(&error);
                to
            }
        },
    }
}

async fn draw(seed: u64, parrot: &str, told: &Told, broken: bool) -> Option<String> {
    let mut chance = Chance(seed);
    let marker = marker(&mut chance);
    let texts = Texts(told.clone());
    let node = match chance.below(8) {
        // Whose password is right where it stands.
        0 => format!("redis://u:{marker}@{parrot}"),
        1 => format!("redis://:{marker}@127.0.0.1:1"),
        _ => format!("memory://secrets-{seed}"),
    };
    let reaches = node.contains('@');
    let mut builder = Client::builder()
        .nodes([node])
        .wait(Duration::ZERO)
        .node_timeout(Duration::from_millis(50))
        .connect_timeout(Duration::from_millis(50))
        .on_current_runtime();
    if !reaches {
        builder = drawn(builder, &marker, &mut chance, &texts);
    }
    texts.debug(&builder);
    if let Some(client) = texts.result(builder.build()) {
        texts.add(&client.nodes().join(" "));
        let name = if reaches {
            b"a".to_vec()
        } else {
            shared(&marker, "}{", &mut chance).into_bytes()
        };
        let lock = client.lock(name.clone()).wait(Duration::ZERO);
        let lock = match chance.below(4) {
            0 => lock.label(shared(&marker, "\n", &mut chance)),
            1 => lock.group(shared(&marker, "\n", &mut chance)),
            2 => lock.owner(Owner::named(secret(&marker, &mut chance))),
            _ => lock,
        };
        // What a lock is called is in its own words, and refused before anybody else sees it.
        if let Some(lease) = texts.result(lock.acquire().await) {
            texts.debug(&lock);
            let _ = texts.result(lease.release().await);
        }
        match chance.below(5) {
            0 => {
                texts.result(client.inspect(name.clone()).await);
            }
            1 => {
                texts.result(client.lock_all([&name[..], b"b"]).acquire().await);
            }
            2 => {
                texts.result(client.adopt(&given(&marker, &mut chance)).await);
            }
            3 => {
                texts.result(client.election(name.clone()).check());
            }
            _ => {
                texts.result(client.semaphore(name.clone(), 2).acquire().await);
            }
        }
        if chance.below(4) == 0 {
            let report = client.probe().await;
            texts.result(report);
        }
        texts.debug(&client.stats());
        texts.debug(&client.metrics());
        client.close().await;
    }
    if let Err(error) = given(&marker, &mut chance).parse::<LossReason>() {
        texts.error(&error);
    }
    texts.add(&testing::lose(secret(&marker, &mut chance), LossReason::Expired).to_string());
    if chance.below(100) == 0 {
        texts.add(&metrics_text());
    }
    if broken {
        texts.add(&marker[3..9]);
    }
    let told = std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner));
    let piece = leaked(&marker, &told)?;
    let line = told.lines().find(|line| leaked(piece, line).is_some());
    Some(line.unwrap_or_default().chars().take(400).collect())
}

fn number(word: Option<String>) -> Result<u64, String> {
    let word = word.ok_or("a number is missing")?;
    word.parse().map_err(|_| format!("{word} is no number"))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut draws, mut from, mut broken) = (10_000, 0, false);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--draws" => draws = number(words.next())?,
            "--from" => from = number(words.next())?,
            "--broken" => broken = true,
            _ => return Err("secrets [--draws N] [--from SEED] [--broken]".into()),
        }
    }
    let told = Told::default();
    let log = told.clone();
    quorlock::set_log_sink(move |level, line| {
        let line = format!(
            "{level:?} {} {line:?} {}\n",
            line.message(),
            line.template()
        );
        log.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_str(&line);
    });
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // A seeded bug, on all threads that call.
    #[cfg(mutants)]
    {
        let chosen =
            || quorlock::sim::choose(&std::env::var("QUORLOCK_MUTANT").unwrap_or_default());
        runtime.on_thread_start(chosen);
        chosen();
    }
    let runtime = runtime.worker_threads(2).enable_all().build()?;
    println!("draws {from} to {}", from + draws);
    let failed = runtime.block_on(async {
        let parrot = parrot().await?;
        let mut failed = 0;
        for seed in from..from + draws {
            if let Some(line) = draw(seed, &parrot, &told, broken).await {
                failed += 1;
                if failed <= 10 {
                    println!("FAIL seed {seed}: {line}");
                }
            }
        }
        Ok::<_, Box<dyn std::error::Error>>(failed)
    })?;
    println!("{} passed, {failed} failed", draws - failed);
    if failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}
