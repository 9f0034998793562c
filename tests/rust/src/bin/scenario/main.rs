//! Runs one scenario file (tests/scenarios/README.md) against real servers.

mod actor;
mod line;
mod options;

use std::collections::HashMap;
use std::process::{Command, ExitCode};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use quorlock::{Client, Election, Error, Lease, Leases, Lock, Locks, LossReason, Owner, blocking};

use actor::{Actor, Job};
use line::{Line, bytes, limit, millis, string, switch};
use options::{NotSet, with_options};

fn main() -> ExitCode {
    let path = std::env::var("QUORLOCK_SCENARIO").expect("QUORLOCK_SCENARIO names a file");
    let text = std::fs::read_to_string(path).expect("the scenario can be read");
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let mut runner = Runner::default();
    let mut code = ExitCode::SUCCESS;
    for (number, line) in lines.skip(1) {
        if let Err(failure) = runner.line(line) {
            println!("line {}: {failure}", number + 1);
            code = ExitCode::FAILURE;
            break;
        }
    }
    for client in runner.order {
        blocking::wait(client.close());
    }
    code
}

/// A lock, or several that are taken together.
#[derive(Clone)]
enum Asked {
    One(Lock),
    All(Locks),
    Term(Election),
}

impl Asked {
    async fn acquire(&self) -> Result<Held, Error> {
        match self {
            Asked::One(lock) => Ok(Held::One(Arc::new(lock.acquire().await?))),
            Asked::All(locks) => locks.acquire().await.map(Held::All),
            Asked::Term(election) => election.campaign().await.map(Held::One),
        }
    }

    async fn try_acquire(&self) -> Result<Option<Held>, Error> {
        Ok(match self {
            Asked::One(lock) => lock.try_acquire().await?.map(Arc::new).map(Held::One),
            Asked::All(locks) => locks.try_acquire().await?.map(Held::All),
            Asked::Term(_) => unreachable!("the format has no try of an election"),
        })
    }
}

/// What is done to either kind, which has the same methods.
macro_rules! either {
    ($one:expr, $Kind:ident, $name:ident => $done:expr) => {
        match $one {
            $Kind::One($name) => $done,
            $Kind::All($name) => $done,
        }
    };
}

/// A lock of the acting thread, unless its owner has a name.
#[derive(Clone)]
struct Owned {
    lock: Asked,
    named: bool,
}

impl Owned {
    fn here(self) -> Asked {
        if self.named {
            return self.lock;
        }
        let me = Owner::current_thread();
        match self.lock {
            Asked::One(lock) => Asked::One(lock.owner(me)),
            Asked::All(locks) => Asked::All(locks.owner(me)),
            Asked::Term(election) => Asked::Term(election),
        }
    }
}

/// A lease, or leases that were won together.
enum Held {
    One(Arc<Lease>),
    All(Leases),
}

type Handles = Arc<Mutex<HashMap<String, Held>>>;

#[derive(Default)]
struct Runner {
    actors: HashMap<String, Actor>,
    clients: HashMap<String, Client>,
    order: Vec<Client>,
    locks: HashMap<String, Owned>,
    leases: Handles,
    last_error: Option<Error>,
}

