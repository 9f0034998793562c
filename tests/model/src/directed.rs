//! Calls whose answers and effects are written down by hand, on a real server: the
//! table of `directed.txt`. The comparison with the memory node finds where the two
//! differ; this finds where both are wrong.
//!
//! Times are in ms from where the clock stood at the beginning of a case, fences in µs
//! from there. Values are the letters A to F, tokens of 40 such digits with the letter as
//! label; waiters are the numbers 1 to 3, each with an inbox of its own.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use quorlock::sim::names::record_key;
use quorlock::sim::probe::{self, ProbeReply};
use quorlock::sim::{self, AfterRelease, Mode, Op, Repair, Reply, Request, Value, Waiter, Waits};

use crate::calls::{INBOXES, Keys, NAMESPACE, keys};
use crate::game::{Game, START, permit_messages};
use crate::server::{Plain, Server};
use crate::texts::{fence, form, micros, said, value, waiter, written};

const TABLE: &str = include_str!("directed.txt");
const RECORD: &str = "1 s 1 3 60000 n1 r1";

/// One line of the table, as it is carried out.
struct Case<'a> {
    game: &'a mut Game,
    keys: Keys,
    /// What has been published since the last line.
    now: u64,
}

/// The cases: titles with their lines.
fn table() -> impl Iterator<Item = &'static str> {
    TABLE.split("\ncase ").skip(1)
}

/// How many there are.
pub fn cases() -> usize {
    table().count()
}

/// Carries out the whole table; returns which cases failed, and why.
pub fn play(game: &mut Game) -> io::Result<Vec<String>> {
    let mut failed = Vec::new();
    for text in table() {
        let mut lines = text.lines();
        let title = lines.next().unwrap_or_default();
        let failed_by = one(game, lines);
        memory(game, true)?;
        if let Some(why) = failed_by? {
            failed.push(format!("{title}\n{why}"));
        }
    }
    Ok(failed)
}

/// `None` if all of its lines hold; else the first that does not.
fn one<'a>(game: &mut Game, lines: impl Iterator<Item = &'a str>) -> io::Result<Option<String>> {
    game.clear()?;
    let keys = keys().swap_remove(0);
    let mut case = Case {
        game,
        keys,
        now: START,
    };
    case.ask(&["SET", &text(&record_key(NAMESPACE)), RECORD])?;
    for line in lines.map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (done, expected) = line.split_once(" -> ").unwrap_or((line, ""));
        let words: Vec<&str> = done.split_whitespace().collect();
        let found = case.line(&words)?;
        if found != expected {
            return Ok(Some(format!("     {line}\n     found: {found}")));
        }
    }
    Ok(None)
}

