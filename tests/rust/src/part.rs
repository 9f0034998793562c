//! A proxy in front of a node that plays the part of another kind of server: what it says of
//! itself is another, and some commands it does not know.
//!
//! It passes one command on after the other, and messages only before a reply.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::muted::whole;

/// What sets a kind of server apart.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// Fields of `INFO`, each with what it says in place of the node's; without a value the
    /// field is not there.
    pub info: &'static [(&'static str, &'static str)],
    /// Commands by their first words, each with the error that answers it; without an error
    /// the connection is closed.
    pub refuses: &'static [(&'static str, &'static str)],
}

impl Part {
    /// The URL of a server that plays this part, behind which is the node with that one. It
    /// lives as long as its process.
    pub fn before(self, node: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("redis://{}", listener.local_addr().expect("bound"));
        let node = node.strip_prefix("redis://").expect("TCP").to_owned();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let node = TcpStream::connect(&node);
                // The end of either is the end of both.
                thread::spawn(move || self.play(client, node?));
            }
        });
        url
    }

    fn play(self, mut client: TcpStream, mut node: TcpStream) -> io::Result<()> {
        for stream in [&client, &node] {
            stream.set_nodelay(true)?;
        }
        let (mut asked, mut said) = (Vec::new(), Vec::new());
        loop {
            let command = next(&mut client, &mut asked)?;
            let words = words(&command);
            let named = |name: &str| words.starts_with(&format!("{name} "));
            if let Some((_, error)) = self.refuses.iter().find(|(name, _)| named(name)) {
                if error.is_empty() {
                    return Ok(());
                }
                client.write_all(format!("-{error}\r\n").as_bytes())?;
                continue;
            }
            node.write_all(&command)?;
            let mut reply = next(&mut node, &mut said)?;
            while reply[0] == b'>' && !named("SUBSCRIBE") {
                client.write_all(&reply)?;
                reply = next(&mut node, &mut said)?;
            }
            if named("INFO") && words != "INFO commandstats " {
                reply = self.of_itself(&reply);
            }
            client.write_all(&reply)?;
        }
    }

    /// What it says in place of the node's answer to `INFO`.
    fn of_itself(self, reply: &[u8]) -> Vec<u8> {
        let reply = String::from_utf8_lossy(reply);
        let (_, text) = reply.split_once("\r\n").expect("a text");
        let kept = text.lines().filter(|line| {
            let field = line.split(':').next();
            self.info.iter().all(|(name, _)| Some(*name) != field)
        });
        let told = self.info.iter().filter(|(_, value)| !value.is_empty());
        let told = told.map(|(name, value)| format!("{name}:{value}"));
        let lines: Vec<String> = told.chain(kept.map(str::to_owned)).collect();
        let text = lines.join("\r\n");
        format!("${}\r\n{text}\r\n", text.len()).into_bytes()
    }
}

/// The next whole command or reply.
fn next(from: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    loop {
        if let Some(length) = (!bytes.is_empty()).then(|| whole(bytes)).flatten() {
            return Ok(bytes.drain(..length).collect());
        }
        let mut chunk = [0; 1 << 14];
        match from.read(&mut chunk)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => bytes.extend_from_slice(&chunk[..length]),
        }
    }
}

/// The words of a command, each with a blank behind it.
fn words(command: &[u8]) -> String {
    let text = String::from_utf8_lossy(command);
    let lines = text.split("\r\n").skip(2).step_by(2);
    lines
        .filter(|w| !w.is_empty())
        .map(|w| format!("{w} "))
        .collect()
}