impl Runner {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let verdict = match words.iter().position(|w| *w == "->") {
            Some(at) => {
                let verdict = words.get(at + 1).copied().unwrap_or_default();
                words.truncate(at);
                verdict
            }
            None => "ok",
        };
        let (mode, actor) = match words[0] {
            mode @ ("in" | "start") => {
                let actor = words[1];
                words.drain(..2);
                (mode, actor)
            }
            _ => ("in", "main"),
        };
        let plain = ["stage", "message", "metric"].contains(&words[0]);
        let (options, words): (Vec<&str>, Vec<&str>) =
            words.into_iter().partition(|w| !plain && w.contains('='));
        let options = options
            .into_iter()
            .filter_map(|o| o.split_once('='))
            .collect();
        let line = Line { words, options };
        match line.words[0] {
            "finish" => return self.finish(&line, verdict),
            "cancel" => {
                let actor = self.actor(line.word(1)?);
                actor.cancel.notify_one();
                return Ok(());
            }
            "acquire" | "try" | "release" | "unlock" | "extend" | "drop" | "held" | "ensure"
            | "downgrade" | "remaining" => {
                let job = self.job(&line, actor)?;
                let actor = self.actor(actor);
                actor.jobs.send(job).expect("the actor lives");
                if mode == "start" {
                    return Ok(());
                }
                let answer = actor
                    .answers
                    .recv()
                    .map_err(|_| "the actor died".to_owned())?;
                return self.judge(answer, verdict);
            }
            _ => {}
        }
        let answer = match line.words[0] {
            "client" => self.client(&line)?,
            "lock" | "locks" | "election" => self.lock(&line)?,
            "leader" | "resign" => self.election(&line)?,
            "export" => self.export(line.word(1)?, line.word(2)?)?,
            "adopt" => self.adopt(line.word(1)?, line.word(2)?, line.word(3)?)?,
            "close" => {
                blocking::wait(self.clients[line.word(1)?].close());
                Ok("ok".to_owned())
            }
            "lost" => Ok(self.lost(&line)?),
            "fence" => Ok(self.fence(line.word(1)?)?.to_string()),
            "fence-of" => Ok(self.fence_of(line.word(1)?, line.word(2)?)?.to_string()),
            "lost-name" => Ok(self.lost_name(line.word(1)?)?),
            "newer" => {
                let newer = self.fence(line.word(1)?)? > self.fence(line.word(2)?)?;
                Ok(newer.to_string())
            }
            "same-slot" => {
                let same = self.slot(line.word(1)?)? == self.slot(line.word(2)?)?;
                Ok(same.to_string())
            }
            "force" => self.force(&line)?,
            "init" => {
                let client = self.clients.get(line.word(1)?).ok_or("no such client")?;
                blocking::wait(client.init_set()).map(|_| "ok".to_owned())
            }
            "stats" => return self.stats(&line, verdict),
            "metric" => Ok(metric(line.word(1)?)),
            "message" => Ok(self.message(&line)?),
            "causes" => {
                let error = self.last_error.as_ref().ok_or("no error yet")?;
                Ok(error.nodes().len().to_string())
            }
            "inspect" => {
                let Asked::One(lock) = &self.locks.get(line.word(1)?).ok_or("no such lock")?.lock
                else {
                    return Err("expected one lock".to_owned());
                };
                inspect(lock, line.word(2)?)
            }
            "error" => {
                let error = self.last_error.as_ref().ok_or("no error yet")?;
                Ok(match line.word(1)? {
                    "name" => error.name().map(string_of),
                    _ => error.holder().map(str::to_owned),
                }
                .unwrap_or_else(|| "none".to_owned()))
            }
            "stage" => Ok(stage(&line.words[1..])),
            other => return Err(format!("expected a verb, got {other}")),
        };
        self.judge(answer, verdict)
    }

    fn export(&self, name: &str, file: &str) -> Result<Result<String, Error>, String> {
        let leases = self.leases.lock().unwrap();
        let Some(Held::One(lease)) = leases.get(name) else {
            return Err("expected one lease".to_owned());
        };
        Ok(match blocking::wait(lease.export()) {
            Ok(text) => {
                std::fs::write(file, text).map_err(|error| error.to_string())?;
                Ok("ok".to_owned())
            }
            Err(error) => Err(error),
        })
    }

    fn adopt(&self, name: &str, client: &str, file: &str) -> Result<Result<String, Error>, String> {
        let client = self.clients.get(client).ok_or("no such client")?;
        let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
        Ok(blocking::wait(client.adopt(&text)).map(|lease| {
            let held = Held::One(Arc::new(lease));
            self.leases.lock().unwrap().insert(name.to_owned(), held);
            "ok".to_owned()
        }))
    }

    fn actor(&mut self, name: &str) -> &Actor {
        self.actors
            .entry(name.to_owned())
            .or_insert_with(Actor::new)
    }

    fn judge(&mut self, answer: Result<String, Error>, verdict: &str) -> Result<(), String> {
        let (answer, more) = match answer {
            Ok(answer) => (answer, String::new()),
            Err(error) => {
                let kind = error.kind().name().to_owned();
                let more = format!(": {error}");
                self.last_error = Some(error);
                (kind, more)
            }
        };
        if holds(&answer, verdict) {
            return Ok(());
        }
        Err(format!("expected {verdict}, got {answer}{more}"))
    }

    fn finish(&mut self, line: &Line<'_>, verdict: &str) -> Result<(), String> {
        let most = line.millis(2)?;
        let answer = match self.actor(line.word(1)?).answers.recv_timeout(most) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Ok("pending".to_owned()),
            Err(RecvTimeoutError::Disconnected) => return Err("the actor died".to_owned()),
        };
        self.judge(answer, verdict)
    }

    fn client(&mut self, line: &Line<'_>) -> Result<Result<String, Error>, String> {
        let to = match with_options(Client::builder(), line) {
            Ok(to) => to,
            Err(NotSet::Refused(error)) => return Ok(Err(error)),
            Err(NotSet::Line(why)) => return Err(why),
        };
        Ok(to.build().map(|client| {
            self.order.push(client.clone());
            self.clients.insert(line.words[1].to_owned(), client);
            "ok".to_owned()
        }))
    }

    fn lock(&mut self, line: &Line<'_>) -> Result<Result<String, Error>, String> {
        let client = self.clients.get(line.word(2)?).ok_or("no such client")?;
        let names = line.word(3)?;
        let made = match line.words[0] {
            "lock" => with_options(client.lock(bytes(names)), line).map(Asked::One),
            "election" => with_options(client.election(bytes(names)), line).map(Asked::Term),
            _ => {
                let names = names.split(',').map(bytes);
                with_options(client.lock_all(names), line).map(Asked::All)
            }
        };
        let lock = match made {
            Ok(lock) => lock,
            Err(NotSet::Refused(error)) => return Ok(Err(error)),
            Err(NotSet::Line(why)) => return Err(why),
        };
        // A semaphore is nobody's.
        let named = line.option("owner").is_some() || line.option("slots").is_some();
        self.locks
            .insert(line.word(1)?.to_owned(), Owned { lock, named });
        Ok(Ok("ok".to_owned()))
    }

    fn election(&self, line: &Line<'_>) -> Result<Result<String, Error>, String> {
        let Some(Owned {
            lock: Asked::Term(election),
            ..
        }) = self.locks.get(line.word(1)?)
        else {
            return Err("no such election".to_owned());
        };
        Ok(match line.words[0] {
            "leader" => blocking::wait(election.leader()).map(|leader| {
                let label = leader.as_ref().and_then(|leader| leader.label());
                label.unwrap_or("none").to_owned()
            }),
            _ => blocking::wait(election.resign()).map(|held| held.to_string()),
        })
    }

    /// What an actor is to do, so that it can be handed to its thread.
    fn job(&mut self, line: &Line<'_>, actor: &str) -> Result<Job, String> {
        let verb = line.words[0].to_owned();
        let leases = self.leases.clone();
        match verb.as_str() {
            "acquire" | "try" => {
                line.only(&["wait"])?;
                let name = line.word(1)?.to_owned();
                let mut lock = self.locks.get(line.word(2)?).ok_or("no such lock")?.clone();
                if let Some(wait) = line.option("wait") {
                    let wait = limit(wait)?;
                    lock.lock = match lock.lock {
                        Asked::One(lock) => Asked::One(lock.wait(wait)),
                        Asked::All(locks) => Asked::All(locks.wait(wait)),
                        Asked::Term(election) => Asked::Term(election.wait(wait)),
                    };
                }
                let cancel = self.actor(actor).cancel.clone();
                Ok(Box::new(move || {
                    let lock = lock.here();
                    let lease = blocking::wait(async {
                        if verb == "try" {
                            return lock.try_acquire().await;
                        }
                        tokio::select! {
                            biased;
                            () = cancel.notified() => {
                                let kind = quorlock::ErrorKind::Cancelled;
                                Err(Error::from_binding(kind, "cancelled"))
                            }
                            lease = lock.acquire() => lease.map(Some),
                        }
                    })?;
                    let Some(lease) = lease else {
                        return Ok("none".to_owned());
                    };
                    leases.lock().unwrap().insert(name, lease);
                    Ok("ok".to_owned())
                }))
            }
            "unlock" => {
                let lock = self.locks.get(line.word(1)?).ok_or("no such lock")?.clone();
                Ok(Box::new(move || {
                    let Asked::One(lock) = lock.here() else {
                        unreachable!("the format has no unlock of several")
                    };
                    blocking::wait(lock.release()).map(|held| held.to_string())
                }))
            }
            _ => {
                let name = line.word(1)?.to_owned();
                if !leases.lock().unwrap().contains_key(&name) {
                    return Err(format!("no lease {name}"));
                }
                let ttl = line.option("ttl").map(millis).transpose()?;
                let confirm = line.option("confirm").map(switch).transpose()?;
                let min = if verb == "ensure" {
                    Some(line.millis(2)?)
                } else {
                    None
                };
                Ok(Box::new(move || {
                    if verb == "drop" {
                        leases.lock().unwrap().remove(&name);
                        return Ok("ok".to_owned());
                    }
                    let leases = leases.lock().unwrap();
                    let lease = &leases[&name];
                    if let ("downgrade", Held::One(lease)) = (&*verb, lease) {
                        return blocking::wait(lease.downgrade()).map(|()| "ok".to_owned());
                    }
                    either!(lease, Held, lease => match verb.as_str() {
                        "release" => match confirm {
                            None => blocking::wait(lease.release()),
                            Some(true) => blocking::wait(lease.release_confirmed()),
                            Some(false) => lease.release_unconfirmed(),
                        }
                        .map(|held| held.to_string()),
                        "extend" => blocking::wait(lease.extend(ttl)).map(|()| "ok".to_owned()),
                        "ensure" => blocking::wait(lease.ensure(min.unwrap_or_default()))
                            .map(|()| "ok".to_owned()),
                        "held" => Ok(lease.is_held().to_string()),
                        _ => Ok(lease.remaining().as_millis().to_string()),
                    })
                }))
            }
        }
    }

    fn lost(&self, line: &Line<'_>) -> Result<String, String> {
        let most = line.millis(2)?;
        let leases = self.leases.lock().unwrap();
        let lease = leases.get(line.word(1)?).ok_or("no such lease")?;
        // The first time it is asked after `most`, it is over.
        let reason = match lease {
            Held::One(lease) => blocking::wait_or(lease.lost(), most, || true),
            Held::All(leases) => {
                blocking::wait_or(leases.lost(), most, || true).map(|(_, reason)| reason)
            }
        };
        Ok(reason.map_or("none", LossReason::as_str).to_owned())
    }

    fn fence(&self, lease: &str) -> Result<u64, String> {
        match self.leases.lock().unwrap().get(lease) {
            Some(Held::One(lease)) => Ok(lease.fence().unwrap_or(0)),
            _ => Err("no such lease".to_owned()),
        }
    }

    fn slot(&self, lease: &str) -> Result<Option<u32>, String> {
        match self.leases.lock().unwrap().get(lease) {
            Some(Held::One(lease)) => Ok(lease.slot()),
            _ => Err("no such lease".to_owned()),
        }
    }

    fn force(&self, line: &Line<'_>) -> Result<Result<String, Error>, String> {
        line.only(&["fence"])?;
        let client = self.clients.get(line.word(1)?).ok_or("no such client")?;
        let fence = line.option("fence").map(|word| match word.parse() {
            Ok(fence) => Ok(fence),
            Err(_) => self.fence(word),
        });
        let forced = client.force_release(bytes(line.word(2)?), fence.transpose()?);
        Ok(blocking::wait(forced).map(|forced| forced.freed().to_string()))
    }

    fn fence_of(&self, leases: &str, name: &str) -> Result<u64, String> {
        match self.leases.lock().unwrap().get(leases) {
            Some(Held::All(leases)) => {
                let lease = leases.get(bytes(name)).ok_or("no such name")?;
                Ok(lease.fence().unwrap_or(0))
            }
            _ => Err("no such leases".to_owned()),
        }
    }

    fn lost_name(&self, leases: &str) -> Result<String, String> {
        match self.leases.lock().unwrap().get(leases) {
            Some(Held::All(leases)) => {
                let lost = leases.loss().map(|(name, _)| string_of(name));
                Ok(lost.unwrap_or_else(|| "none".to_owned()))
            }
            _ => Err("no such leases".to_owned()),
        }
    }

    fn stats(&self, line: &Line<'_>, verdict: &str) -> Result<(), String> {
        let client = self.clients.get(line.word(1)?).ok_or("no such client")?;
        let (field, most) = (line.word(2)?, line.millis(3)?);
        let look = || {
            let mut counts = client.stats().named().into_iter();
            let found = counts.find(|(name, _)| *name == field);
            found
                .map(|(_, count)| count.to_string())
                .ok_or_else(|| format!("expected a counter, got {field}"))
        };
        let mut steps = most.as_millis() / 10;
        loop {
            let value = look()?;
            if holds(&value, verdict) {
                return Ok(());
            }
            if steps == 0 {
                return Err(format!("expected {verdict}, got {value}"));
            }
            steps -= 1;
            thread::park_timeout(Duration::from_millis(10));
        }
    }

    fn message(&self, line: &Line<'_>) -> Result<String, String> {
        let error = self.last_error.as_ref().ok_or("no error yet")?;
        let text = error.to_string().to_lowercase();
        let has = text.contains(&string(line.word(2)?).to_lowercase());
        Ok(match (line.word(1)?, has) {
            ("has", true) | ("lacks", false) => "ok".to_owned(),
            ("has" | "lacks", _) => text,
            (other, _) => return Err(format!("expected has or lacks, got {other}")),
        })
    }
}

