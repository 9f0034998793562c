//! `quorlock dev`: a set of servers to try things on, for as long as it runs.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quorlock::{Client, blocking};

use crate::args::Dev;
use crate::clock::now;
use crate::events::{Event, Events};
use crate::exit::{self, Failure};
use crate::given;
use crate::output::line;
use crate::start;

/// Servers that will do, by their names on the PATH; the first that is there is taken.
const SERVERS: [&str; 2] = ["valkey-server", "redis-server"];
/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one has to end before it is killed.
const FAREWELL: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(20);

pub fn dev(options: &Dev) -> Result<i32, Failure> {
    let program = match &options.server {
        Some(server) => server.clone(),
        None => on_path()?,
    };
    let mut events = Events::new().map_err(|e| broken("signals cannot be caught", &e))?;
    let set = Set::start(&program, options.nodes.into())?;
    let nodes = set.urls().join(",");
    // Servers that have just been started hold no lock, so there is nothing to wait for.
    let client = Client::builder().nodes(set.urls()).build()?;
    blocking::wait(client.init_set_forced())?;
    blocking::wait(client.close());
    for (number, server) in set.servers.iter().enumerate() {
        eprintln!(
            "quorlock: node {}: 127.0.0.1:{}, pid {}",
            number + 1,
            server.port,
            server.child.id()
        );
    }
    if !options.command.is_empty() {
        return run(options, &nodes, &mut events);
    }
    line(&format!("export QUORLOCK_NODES={nodes}"));
    eprintln!("quorlock: they end with this; Ctrl-C ends it");
    set.attend(&mut events)
}

/// Runs the command, which the terminal's signals meet as they would without us.
fn run(options: &Dev, nodes: &str, events: &mut Events) -> Result<i32, Failure> {
    let mut command = start::command(&options.command)?;
    command.env(quorlock::defaults::NODES_VARIABLE, nodes);
    let mut child = start::spawn(&mut command, &options.command)?;
    loop {
        let ended = child.try_wait();
        if let Some(status) = ended.map_err(|e| broken("the command is lost", &e))? {
            return Ok(start::code(status));
        }
        if let Event::Signal {
            number,
            typed: false,
        } = events.next(Duration::MAX)
            && number != libc::SIGCHLD
        {
            // SAFETY: a plain system call; the child was not waited for.
            unsafe { libc::kill(child.id() as i32, number) };
        }
    }
}

struct Set {
    folder: PathBuf,
    servers: Vec<Server>,
}

struct Server {
    program: PathBuf,
    port: u16,
    child: Child,
    gone: bool,
}

impl Set {
    fn start(program: &Path, nodes: usize) -> Result<Set, Failure> {
        let folder = std::env::temp_dir().join(format!("quorlock-dev-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|e| broken("no folder for the servers", &e))?;
        let mut set = Set {
            folder,
            servers: Vec::new(),
        };
        for number in 1..=nodes {
            let server = Server::start(program, &set.folder, number)?;
            set.servers.push(server);
        }
        for number in 0..nodes {
            set.await_answer(number)?;
        }
        Ok(set)
    }

    fn urls(&self) -> Vec<String> {
        let url = |server: &Server| format!("redis://127.0.0.1:{}", server.port);
        self.servers.iter().map(url).collect()
    }

    /// Waits until a server takes connections.
    fn await_answer(&mut self, number: usize) -> Result<(), Failure> {
        let until = now() + PATIENCE;
        let log = self.log(number);
        let server = &mut self.servers[number];
        let mut alarm = crate::clock::Alarm::new();
        while std::net::TcpStream::connect(("127.0.0.1", server.port)).is_err() {
            let ended = server.child.try_wait().is_ok_and(|ended| ended.is_some());
            if ended || now() >= until {
                let said = fs::read_to_string(&log).unwrap_or_default();
                let last = said.lines().last().unwrap_or_default();
                let message = format!("node {} does not start: {last}", number + 1);
                return Err(Failure::new(exit::NO_QUORUM, message));
            }
            alarm.wait(&[], LOOK);
        }
        Ok(())
    }

    fn log(&self, number: usize) -> PathBuf {
        self.folder.join(format!("{}.log", number + 1))
    }

    /// Serves until the user wants the servers to end. If a server ends before, the user sees
    /// which, and the way back.
    fn attend(mut self, events: &mut Events) -> Result<i32, Failure> {
        loop {
            for (number, server) in self.servers.iter_mut().enumerate() {
                if !server.gone && server.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                    server.gone = true;
                    eprintln!(
                        "quorlock: node {} has ended. Start it again with: {}",
                        number + 1,
                        server.way_back()
                    );
                }
            }
            if let Event::Signal { number, .. } = events.next(Duration::MAX)
                && [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM].contains(&number)
            {
                return Ok(0);
            }
        }
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        for server in &self.servers {
            server.signal(libc::SIGTERM);
            // A server that was stopped could not end.
            server.signal(libc::SIGCONT);
        }
        let (until, mut alarm) = (now() + FAREWELL, crate::clock::Alarm::new());
        for server in &mut self.servers {
            while server.child.try_wait().is_ok_and(|ended| ended.is_none()) {
                if now() >= until {
                    let _ = server.child.kill();
                    let _ = server.child.wait();
                    break;
                }
                alarm.wait(&[], LOOK);
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Server {
    fn start(program: &Path, folder: &Path, number: usize) -> Result<Server, Failure> {
        let wrong = |e: &io::Error| broken("a server cannot be started", e);
        // Free a moment ago.
        let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|l| l.local_addr());
        let port = port.map_err(|e| wrong(&e))?.port();
        let home = folder.join(number.to_string());
        let log = File::create(folder.join(format!("{number}.log"))).map_err(|e| wrong(&e))?;
        fs::create_dir(&home).map_err(|e| wrong(&e))?;
        let mut command = Command::new(program);
        command
            .args(arguments(port))
            .current_dir(&home)
            .stdin(Stdio::null())
            .stderr(log.try_clone().map_err(|e| wrong(&e))?)
            .stdout(log)
            // Ctrl-C is for this process and its command; their end comes from here.
            .process_group(0);
        start::end_with_parent(&mut command, libc::SIGKILL);
        let child = command.spawn().map_err(|e| {
            let message = format!(
                "{} cannot be started: {e}",
                given::program(program.as_os_str())
            );
            Failure::new(exit::CONFIG, message)
        })?;
        Ok(Server {
            program: program.to_owned(),
            port,
            child,
            gone: false,
        })
    }

    fn signal(&self, number: i32) {
        if !self.gone {
            // SAFETY: a plain system call; the child was not waited for.
            unsafe { libc::kill(self.child.id() as i32, number) };
        }
    }

    fn way_back(&self) -> String {
        let words = arguments(self.port)
            .join(" ")
            .replace("--save  ", "--save '' ");
        format!("{} {words}", self.program.display())
    }
}

/// A server that forgets everything when it ends.
fn arguments(port: u16) -> Vec<String> {
    let port = port.to_string();
    let words = [
        "--port",
        &port,
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
    ];
    words.map(str::to_owned).to_vec()
}

fn on_path() -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = SERVERS.iter().find_map(|name| {
        std::env::split_paths(&path)
            .map(|folder| folder.join(name))
            .find(|file| file.is_file())
    });
    found.ok_or_else(|| {
        let message = "there is neither valkey-server nor redis-server on the PATH: install one \
                       (apt install redis-server, brew install valkey), or name it with --server";
        Failure::new(exit::CONFIG, message)
    })
}

fn broken(what: &str, error: &io::Error) -> Failure {
    Failure::new(exit::BUG, format!("{what}: {error}"))
}
