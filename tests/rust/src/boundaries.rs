//! Where in a stream of RESP one command, or one reply, ends and the next begins.

/// One direction of one connection, read from its first byte on.
#[derive(Debug, Default)]
pub struct Boundaries {
    /// How many values each open aggregate still lacks, the outermost first.
    open: Vec<u64>,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// Bytes of a bulk text, with its line end, that are still to come.
    bulk: u64,
}

impl Boundaries {
    /// Reads on; returns after how many of these bytes a whole command or reply has
    /// ended, for each.
    pub fn read(&mut self, bytes: &[u8]) -> Vec<usize> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let value = if self.bulk > 0 {
                let taken = self.bulk.min((bytes.len() - at) as u64);
                self.bulk -= taken;
                at += taken as usize;
                self.bulk == 0
            } else {
                self.line.push(bytes[at]);
                at += 1;
                self.line.ends_with(b"\r\n") && self.ends_with_line()
            };
            if value && self.ends() {
                found.push(at);
            }
        }
        found
    }

    /// What the line means; whether a value has ended with it.
    fn ends_with_line(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        // An empty line is no RESP; below zero is nil.
        let count = line.get(1..line.len() - 2).unwrap_or_default();
        let count = std::str::from_utf8(count).ok();
        let count = count.and_then(|text| text.parse::<u64>().ok());
        match (line[0], count) {
            (b'$' | b'=' | b'!', Some(length)) => {
                self.bulk = length + 2;
                false
            }
            (b'*' | b'~' | b'>', Some(count @ 1..)) => {
                self.open.push(count);
                false
            }
            (b'%', Some(pairs @ 1..)) => {
                self.open.push(2 * pairs);
                false
            }
            _ => true,
        }
    }

    /// A value has ended, and with it maybe what it is part of; whether nothing is open.
    fn ends(&mut self) -> bool {
        while let Some(lacking) = self.open.last_mut() {
            *lacking -= 1;
            if *lacking > 0 {
                return false;
            }
            self.open.pop();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMANDS: [&str; 2] = [
        "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n\r\n*1\r\n",
        "*1\r\n$4\r\nTIME\r\n",
    ];
    const REPLIES: [&str; 7] = [
        "+OK\r\n",
        ":1\r\n",
        "*2\r\n$1\r\na\r\n$-1\r\n",
        "_\r\n",
        "%1\r\n$1\r\na\r\n*2\r\n:1\r\n*0\r\n",
        ">3\r\n+message\r\n+in\r\n:7\r\n",
        "-ERR no\r\n",
    ];

    fn ends(parts: &[&str]) -> Vec<usize> {
        let ends = parts.iter().scan(0, |at, part| {
            *at += part.len();
            Some(*at)
        });
        ends.collect()
    }

    #[test]
    fn commands_and_replies_end_where_they_end_however_they_are_cut() {
        for parts in [&COMMANDS[..], &REPLIES[..]] {
            let all = parts.concat();
            for cut in 0..=all.len() {
                let (first, second) = all.as_bytes().split_at(cut);
                let mut boundaries = Boundaries::default();
                let mut found = boundaries.read(first);
                found.extend(boundaries.read(second).iter().map(|at| at + cut));
                assert_eq!(found, ends(parts), "cut at {cut}");
            }
        }
    }
}