/// Whether the server has memory for what is new.
fn memory(game: &mut Game, enough: bool) -> io::Result<()> {
    let most: &[u8] = if enough { b"0" } else { b"1" };
    let set: [&[u8]; 4] = [b"CONFIG", b"SET", b"maxmemory", most];
    game.server.ask(&set).map(|_| ())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What stands behind `name=` among the words.
fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    let mut found = words.iter().filter_map(|word| word.split_once('='));
    found.find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn millis(words: &[&str], name: &str, default: u64) -> Duration {
    let millis = option(words, name).map_or(default, |word| word.parse().expect("ms"));
    Duration::from_millis(millis)
}

impl Case<'_> {
    fn server(&mut self) -> &mut Server {
        &mut self.game.server
    }

    fn ask(&mut self, words: &[&str]) -> io::Result<Plain> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.server().ask(&words)
    }

    /// Carries out what stands before the arrow; returns what belongs behind it.
    fn line(&mut self, words: &[&str]) -> io::Result<String> {
        let lock = text(&self.keys.lock);
        match *words {
            ["at", ms] => {
                self.now = micros(ms);
                self.game.clock.stand(self.now)?;
                Ok(String::new())
            }
            ["listen", number] => {
                self.game.listener.set(index(number), true)?;
                Ok(String::new())
            }
            ["deaf", number] => {
                self.game.listener.set(index(number), false)?;
                Ok(String::new())
            }
            ["messages", allowed] => {
                permit_messages(self.server(), allowed == "on")?;
                Ok(String::new())
            }
            ["quarantine", ms] => {
                let key = text(&quorlock::sim::names::quarantine_key(NAMESPACE));
                self.ask(&["SET", &key, "1", "PX", ms])?;
                Ok(String::new())
            }
            ["memory", much] => {
                memory(self.game, much == "enough")?;
                Ok(String::new())
            }
            ["record", other] => {
                self.ask(&["SET", &text(&record_key(NAMESPACE)), other])?;
                Ok(String::new())
            }
            ["put", "none"] => self.ask(&["DEL", &lock]).map(|_| String::new()),
            ["put", "hash"] => {
                let (field, value): (&[u8], &[u8]) = (b"field", b"1");
                let key = self.keys.lock.clone();
                self.server().ask(&[b"HSET", &key, field, value])?;
                Ok(String::new())
            }
            ["put", stored, ref life @ ..] => {
                let stored = form(stored);
                let key = self.keys.lock.clone();
                let mut command: Vec<&[u8]> = vec![b"SET", &key, &stored];
                if let [ms] = life {
                    command.extend([b"PX", ms.as_bytes()]);
                }
                self.server().ask(&command)?;
                Ok(String::new())
            }
            ["put-queue", stored] => {
                let key = text(self.keys.aux.queue());
                self.ask(&["SET", &key, stored]).map(|_| String::new())
            }
            ["put-counter", stored] => {
                let key = text(self.keys.aux.counter());
                let stored = fence(stored).to_string();
                self.ask(&["ZADD", &key, &stored, "f"])?;
                Ok(String::new())
            }
            ["lock"] => self.lock(),
            ["queue"] => self.queue(),
            ["counter"] => self.counter(),
            ["readers"] => self.readers(),
            ["bans"] => self.bans(),
            ["lean", of] => {
                let sha = self.game.sha("lean");
                let (key, of) = (self.keys.lock.clone(), value(of));
                let words: [&[u8]; 5] = [b"EVALSHA", &sha, b"1", &key, &of];
                self.server().send(&crate::server::command(&words))?;
                Ok(match &self.server().row()?[..] {
                    [Plain::Number(n)] => n.to_string(),
                    other => format!("{other:?}"),
                })
            }
            _ => self.request(words),
        }
    }

    /// Asks for what the words say; returns the answer, and who was told.
    fn request(&mut self, words: &[&str]) -> io::Result<String> {
        let has = |word: &str| words.contains(&word);
        let (plain, ttl) = (has("plain"), millis(words, "ttl", 100));
        let fence = |name| option(words, name).map_or(0, fence);
        let block = option(words, "block").map_or(1, |n| n.parse().expect("a number"));
        let op = match words[0] {
            "acquire" => Op::Acquire {
                ttl,
                candidate: fence("candidate"),
                home: has("home"),
                let_in: has("let-in"),
                block,
            },
            "extend" => Op::Extend {
                ttl,
                repair: match option(words, "mode") {
                    Some("1") => Repair::Yes,
                    Some("2") => Repair::InQuarantine { server: 0 },
                    _ => Repair::No,
                },
                fence: fence("fence"),
                behind: 0,
            },
            "confirm" => Op::Confirm {
                ttl,
                fence: fence("fence"),
                block,
            },
            "release" => Op::Release,
            "inspect" => Op::Inspect,
            "reserve" => Op::Reserve {
                long: millis(words, "long", 20),
            },
            other => panic!("{other} is no word of the table"),
        };
        let request = Request {
            op,
            native: false,
            value: Value(
                match words[1] {
                    "-" => Vec::new(),
                    written => form(written),
                }
                .into(),
            ),
            keys: Arc::new(sim::Keys {
                lock: self.keys.lock.clone(),
                aux: self.keys.aux.clone(),
                waits: Waits {
                    reservation: millis(words, "reservation", 20),
                    place: millis(words, "life", 1000),
                    most: 2,
                },
                fence_ttl: (!plain && !has("unfenced")).then(|| Duration::from_secs(8)),
                mode: if has("shared") {
                    Mode::Shared
                } else {
                    Mode::Exclusive
                },
                adopts: option(words, "of").map(|name| {
                    Box::new(sim::Adoption {
                        value: Value(form(name).into()),
                        ban: millis(words, "ban", 1000),
                    })
                }),
                field: None,
            }),
            waiter: option(words, "for").map(|number| Waiter {
                number: number.parse().expect("a number"),
                inbox: INBOXES[index(number)].into(),
            }),
            leaving: match (option(words, "keep"), option(words, "force")) {
                (Some(_), _) => AfterRelease::TakenFor(millis(words, "keep", 0)),
                (None, Some(_)) => AfterRelease::Forced(millis(words, "force", 0)),
                (None, None) => AfterRelease::Free,
            },
            not_after: if has("late") { self.now - 1 } else { 0 },
        };
        let record = (!plain && !has("unguarded")).then(|| RECORD.into());
        let command = probe::command(&request, NAMESPACE, record, !has("warm"));
        self.game.send(&command)?;
        let answer = self.server().said(op)?;
        if let ProbeReply::Reply(Reply::Failed(fault), _) = &answer {
            return Ok(format!("fault {:?}", fault.kind));
        }
        let heard = self.game.listener.heard()?;
        let told = heard
            .into_iter()
            .map(|(_, number)| format!(" told {}", String::from_utf8_lossy(&number)));
        Ok(said(&answer) + &told.collect::<String>())
    }

    fn left(&mut self, key: &[u8]) -> io::Result<String> {
        Ok(match self.server().ask(&[b"PTTL", key])? {
            Plain::Number(-1) => "for ever".to_owned(),
            Plain::Number(ms) => format!("for {ms}"),
            other => format!("{other:?}"),
        })
    }

    /// What stands under the lock's key, and for how long.
    fn lock(&mut self) -> io::Result<String> {
        let key = self.keys.lock.clone();
        let kind = match self.server().ask(&[b"TYPE", &key])? {
            Plain::Status(kind) => kind,
            other => format!("{other:?}"),
        };
        let stored = match &*kind {
            "none" => return Ok("none".to_owned()),
            "string" => match self.server().ask(&[b"GET", &key])? {
                Plain::Text(Some(stored)) => written(&stored),
                other => format!("{other:?}"),
            },
            _ => kind,
        };
        Ok(format!("{stored} {}", self.left(&key)?))
    }

    /// Who stands in the queue, in their order.
    fn queue(&mut self) -> io::Result<String> {
        let key = self.keys.aux.queue().to_vec();
        let range: [&[u8]; 7] = [b"ZRANGE", &key, b"1", b"+inf", b"BYSCORE", b"LIMIT", b"0"];
        let words = [&range[..], &[b"-1"]].concat();
        self.server().send(&crate::server::command(&words))?;
        let members = self.server().row()?;
        if members.is_empty() {
            return Ok("none".to_owned());
        }
        let mut shown = String::new();
        for member in members {
            if let Plain::Text(Some(member)) = member {
                shown += &waiter(&member);
                shown.push(' ');
            }
        }
        Ok(shown + &self.left(&key)?)
    }

    /// Which values are banned until when, in the order of these ends.
    fn bans(&mut self) -> io::Result<String> {
        self.ends(self.keys.aux.bans())
    }

    /// Which values share the lock until when, in the order of these ends.
    fn readers(&mut self) -> io::Result<String> {
        self.ends(self.keys.aux.shared())
    }

    fn ends(&mut self, key: Vec<u8>) -> io::Result<String> {
        let range: [&[u8]; 5] = [b"ZRANGE", &key, b"0", b"-1", b"WITHSCORES"];
        self.server().send(&crate::server::command(&range))?;
        let mut shown = String::new();
        for (i, part) in self.server().row()?.into_iter().enumerate() {
            let Plain::Text(Some(part)) = part else {
                continue;
            };
            shown += &match i % 2 {
                0 => written(&part),
                _ => {
                    let score: f64 = text(&part).parse().map_err(io::Error::other)?;
                    crate::texts::millis_shown(score as u64)
                }
            };
            shown.push(' ');
        }
        Ok(shown + &self.left(&key)?)
    }

    fn counter(&mut self) -> io::Result<String> {
        let key = self.keys.aux.counter().to_vec();
        let score = match self.server().ask(&[b"ZSCORE", &key, b"f"])? {
            Plain::Text(Some(score)) => score,
            _ => return Ok("none".to_owned()),
        };
        let score: f64 = text(&score).parse().map_err(io::Error::other)?;
        let shown = crate::texts::fence_shown(score as u64);
        Ok(format!("{shown} {}", self.left(&key)?))
    }
}

/// Where a waiter's inbox stands.
fn index(number: &str) -> usize {
    number.parse::<usize>().expect("a number") - 1
}
