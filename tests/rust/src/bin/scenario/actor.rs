//! An actor: what may own a lock.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use quorlock::Error;
use tokio::sync::Notify;

pub type Job = Box<dyn FnOnce() -> Result<String, Error> + Send>;

/// An owner of locks: a thread that carries out its jobs in order.
pub struct Actor {
    pub jobs: Sender<Job>,
    pub answers: Receiver<Result<String, Error>>,
    /// Ends what the actor started.
    pub cancel: Arc<Notify>,
}

impl Actor {
    pub fn new() -> Actor {
        let (jobs, inbox) = channel::<Job>();
        let (outbox, answers) = channel();
        thread::spawn(move || {
            for job in inbox {
                let answer = job();
                if outbox.send(answer).is_err() {
                    return;
                }
            }
        });
        Actor {
            jobs,
            answers,
            cancel: Arc::default(),
        }
    }
}
