//! `quorlock list --watch`: the list, drawn again each second, the most wanted first.
//!
//! It takes the whole terminal, as `top` does, and gives it back on every way out.

use std::io::{self, IsTerminal, Read, Write};
use std::time::Duration;

use quorlock::Client;

use super::{ListState, found};
use crate::clock::{now, time_of_day};
use crate::events::{Event, Events};
use crate::exit::{self, Failure};
use crate::output::{Ink, fit, ink, plain, size};

const EVERY: Duration = Duration::from_secs(1);
/// Walking through all keys of a server costs it something: it has ten times as long a rest.
const REST: u32 = 10;

pub fn top(client: &Client, names: Option<&str>) -> Result<i32, Failure> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let message =
            "--watch is for a terminal: give --json without it, or use `quorlock watch NAME`";
        return Err(Failure::new(exit::USAGE, message));
    }
    let broken = |e: io::Error| Failure::new(exit::BUG, format!("the terminal: {e}"));
    let mut events = Events::new().map_err(broken)?;
    events.watch_input(libc::STDIN_FILENO);
    let screen = Screen::new().map_err(broken)?;
    let mut view = View::default();
    let mut next = now();
    loop {
        if now() >= next {
            let begun = now();
            view.found = Some(found(client, names));
            let took = now() - begun;
            next = now() + EVERY.max(REST * took);
        }
        screen.draw(&view.lines(size().unwrap_or((80, 24))));
        match events.next(next.saturating_sub(now())) {
            Event::Signal { number, .. } => match number {
                libc::SIGHUP | libc::SIGINT | libc::SIGQUIT | libc::SIGTERM => {
                    return Ok(exit::SIGNAL + number);
                }
                _ => {}
            },
            Event::Look => {
                if !view.read(&screen.keys()) {
                    return Ok(0);
                }
            }
        }
    }
}

/// What is seen.
#[derive(Default)]
struct View {
    found: Option<Result<ListState, Failure>>,
    /// Only names that hold this.
    like: String,
    /// Keys go there.
    typing: bool,
}

impl View {
    /// Takes what was typed into account; false to quit.
    fn read(&mut self, keys: &[u8]) -> bool {
        for key in keys {
            match (self.typing, key) {
                (false, b'q') => return false,
                (false, b'/') => {
                    self.typing = true;
                    self.like.clear();
                }
                (true, b'\r' | b'\n') => self.typing = false,
                (_, 0x1b) => {
                    self.typing = false;
                    self.like.clear();
                }
                (true, 0x7f | 0x08) => drop(self.like.pop()),
                (true, b' '..=b'~') => self.like.push(char::from(*key)),
                _ => {}
            }
        }
        true
    }

    /// As many lines as there is room for.
    fn lines(&self, (columns, rows): (usize, usize)) -> Vec<String> {
        let like = (!self.like.is_empty()).then_some(&*self.like);
        let (mut lines, count) = match &self.found {
            Some(Ok(found)) => (found.rows(like), found.locks.len().to_string() + " locks"),
            Some(Err(failure)) => {
                let message = plain(&failure.message);
                (
                    vec![ink(Ink::Wrong, &fit(&message, columns))],
                    String::new(),
                )
            }
            None => (Vec::new(), String::new()),
        };
        let help = match (self.typing, like) {
            (true, _) => format!("/{}_", self.like),
            (false, Some(like)) => format!("with `{like}`; Esc shows all, q quits"),
            (false, None) => "/ filters, q quits".to_owned(),
        };
        let head = format!("{}  {count}  {help}", time_of_day().1);
        lines.insert(0, ink(Ink::Strong, fit(&head, columns).trim_end()));
        lines.truncate(rows.saturating_sub(1).max(1));
        lines
    }
}

/// The terminal while it is ours.
struct Screen {
    before: libc::termios,
}

impl Screen {
    fn new() -> io::Result<Screen> {
        // SAFETY: all zeros is a valid termios, which is written to; then a copy of it is set.
        let before = unsafe {
            let mut before: libc::termios = std::mem::zeroed();
            if libc::tcgetattr(libc::STDIN_FILENO, &mut before) != 0 {
                return Err(io::Error::last_os_error());
            }
            let mut ours = before;
            // Keys come as they are typed, and are not shown; a read takes what there is.
            ours.c_lflag &= !(libc::ICANON | libc::ECHO);
            ours.c_cc[libc::VMIN] = 0;
            ours.c_cc[libc::VTIME] = 0;
            if libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &ours) != 0 {
                return Err(io::Error::last_os_error());
            }
            before
        };
        write("\x1b[?1049h\x1b[?25l");
        Ok(Screen { before })
    }

    fn draw(&self, lines: &[String]) {
        write(&format!("\x1b[H\x1b[J{}", lines.join("\r\n")));
    }

    /// What was typed.
    fn keys(&self) -> Vec<u8> {
        let mut keys = [0; 64];
        let read = io::stdin().lock().read(&mut keys).unwrap_or(0);
        keys[..read].to_vec()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        write("\x1b[?25h\x1b[?1049l");
        // SAFETY: it is what the terminal was like.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &self.before) };
    }
}

fn write(text: &str) {
    let mut out = io::stdout();
    // The reader has gone.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_filter_and_quit() {
        let mut view = View::default();
        assert!(view.read(b"/orq"));
        assert_eq!((&*view.like, view.typing), ("orq", true));
        assert!(view.read(b"\x7f\r"));
        assert_eq!((&*view.like, view.typing), ("or", false));
        assert!(view.read(b"\x1b") && view.like.is_empty());
        assert!(!view.read(b"xq"));
    }

    #[test]
    fn a_failure_is_shown_and_fits() {
        let failure = Failure::new(69, "too few nodes\x1b[2J answer, and this is long");
        let view = View {
            found: Some(Err(failure)),
            ..View::default()
        };
        let lines = view.lines((20, 24));
        assert_eq!(lines.len(), 2);
        assert!(
            lines.iter().all(|line| line.chars().count() <= 20),
            "{lines:?}"
        );
        assert!(!lines[1].contains('\x1b'), "{lines:?}");
    }
}