/// The value of a sample in the text of metrics.
fn metric(sample: &str) -> String {
    let text = quorlock::metrics_text();
    let value = |line: &str| {
        line.strip_prefix(sample)?
            .strip_prefix(' ')
            .map(str::to_owned)
    };
    text.lines().find_map(value).unwrap_or("none".into())
}

fn holds(answer: &str, verdict: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    if let Some(least) = verdict.strip_prefix(">=") {
        number(answer)
            .zip(number(least))
            .is_some_and(|(a, l)| a >= l)
    } else if let Some(most) = verdict.strip_prefix("<=") {
        number(answer)
            .zip(number(most))
            .is_some_and(|(a, m)| a <= m)
    } else {
        answer == verdict
    }
}

fn stage(words: &[&str]) -> String {
    let command = std::env::var("QUORLOCK_STAGE").expect("QUORLOCK_STAGE is set");
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!("{command} {}", words.join(" ")))
        .output()
        .expect("sh runs");
    if output.status.success() {
        return "ok".to_owned();
    }
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// What the nodes have of a lock: one thing of it.
fn inspect(lock: &quorlock::Lock, what: &str) -> Result<String, Error> {
    Ok(match what {
        "locked" => blocking::wait(lock.is_locked())?.to_string(),
        "holder" => {
            let holder = blocking::wait(lock.holder())?;
            let label = holder.as_ref().and_then(|holder| holder.label());
            label.unwrap_or("none").to_owned()
        }
        "queued" => blocking::wait(lock.inspect())?.queued().to_string(),
        _ => blocking::wait(lock.inspect())?
            .verdict()
            .as_str()
            .to_owned(),
    })
}

fn string_of(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
